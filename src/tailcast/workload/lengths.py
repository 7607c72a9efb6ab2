"""How long prompts and outputs are, in tokens."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError

_MAX_TOKENS = 100_000_000


class LengthLaw(Protocol):
    """What every law of lengths offers."""

    def tokens(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        """Draw lengths.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.
        n : int
            Number of lengths.

        Returns
        -------
        ndarray of int, shape (n,)
            Lengths in tokens, at least 1.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """Always the same length.

    Parameters
    ----------
    value : int
        Tokens, at least 1.
    """

    value: int

    def __post_init__(self) -> None:
        _check_tokens("length", self.value)

    def tokens(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        """Repeat the value.

        Parameters
        ----------
        rng : numpy.random.Generator
            Not read.
        n : int
            Number of lengths.

        Returns
        -------
        ndarray of int, shape (n,)
            Lengths in tokens.
        """
        return np.full(n, self.value, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    """Every whole length from minimum to maximum is equally likely.

    Parameters
    ----------
    minimum, maximum : int
        Tokens, both included.
    """

    minimum: int
    maximum: int

    def __post_init__(self) -> None:
        _check_bounds(self.minimum, self.maximum)

    def tokens(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        """Draw lengths; one uniform number each.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.
        n : int
            Number of lengths.

        Returns
        -------
        ndarray of int, shape (n,)
            Lengths in tokens.
        """
        span = self.maximum - self.minimum + 1
        return self.minimum + np.floor(rng.random(n) * span).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNormal:
    """Log-normal length, clamped to the bounds and rounded.

    Parameters
    ----------
    median : float
        Tokens; the mean before clamping is ``median * exp(sigma**2 / 2)``.
    sigma : float
        Standard deviation of the natural logarithm.
    minimum, maximum : int
        Bounds in tokens.
    """

    median: float
    sigma: float
    minimum: int = 1
    maximum: int = _MAX_TOKENS

    def __post_init__(self) -> None:
        _check_positive("median", self.median)
        _check_not_negative("sigma", self.sigma)
        _check_bounds(self.minimum, self.maximum)

    def tokens(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        """Draw lengths; one normal number each.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.
        n : int
            Number of lengths.

        Returns
        -------
        ndarray of int, shape (n,)
            Lengths in tokens.
        """
        log = math.log(self.median) + self.sigma * rng.standard_normal(n)
        values = np.exp(np.minimum(log, math.log(_MAX_TOKENS)))
        return _clamped(values, self.minimum, self.maximum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian:
    """Normal length, clamped to the bounds and rounded, as BLIS draws it.

    Parameters
    ----------
    mean, sd : float
        Tokens, before clamping.
    minimum, maximum : int
        Bounds in tokens.
    """

    mean: float
    sd: float
    minimum: int = 1
    maximum: int = _MAX_TOKENS

    def __post_init__(self) -> None:
        _check_positive("mean", self.mean)
        _check_not_negative("sd", self.sd)
        _check_bounds(self.minimum, self.maximum)

    def tokens(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        """Draw lengths; one normal number each.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.
        n : int
            Number of lengths.

        Returns
        -------
        ndarray of int, shape (n,)
            Lengths in tokens.
        """
        values = self.mean + self.sd * rng.standard_normal(n)
        return _clamped(values, self.minimum, self.maximum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Empirical:
    """One of the observed lengths.

    Parameters
    ----------
    values : tuple of float
        Whole numbers of tokens, at least 1 each.
    weights : tuple of float, optional
        Relative frequency of each value; equal where absent.
    """

    values: tuple[float, ...]
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.values:
            raise InputError("empirical lengths need at least one value")
        array = np.asarray(self.values, dtype=np.float64)
        bad = ~((array >= 1) & (array <= _MAX_TOKENS) & (array == np.floor(array)))
        if bad.any():
            index = int(np.flatnonzero(bad)[0])
            raise InputError(
                f"empirical length {index} must be a whole number of 1 to {_MAX_TOKENS} tokens, "
                f"got {self.values[index]!r:.40}"
            )
        if self.weights is None:
            return
        if len(self.weights) != len(self.values):
            raise InputError(
                f"{len(self.values)} empirical lengths but {len(self.weights)} weights"
            )
        weights = np.asarray(self.weights, dtype=np.float64)
        if not (np.all(np.isfinite(weights)) and np.all(weights >= 0) and weights.sum() > 0):
            raise InputError("weights must be finite, not negative, and not all zero")

    def rows(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        """Draw positions in `values`; one uniform number each.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.
        n : int
            Number of positions.

        Returns
        -------
        ndarray of int, shape (n,)
            Positions from 0.
        """
        uniform = rng.random(n)
        if self.weights is None:
            return np.floor(uniform * len(self.values)).astype(np.int64)
        edges = np.cumsum(np.asarray(self.weights, dtype=np.float64))
        return np.searchsorted(edges / edges[-1], uniform, side="right").astype(np.int64)

    def tokens(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        """Draw lengths; one uniform number each.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.
        n : int
            Number of lengths.

        Returns
        -------
        ndarray of int, shape (n,)
            Lengths in tokens.
        """
        return np.asarray(self.values, dtype=np.int64)[self.rows(rng, n)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Bell-shaped set of lengths with a known mean, minimum and maximum.

    The n lengths are the normal scores of 1..n, stretched to the bounds, bent by a power so that
    their mean is the asked one, rounded, and put in random order: only the order is random.

    Parameters
    ----------
    mean : float
        Tokens.
    minimum, maximum : int
        Tokens; both occur when n is at least 2.
    """

    mean: float
    minimum: int
    maximum: int

    def __post_init__(self) -> None:
        _check_bounds(self.minimum, self.maximum)
        if not self.minimum <= self.mean <= self.maximum:
            raise InputError(
                f"measured mean {self.mean!r} is not within {self.minimum}..{self.maximum}"
            )

    def tokens(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        """Set of lengths in random order.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of the order.
        n : int
            Number of lengths.

        Returns
        -------
        ndarray of int, shape (n,)
            Lengths in tokens.
        """
        if n < 3 or self.minimum == self.maximum:
            return np.full(n, round(self.mean), dtype=np.int64)
        from statistics import NormalDist  # loads decimal and random

        normal = NormalDist()
        scores = np.array([normal.inv_cdf((i + 0.5) / n) for i in range(n)])
        unit = (scores - scores[0]) / (scores[-1] - scores[0])
        target = (self.mean - self.minimum) / (self.maximum - self.minimum)
        low, high = 1e-3, 1e3
        for _ in range(100):
            power = math.sqrt(low * high)
            if float(np.mean(unit**power)) > target:
                low = power
            else:
                high = power
        bent = self.minimum + (self.maximum - self.minimum) * unit**power
        return rng.permutation(np.rint(bent).astype(np.int64))


def _clamped(values: NDArray[np.float64], minimum: int, maximum: int) -> NDArray[np.int64]:
    return np.rint(np.clip(values, minimum, maximum)).astype(np.int64)


def _check_tokens(name: str, value: float) -> None:
    if not (1 <= value <= _MAX_TOKENS and value == int(value)):
        raise InputError(
            f"{name} must be a whole number of 1 to {_MAX_TOKENS} tokens, got {value!r:.40}"
        )


def _check_bounds(minimum: float, maximum: float) -> None:
    _check_tokens("minimum length", minimum)
    _check_tokens("maximum length", maximum)
    if minimum > maximum:
        raise InputError(f"minimum length {minimum!r} is above the maximum {maximum!r}")


def _check_positive(name: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise InputError(f"{name} length must be positive and finite, got {value!r}")


def _check_not_negative(name: str, value: float) -> None:
    if not (value >= 0 and math.isfinite(value)):
        raise InputError(f"{name} of lengths must be finite and not negative, got {value!r}")
