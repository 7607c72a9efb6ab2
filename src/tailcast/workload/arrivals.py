"""When requests (or sessions) start: renewal processes under a rate that changes by stage."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError, near_name
from tailcast.streams import stream

PROCESSES = ("poisson", "gamma", "weibull", "constant", "conditioned-poisson")
_MAX_CV = 30.0
_MAX_STARTS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """Law of the gaps between starts; the rate belongs to the stage.

    Parameters
    ----------
    process : str
        ``poisson``, ``gamma``, ``weibull``, ``constant`` (exactly 1/rate apart), or
        ``conditioned-poisson``: exactly round(rate * duration) starts whose exponential gaps are
        rescaled to sum to the duration, as inference-perf sends them.
    cv : float, optional
        Coefficient of variation of the gaps, for gamma and weibull: 1 is Poisson, more is bursty.
    """

    process: str = "poisson"
    cv: float | None = None

    def __post_init__(self) -> None:
        if self.process not in PROCESSES:
            hint = near_name(self.process, PROCESSES)
            raise InputError(f"no arrival process {self.process!r}; {hint}")
        if self.process in {"gamma", "weibull"}:
            if self.cv is None:
                raise InputError(f"{self.process} arrivals need cv, for example cv = 2.0")
            lowest = 0.02
            if not lowest <= self.cv <= _MAX_CV:
                raise InputError(
                    f"cv of {self.process} arrivals must lie in {lowest}..{_MAX_CV:g}, "
                    f"got {self.cv!r}"
                )
        elif self.cv is not None:
            raise InputError(f"{self.process} arrivals take no cv, got {self.cv!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stretch of constant load.

    Parameters
    ----------
    rate : float
        Starts per second, greater than zero.
    duration : float, optional
        Seconds; None where the number of requests ends the run instead.
    """

    rate: float
    duration: float | None = None

    def __post_init__(self) -> None:
        if not (self.rate > 0 and math.isfinite(self.rate)):
            raise InputError(f"rate must be positive and finite (requests/s), got {self.rate!r}")
        if self.duration is None:
            return
        if not (self.duration > 0 and math.isfinite(self.duration)):
            raise InputError(f"duration must be positive and finite (s), got {self.duration!r}")
        if self.rate * self.duration > _MAX_STARTS:
            raise InputError(
                f"rate {self.rate!r} for {self.duration!r} s is more than {_MAX_STARTS} requests"
            )


def weibull_shape(cv: float) -> float:
    """Shape whose coefficient of variation is `cv`.

    Parameters
    ----------
    cv : float
        Between 0.02 and 30.

    Returns
    -------
    float
        Shape k; 1 gives the exponential law.

    Examples
    --------
    >>> round(weibull_shape(1.0), 9)
    1.0
    """
    low, high = 0.05, 200.0
    for _ in range(100):
        middle = math.sqrt(low * high)
        log_ratio = math.lgamma(1 + 2 / middle) - 2 * math.lgamma(1 + 1 / middle)
        if math.expm1(log_ratio) > cv**2:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)


def unit_gaps(arrivals: Arrivals, rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Gaps of mean one.

    Parameters
    ----------
    arrivals : Arrivals
        Law of the gaps.
    rng : numpy.random.Generator
        Read in order, so that the first gaps do not depend on `n`.
    n : int
        Number of gaps.

    Returns
    -------
    ndarray, shape (n,)
        Dimensionless; divide by the rate for seconds.
    """
    if arrivals.process == "constant":
        return np.ones(n)
    if arrivals.process == "gamma":
        shape = 1 / _cv(arrivals) ** 2
        return rng.standard_gamma(shape, n) / shape
    gaps = rng.standard_exponential(n)
    if arrivals.process == "weibull":
        shape = weibull_shape(_cv(arrivals))
        gaps = np.exp(np.log(gaps) / shape - math.lgamma(1 + 1 / shape))
    return gaps


def first_gap(arrivals: Arrivals, rng: np.random.Generator) -> float:
    """Wait until the first start when the process has been running for ever.

    A renewal process that starts with a whole gap sends (cv**2 - 1)/2 starts too many on average;
    with a uniform part of a length-biased gap its mean count is rate * duration exactly.

    Parameters
    ----------
    arrivals : Arrivals
        Law of the gaps; constant arrivals keep a whole gap.
    rng : numpy.random.Generator
        Read for gamma and weibull gaps alone.

    Returns
    -------
    float
        Dimensionless; mean (1 + cv**2)/2.
    """
    if arrivals.process == "gamma":
        shape = 1 / _cv(arrivals) ** 2
        return float(rng.random() * rng.standard_gamma(shape + 1) / shape)
    if arrivals.process == "weibull":
        shape = weibull_shape(_cv(arrivals))
        biased = math.log(rng.standard_gamma(1 + 1 / shape)) / shape - math.lgamma(1 + 1 / shape)
        return float(rng.random() * math.exp(biased))
    return float(unit_gaps(arrivals, rng, 1)[0])


def start_times(
    arrivals: Arrivals, stages: Sequence[Stage], seed: int, n: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Starts of all stages, back to back.

    Every stage has its own random stream and the gaps are drawn at unit rate, so a stage's rate
    only stretches its own starts.

    Parameters
    ----------
    arrivals : Arrivals
        Law of the gaps.
    stages : sequence of Stage
        Only a single stage may have no duration; then `n` ends it.
    seed : int
        Seed of the run.
    n : int, optional
        Number of starts of a stage without a duration.

    Returns
    -------
    times : ndarray, shape (n_start,)
        Seconds from the start of the run, sorted.
    stage : ndarray of int, shape (n_start,)
        Index of the stage each start belongs to.
    """
    times, begin = [], 0.0
    for index, stage in enumerate(stages):
        if arrivals.process == "conditioned-poisson":
            local = _conditioned(stage, seed, index, n)
        else:
            local = _renewal(arrivals, stage, seed, index, n)
        times.append(begin + local)
        begin += stage.duration or 0.0
    owner = np.repeat(np.arange(len(times)), [len(local) for local in times])
    return np.concatenate(times), owner


def _conditioned(stage: Stage, seed: int, index: int, n: int | None) -> NDArray[np.float64]:
    if stage.duration is not None:
        n = round(stage.rate * stage.duration)
    if not n:
        return np.empty(0)
    duration = n / stage.rate if stage.duration is None else stage.duration
    times = np.cumsum(stream(seed, "arrivals", index).standard_exponential(n))
    scaled: NDArray[np.float64] = times * (duration / times[-1])
    return scaled


def _renewal(
    arrivals: Arrivals, stage: Stage, seed: int, index: int, n: int | None
) -> NDArray[np.float64]:
    rng = stream(seed, "arrivals", index)
    first = first_gap(arrivals, stream(seed, "first-arrival", index))
    if stage.duration is None:
        gaps = unit_gaps(arrivals, rng, max((n or 0) - 1, 0))
        return np.cumsum(np.concatenate(([first], gaps)))[: n or 0] / stage.rate
    end = stage.rate * stage.duration
    end += 1e-9 * max(1.0, end)  # the last of exactly rate * duration constant gaps is inside
    chunk = max(64, int(end * 1.1) + 64)
    clock = np.array([first])
    while clock[-1] <= end:
        more = np.concatenate((clock[-1:], unit_gaps(arrivals, rng, chunk)))
        clock = np.concatenate((clock[:-1], np.cumsum(more)))
    return np.minimum(clock[clock <= end] / stage.rate, stage.duration)


def _cv(arrivals: Arrivals) -> float:
    return 1.0 if arrivals.cv is None else arrivals.cv
