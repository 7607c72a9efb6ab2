"""Priors from the datasheet, units of the field, and what a belief does not know."""

from pathlib import Path

import numpy as np
import pytest

from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.deployment import Deployment
from tailcast.errors import InputError, UsageError
from tailcast.queueing.field_units import (
    parse_rate,
    parse_targets,
    parse_three_numbers,
    parse_two_lines,
)
from tailcast.queueing.identify import (
    capacity_log_sd,
    capacity_log_slopes,
    next_measurement,
    unseen_directions,
)
from tailcast.queueing.known_numbers import known_numbers
from tailcast.queueing.parameter_prior import NumbersPrior, hardware_prior, numbers_prior
from tailcast.queueing.server import RequestShape, three_numbers_ms
from tailcast.queueing.sizing import Targets
from tailcast.queueing.tuner import Tuner
from tailcast.streams import stream

from .servers import LIMITS, LLAMA, LOG_LLAMA, measured

WIDE = numbers_prior(LLAMA)
SHAPE = RequestShape(tokens_in=1024, tokens_out=1024)
TARGETS = Targets(ttft=0.1, itl=0.02)


def deployment(name: str = "llama-3.1-8b", gpu: str = "h100", tp: int = 1) -> Deployment:
    return Deployment(llm=llm(name), accelerator=accelerator(gpu), tensor_parallel=tp)


def test_the_datasheet_gives_the_fit_of_the_sweep_that_its_shares_come_from() -> None:
    prior = hardware_prior(deployment())
    for field in ("alpha", "beta", "gamma"):
        found, fitted = float(getattr(prior.numbers, field)), float(getattr(LLAMA, field))
        assert found == pytest.approx(fitted, rel=0.01)


def test_the_datasheet_knows_less_elsewhere() -> None:
    known = hardware_prior(deployment()).log_sd
    for other in (deployment(gpu="a100-80gb"), deployment("llama-3.1-70b", tp=4)):
        assert np.all(hardware_prior(other).log_sd > known)


def test_more_accelerators_share_the_work() -> None:
    one, four = (hardware_prior(deployment("qwen2.5-7b", tp=tp)).numbers for tp in (1, 4))
    assert float(four.alpha) == pytest.approx(float(one.alpha) / 4, rel=0.02)
    assert float(four.beta) == pytest.approx(float(one.beta) / 4, rel=0.02)


def test_draws_have_the_belief_they_are_drawn_from() -> None:
    cov = np.array([[0.09, 0.05, 0.0], [0.05, 0.16, -0.02], [0.0, -0.02, 0.25]])
    draws = NumbersPrior(log_mean=LOG_LLAMA, log_cov=cov).draws(40_000, stream(1, "prior"))
    assert draws.mean(axis=0) == pytest.approx(LOG_LLAMA, abs=0.01)
    assert np.cov(draws, rowvar=False) == pytest.approx(cov, abs=0.01)


def test_impossible_beliefs_are_refused() -> None:
    with pytest.raises(UsageError, match="positive definite"):
        NumbersPrior(log_mean=LOG_LLAMA, log_cov=np.zeros((3, 3)))
    with pytest.raises(UsageError, match="3x3"):
        NumbersPrior(log_mean=LOG_LLAMA, log_cov=np.eye(2))
    with pytest.raises(UsageError, match="greater than zero"):
        numbers_prior(three_numbers_ms(0.0, 0.1, 0.1))


def learnt(shapes: list[tuple[float, float]], n_each: int = 6) -> NumbersPrior:
    tuned, generator = Tuner(WIDE, LIMITS), stream(2, "identify")
    for tokens_in, tokens_out in shapes:
        for _ in range(n_each):
            rate = float(generator.uniform(0.2, 0.7)) * 2e4 / (tokens_in + 4 * tokens_out)
            window = measured(
                LOG_LLAMA, generator, rate=rate, tokens_in=tokens_in, tokens_out=tokens_out
            )
            tuned.update(window)
    return tuned.belief


def test_nothing_seen_leaves_every_direction_unseen() -> None:
    assert len(unseen_directions(WIDE, WIDE)) == 3


def test_one_shape_leaves_more_unseen_than_four() -> None:
    one = learnt([(1024, 1024)])
    four = learnt([(1024, 1024), (4096, 64), (64, 4096), (64, 64)], n_each=3)
    worst_one = np.linalg.eigvalsh(one.log_cov).max()
    assert worst_one > 4 * np.linalg.eigvalsh(four.log_cov).max()
    assert unseen_directions(four, WIDE) == []


def test_a_direction_is_named_by_its_largest_parts() -> None:
    vector = np.array([0.0, 1.0, -1.0]) / np.sqrt(2)
    # every other direction is known to a tenth of the prior
    cov = 0.01 * np.eye(3) + 0.99 * np.outer(vector, vector)
    prior = NumbersPrior(log_mean=LOG_LLAMA, log_cov=np.eye(3))
    (found,) = unseen_directions(NumbersPrior(log_mean=LOG_LLAMA, log_cov=cov), prior)
    assert found.sd_ratio == pytest.approx(1.0)
    assert "beta (compute per token)" in found.name
    assert "against" in found.name
    assert "alpha" not in found.name


def test_the_capacity_is_known_better_where_it_was_measured_than_the_numbers_are() -> None:
    belief = learnt([(1024, 1024)], n_each=16)
    targets = Targets(itl=0.02)
    here = capacity_log_sd(belief, SHAPE, LIMITS, targets)
    _, slopes = capacity_log_slopes(belief.log_mean, SHAPE, LIMITS, targets)
    # as large as if the numbers' errors were independent, were it not for what the shape tells
    independent = float(np.sqrt(np.square(slopes) @ np.diag(belief.log_cov)))
    assert here < 0.08
    assert here < 0.9 * independent


def test_the_next_measurement_is_the_most_telling_of_the_candidates() -> None:
    belief = learnt([(1024, 1024)])
    shape = RequestShape(tokens_in=4096, tokens_out=64)
    targets = Targets(ttft=0.4, itl=0.1)
    found = next_measurement(belief, shape, LIMITS, targets)
    assert found is not None
    assert found.log_sd_after < 0.8 * found.log_sd_before
    assert found.log_sd_before == pytest.approx(capacity_log_sd(belief, shape, LIMITS, targets))
    assert "measure" in found.advice
    assert next_measurement(belief, shape, LIMITS, Targets(ttft=0.001)) is None


@pytest.mark.parametrize(
    ("text", "rate"), [("8", 8.0), ("8rps", 8.0), ("480rpm", 8.0), ("2.5/s", 2.5), ("30 rpm", 0.5)]
)
def test_rates_have_units_of_the_field(text: str, rate: float) -> None:
    assert parse_rate(text) == pytest.approx(rate)


@pytest.mark.parametrize("text", ["", "fast", "8hz", "-3", "0", "1e999"])
def test_other_rates_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="rate"):
        parse_rate(text)


def test_costs_and_targets_have_units_of_the_field() -> None:
    assert parse_three_numbers("8ms, 33us, 333ns").gamma == pytest.approx(333e-9)
    assert parse_two_lines("7ms,10us,20ms,1us").prefill_slope == pytest.approx(1e-6)
    targets = parse_targets(["ttft.mean=60ms", "itl=20ms", "tps=500"])
    assert (targets.ttft, targets.itl, targets.tps) == (0.06, 0.02, 500.0)


@pytest.mark.parametrize(
    "texts",
    [["ttft=60"], ["ttft.p99=60ms"], ["e2e=1s"], ["ttft"], ["tps=many"], ["itl=1ms", "itl=2ms"]],
)
def test_other_targets_are_refused(texts: list[str]) -> None:
    with pytest.raises(UsageError):
        parse_targets(texts)


def test_three_numbers_come_from_what_is_named_first(tmp_path: Path) -> None:
    exact = known_numbers("8ms,33us,333ns", None, None, 1, 0)
    assert exact.exact
    prior = known_numbers(None, "llama-3.1-8b", "h100", 1, 0)
    assert prior.log_draws.shape == (400, 3)
    assert np.array_equal(
        prior.log_draws, known_numbers(None, "llama-3.1-8b", "h100", 1, 0).log_draws
    )
    path = tmp_path / "state.json"
    path.write_text(Tuner(WIDE, LIMITS).to_json())
    assert "state.json" in known_numbers(str(path), None, None, 1, 0).source
    with pytest.raises(UsageError, match="--numbers"):
        known_numbers(None, "llama-3.1-8b", None, 1, 0)
    with pytest.raises(InputError, match="cannot be read"):
        known_numbers(str(path) + ".none", None, None, 1, 0)
