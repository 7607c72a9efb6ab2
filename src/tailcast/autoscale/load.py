"""Arrival rate over time, and the arrivals it makes."""

import csv
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tailcast.errors import InputError, UsageError
from tailcast.queueing.field_units import parse_rate
from tailcast.queueing.server import Floats
from tailcast.units import parse_duration

DEFAULT_DURATION = 1800.0
# shares of the time at which a trapezoid bends: low, rise, high, fall, low
_TRAPEZOID = (0.0, 0.1, 0.35, 0.65, 0.9, 1.0)
_RATE_COLUMNS = {"rate_rps": 1.0, "rate_rpm": 1.0 / 60.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProfile:
    """Rate of all arrivals, linear between points.

    Parameters
    ----------
    times : ndarray, shape (n_point,)
        Seconds, rising strictly from zero.
    rates : ndarray, shape (n_point,)
        Requests/s, not negative.
    """

    times: Floats
    rates: Floats

    def __post_init__(self) -> None:
        if self.times.ndim != 1 or self.times.shape != self.rates.shape or self.times.size < 2:
            raise UsageError("load: at least two points of time and rate are needed")
        if self.times[0] != 0 or not np.all(np.diff(self.times) > 0):
            raise UsageError("load: times must rise strictly from zero")
        finite = np.all(np.isfinite(self.times)) and np.all(np.isfinite(self.rates))
        if not finite or np.any(self.rates < 0) or not np.any(self.rates > 0):
            raise UsageError("load: rates must be finite, not negative, and not all zero")

    @property
    def duration(self) -> float:
        """Seconds."""
        return float(self.times[-1])

    def rate(self, times: Floats) -> Floats:
        """Rate at some times.

        Parameters
        ----------
        times : ndarray
            Seconds.

        Returns
        -------
        ndarray
            Requests/s.
        """
        return np.interp(times, self.times, self.rates)

    def arrivals(self, generator: np.random.Generator) -> Floats:
        """Arrivals of a Poisson process with this rate, by change of time.

        Parameters
        ----------
        generator : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray, shape (n_arrival,)
            Seconds, sorted.
        """
        widths = np.diff(self.times)
        areas = 0.5 * (self.rates[1:] + self.rates[:-1]) * widths
        ends = np.concatenate([[0.0], np.cumsum(areas)])
        total = float(ends[-1])
        size = int(total + 10.0 * math.sqrt(total) + 50)
        marks = np.cumsum(generator.exponential(size=size))
        marks = marks[marks < total]
        piece = np.searchsorted(ends, marks, side="right") - 1
        rest = marks - ends[piece]
        start, slope = self.rates[piece], (np.diff(self.rates) / widths)[piece]
        # root of start x + slope x^2 / 2 = rest, without cancellation
        root = np.sqrt(np.maximum(start**2 + 2.0 * slope * rest, 0.0))
        return np.asarray(self.times[piece] + 2.0 * rest / (start + root))


def parse_load(text: str) -> LoadProfile:
    """Load of a text or a file.

    Parameters
    ----------
    text : str
        ``480rpm/30min`` (constant), ``trapezoid:120rpm,480rpm/38min``,
        ``0s=120rpm,5min=480rpm,9min=120rpm`` (linear between points), or a CSV file with the
        columns ``time_s`` and ``rate_rps`` or ``rate_rpm``.

    Returns
    -------
    LoadProfile
        In SI units.

    Raises
    ------
    UsageError
        If it is none of these.
    InputError
        If the file cannot be read.

    Examples
    --------
    >>> parse_load("trapezoid:120rpm,480rpm/38min").rates
    array([2., 2., 8., 8., 2., 2.])
    """
    if text.lower().endswith(".csv"):
        return read_load(Path(text))
    if "=" in text:
        points = [part.partition("=") for part in text.split(",")]
        times = [_start_or_duration(time) for time, _, _ in points]
        return LoadProfile(
            times=np.array(times), rates=np.array([parse_rate(rate) for _, _, rate in points])
        )
    match = re.fullmatch(r"(trapezoid:)?([^/]+?)(?:/([^/]+))?", text.strip())
    if match is None:
        raise UsageError(f"load {text!r} is unknown; write 480rpm/30min or a CSV file")
    duration = parse_duration(match[3]) if match[3] else DEFAULT_DURATION
    if match[1] is None:
        rate = parse_rate(match[2])
        return LoadProfile(times=np.array([0.0, duration]), rates=np.array([rate, rate]))
    rates = [parse_rate(part) for part in match[2].split(",")]
    if len(rates) != 2:
        raise UsageError(f"load {text!r}: a trapezoid has a low and a high rate: 120rpm,480rpm")
    low, high = rates
    return LoadProfile(
        times=duration * np.array(_TRAPEZOID),
        rates=np.array([low, low, high, high, low, low]),
    )


def _start_or_duration(text: str) -> float:
    return 0.0 if re.fullmatch(r"\s*0+(\.0*)?\s*(s|min|h)?\s*", text) else parse_duration(text)


def read_load(path: Path) -> LoadProfile:
    """Load of a CSV file.

    Parameters
    ----------
    path : pathlib.Path
        With the columns ``time_s`` and ``rate_rps`` or ``rate_rpm``.

    Returns
    -------
    LoadProfile
        In SI units; times count from the first row.

    Raises
    ------
    InputError
        If the file cannot be read, lacks a column or holds something else.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    reader = csv.DictReader(text.splitlines())
    names = reader.fieldnames or []
    rate_name = next((name for name in _RATE_COLUMNS if name in names), None)
    if rate_name is None or "time_s" not in names:
        raise InputError(f"{path}: the columns time_s and rate_rps (or rate_rpm) are needed")
    times, rates = [], []
    for number, row in enumerate(reader, start=2):
        try:
            times.append(float(row["time_s"]))
            rates.append(float(row[rate_name]) * _RATE_COLUMNS[rate_name])
        except (TypeError, ValueError):
            raise InputError(f"{path}:{number}: time and rate must be numbers") from None
    if not times:
        raise InputError(f"{path}: no rows")
    try:
        return LoadProfile(times=np.array(times) - times[0], rates=np.array(rates))
    except UsageError as error:
        raise InputError(f"{path}: {error}") from None
