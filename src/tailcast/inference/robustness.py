"""Coverage of held-out runs when reality is not the model: contention, bias, noise, wrong prompts.

Truths come from the engine with a fault that the fitted model does not know; the fit sees some runs
and predicts others. A fit without discrepancy and with fixed noise stands beside it as the control
that must fail.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tailcast.inference.density import density
from tailcast.inference.density_kernel import UNFOLDED
from tailcast.inference.emulate import DESIGN_SIZE, emulated_run, prior_design
from tailcast.inference.evidence import Evidence, RunEvidence
from tailcast.inference.forward import RunInput
from tailcast.inference.geometry import laplace
from tailcast.inference.nuts import Sampler, nuts
from tailcast.inference.pointwise import pointwise
from tailcast.inference.population import free_names, prior_population
from tailcast.inference.sampling import with_parts
from tailcast.inference.smc_abc import Simulator
from tailcast.latency_model import LatencyModel, Scale
from tailcast.streams import stream

Array = NDArray[np.float64]

FAULTS = ("none", "contention", "bias", "noise", "prompts")
"""What is wrong with the truth: nothing; a term that the model lacks; each run and metric class off
by 10 %; each summary off by 10 %; prompts a third longer than the fit is told."""

REFIT = Sampler(draws=250, tune=200, chains=2, cores=1)

_SIZE = 0.10
_FIXED = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """What a robustness run needs.

    Parameters
    ----------
    model : LatencyModel
        That is fitted.
    truth : LatencyModel
        That data come from when the fault is contention: `model` and one term more, its other
        coefficients in the same order.
    seen, held_out : sequence of RunInput
        Runs that are fitted to and runs that are predicted.
    longer : mapping of str to RunInput
        Each run with the prompts that were really sent, by name.
    """

    model: LatencyModel
    truth: LatencyModel
    seen: Sequence[RunInput]
    held_out: Sequence[RunInput]
    longer: Mapping[str, RunInput]


@dataclass(frozen=True, slots=True, kw_only=True)
class Robustness:
    """Held-out coverage of one fault.

    Parameters
    ----------
    fault : str
        One of `FAULTS`.
    control : bool
        Whether it is the fit without discrepancy.
    pit : ndarray, shape (n_truth, n_observation)
        Of the held-out summaries.
    width90 : float
        Median width of the 90 % predictive interval, log units.
    """

    fault: str
    control: bool
    pit: Array
    width90: float

    def coverage(self, prob: float) -> float:
        """Share of held-out summaries inside their central interval.

        Parameters
        ----------
        prob : float
            Nominal probability.

        Returns
        -------
        float
            Between 0 and 1.
        """
        return float((np.abs(self.pit - 0.5) <= prob / 2).mean())


def without_discrepancy(model: LatencyModel) -> LatencyModel:
    """The control: no discrepancy, noise scales fixed at their prior medians.

    Parameters
    ----------
    model : LatencyModel
        With both.

    Returns
    -------
    LatencyModel
        Overconfident by construction.
    """
    noise = {name: Scale(centre=s.centre, sd=_FIXED) for name, s in model.noise.items()}
    return replace(model, discrepancy={}, latent={}, noise=noise)


def robustness(
    suite: Suite,
    faults: Sequence[str] = FAULTS,
    *,
    n_truth: int,
    seed: int,
    sampler: Sampler = REFIT,
    design_size: int = DESIGN_SIZE,
    report: Callable[[str], None] = lambda _: None,
) -> list[Robustness]:
    """Fit and predict under every fault, with and without discrepancy.

    Parameters
    ----------
    suite : Suite
        Models and runs.
    faults : sequence of str
        Some of `FAULTS`.
    n_truth : int
        Truths drawn from the prior for each fault.
    seed : int
        Of truths, faults, noise and sampling.
    sampler : Sampler
        Size of each fit.
    design_size : int
        Engine runs per emulator.
    report : callable
        Receives a line a fault.

    Returns
    -------
    list of Robustness
        Two a fault: the model, then the control.
    """
    runs = (*suite.seen, *suite.held_out)
    prior = prior_population(suite.model, design_size, seed)
    emulated = tuple(
        emulated_run(run, suite.model, *prior_design(run, suite.model, prior, seed), seed)
        for run in runs
    )
    found = []
    for fault in faults:
        data = [_observed(suite, emulated, fault, seed, k) for k in range(n_truth)]
        for control in (False, True):
            model = without_discrepancy(suite.model) if control else suite.model
            results = [
                _held_out(suite, model, emulated, observed, seed + k, sampler)
                for k, observed in enumerate(data)
            ]
            own = Robustness(
                fault=fault,
                control=control,
                pit=np.array([pit for pit, _ in results]),
                width90=float(np.median([width for _, width in results])),
            )
            found.append(own)
            kind = "control" if control else "model"
            report(f"{fault}, {kind}: 90 % intervals hold {100 * own.coverage(0.9):.0f} %")
    return found


def _observed(
    suite: Suite, emulated: Sequence[RunEvidence], fault: str, seed: int, k: int
) -> Array:
    """Log summaries of one truth with a fault, run by run in order."""
    rng = stream(seed, "truth", k)
    runs = [*suite.seen, *suite.held_out]
    model = suite.truth if fault == "contention" else suite.model
    if fault == "prompts":
        runs = [suite.longer[run.name] for run in runs]
    own = density(
        model,
        Evidence(
            runs=tuple(_mapped(item, run, model) for item, run in zip(emulated, runs, strict=True))
        ),
        unfolded=np.full(len(free_names(model)), UNFOLDED),
    )
    z = rng.standard_normal(own.size)
    simulator = Simulator(model, runs, own, seed + k)
    t = own.tables
    at_noise = len(t.excess_sd) + t.n_offset
    noise = t.noise_centre * np.exp(t.noise_sd * z[at_noise : at_noise + len(t.noise_centre)])
    logs = simulator(rng, z) + noise[t.output_noise] * rng.standard_t(t.nu, len(t.run))
    if fault == "noise":
        logs = logs + _SIZE * rng.standard_normal(len(logs))
    if fault == "bias":
        metrics = [o.metric for item in emulated for o in item.outputs]
        shift = {
            (r, m): _SIZE * rng.standard_normal()
            for r in range(len(runs))
            for m in sorted(set(metrics))
        }
        logs = logs + np.array([shift[int(r), m] for r, m in zip(t.run, metrics, strict=True)])
    return logs


def _mapped(item: RunEvidence, run: RunInput, model: LatencyModel) -> RunEvidence:
    """Evidence with the map of another latency model; its emulator is not used."""
    from tailcast.inference.effective import effective_map

    mapping = effective_map(model, run.deployment)
    n = len(mapping.names)
    emulator = replace(
        item.emulator,
        centre=np.zeros(n),
        spread=np.ones(n),
        weights=np.zeros((len(item.outputs), 1 + n + n * (n + 1) // 2)),
    )
    return replace(item, matrix=mapping.matrix, in_clock=mapping.in_clock, emulator=emulator)


def _held_out(
    suite: Suite,
    model: LatencyModel,
    emulated: Sequence[RunEvidence],
    observed: Array,
    seed: int,
    sampler: Sampler,
) -> tuple[Array, float]:
    """PIT of the held-out summaries of one data set, and the median width of their intervals."""
    start, items = 0, []
    for item in emulated:
        stop = start + len(item.outputs)
        outputs = tuple(
            replace(o, log_observed=float(v))
            for o, v in zip(item.outputs, observed[start:stop], strict=True)
        )
        items.append(replace(item, outputs=outputs))
        start = stop
    evidence = Evidence(runs=tuple(items))
    hidden = {run.name: 0.0 for run in suite.held_out}
    own = density(
        model,
        evidence,
        weight=hidden,
        unfolded=np.full(len(free_names(model)), UNFOLDED),
    )
    draws, _ = nuts(own, laplace(own), sampler, seed)
    import xarray as xr

    tree = xr.DataTree.from_dict({"posterior": own.named(draws)})
    data = with_parts(tree, model, evidence, seed)["posterior"].to_dataset()
    predicted = pointwise(model, evidence, data)
    kept = np.array([name in hidden for name in predicted.item])
    values = predicted.replicated(seed)[:, kept]
    low, high = np.quantile(values, [0.05, 0.95], axis=0)
    pit: Array = (values < predicted.observed[kept]).mean(axis=0)
    return pit, float(np.median(high - low))
