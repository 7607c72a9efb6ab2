"""The rate of arrivals ahead of now, from counts: a level and a slope that both wander.

The usual local linear trend (Harvey 1989, ISBN 978-0521405737, section 2.3), with the noise of a
Poisson count.
"""

import math
from dataclasses import dataclass

import numpy as np

from tailcast.errors import UsageError
from tailcast.queueing.server import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendSettings:
    """How much the rate is believed to wander.

    Parameters
    ----------
    level_log_sd : float
        Standard deviation of the change of ln(rate) in a second that no slope explains.
    slope_log_sd : float
        Standard deviation of the change in a second of the slope of ln(rate), per second.
    jump_deviations : float
        A count this many of its standard deviations off is taken for a jump of the rate.
    """

    level_log_sd: float = 0.003
    slope_log_sd: float = 6e-5
    jump_deviations: float = 4.0

    def __post_init__(self) -> None:
        for field in ("level_log_sd", "slope_log_sd", "jump_deviations"):
            if not 0 <= getattr(self, field) < math.inf:
                raise UsageError(f"trend: {field} must not be negative")


class RateTrend:
    """Belief of the present rate and of its slope.

    Parameters
    ----------
    settings : TrendSettings, optional
        How much the rate wanders.
    """

    __slots__ = ("_cov", "_mean", "_settings")

    def __init__(self, settings: TrendSettings | None = None) -> None:
        self._settings = settings or TrendSettings()
        self._mean: Floats | None = None
        self._cov = np.zeros((2, 2))

    @property
    def level(self) -> float:
        """Median of the present rate in requests/s; NaN before the first count."""
        return math.nan if self._mean is None else float(self._mean[0])

    def update(self, count: float, duration: float) -> None:
        """Learn from the arrivals since the last update.

        Parameters
        ----------
        count : float
            Requests.
        duration : float
            Seconds that they came in.
        """
        if not duration > 0 or count < 0:
            raise UsageError(f"trend: {count!r} arrivals in {duration!r} s is no count")
        seen = count / duration
        if self._mean is None:
            level = max(seen, 1.0 / duration)
            self._mean = np.array([level, 0.0])
            self._cov = np.diag([level / duration, (level * 5e-4) ** 2])
            return
        mean, cov = self._ahead(duration)
        noise = max(float(mean[0]), 1.0 / duration) / duration
        # the count is of the middle of the interval on average
        look = np.array([1.0, -0.5 * duration])
        spread = float(look @ cov @ look) + noise
        off = seen - float(look @ mean)
        if off * off > self._settings.jump_deviations**2 * spread:
            cov[0, 0] += off * off
            spread += off * off
        gain = cov @ look / spread
        mean = mean + gain * off
        mean[0] = max(mean[0], 0.1 / duration)
        self._mean = mean
        cov = cov - np.outer(gain, look @ cov)
        self._cov = 0.5 * (cov + cov.T)

    def _ahead(self, seconds: float) -> tuple[Floats, Floats]:
        if self._mean is None:
            raise UsageError("trend: no arrivals have been counted yet")
        move = np.array([[1.0, seconds], [0.0, 1.0]])
        level = max(float(self._mean[0]), 1e-9)
        slope_variance = (level * self._settings.slope_log_sd) ** 2
        cov = move @ self._cov @ move.T
        cov += slope_variance * np.array(
            [[seconds**3 / 3.0, seconds**2 / 2.0], [seconds**2 / 2.0, seconds]]
        )
        cov[0, 0] += (level * self._settings.level_log_sd) ** 2 * seconds
        return move @ self._mean, cov

    def forecast(self, seconds: float) -> tuple[float, float]:
        """Rate some time from now.

        Parameters
        ----------
        seconds : float
            Ahead, not negative.

        Returns
        -------
        mean, sd : float
            Requests/s; the mean is above zero.

        Raises
        ------
        UsageError
            If nothing was counted yet.
        """
        mean, cov = self._ahead(seconds)
        # a falling trend is not believed below a twentieth of what is there now
        floor = 0.05 * max(self.level, 1e-9)
        return max(float(mean[0]), floor), float(np.sqrt(cov[0, 0]))

    def draws(self, seconds: float, n_draw: int, generator: np.random.Generator) -> Floats:
        """Draws of the rate some time from now: log-normal with the forecast's mean and sd.

        Parameters
        ----------
        seconds : float
            Ahead, not negative.
        n_draw : int
            How many.
        generator : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray, shape (n_draw,)
            Requests/s, above zero.
        """
        mean, sd = self.forecast(seconds)
        variance = math.log1p((sd / mean) ** 2)
        normal = generator.standard_normal(n_draw)
        return np.asarray(mean * np.exp(math.sqrt(variance) * normal - 0.5 * variance))
