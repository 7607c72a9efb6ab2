"""Route ``smc-abc``: `pm.Simulator` and `pm.sample_smc` straight on the engine.

The reference for small problems. The kernel's width cannot be learned (it is the noise scale at
its prior median, which makes a Gaussian kernel exact), every particle costs an engine run of every
run, and nothing is reused by an update; the emulator route needs a tenth of the runs.
Sequential Monte Carlo ABC: 10.1093/biomet/asp052.
"""

import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tailcast.errors import InferenceError
from tailcast.inference.density import Density, density
from tailcast.inference.density_kernel import UNFOLDED, predicted_logs, run_numbers
from tailcast.inference.emulate import emulated_run, prior_design, run_map
from tailcast.inference.evidence import Evidence, StepEvidence
from tailcast.inference.fit import Fit, assembled, thinned
from tailcast.inference.forward import RunInput, run_engine
from tailcast.inference.geometry import Geometry, folded
from tailcast.inference.nuts import Sampler
from tailcast.inference.population import free_names, prior_population
from tailcast.inference.sampling import Sampled, diagnostics, observed, with_parts
from tailcast.latency_model import LatencyModel

Array = NDArray[np.float64]

SMC = Sampler(draws=300, tune=0, chains=2, cores=2)
"""Particles and chains; each chain is a sequential Monte Carlo run of its own."""

_DESIGN = 96
"""Engine runs per run for the emulators that the posterior stores, though it did not use them."""

_FAILED = 20.0
"""Log summary that stands for one the engine could not give: far from any latency."""


def fit_smc_abc(
    model: LatencyModel,
    runs: Sequence[RunInput],
    steps: Sequence[StepEvidence] = (),
    *,
    seed: int,
    sampler: Sampler = SMC,
    design_size: int = _DESIGN,
    threads: int = 2,
    report: Callable[[str], None] = lambda _: None,
) -> Fit:
    """Fit a latency model with the engine itself as the simulator.

    Parameters
    ----------
    model : LatencyModel
        With priors.
    runs : sequence of RunInput
        Observed runs; keep them few and short.
    steps : sequence of StepEvidence
        Timings of steps with known batches.
    seed : int
        Same inputs and seed give the same posterior.
    sampler : Sampler
        ``draws`` particles in each of ``chains``.
    design_size : int
        Engine runs per run for the emulators kept in the ledger.
    threads : int
        Engine threads of those.
    report : callable
        Receives lines of progress.

    Returns
    -------
    Fit
        The same groups as the emulator route.

    Raises
    ------
    InputError
        If a run has no usable summary.
    InferenceError
        If sampling fails, or the model has nothing to fit.
    """
    if model.is_fixed:
        raise InferenceError(f"latency model {model.name!r} has fixed coefficients: nothing to fit")
    prior = prior_population(model, design_size, seed)
    emulated = []
    for run in runs:
        mapping, effective = prior_design(run, model, prior, seed)
        emulated.append(
            emulated_run(run, model, mapping, effective, seed, threads=threads, report=report)
        )
    evidence = Evidence(runs=tuple(emulated), steps=tuple(steps))
    own = density(model, evidence, unfolded=np.full(len(free_names(model)), UNFOLDED))
    report(f"sequential Monte Carlo: {sampler.chains} x {sampler.draws} particles")
    draws, stats = _sampled(model, runs, own, sampler, seed)
    tree = xr.DataTree.from_dict(
        {
            "posterior": own.named(draws),
            "sample_stats": stats,
            "observed_data": observed(own, evidence),
        }
    )
    tree = with_parts(tree, model, evidence, seed)
    flat = draws.reshape(-1, own.size)
    sampled = Sampled(
        tree=tree,
        geometry=Geometry(centre=flat.mean(axis=0), covariance=np.cov(flat.T)),
        unfolded=own.tables.unfolded,
    )
    stored = assembled(model, runs, evidence, thinned(tree, sampler.stored), prior, seed, threads)
    return Fit(tree=stored, evidence=evidence, diagnostics=diagnostics(tree), sampled=sampled)


class Simulator:
    """Standard normal parameters to log summaries and timings, by running the engine.

    Parameters
    ----------
    model : LatencyModel
        Which coefficients there are.
    runs : sequence of RunInput
        Observed runs.
    own : Density
        Layout of the parameters, at the fold `tailcast.inference.density_kernel.UNFOLDED`.
    seed : int
        Of the workloads: one realisation a run, the same for every particle.
    """

    def __init__(
        self, model: LatencyModel, runs: Sequence[RunInput], own: Density, seed: int
    ) -> None:
        self._runs, self._own, self._seed = runs, own, seed
        self._maps = [run_map(run, model) for run in runs]
        self.n_call = 0

    def flat(self, z: Array) -> Array:
        """Unconstrained coordinates of standard normal parameters.

        Parameters
        ----------
        z : ndarray, shape (n_parameter,)
            Standard normal a priori.

        Returns
        -------
        ndarray, shape (n_parameter,)
            As `tailcast.inference.density.Density` takes them.
        """
        t, x = self._own.tables, z.copy()
        n_free = len(t.excess_sd)
        x[:n_free] = folded(t.unfolded * np.exp(t.excess_sd * z[:n_free]))
        at_scale = n_free + t.n_offset + len(t.noise_centre)
        at_effect = at_scale + len(t.scale_centre)
        scale = t.scale_centre * np.exp(t.scale_sd * z[at_scale:at_effect])
        width = np.sqrt(t.effect_own**2 + (t.effect_part * scale**2).sum(axis=1))
        heavy = t.effect_nu > 0
        effect = z[at_effect:].copy()
        if heavy.any():
            from scipy.special import ndtr
            from scipy.stats import t as student

            effect[heavy] = student.ppf(ndtr(effect[heavy]), t.effect_nu[heavy])
        x[at_effect:] = width * effect
        return x

    def __call__(self, rng: np.random.Generator, z: Array, size: Any = None) -> Array:
        """Log summaries, then log timings; the signature is PyMC's.

        Parameters
        ----------
        rng : numpy.random.Generator
            Not used: arrivals and lengths are on record, so the engine is deterministic.
        z : ndarray, shape (..., n_parameter)
            Standard normal parameters; PyMC repeats them for each observed number.
        size : object
            PyMC's; the observed vector sets it.

        Returns
        -------
        ndarray, shape (n_output + n_row,)
            Log seconds.
        """
        self.n_call += 1
        one = np.asarray(z, dtype=np.float64).reshape(-1, self._own.size)[0]
        t, x = self._own.tables, self.flat(one)
        log_effective = np.empty(t.matrix.shape[:2])
        extra, added = np.empty(len(t.run)), np.empty(len(t.run))
        run_numbers(x, t, log_effective, extra, added)
        output, row = np.empty((len(t.run), 2)), np.empty((len(t.row_log), 2))
        predicted_logs(x, t, output, row)
        logs = []
        for r, (run, mapping) in enumerate(zip(self._runs, self._maps, strict=True)):
            effective = np.exp(log_effective[r, : len(mapping.names)])[None]
            logs.append(run_engine(run, mapping, effective, self._seed, 1)[0][0])
        engine = np.concatenate(logs) if logs else np.zeros(0)
        summaries = np.log(np.exp(engine) + extra) + added
        simulated: Array = np.nan_to_num(np.concatenate([summaries, row[:, 0]]), nan=_FAILED)
        return simulated


def _sampled(
    model: LatencyModel,
    runs: Sequence[RunInput],
    own: Density,
    sampler: Sampler,
    seed: int,
) -> tuple[Array, xr.Dataset]:
    import pymc as pm

    logging.getLogger("pymc").setLevel(logging.ERROR)
    t = own.tables
    simulator = Simulator(model, runs, own, seed)
    noise = np.concatenate([t.noise_centre[t.output_noise], t.noise_centre[t.row_noise]])
    try:
        with warnings.catch_warnings(), pm.Model(coords={"parameter": range(own.size)}):
            warnings.simplefilter("ignore")
            z = pm.Normal("z", 0.0, 1.0, dims="parameter")
            pm.Simulator(
                "log_seconds",
                simulator,
                z,
                distance="gaussian",
                sum_stat="identity",
                epsilon=noise,
                ndim_supp=0,
                ndims_params=[1],
                observed=np.concatenate([t.output_log, t.row_log]),
            )
            tree = pm.sample_smc(
                draws=sampler.draws,
                chains=sampler.chains,
                cores=1,
                random_seed=seed,
                progressbar=False,
                compute_convergence_checks=False,
            )
    except (RuntimeError, ValueError, FloatingPointError) as error:
        raise InferenceError(f"sampling failed: {str(error).splitlines()[0]}") from error
    flat = np.asarray(tree["posterior"]["z"].values, dtype=np.float64)
    draws = np.array([[simulator.flat(z) for z in chain] for chain in flat])
    return draws, _stats(tree, draws)


def _stats(tree: Any, draws: Array) -> xr.Dataset:
    """Log marginal likelihood of each chain; there are no trajectories to speak of."""
    found = tree["sample_stats"].to_dataset()
    evidence = np.full(draws.shape[0], np.nan)
    if "log_marginal_likelihood" in found:
        for k, chain in enumerate(found["log_marginal_likelihood"].values):
            last = np.ravel(chain[-1] if np.ndim(chain) else chain)
            evidence[k] = float(np.asarray(last[-1], dtype=np.float64))
    return xr.Dataset(
        {"log_marginal_likelihood": ("chain", evidence)},
        coords={"chain": np.arange(draws.shape[0]), "draw": np.arange(draws.shape[1])},
    )
