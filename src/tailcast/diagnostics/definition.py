"""What must hold before a posterior ships, in numbers; ``posteriors/DEFINITION.md`` says why."""

from collections.abc import Sequence
from dataclasses import dataclass

MAX_BYTES = 1_000_000
MAX_RHAT = 1.01
MAX_STORED_RHAT = 1.05
MIN_ESS = 400.0
MAX_DIVERGENT = 0.005
MAX_BELOW_FLOOR = 0
MAX_EMULATOR_RMSE = 2.0
MAX_EMULATOR_BIAS = 1.0
MAX_EMULATOR_MEAN_E2E = 0.02
MIN_PREDICTIVE_P = 0.002
MAX_BAD_KHAT = 0.1
UNIDENTIFIED = 0.8
"""Posterior over prior sd from which a coefficient counts as not identified."""
MAX_UNIDENTIFIED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One thing that must hold.

    Parameters
    ----------
    name : str
        What is demanded.
    passed : bool
        Whether it holds.
    found, limit : str
        What was found and what is asked for.
    note : str
        Which parameter, run or datum is to blame; empty where none is.
    """

    name: str
    passed: bool
    found: str
    limit: str
    note: str = ""


def at_most(name: str, value: float, limit: float, note: str = "") -> Requirement:
    """Demand that a number is small.

    Parameters
    ----------
    name : str
        What is demanded.
    value, limit : float
        Found and allowed; NaN fails.
    note : str
        Who is to blame.

    Returns
    -------
    Requirement
        Judged.
    """
    return Requirement(
        name=name,
        passed=bool(value <= limit),
        found=f"{value:.4g}",
        limit=f"at most {limit:g}",
        note=note,
    )


def at_least(name: str, value: float, limit: float, note: str = "") -> Requirement:
    """Demand that a number is large.

    Parameters
    ----------
    name : str
        What is demanded.
    value, limit : float
        Found and asked for; NaN fails.
    note : str
        Who is to blame.

    Returns
    -------
    Requirement
        Judged.
    """
    return Requirement(
        name=name,
        passed=bool(value >= limit),
        found=f"{value:.4g}",
        limit=f"at least {limit:g}",
        note=note,
    )


def holds(name: str, passed: bool, found: str, limit: str, note: str = "") -> Requirement:
    """Demand that something is so.

    Parameters
    ----------
    name : str
        What is demanded.
    passed : bool
        Whether it is.
    found, limit : str
        What was found and what is asked for.
    note : str
        Who is to blame.

    Returns
    -------
    Requirement
        Judged.
    """
    return Requirement(name=name, passed=passed, found=found, limit=limit, note=note)


def failures(requirements: Sequence[Requirement]) -> list[Requirement]:
    """Requirements that do not hold.

    Parameters
    ----------
    requirements : sequence of Requirement
        Judged.

    Returns
    -------
    list of Requirement
        Empty where the posterior may ship.
    """
    return [r for r in requirements if not r.passed]
