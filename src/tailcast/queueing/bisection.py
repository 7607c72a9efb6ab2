"""Bisection of a monotone function, with the source's tolerances and indicators."""

import math
from collections.abc import Callable
from typing import Literal

from tailcast.errors import UsageError

REL_TOL = 1e-6
MAX_HALVINGS = 100

Side = Literal[-1, 0, 1]


def _reached(value: float, target: float) -> bool:
    if value == target:
        return True
    return target != 0 and abs((value - target) / target) <= REL_TOL


def bisect(
    function: Callable[[float], float], low: float, high: float, target: float
) -> tuple[float, Side]:
    """Argument at which a monotone function reaches a target.

    Parameters
    ----------
    function : callable
        Rising or falling over the whole range; the ends decide which.
    low, high : float
        Range searched.
    target : float
        Value wanted, to a relative tolerance of 1e-6.

    Returns
    -------
    argument : float
        Where the target is reached, or the end of the range nearest to it.
    side : {-1, 0, 1}
        -1 if the target lies before the value at `low`, 1 if beyond that at `high`, else 0.

    Raises
    ------
    UsageError
        If the range is reversed or the function is not finite at an end.

    Examples
    --------
    >>> bisect(lambda x: 2 * x, 1.0, 5.0, 6.0)
    (3.0, 0)
    """
    if low > high:
        raise UsageError(f"bisection: range is reversed, from {low!r} to {high!r}")
    first, last = function(low), function(high)
    if not (math.isfinite(first) and math.isfinite(last)):
        raise UsageError(f"bisection: function is not finite on the range {low!r} to {high!r}")
    for argument, value in ((low, first), (high, last)):
        if _reached(value, target):
            return argument, 0
    rising = first < last
    if (target < first) if rising else (target > first):
        return low, -1
    if (target > last) if rising else (target < last):
        return high, 1
    middle = low
    for _ in range(MAX_HALVINGS):
        middle = 0.5 * (low + high)
        value = function(middle)
        if _reached(value, target):
            break
        if (target < value) if rising else (target > value):
            high = middle
        else:
            low = middle
    return middle, 0
