"""Units of the field at the edge: rates per second or minute, three numbers as durations."""

import math
import re

from tailcast.errors import UsageError
from tailcast.queueing.server import ThreeNumbers, TwoLines
from tailcast.queueing.sizing import Targets
from tailcast.units import parse_duration

_PER_SECOND = {"": 1.0, "rps": 1.0, "/s": 1.0, "rpm": 1.0 / 60.0, "/min": 1.0 / 60.0}
_NUMBER = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\s*(\S*)\s*", re.IGNORECASE)


def parse_rate(text: str) -> float:
    """Requests/s meant by a rate such as ``8``, ``8rps`` or ``480rpm``.

    Parameters
    ----------
    text : str
        Number, with rps, rpm, /s or /min; without a unit it is per second.

    Returns
    -------
    float
        Requests per second, greater than zero.

    Raises
    ------
    UsageError
        If it is not a positive number with such a unit.

    Examples
    --------
    >>> parse_rate("480rpm")
    8.0
    """
    match = _NUMBER.fullmatch(text)
    if match is None or match[2].lower() not in _PER_SECOND:
        raise UsageError(f"rate {text!r} is not a number of requests; write 8rps or 480rpm")
    rate = float(match[1]) * _PER_SECOND[match[2].lower()]
    if not (rate > 0 and math.isfinite(rate)):
        raise UsageError(f"rate {text!r} must be positive and finite")
    return rate


def parse_three_numbers(text: str) -> ThreeNumbers:
    """Three numbers of a text such as ``6.7ms,20us,55ns``.

    Parameters
    ----------
    text : str
        Durations alpha, beta, gamma.

    Returns
    -------
    ThreeNumbers
        In seconds.

    Raises
    ------
    UsageError
        If there are not three durations.

    Examples
    --------
    >>> parse_three_numbers("8ms,33us,333ns").alpha
    0.008
    """
    parts = text.split(",")
    if len(parts) != 3:
        raise UsageError(
            f"three numbers {text!r}: alpha, beta and gamma are needed; write 6.7ms,20us,55ns"
        )
    alpha, beta, gamma = (parse_duration(part) for part in parts)
    return ThreeNumbers(alpha=alpha, beta=beta, gamma=gamma)


def parse_two_lines(text: str) -> TwoLines:
    """Two lines of a text such as ``7ms,10us,20ms,1us``.

    Parameters
    ----------
    text : str
        Durations: base and slope of decode, base and slope of prefill.

    Returns
    -------
    TwoLines
        In seconds.

    Raises
    ------
    UsageError
        If there are not four durations.
    """
    parts = text.split(",")
    if len(parts) != 4:
        raise UsageError(
            f"two lines {text!r}: work model V0 needs base and slope of decode, then of prefill; "
            "write 7ms,10us,20ms,1us"
        )
    decode_base, decode_slope, prefill_base, prefill_slope = (parse_duration(p) for p in parts)
    return TwoLines(
        decode_base=decode_base,
        decode_slope=decode_slope,
        prefill_base=prefill_base,
        prefill_slope=prefill_slope,
    )


def parse_targets(texts: list[str]) -> Targets:
    """Targets on means of texts such as ``ttft.mean=60ms`` or ``tps=500``.

    Parameters
    ----------
    texts : list of str
        The chain knows means only, so ``ttft=60ms`` means the same.

    Returns
    -------
    Targets
        In SI units.

    Raises
    ------
    UsageError
        If the metric, the statistic or the value is unknown, or a metric is given twice.
    """
    values: dict[str, float] = {}
    for text in texts:
        name, found, value = text.partition("=")
        metric, _, stat = name.strip().lower().partition(".")
        if not found or metric not in ("ttft", "itl", "tps"):
            raise UsageError(f"target {text!r} is unknown; write ttft=60ms, itl=20ms or tps=500")
        if stat not in ("", "mean"):
            raise UsageError(
                f"target {text!r}: the chain knows means only; for {stat} use 'tailcast slo'"
            )
        if metric in values:
            raise UsageError(f"target {metric} is given twice")
        values[metric] = _tokens_per_second(value) if metric == "tps" else parse_duration(value)
    return Targets(**values)


def _tokens_per_second(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"target tps={text!r} is not a number of tokens per second") from None
    if not (value > 0 and math.isfinite(value)):
        raise UsageError(f"target tps={text!r} must be positive and finite")
    return value
