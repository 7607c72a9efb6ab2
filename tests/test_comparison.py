"""Point answers, alone and beside a predictive distribution."""

import math
from pathlib import Path

import numpy as np

from deployments import deployment
from tailcast.comparison import COMPARED, compare, point_answer
from tailcast.engine.point_model import point_model
from tailcast.inference.population import prior_population
from tailcast.latency_model import load_latency_model
from tailcast.posteriors import Posterior
from tailcast.request import RequestTable, request_table
from tailcast.streams import stream


def prior_as_posterior(n_draw: int = 20) -> Posterior:
    """Something to compare with that needs no fit."""
    model = load_latency_model("physics")
    return Posterior(
        name="prior",
        latency_model=model,
        population=prior_population(model, n_draw, 0),
        card={},
        path=Path(),
    )


def arrivals(seed: int, rate: float = 8.0, n: int = 60) -> RequestTable:
    rng = stream(seed, "comparison")
    return request_table(np.cumsum(rng.exponential(1 / rate, n)), 300, 80)


def test_every_compared_model_answers_on_the_first_workload_seed() -> None:
    served = deployment("qwen3-14b")
    found = compare(prior_as_posterior(), served, arrivals, n_draw=8, seed=5)
    assert [(p.model.latency_model.name, p.model.mode) for p in found.points] == list(COMPARED)
    for point in found.points:
        alone = point_answer(point.model, served, arrivals(5))
        assert point.value("ttft", "p99") == alone.value("ttft", "p99") > 0
    assert found.prediction.draws("ttft", "p99").shape == (8,)


def test_a_model_that_cannot_run_gives_its_reason_instead() -> None:
    found = compare(prior_as_posterior(), deployment(gpu="h200"), arrivals, n_draw=4)
    parity, corrected, roofline = found.points
    assert parity.run is None
    assert math.isnan(parity.value("ttft", "p99"))
    assert "BLIS knows no accelerator" in parity.notes[0]
    assert corrected.value("e2e", "mean") > 0
    assert roofline.value("e2e", "mean") > 0


def test_an_overload_is_said() -> None:
    point = point_answer(point_model("roofline"), deployment(), arrivals(0, rate=500.0, n=400))
    assert any("the queue grows until the end" in note for note in point.notes)
    quiet = point_answer(point_model("roofline"), deployment(), arrivals(0))
    assert quiet.notes == ()


def test_an_unknown_statistic_has_no_value() -> None:
    point = point_answer(
        point_model("roofline"), deployment(), arrivals(0), quantiles={"p75": 0.75}
    )
    assert point.value("ttft", "p75") > 0
    assert math.isnan(point.value("ttft", "p99"))
    assert math.isnan(point.value("nothing", "mean"))
