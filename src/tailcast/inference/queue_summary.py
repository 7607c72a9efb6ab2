"""What a fit of the three numbers says, and what its windows could not tell."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from tailcast.deployment import Deployment
from tailcast.inference.queue_data import METRICS
from tailcast.inference.queue_predict import (
    datasheet_shares,
    fitted_discrepancy,
    propose_measurement,
    unseen,
)
from tailcast.inference.queue_tree import QueuePosterior, queue_posterior
from tailcast.queueing.capacity import CapacityDraws, capacity_draws
from tailcast.queueing.identify import NextMeasurement, UnseenDirection
from tailcast.queueing.parameter_prior import NAMES
from tailcast.queueing.server import Floats, RequestShape
from tailcast.queueing.sizing import Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """How far a fit is from the windows it was made of.

    Parameters
    ----------
    n : int
        Measured values.
    error : float
        Mean absolute error of the median over the mean measurement.
    coverage90 : float
        Share of the measurements within the central 90 % of the replicated ones.
    """

    n: int
    error: float
    coverage90: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSummary:
    """A fit, read.

    Parameters
    ----------
    fit : QueuePosterior
        Its draws.
    n_window : int
        Windows.
    shapes : tuple of str
        Request shapes among them.
    prior_log_sd, log_sd : ndarray, shape (3,)
        Standard deviations of the logs of alpha, beta, gamma before and after.
    fitted : dict of str to Fitted
        By metric.
    shape : RequestShape
        Where capacity is asked for.
    targets : Targets
        On means.
    capacity : CapacityDraws
        Of one replica.
    unseen : tuple of UnseenDirection
        Combinations that the windows left as uncertain as the prior, the least known first.
    advice : NextMeasurement or None
        The measurement that would tell most of the capacity; None where the targets are infeasible.
    shares : dict of str to ndarray
        Shares of the datasheet's peaks, where the deployment is known.
    rhat, ess : float
        Worst r-hat and bulk effective sample size.
    divergences : int
        Of the sampler.
    """

    fit: QueuePosterior
    n_window: int
    shapes: tuple[str, ...]
    prior_log_sd: Floats
    log_sd: Floats
    fitted: dict[str, Fitted]
    shape: RequestShape
    targets: Targets
    capacity: CapacityDraws
    unseen: tuple[UnseenDirection, ...]
    advice: NextMeasurement | None
    shares: dict[str, Floats]
    rhat: float
    ess: float
    divergences: int

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader must know before using the fit, one sentence each."""
        said = []
        if len(self.shapes) == 1:
            said.append(
                f"All windows are of one request shape ({self.shapes[0]}): it cannot tell the "
                "three numbers apart, only their sum there; for other shapes the prior speaks."
            )
        for direction in self.unseen:
            said.append(
                f"Not told by these windows ({direction.sd_ratio:.0%} of the prior's sd left): "
                f"{direction.name}."
            )
        if self.advice is not None:
            said.append(f"Next, {self.advice.advice}.")
        else:
            said.append("The targets are out of reach of a lone request at the medians.")
        if self.divergences:
            said.append(f"{self.divergences} divergences while sampling.")
        return tuple(said)


def mean_shape(tree: xr.DataTree) -> RequestShape:
    """Mean request of the windows of a fit.

    Parameters
    ----------
    tree : xarray.DataTree
        From `fit_queue`.

    Returns
    -------
    RequestShape
        Geometric means over windows.
    """
    seen = tree["constant_data"].to_dataset()
    prompt = float(np.expm1(np.log1p(seen["tokens_in"].values).mean()))
    output = float(np.exp(np.log(seen["tokens_out"].values).mean()))
    return RequestShape(tokens_in=prompt, tokens_out=max(1.0, output))


def summarise_fit(
    tree: xr.DataTree,
    targets: Targets,
    *,
    shape: RequestShape | None = None,
    deployment: Deployment | None = None,
    seed: int,
) -> QueueSummary:
    """Read a fit: numbers, fit to its windows, capacity, and what is not known.

    Parameters
    ----------
    tree : xarray.DataTree
        From `fit_queue`.
    targets : Targets
        On means.
    shape : RequestShape, optional
        Where the capacity is needed; the windows' mean request by default.
    deployment : Deployment, optional
        What was measured, for shares of the datasheet.
    seed : int
        Of the discrepancy of a shape that was not measured.

    Returns
    -------
    QueueSummary
        For people and for JSON.
    """
    fit, wanted = queue_posterior(tree), shape or mean_shape(tree)
    between = fitted_discrepancy(tree, wanted, seed=seed)
    shares = {} if deployment is None else datasheet_shares(tree, deployment, seed=seed)
    return QueueSummary(
        fit=fit,
        n_window=int(tree["constant_data"].sizes["window"]),
        shapes=tuple(fit.groups.names),
        prior_log_sd=fit.prior.log_sd,
        log_sd=fit.belief.log_sd,
        fitted={metric: _fitted(tree, metric) for metric in METRICS},
        shape=wanted,
        targets=targets,
        capacity=capacity_draws(fit.draws.log_numbers, wanted, fit.limits, targets, between),
        unseen=tuple(unseen(tree)),
        advice=propose_measurement(tree, wanted, targets),
        shares=shares,
        rhat=float(tree.attrs["rhat"]),
        ess=_worst_ess(tree),
        divergences=int(tree.attrs["divergences"]),
    )


def _fitted(tree: xr.DataTree, metric: str) -> Fitted:
    observed = tree["observed_data"].to_dataset()[metric].values
    known = np.isfinite(observed)
    drawn = tree["posterior_predictive"].to_dataset()[metric].values
    drawn = drawn.reshape(-1, observed.size)[:, known]
    if not known.any():
        return Fitted(n=0, error=float("nan"), coverage90=float("nan"))
    low, middle, high = np.quantile(drawn, [0.05, 0.5, 0.95], axis=0)
    truth = observed[known]
    return Fitted(
        n=int(known.sum()),
        error=float(np.abs(middle - truth).mean() / truth.mean()),
        coverage90=float(np.mean((low <= truth) & (truth <= high))),
    )


def _worst_ess(tree: xr.DataTree) -> float:
    import arviz as az

    found = az.ess(tree["posterior"].to_dataset()[[*NAMES, "overhead", "window_scale"]])
    return min(float(np.nanmin(found[name].values)) for name in found.data_vars)
