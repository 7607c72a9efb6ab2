"""SI inside, ``300ms`` outside: parsing and printing of durations."""

import math
import re

from tailcast.errors import UsageError

_SECONDS_BY_SUFFIX = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_DURATION = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\s*([a-zµ]*)\s*", re.IGNORECASE)


def parse_duration(text: str) -> float:
    """Seconds meant by a duration such as ``300ms``, ``2s`` or ``1.5min``.

    Parameters
    ----------
    text : str
        Number with a unit: ns, us, ms, s, min or h. A bare number is refused.

    Returns
    -------
    float
        Seconds, greater than zero.

    Raises
    ------
    UsageError
        If there is no unit, an unknown one, or the value is not positive and finite.

    Examples
    --------
    >>> parse_duration("300ms")
    0.3
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UsageError(f"duration {text!r} is not a number with a unit; write for example 300ms")
    number, suffix = match[1], match[2].lower().replace("µ", "u")
    if not suffix:
        raise UsageError(
            f"duration {text!r} has no unit; write {text.strip()}ms or {text.strip()}s"
        )
    if suffix not in _SECONDS_BY_SUFFIX:
        raise UsageError(
            f"duration {text!r} has the unknown unit {suffix!r}; use ns, us, ms, s, min or h"
        )
    seconds = float(number) * _SECONDS_BY_SUFFIX[suffix]
    if not (seconds > 0 and math.isfinite(seconds)):
        raise UsageError(f"duration {text!r} must be positive and finite")
    return seconds


def format_duration(seconds: float) -> str:
    """Duration for people: three significant digits in us, ms or s.

    Parameters
    ----------
    seconds : float
        Duration in seconds.

    Returns
    -------
    str
        For example ``"41.3 ms"``; ``"n/a"`` where there is no number.

    Examples
    --------
    >>> format_duration(0.0413)
    '41.3 ms'
    """
    if math.isnan(seconds):
        return "n/a"
    if math.isinf(seconds):
        return "inf" if seconds > 0 else "-inf"
    size = abs(seconds)
    if size < 1e-3:
        return f"{_three(seconds * 1e6)} us"
    if size < 1.0:
        return f"{_three(seconds * 1e3)} ms"
    return f"{_three(seconds)} s"


def _three(value: float) -> str:
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"
