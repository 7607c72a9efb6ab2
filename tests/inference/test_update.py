"""An update is the joint fit by another way: order, repetition and emptiness change nothing."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from loop_runs import recorded_trace, requests, served, small_model
from tailcast.basis import FEATURES
from tailcast.errors import InputError, UsageError
from tailcast.inference.evidence import StepEvidence, step_evidence
from tailcast.inference.fit import Fit, fit
from tailcast.inference.forward import RunInput
from tailcast.inference.nuts import Sampler
from tailcast.inference.population import deployment_draws
from tailcast.inference.trace_input import staged_trace, trace_run
from tailcast.inference.tree import population_of
from tailcast.inference.update import update
from tailcast.latency_model import LatencyModel
from tailcast.streams import stream

pytestmark = pytest.mark.slow

SAMPLER = Sampler(draws=400, tune=150, chains=2, cores=1, stored=400)
SIZE = 96


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LatencyModel:
    """Five coefficients."""
    return small_model(tmp_path_factory.mktemp("model"))


def run_of(model: LatencyModel, name: str, rate: float, seed: int) -> RunInput:
    """A run of the truth at one rate, 2 % slower or faster than the law."""
    table = requests(150, rate=rate, seed=seed)
    speed = float(np.exp(0.02 * stream(seed, "speed").standard_normal()))
    trace = recorded_trace(model, table, speed=speed, per_step=1.3)
    return trace_run(staged_trace(trace), served(), name, model)


@pytest.fixture(scope="module")
def runs(model: LatencyModel) -> tuple[RunInput, ...]:
    """Three runs at three rates."""
    rates = (("a", 2.0), ("b", 10.0), ("c", 20.0))
    return tuple(run_of(model, name, rate, k) for k, (name, rate) in enumerate(rates))


@pytest.fixture(scope="module")
def parent(model: LatencyModel, runs: tuple[RunInput, ...]) -> Fit:
    """Fitted to the first run alone."""
    return fit(model, runs[:1], seed=1, sampler=SAMPLER, design_size=SIZE)


def grown(
    model: LatencyModel,
    before: Fit,
    new: Sequence[RunInput],
    seed: int,
    steps: Sequence[StepEvidence] = (),
    forget: float = 0.0,
) -> Fit:
    """Update of a fit."""
    return update(
        model,
        before.tree,
        population_of(before.tree, model),
        before.evidence,
        new,
        steps,
        seed=seed,
        sampler=SAMPLER,
        design_size=SIZE,
        forget=forget,
    )


def step_seconds(model: LatencyModel, found: Fit) -> NDArray[np.float64]:
    """Log seconds of an empty, a decode and a prefill step at each draw, shape (n_draw, 3)."""
    draws = deployment_draws(
        population_of(found.tree, model), served(), 0, with_discrepancy=False
    ).coefficients.values
    batches = np.zeros((3, len(FEATURES)))
    batches[:, FEATURES.index("step")] = 1.0
    batches[1, FEATURES.index("decode")] = 64.0
    batches[2, [FEATURES.index("prefill_token"), FEATURES.index("prefill_request")]] = 2000.0, 1.0
    rows = [(row, 1.0, "step.mixed") for row in batches]
    clock = step_evidence("x", model, served(), rows).clock
    beta = np.array([draws[name] for name in model.names]).T
    seconds: NDArray[np.float64] = np.log(beta @ clock.T)
    return seconds


def gap(one: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, float]:
    """Largest difference of means in posterior sds, and largest log ratio of sds."""
    sd = np.sqrt((one.var(axis=0) + other.var(axis=0)) / 2)
    means = np.abs(one.mean(axis=0) - other.mean(axis=0)) / sd
    return float(means.max()), float(np.abs(np.log(one.std(axis=0) / other.std(axis=0))).max())


@pytest.mark.statistical
def test_updates_in_any_order_equal_the_joint_fit(
    model: LatencyModel, runs: tuple[RunInput, ...], parent: Fit
) -> None:
    """800 draws each, effective size 250 at least: 4 sigma of a difference is 0.36 posterior sd.

    The limit leaves as much again for emulators, which each fit has of its own; the control is
    what the parent alone says.
    """
    joint = step_seconds(model, fit(model, runs, seed=2, sampler=SAMPLER, design_size=SIZE))
    forth = grown(model, grown(model, parent, runs[1:2], 3), runs[2:], 4)
    back = grown(model, grown(model, parent, runs[2:], 5), runs[1:2], 6)
    for found in (forth, back):
        assert {run.name for run in found.evidence.runs} == {run.name for run in runs}
        means, spreads = gap(step_seconds(model, found), joint)
        assert means < 0.7
        assert spreads < 0.4
    means, spreads = gap(step_seconds(model, parent), joint)
    assert means > 0.7 or spreads > 0.4


def silent(model: LatencyModel, weight: float) -> StepEvidence:
    """Timings that contradict everything, at a weight."""
    row = np.zeros(len(FEATURES))
    row[FEATURES.index("step")] = 1.0
    rows = [(row, 0.1, "step.decode") for _ in range(20)]
    return replace(step_evidence("silent", model, served(), rows), weight=weight)


@pytest.mark.statistical
def test_an_uninformative_source_changes_nothing(model: LatencyModel, parent: Fit) -> None:
    """Limits as above without emulators; the control is the same source at full weight."""
    before = step_seconds(model, parent)
    means, spreads = gap(
        step_seconds(model, grown(model, parent, (), 7, [silent(model, 1e-9)])), before
    )
    assert means < 0.5
    assert spreads < 0.3
    heard = step_seconds(model, grown(model, parent, (), 8, [silent(model, 1.0)]))
    assert gap(heard, before)[0] > 2.0


def test_forgetting_widens(model: LatencyModel, runs: tuple[RunInput, ...], parent: Fit) -> None:
    found = grown(model, parent, (), 9, [silent(model, 1e-9)], forget=0.9)
    assert found.evidence.runs[0].weight == pytest.approx(0.1)
    wide, narrow = step_seconds(model, found), step_seconds(model, parent)
    assert wide[:, 0].std() > 1.2 * narrow[:, 0].std()
    with pytest.raises(UsageError, match="forget"):
        grown(model, parent, runs[1:2], 9, forget=1.0)


def test_the_same_run_counts_once(
    model: LatencyModel, runs: tuple[RunInput, ...], parent: Fit
) -> None:
    with pytest.raises(InputError, match="counts once"):
        grown(model, parent, runs[:1], 1)
    renamed = replace(runs[0], name=runs[0].name.replace("trace a", "trace other name"))
    with pytest.raises(InputError, match="counts once"):
        grown(model, parent, [renamed], 1)
    with pytest.raises(UsageError, match="nothing to update"):
        grown(model, parent, [], 1)


def test_emulators_of_new_runs_are_checked(
    model: LatencyModel, runs: tuple[RunInput, ...], parent: Fit
) -> None:
    found = grown(model, parent, runs[1:2], 3)
    checked = found.tree["emulator_check"].to_dataset()
    names = {str(name).split("/")[0] for name in checked["summary"].values}
    assert names == {runs[0].name, runs[1].name}
    assert float(abs(checked["bias"]).median()) < 0.05
