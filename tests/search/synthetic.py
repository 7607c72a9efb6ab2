"""Candidates whose outcomes are numbers drawn block by block, alike for all but for their own."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tailcast.search.evaluator import Job, Scores
from tailcast.streams import stream

N_BLOCK = {"race": 2000, "confirm": 6400}


class Synthetic:
    """Log statistic of candidate k in block b: its mean + what b does to all + its own noise.

    A candidate misses where the statistic exceeds `target`; short runs show `short` less of it.
    With `p_miss` another statistic decides who misses, that often, in much the same blocks.
    """

    def __init__(
        self,
        mean: Sequence[float] | NDArray[np.float64],
        cost: Sequence[float] | None = None,
        *,
        seed: int = 0,
        target: float = 0.0,
        shared: float = 0.15,
        own: float = 0.02,
        short: float = 0.05,
        sure: NDArray[np.bool_] | None = None,
        p_miss: Sequence[float] | None = None,
    ) -> None:
        self.mean = np.asarray(mean, dtype=float)
        self._cost = np.full(len(self.mean), 1.0) if cost is None else np.asarray(cost, float)
        self._target, self._short, self._sure = target, short, sure
        self._seed, self._spread = seed, (shared, own)
        self._noise: dict[str, NDArray[np.float64]] = {}
        self._quantile = None if p_miss is None else ndtri(np.asarray(p_miss))
        self.runs = 0.0

    @property
    def cost(self) -> NDArray[np.float64]:
        """Cost by candidate."""
        return self._cost

    def bound(self, n_block: int) -> NDArray[np.bool_]:
        """What is known without a run."""
        if self._sure is None:
            return np.zeros((len(self.mean), n_block), dtype=np.bool_)
        return np.repeat(self._sure[:, None], n_block, axis=1)

    def _draw(self, purpose: str, what: str, shape: int | tuple[int, int]) -> NDArray[np.float64]:
        return stream(self._seed, purpose, what).standard_normal(shape)

    def _noise_of(self, purpose: str) -> NDArray[np.float64]:
        """Noise of all candidates; drawn when it is first asked for."""
        if purpose not in self._noise:
            shared, own = self._spread
            n = N_BLOCK[purpose]
            self._noise[purpose] = shared * self._draw(purpose, "shared", n) + own * self._draw(
                purpose, "own", (len(self.mean), n)
            )
        return self._noise[purpose]

    def evaluate(self, jobs: Sequence[Job]) -> list[Scores]:
        """Scores of jobs."""
        found = []
        for job in jobs:
            rank = (
                self.mean[job.candidate]
                + self._noise_of(job.purpose)[job.candidate, job.first : job.last]
            )
            if job.share < 1:
                rank = rank - self._short
            self.runs += job.share * (job.last - job.first)
            margin = rank - self._target
            if self._quantile is not None:
                other = self._draw(job.purpose, "other", N_BLOCK[job.purpose])
                other = other[job.first : job.last]
                margin = 0.4 * (other + self._quantile[job.candidate])
            found.append(Scores(missed=margin > 0, rank=rank, margin=margin))
        return found
