"""Simulation-based calibration: data from the engine, fits by emulator, ranks that must be flat.

Talts et al., 10.48550/arXiv.1804.06788. The data come from the engine itself, not from the emulator
that the fit uses, so a poor emulator shows as much as a wrong density or a sampler that is stuck.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tailcast.inference.density import Density, density
from tailcast.inference.density_kernel import UNFOLDED, predicted_logs
from tailcast.inference.emulate import DESIGN_SIZE, emulated_run, prior_design
from tailcast.inference.evidence import Evidence, RunEvidence
from tailcast.inference.forward import RunInput
from tailcast.inference.geometry import laplace
from tailcast.inference.nuts import Sampler, nuts
from tailcast.inference.population import free_names, prior_population
from tailcast.inference.smc_abc import Simulator
from tailcast.latency_model import LatencyModel
from tailcast.streams import stream

Array = NDArray[np.float64]

REFIT = Sampler(draws=300, tune=200, chains=2, cores=1, target_accept=0.85)
"""Size of the fit to one simulated data set."""

_KEPT = 100
"""Draws that ranks are counted in, thinned evenly so that they are nearly independent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Where truths lie among the draws of the posteriors of their data.

    Parameters
    ----------
    quantity : tuple of str
        Coefficients by name, discrepancy scales, then predicted summaries.
    pit : ndarray, shape (n_simulation, n_quantity)
        Share of draws below the truth, ties broken at random; uniform if all is right.
    """

    quantity: tuple[str, ...]
    pit: Array

    def coverage(self, prob: float) -> Array:
        """Share of simulations whose central interval holds the truth, shape (n_quantity,).

        Parameters
        ----------
        prob : float
            Nominal probability.

        Returns
        -------
        ndarray, shape (n_quantity,)
            Near `prob`.
        """
        inside: Array = (np.abs(self.pit - 0.5) <= prob / 2).mean(axis=0)
        return inside

    def p_value(self) -> Array:
        """Kolmogorov-Smirnov p-value of uniformity by quantity.

        Returns
        -------
        ndarray, shape (n_quantity,)
            Uniform if all is right.
        """
        from scipy.stats import kstest

        return np.array([float(kstest(column, "uniform").pvalue) for column in self.pit.T])

    def dispersion_z(self) -> Array:
        """Standardised second moment of the ranks by quantity, shape (n_quantity,).

        Positive where truths lie in the tails too often: posteriors too narrow.

        Returns
        -------
        ndarray, shape (n_quantity,)
            Standard normal if all is right: the variance of ``(u - 1/2)^2`` is 1/180.
        """
        n = len(self.pit)
        moment = ((self.pit - 0.5) ** 2).mean(axis=0)
        z: Array = (moment - 1 / 12) / np.sqrt(1 / 180 / n)
        return z

    def to_tree(self) -> xr.DataTree:
        """Group ``prior_sbc`` as ArviZ's `plot_ecdf_pit` reads it.

        Returns
        -------
        xarray.DataTree
            One variable a quantity, dims (chain, draw), one draw a simulated truth.
        """
        data = xr.Dataset(
            {
                name: (("chain", "draw"), self.pit[None, :, k])
                for k, name in enumerate(self.quantity)
            },
            coords={"chain": [0], "draw": np.arange(len(self.pit))},
        )
        return xr.DataTree.from_dict({"prior_sbc": data})


def calibrate_simulated(
    model: LatencyModel,
    runs: Sequence[RunInput],
    *,
    n_simulation: int,
    seed: int,
    sampler: Sampler = REFIT,
    power: float = 1.0,
    design_size: int = DESIGN_SIZE,
    report: Callable[[str], None] = lambda _: None,
) -> Calibration:
    """Simulation-based calibration of the emulator route.

    Parameters
    ----------
    model : LatencyModel
        With priors.
    runs : sequence of RunInput
        What is observed of each simulated truth; their observed values are not used.
    n_simulation : int
        Number of truths drawn from the prior.
    seed : int
        Of truths, workloads, noise and sampling.
    sampler : Sampler
        Size of each fit.
    power : float
        Power of the likelihood: 1 is right, anything else is a broken likelihood, for controls.
    design_size : int
        Engine runs per emulator; the design is the prior, the same for all truths.
    report : callable
        Receives a line now and then.

    Returns
    -------
    Calibration
        Ranks as shares.
    """
    prior = prior_population(model, design_size, seed)
    emulated = [
        emulated_run(run, model, *prior_design(run, model, prior, seed), seed) for run in runs
    ]
    bed = _Bed(model=model, runs=tuple(runs), emulated=tuple(emulated), seed=seed, power=power)
    pits = []
    for k in range(n_simulation):
        pits.append(bed.pit(k, sampler))
        if (k + 1) % max(n_simulation // 10, 1) == 0:
            report(f"simulated truth {k + 1} of {n_simulation}")
    return Calibration(quantity=bed.quantity, pit=np.array(pits))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bed:
    model: LatencyModel
    runs: tuple[RunInput, ...]
    emulated: tuple[RunEvidence, ...]
    seed: int
    power: float

    def density(self, observed: Array | None = None) -> Density:
        """Density of the runs with given observations."""
        start, runs = 0, []
        for run in self.emulated:
            stop = start + len(run.outputs)
            own = run
            if observed is not None:
                values = observed[start:stop]
                outputs = tuple(
                    replace(o, log_observed=float(v))
                    for o, v in zip(run.outputs, values, strict=True)
                )
                own = replace(run, outputs=outputs, weight=self.power)
            runs.append(own)
            start = stop
        unfolded = np.full(len(free_names(self.model)), UNFOLDED)
        return density(self.model, Evidence(runs=tuple(runs)), unfolded=unfolded)

    @property
    def quantity(self) -> tuple[str, ...]:
        """Names of what is ranked."""
        own = self.density()
        scales = [b.name.removeprefix("log_") for b in own.blocks if b.name.startswith("log_s")]
        summaries = [f"{r.name}/{o.stage}/{o.key}" for r in self.emulated for o in r.outputs]
        return (*free_names(self.model), *scales, *summaries)

    def ranked(self, own: Density, x: Array) -> Array:
        """Values of the ranked quantities at a point."""
        t = own.tables
        output, row = np.empty((len(t.run), 2)), np.empty((0, 2))
        predicted_logs(x, t, output, row)
        n_free = len(t.excess_sd)
        at_scale = n_free + t.n_offset + len(t.noise_centre)
        scales = x[at_scale : at_scale + len(t.scale_centre)]
        return np.concatenate([x[:n_free], scales, output[:, 0]])

    def pit(self, k: int, sampler: Sampler) -> Array:
        """One truth, its data, its posterior, its ranks."""
        rng = stream(self.seed, "truth", k)
        blank = self.density()
        z = rng.standard_normal(blank.size)
        simulator = Simulator(self.model, self.runs, blank, self.seed + 1 + k)
        truth = simulator.flat(z)
        t = blank.tables
        output, row = np.empty((len(t.run), 2)), np.empty((0, 2))
        predicted_logs(truth, t, output, row)
        at_noise = len(t.excess_sd) + t.n_offset
        log_noise = truth[at_noise : at_noise + len(t.noise_centre)]
        sigma = (t.noise_centre * np.exp(t.noise_sd * log_noise))[t.output_noise]
        data = simulator(rng, z) + sigma * rng.standard_t(t.nu, len(sigma))
        own = self.density(data)
        draws, _ = nuts(own, laplace(own), sampler, self.seed + k)
        flat = draws.reshape(-1, own.size)
        rows = np.linspace(0, len(flat) - 1, _KEPT).round().astype(int)
        values = np.array([self.ranked(own, x) for x in flat[rows]])
        exact = self.ranked(own, truth)
        below = (values < exact).sum(axis=0)
        share: Array = (below + rng.random(len(exact))) / (_KEPT + 1)
        return share
