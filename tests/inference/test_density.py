"""The compiled density equals the PyMC model, and its gradient equals its differences."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from deployments import deployment
from tailcast.basis import FEATURES
from tailcast.inference.density import Density, density
from tailcast.inference.effective import effective_map
from tailcast.inference.emulator import Emulator, pair_indices
from tailcast.inference.evidence import Evidence, Output, RunEvidence, StepEvidence, step_evidence
from tailcast.inference.geometry import folded, laplace, refolded, unfolding
from tailcast.inference.graph import build_model
from tailcast.inference.population import deployment_key, deployment_regimes, group_levels
from tailcast.latency_model import (
    DISCREPANCIES,
    LATENTS,
    LatencyModel,
    Scale,
    load_latency_model,
)
from tailcast.streams import stream

Array = NDArray[np.float64]

STATS = (("ttft", "mean"), ("ttft", "p99"), ("e2e", "mean"), ("e2e", "p90"))


@pytest.fixture(scope="module")
def model() -> LatencyModel:
    """The default latency model with every discrepancy and latent that there can be."""
    found = load_latency_model("physics")
    return replace(
        found,
        discrepancy={name: Scale(centre=0.05, sd=0.4) for name in DISCREPANCIES},
        latent={name: Scale(centre=0.01, sd=1.0) for name in LATENTS},
    )


def timings(name: str, model: LatencyModel, llm: str, version: str) -> StepEvidence:
    """A few step timings of one deployment, client overheads included."""
    rng = stream(2, name)
    rows = [
        (rng.uniform(1, 100, len(FEATURES)), float(rng.uniform(0.01, 0.05)), "step.decode")
        for _ in range(3)
    ]
    own = deployment(llm, tensor_parallel=2, version=version)
    return step_evidence(name, model, own, rows, ingest=True)


def emulated(
    name: str, model: LatencyModel, llm: str, tensor_parallel: int, *, unknown: bool = False
) -> RunEvidence:
    """A run with an emulator of random weights."""
    rng = stream(3, name)
    own = deployment(llm, tensor_parallel=tensor_parallel, version="0.15.1")
    matrix, in_clock = effective_map(model, own).matrix, effective_map(model, own).in_clock
    centre = np.log(matrix @ _middle(model))
    if unknown:
        matrix = np.vstack([matrix, np.zeros(len(model.names))])
        in_clock, centre = np.append(in_clock, False), np.append(centre, np.log(0.01))
    n = len(centre)
    weights = 0.05 * rng.standard_normal((len(STATS), 1 + n + len(pair_indices(n)[0])))
    weights[:, 0] += [-3.0, -2.0, 1.0, 1.5]
    outputs = tuple(
        Output(
            stage=0,
            metric=metric,
            stat=stat,
            log_observed=float(weights[k, 0] + 0.1 * rng.standard_normal()),
            finish=float(metric == "e2e"),
            stream=100.0 if metric == "e2e" else 1.0,
            warm_up=0.1,
        )
        for k, (metric, stat) in enumerate(STATS)
    )
    return RunEvidence(
        name=name,
        levels=group_levels(own),
        deployment=deployment_key(own),
        matrix=matrix,
        in_clock=in_clock,
        emulator=Emulator(
            centre=centre,
            spread=np.full(n, 0.4),
            weights=weights,
            residual=rng.uniform(0.01, 0.05, len(STATS)),
        ),
        outputs=outputs,
        batch_range=np.zeros((len(model.names), 2)),
        regimes=(*deployment_regimes(own), "long_decode") if unknown else deployment_regimes(own),
        saturated=(0,) if unknown else (),
        latent=n - 1 if unknown else -1,
    )


def _middle(model: LatencyModel) -> Array:
    return np.array([c.centre for c in model.coefficients])


@pytest.fixture(scope="module")
def evidence(model: LatencyModel) -> Evidence:
    """Two runs and two step sources: several levels of some groups, one of others."""
    return Evidence(
        runs=(
            emulated("r1", model, "llama-3.1-8b", 1),
            emulated("r2", model, "mixtral-8x7b", 2, unknown=True),
        ),
        steps=(
            timings("a", model, "llama-3.1-8b", "0.15.1"),
            timings("b", model, "mixtral-8x7b", "0.11.0"),
        ),
    )


def point(own: Density, seed: int) -> Array:
    """A random point near the prior's middle."""
    return own.start() + 0.4 * stream(seed, "point").standard_normal(own.size)


def as_pymc(graph: Any, own: Density, x: Array) -> dict[str, Array]:
    """The same point by the names of PyMC's value variables."""
    values, stop = {}, 0
    for block in own.blocks:
        start, stop = stop, stop + block.size
        values[block.name] = x[start:stop].reshape(block.shape)
    return {name: values[name.split("_log_exp_m1")[0]] for name in graph.initial_point()}


@pytest.mark.slow
def test_compiled_density_equals_the_pymc_model(model: LatencyModel, evidence: Evidence) -> None:
    graph = build_model(model, evidence)
    logp = graph.compile_logp()
    own = density(model, evidence)
    for seed in range(5):
        x = point(own, seed)
        value, _ = own(x)
        assert value == pytest.approx(float(logp(as_pymc(graph, own, x))), rel=1e-7, abs=1e-4)
    moved = x + 1e-2  # control: the comparison sees a small step
    assert abs(own(moved)[0] - value) > 1e-3


@pytest.mark.parametrize("fold", [0.4, 4.0])
def test_gradient_equals_differences(model: LatencyModel, evidence: Evidence, fold: float) -> None:
    weight = {"r2": 0.3, "b": 0.0}
    own = density(model, evidence, weight=weight)
    own = density(model, evidence, weight=weight, unfolded=np.full(own.blocks[0].size, fold))
    x = point(own, 7)
    _, gradient = own(x)
    for k in range(own.size):
        step = np.zeros(own.size)
        step[k] = 1e-5
        slope = (own(x + step)[0] - own(x - step)[0]) / 2e-5
        assert gradient[k] == pytest.approx(slope, rel=2e-5, abs=2e-5)


def test_weight_zero_is_the_density_without_that_evidence(
    model: LatencyModel, evidence: Evidence
) -> None:
    """Leaving one out by weight keeps its prior terms and drops its likelihood, nothing else."""
    x = point(density(model, evidence), 1)
    none = density(model, evidence, weight=dict.fromkeys(("r1", "r2", "a", "b"), 0.0))(x)[0]
    parts = [
        density(model, evidence, weight={n: float(n == own) for n in ("r1", "r2", "a", "b")})(x)[0]
        for own in ("r1", "r2", "a", "b")
    ]
    total = density(model, evidence)(x)[0]
    assert total - none == pytest.approx(sum(p - none for p in parts), rel=1e-9)
    half = density(model, evidence, weight={"r1": 0.5})(x)[0]
    assert total - half == pytest.approx(0.5 * (parts[0] - none), rel=1e-9)


def test_folds_change_coordinates_and_nothing_else(model: LatencyModel, evidence: Evidence) -> None:
    """Named values of refolded draws agree; densities differ by the Jacobian alone."""
    plain = density(model, evidence)
    n_free = plain.blocks[0].size
    draws = np.array([point(plain, seed) for seed in range(40)])
    unfolded = unfolding(draws, n_free)
    other = density(model, evidence, unfolded=unfolded)
    moved = refolded(draws, unfolded)
    for name, variable in plain.named(draws[None]).items():
        np.testing.assert_allclose(variable, other.named(moved[None])[name], rtol=1e-9)
    for x, y in zip(draws[:5], moved[:5], strict=True):
        rise = (
            np.log(unfolded / 4.0) - np.log1p(np.exp(-x[:n_free])) + np.log1p(np.exp(-y[:n_free]))
        )
        assert plain(x)[0] - other(y)[0] == pytest.approx(rise.sum(), abs=1e-6)


def test_folded_inverts_softplus() -> None:
    excess = np.array([1e-6, 0.1, 1.0, 29.0, 31.0, 200.0])
    np.testing.assert_allclose(np.logaddexp(0.0, folded(excess)), excess, rtol=1e-9)


def test_mode_is_stationary_where_the_scales_are_held(
    model: LatencyModel, evidence: Evidence
) -> None:
    own = density(model, evidence)
    found = laplace(own)
    _, gradient = own(found.centre)
    gradient[own.scale_positions] = 0.0
    assert np.abs(gradient).max() < 0.05
    assert np.abs(own(own.start())[1]).max() > 1.0  # control: the start is not
    assert np.linalg.eigvalsh(found.covariance).min() > 0
