"""What a belief of the three numbers does not know, on the scale of the decision.

A single request shape cannot tell the three numbers apart, yet it tells the capacity at that
shape. So the measure is the standard deviation of the log capacity where it will be used, and the
advice is the measurement that shrinks it most.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailcast.queueing.capacity import capacity_draws
from tailcast.queueing.parameter_prior import NAMES, NumbersPrior
from tailcast.queueing.sensitivity import log_latencies
from tailcast.queueing.server import Floats, RequestShape, ServerLimits
from tailcast.queueing.sizing import Targets
from tailcast.queueing.windows import Window, window_columns

# a direction whose sd is still this part of the prior's has not been measured
UNSEEN_ABOVE = 0.5
_PART_BELOW = 0.25
_COST = {"alpha": "step overhead", "beta": "compute per token", "gamma": "KV read per token"}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenDirection:
    """A combination of the log parameters that the data left as uncertain as the prior.

    Parameters
    ----------
    weights : ndarray, shape (3,)
        Unit vector over the logs of alpha, beta, gamma, each in units of its prior sd.
    sd_ratio : float
        Standard deviation over the prior's, along it.
    """

    weights: Floats
    sd_ratio: float

    @property
    def name(self) -> str:
        """The direction in words, the largest part first."""
        parts = [
            (abs(weight), name, weight)
            for weight, name in zip(self.weights, NAMES, strict=True)
            if abs(weight) >= _PART_BELOW
        ]
        parts.sort(reverse=True)
        lead = parts[0][2]
        spelt = [f"{name} ({_COST[name]})" for _, name, _ in parts]
        words = spelt[0]
        for (_, _, weight), text in zip(parts[1:], spelt[1:], strict=True):
            words += f" {'with' if weight * lead > 0 else 'against'} {text}"
        return words


def unseen_directions(belief: NumbersPrior, prior: NumbersPrior) -> list[UnseenDirection]:
    """Directions along which a belief is hardly narrower than its prior.

    Parameters
    ----------
    belief : NumbersPrior
        After the data.
    prior : NumbersPrior
        Before.

    Returns
    -------
    list of UnseenDirection
        The least known first; empty where everything was seen.
    """
    factor = np.linalg.cholesky(prior.log_cov)
    whitened = np.linalg.solve(factor, np.linalg.solve(factor, belief.log_cov).T)
    variances, vectors = np.linalg.eigh(0.5 * (whitened + whitened.T))
    scale = prior.log_sd
    found = []
    for place in np.argsort(variances)[::-1]:
        ratio = float(np.sqrt(max(variances[place], 0.0)))
        if ratio > UNSEEN_ABOVE:
            weights = (factor @ vectors[:, place]) / scale
            weights = weights / np.linalg.norm(weights)
            found.append(UnseenDirection(weights=weights, sd_ratio=ratio))
    return found


def capacity_log_slopes(
    log_numbers: Floats, shape: RequestShape, limits: ServerLimits, targets: Targets
) -> tuple[float, Floats]:
    """Capacity at one parameter point, and its slopes in the log parameters.

    Parameters
    ----------
    log_numbers : ndarray, shape (3,)
        Logs of seconds.
    shape : RequestShape
        Mean tokens, scalars.
    limits : ServerLimits
        Of the replica.
    targets : Targets
        On means.

    Returns
    -------
    capacity : float
        Requests/s.
    slopes : ndarray, shape (3,)
        Derivatives of its log.
    """
    step = 1e-3
    points = np.vstack(
        [log_numbers, log_numbers + step * np.eye(3), log_numbers - step * np.eye(3)]
    )
    rates = capacity_draws(points, shape, limits, targets).rate
    if np.any(rates <= 0):
        return float(rates[0]), np.full(3, np.nan)
    logs = np.log(rates)
    return float(rates[0]), (logs[1:4] - logs[4:7]) / (2.0 * step)


def capacity_log_sd(
    belief: NumbersPrior, shape: RequestShape, limits: ServerLimits, targets: Targets
) -> float:
    """Standard deviation of the log capacity under a belief, to first order.

    Parameters
    ----------
    belief : NumbersPrior
        Of the three numbers.
    shape : RequestShape
        Mean tokens, scalars.
    limits : ServerLimits
        Of the replica.
    targets : Targets
        On means.

    Returns
    -------
    float
        NaN where the targets are infeasible at the medians.
    """
    _, slopes = capacity_log_slopes(belief.log_mean, shape, limits, targets)
    return float(np.sqrt(slopes @ belief.log_cov @ slopes))


@dataclass(frozen=True, slots=True, kw_only=True)
class NextMeasurement:
    """The most telling measurement among candidates.

    Parameters
    ----------
    tokens_in, tokens_out, rate : float
        Request shape, and requests/s.
    log_sd_before, log_sd_after : float
        Expected sd of the log capacity where it is needed, without and with that measurement.
    """

    tokens_in: float
    tokens_out: float
    rate: float
    log_sd_before: float
    log_sd_after: float

    @property
    def advice(self) -> str:
        """The measurement in one sentence."""
        return (
            f"measure {self.tokens_in:.0f} prompt / {self.tokens_out:.0f} output tokens at "
            f"{self.rate:.3g} requests/s: sd of the log capacity "
            f"{self.log_sd_before:.3f} -> {self.log_sd_after:.3f}"
        )


def default_candidates(
    belief: NumbersPrior, shape: RequestShape, limits: ServerLimits
) -> list[Window]:
    """Measurements worth a thought: the shape asked for and four around it, at four loads.

    Parameters
    ----------
    belief : NumbersPrior
        Sets the rates, as shares of the stability boundary at its medians.
    shape : RequestShape
        Mean tokens, scalars.
    limits : ServerLimits
        Of the replica.

    Returns
    -------
    list of Window
        Without latencies.
    """
    prompt, output = float(shape.tokens_in), float(shape.tokens_out)
    grid = [(1.0, 1.0), (4.0, 0.25), (0.25, 4.0), (4.0, 1.0), (0.25, 0.25)]
    candidates = []
    for more_prompt, more_output in grid:
        size = RequestShape(
            tokens_in=max(1.0, prompt * more_prompt), tokens_out=max(1.0, output * more_output)
        )
        boundary = float(capacity_draws(belief.log_mean, size, limits, Targets()).rate[0])
        candidates += [
            Window(
                tokens_in=float(size.tokens_in),
                tokens_out=float(size.tokens_out),
                rate=share * boundary,
            )
            for share in (0.05, 0.3, 0.6, 0.8)
        ]
    return candidates


def next_measurement(
    belief: NumbersPrior,
    shape: RequestShape,
    limits: ServerLimits,
    targets: Targets,
    noise_log_sd: tuple[float, float] = (0.15, 0.05),
    candidates: Sequence[Window] | None = None,
) -> NextMeasurement | None:
    """The measurement that is expected to tell most of the capacity at a shape.

    Parameters
    ----------
    belief : NumbersPrior
        Of the three numbers.
    shape : RequestShape
        Mean tokens where the capacity is needed, scalars.
    limits : ServerLimits
        Of the replica.
    targets : Targets
        On means.
    noise_log_sd : tuple of float
        Standard deviations of the logs of TTFT and ITL around the chain.
    candidates : sequence of Window, optional
        Measurements to choose from.

    Returns
    -------
    NextMeasurement or None
        None where the targets are infeasible at the medians, so that no capacity exists.
    """
    _, wanted = capacity_log_slopes(belief.log_mean, shape, limits, targets)
    if not np.all(np.isfinite(wanted)):
        return None
    windows = candidates or default_candidates(belief, shape, limits)
    found = log_latencies(belief.log_mean, window_columns(windows), limits)
    precision = np.linalg.inv(belief.log_cov)
    before = float(np.sqrt(wanted @ belief.log_cov @ wanted))
    after = []
    for place in range(len(windows)):
        slopes = found.slopes[0, place, :2, :3] / np.array(noise_log_sd)[:, None]
        information = precision + slopes.T @ slopes
        after.append(float(np.sqrt(wanted @ np.linalg.solve(information, wanted))))
    best = int(np.argmin(after))
    return NextMeasurement(
        tokens_in=windows[best].tokens_in,
        tokens_out=windows[best].tokens_out,
        rate=windows[best].rate,
        log_sd_before=before,
        log_sd_after=after[best],
    )
