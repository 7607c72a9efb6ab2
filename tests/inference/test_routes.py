"""Every route of inference: same signature, same groups, reproducible, right where it is known."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from deployments import deployment
from small_problem import model_from
from tailcast.basis import FEATURES
from tailcast.errors import InferenceError
from tailcast.inference.evidence import Output, StepEvidence, step_evidence
from tailcast.inference.fit import Fit, fit
from tailcast.inference.forward import RunInput
from tailcast.inference.nuts import Sampler
from tailcast.inference.routes import ROUTES, fit_by
from tailcast.latency_model import LatencyModel, load_latency_model
from tailcast.request import request_table

Array = NDArray[np.float64]

CONJUGATE = """
[model]
name = "conjugate"

[coefficients.per_step]
basis = "step_count"
unit = "s"
centre = 10e-3
sd = 0.5

[noise]
nu = 1000000.0
"ttft.mean" = { centre = 0.2, sd = 1e-6 }
"step.decode" = { centre = 0.2, sd = 1e-6 }
"""
"""One log-normal coefficient and a log-normal error of known scale: the posterior is known."""

OBSERVED, NOISE, PRIOR_SD, CENTRE = 14e-3, 0.2, 0.5, 10e-3

GROUPS = {"posterior", "prior", "sample_stats", "observed_data", "evidence"}


def exact() -> tuple[float, float]:
    """Mean and sd of the log coefficient given one observation."""
    precision = 1 / PRIOR_SD**2 + 1 / NOISE**2
    mean = (np.log(CENTRE) / PRIOR_SD**2 + np.log(OBSERVED) / NOISE**2) / precision
    return float(mean), float(precision**-0.5)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LatencyModel:
    """The conjugate latency model."""
    return model_from(tmp_path_factory.mktemp("model"), CONJUGATE)


def lone_prompts(observed: float = OBSERVED) -> RunInput:
    """Requests of one token, one at a time: TTFT is one step, whatever the engine queues."""
    table = request_table(
        arrival=np.arange(20.0), input_tokens=np.full(20, 64), output_tokens=np.ones(20, np.int64)
    )
    output = Output(
        stage=0,
        metric="ttft",
        stat="mean",
        log_observed=float(np.log(observed)),
        finish=0.0,
        stream=0.0,
    )
    return RunInput(
        name="lone prompts",
        deployment=deployment(version="0.11.0"),
        requests=lambda _: table,
        outputs=(output,),
        content="lone prompts",
        n_seed=1,
    )


def one_step(model: LatencyModel, observed: float = OBSERVED) -> StepEvidence:
    """The same observation as a timing of a known step."""
    features = np.array([float(name == "step") for name in FEATURES])
    rows = [(features, observed, "step.decode")]
    return step_evidence("one step", model, deployment(version="0.11.0"), rows)


def small(
    route: str, model: LatencyModel, seed: int = 3, draws: int = 400, observed: float = OBSERVED
) -> Fit:
    """A small fit by a route, to runs where it takes them and to steps where it does not."""
    sampler = Sampler(draws=draws, tune=draws // 2, chains=2, cores=1)
    runs = [lone_prompts(observed)] if route != "steps" else []
    steps = [one_step(model, observed)] if route == "steps" else []
    return fit_by(route, model, runs, steps, seed=seed, sampler=sampler, design_size=48)


def log_values(found: Fit) -> Array:
    """Draws of the log coefficient."""
    values: Array = np.log(found.tree["posterior"].to_dataset()["value"].values.reshape(-1))
    return values


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("route", sorted(ROUTES))
def test_route_recovers_the_conjugate_posterior(route: str, model: LatencyModel) -> None:
    """Mean within 4.5 of its Monte Carlo errors at ESS 100 (false alarm 7e-6), sd within 30 %."""
    found = small(route, model)
    mean, sd = exact()
    draws = log_values(found)
    assert abs(draws.mean() - mean) < 4.5 * sd / np.sqrt(100)
    assert draws.std() == pytest.approx(sd, rel=0.3)
    assert abs(draws.mean() - np.log(CENTRE)) > 4.5 * sd / np.sqrt(100)  # control: the prior mean
    assert set(found.tree.children) >= GROUPS
    assert {"location", "value", "noise_scale"} <= set(found.tree["posterior"].data_vars)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    "route",
    [r if r == "steps" else pytest.param(r, marks=pytest.mark.long) for r in sorted(ROUTES)],
)
def test_route_is_calibrated_on_simulated_truths(route: str, model: LatencyModel) -> None:
    """Shares of draws below 12 truths from the prior: mean and dispersion as uniform ones have.

    Limits of 4.5 standard deviations, false alarm 1e-5 each.
    """
    rng = np.random.default_rng(11)
    shares, narrow = [], []
    for k in range(12):
        truth = CENTRE * np.exp(PRIOR_SD * rng.standard_normal())
        observed = float(truth * np.exp(NOISE * rng.standard_normal()))
        draws = log_values(small(route, model, seed=k, draws=80, observed=observed))
        shares.append(np.mean(draws < np.log(truth)))
        narrow.append(np.mean(draws.mean() + (draws - draws.mean()) / 10 < np.log(truth)))

    def far(values: list[float]) -> tuple[float, float]:
        centred = 2 * np.array(values) - 1
        mean = centred.mean() * np.sqrt(3 * len(values))
        spread = ((centred**2).mean() - 1 / 3) / np.sqrt(4 / 45 / len(values))
        return abs(float(mean)), float(spread)

    mean, spread = far([float(x) for x in shares])
    assert mean < 4.5
    assert abs(spread) < 4.5
    assert far([float(x) for x in narrow])[1] > 4.5  # control: a tenth of the width


@pytest.mark.slow
@pytest.mark.parametrize("route", sorted(ROUTES))
def test_route_gives_the_same_draws_for_the_same_seed(route: str, model: LatencyModel) -> None:
    first, again, other = (log_values(small(route, model, seed, draws=60)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("route", sorted(ROUTES))
def test_route_refuses_a_model_without_priors(route: str) -> None:
    with pytest.raises(InferenceError, match="fixed coefficients"):
        fit_by(route, load_latency_model("roofline"), [], [], seed=0)


def test_steps_route_takes_no_runs(model: LatencyModel) -> None:
    with pytest.raises(InferenceError, match="takes step timings only"):
        fit_by("steps", model, [lone_prompts()], [], seed=0)


def test_every_route_has_the_same_signature() -> None:
    import inspect

    wanted = list(inspect.signature(fit).parameters)[:3]
    for route in ROUTES.values():
        function: Callable[..., Fit] = route
        assert list(inspect.signature(function).parameters)[:3] == wanted
