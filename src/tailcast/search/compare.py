"""Two candidates compared block by block: "B beats A by 18 % [4, 31], P = 0.98"."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import UsageError
from tailcast.search.race import paired_difference
from tailcast.search.sequential import log_t_evidence, t_half_width

Array = NDArray[np.float64]

_SHOWN_FACTOR = 100.0

LEAST_BLOCKS = 16
"""Blocks from which a mean difference of unknown law is trusted to behave like a normal one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How much less one candidate's statistic is than another's.

    Parameters
    ----------
    gain : float
        Median over blocks of 1 - own / other; positive where the first is better.
    low, high : float
        Equal-tailed interval of it over blocks: posterior draw, discrepancy, workload.
    p_better : float
        Share of blocks in which the first is better; ties count half.
    mean_log_ratio, half_width : float
        Mean of the log ratio, and the half width of its confidence sequence: Monte Carlo error
        only, valid whenever one stops; infinite below 16 blocks.
    log_evidence : float
        Evidence that the mean is not zero, natural log.
    n_block : int
        Blocks that both have seen.
    """

    gain: float
    low: float
    high: float
    p_better: float
    mean_log_ratio: float
    half_width: float
    log_evidence: float
    n_block: int

    @property
    def is_settled(self) -> bool:
        """Whether the confidence sequence of the mean excludes zero."""
        return abs(self.mean_log_ratio) > self.half_width

    def sentence(self, own: str, other: str, *, ci_prob: float = 0.89) -> str:
        """The comparison in words.

        Parameters
        ----------
        own, other : str
            Names of the candidates.
        ci_prob : float
            Mass of the interval, as it was computed.

        Returns
        -------
        str
            One sentence.
        """
        if self.gain < 0:
            return self.reversed().sentence(other, own, ci_prob=ci_prob)
        interval = f"[{100 * self.low:.3g}, {100 * self.high:.3g}]"
        return (
            f"{own} beats {other} by {100 * self.gain:.3g} % {interval} ({ci_prob:.0%} interval), "
            f"P = {self.p_better:.2f}, {self.n_block} paired blocks"
        )

    def reversed(self) -> "Comparison":
        """The other candidate's view.

        Returns
        -------
        Comparison
            Of the same blocks.
        """

        def turned(gain: float) -> float:
            return 1.0 - 1.0 / max(1.0 - gain, 1e-12)

        return Comparison(
            gain=turned(self.gain),
            low=turned(self.high),
            high=turned(self.low),
            p_better=1.0 - self.p_better,
            mean_log_ratio=-self.mean_log_ratio,
            half_width=self.half_width,
            log_evidence=self.log_evidence,
            n_block=self.n_block,
        )


def compare(rank: Array, other: Array, *, alpha: float = 0.05, ci_prob: float = 0.89) -> Comparison:
    """Compare two candidates on the blocks that both have seen.

    Parameters
    ----------
    rank, other : ndarray, shape (n_block,)
        Log of the ranking statistic, less is better; NaN beyond the stability boundary.
    alpha : float
        Chance that the confidence sequence ever misses the mean.
    ci_prob : float
        Mass of the interval over blocks.

    Returns
    -------
    Comparison
        Of the first to the second.

    Raises
    ------
    UsageError
        If they share fewer than two blocks.
    """
    n = min(len(rank), len(other))
    if n < 2:
        raise UsageError(f"two candidates share {n} blocks; at least 2 are needed to compare")
    difference = paired_difference(rank[:n], other[:n])
    gain = 1.0 - np.exp(paired_difference(rank[:n], other[:n], most=_SHOWN_FACTOR))
    tail = (1.0 - ci_prob) / 2
    low, middle, high = np.quantile(gain, [tail, 0.5, 1.0 - tail])
    enough = n >= LEAST_BLOCKS
    mean, sd = np.array(difference.mean()), np.array(difference.std(ddof=1))
    return Comparison(
        gain=float(middle),
        low=float(low),
        high=float(high),
        p_better=float((difference < 0).mean() + 0.5 * (difference == 0).mean()),
        mean_log_ratio=float(mean),
        half_width=float(t_half_width(sd, np.array(n), alpha)) if enough else math.inf,
        log_evidence=float(log_t_evidence(mean, sd, np.array(n))) if enough else 0.0,
        n_block=n,
    )
