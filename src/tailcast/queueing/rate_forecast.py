"""A rate that is not known exactly: a spread around a median, or draws from a file."""

import re
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np

from tailcast.errors import InputError, UsageError
from tailcast.queueing.field_units import parse_rate
from tailcast.queueing.server import Floats

_SPREAD = re.compile(r"(.+?)(?:±|\+-|\+/-)\s*([0-9]*\.?[0-9]+)\s*%\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class RateForecast:
    """Belief of the arrival rate.

    Parameters
    ----------
    quantiles : ndarray, shape (n_quantile,)
        Requests/s, sorted, at even places; one where the rate is known.
    text : str
        As it was given.
    """

    quantiles: Floats
    text: str

    @property
    def exact(self) -> bool:
        """Whether the rate is taken as known."""
        return self.quantiles.size == 1

    @property
    def median(self) -> float:
        """Median in requests/s."""
        return float(np.median(self.quantiles))

    def draws(self, n_draw: int, generator: np.random.Generator) -> Floats:
        """Draws at even places of the belief, in random order.

        Parameters
        ----------
        n_draw : int
            How many.
        generator : numpy.random.Generator
            Of the order.

        Returns
        -------
        ndarray, shape (n_draw,)
            Requests/s.
        """
        places = (np.arange(n_draw) + 0.5) / n_draw
        own = (np.arange(self.quantiles.size) + 0.5) / self.quantiles.size
        return generator.permutation(np.interp(places, own, self.quantiles))


def parse_forecast(text: str, *, n_quantile: int = 2001) -> RateForecast:
    """Forecast of a text or a file.

    Parameters
    ----------
    text : str
        A rate (``480rpm``), a median with the standard deviation of the log (``480rpm+-20%``,
        log-normal), or a file with one rate a line.
    n_quantile : int
        Points of a log-normal.

    Returns
    -------
    RateForecast
        In requests/s.

    Raises
    ------
    UsageError
        If it is none of these.
    InputError
        If the file holds something else.

    Examples
    --------
    >>> parse_forecast("480rpm").median
    8.0
    """
    match = _SPREAD.fullmatch(text)
    if match is not None:
        median, sd = parse_rate(match[1]), float(match[2]) / 100.0
        if not 0 < sd <= 3:
            raise UsageError(f"rate {text!r}: the spread must lie between 0 and 300 %")
        normal = NormalDist()
        scores = np.array([normal.inv_cdf((k + 0.5) / n_quantile) for k in range(n_quantile)])
        return RateForecast(quantiles=median * np.exp(sd * scores), text=text)
    if Path(text).is_file():
        return _read_forecast(Path(text))
    try:
        return RateForecast(quantiles=np.array([parse_rate(text)]), text=text)
    except UsageError as error:
        raise UsageError(f"{error}, a spread as 8rps+-20%, or a file of rates") from None


def _read_forecast(path: Path) -> RateForecast:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    rates = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            rates.append(parse_rate(line))
        except UsageError as error:
            raise InputError(f"{path}:{number}: {error}") from None
    if not rates:
        raise InputError(f"{path}: no rates; write one a line, as 8rps or 480rpm")
    return RateForecast(quantiles=np.sort(rates), text=str(path))
