"""Candidates: the product of the axes, without the combinations that cannot exist."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tailcast.deployment import EngineSettings
from tailcast.errors import CapacityError, CatalogError, InputError, UsageError, near_name
from tailcast.risk.fleet import Fleet
from tailcast.search.settings import SearchSettings, SearchStudy
from tailcast.study import deployment_from_mapping

_MOST = 1_000_000
_OWN_AXES = (
    "model",
    "gpu",
    "tensor_parallel",
    "data_parallel",
    "weights",
    "kv_dtype",
    "kv_blocks",
    "replicas",
    "posterior",
)
_LATER_AXES = ("routing", "admission")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One point of the space.

    Parameters
    ----------
    values : mapping of str to object
        Value by axis.
    fleet : Fleet
        What it is.
    posterior : str
        What it is predicted by.
    cost : float
        Accelerators, or their price an hour.
    """

    values: Mapping[str, Any]
    fleet: Fleet
    posterior: str
    cost: float

    @property
    def label(self) -> str:
        """Its values by axis, for people."""
        return ", ".join(f"{axis} {value}" for axis, value in self.values.items())

    @property
    def key(self) -> str:
        """What its outcomes are stored under: everything that a simulation depends on."""
        d = self.fleet.deployment
        parts = (
            d.llm.name,
            d.accelerator.name,
            d.tensor_parallel,
            d.data_parallel,
            d.weights,
            d.kv_dtype,
            d.kv_blocks,
            d.engine,
            self.fleet.replicas,
            self.posterior,
        )
        return "|".join(map(repr, parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Candidates and what was left out.

    Parameters
    ----------
    candidates : tuple of Candidate
        In the order of the axes, the last one fastest.
    invalid : mapping of str to int
        Combinations that cannot exist, counted by reason, the commonest first.
    """

    candidates: tuple[Candidate, ...]
    invalid: Mapping[str, int]

    @property
    def n_invalid(self) -> int:
        """Combinations that cannot exist."""
        return sum(self.invalid.values())


def build_space(study: SearchStudy) -> Space:
    """Every combination of the axes, checked.

    Parameters
    ----------
    study : SearchStudy
        With its base deployment.

    Returns
    -------
    Space
        Candidates, and reasons for what is none.

    Raises
    ------
    InputError
        If an axis is unknown or not simulated yet, a price is missing, or nothing is left.
    """
    settings = study.settings
    _check_axes(settings, study)
    n = math.prod(len(values) for values in settings.space.values())
    if n > _MOST:
        raise InputError(f"{study.path} [search.space]: {n} combinations, at most {_MOST}")
    candidates: list[Candidate] = []
    invalid: Counter[str] = Counter()
    known: set[str] = set()
    for values in _combinations(settings.space):
        try:
            candidate = _candidate(values, study)
        except (CapacityError, CatalogError, UsageError) as error:
            invalid[str(error)] += 1
            continue
        if candidate.key in known:
            invalid["is another combination under another name"] += 1
            continue
        known.add(candidate.key)
        candidates.append(candidate)
    if not candidates:
        reason = invalid.most_common(1)[0][0]
        raise InputError(
            f"{study.path} [search.space]: none of {n} combinations can exist; mostly: {reason}"
        )
    return Space(candidates=tuple(candidates), invalid=dict(invalid.most_common()))


def _combinations(space: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    for chosen in itertools.product(*space.values()):
        yield dict(zip(space, chosen, strict=True))


def _check_axes(settings: SearchSettings, study: SearchStudy) -> None:
    engine = [name for name in EngineSettings.__dataclass_fields__ if name != "name"]
    known = (*_OWN_AXES, *engine)
    for axis in settings.space:
        if axis in _LATER_AXES:
            raise InputError(
                f"{study.path} [search.space]: {axis} is not simulated yet; replicas are given "
                "requests in turn, so leave it out"
            )
        if axis not in known:
            raise InputError(
                f"{study.path} [search.space]: no axis {axis!r}; {near_name(axis, known)}"
            )


def _candidate(values: dict[str, Any], study: SearchStudy) -> Candidate:
    settings = study.settings
    where = f"{study.path} [search.space]"
    table = {**study.base, **values}
    posterior = table.pop("posterior", study.posterior)
    replicas = table.pop("replicas", 1)
    if not isinstance(posterior, str):
        raise InputError(f"{where}: posterior must be text, got {posterior!r}")
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 1:
        raise InputError(f"{where}: replicas must be whole numbers from 1 on, got {replicas!r}")
    both = f"{study.path} [deployment] with [search.space]"
    fleet = Fleet(deployment=deployment_from_mapping(table, both), replicas=replicas)
    n = fleet.n_accelerators
    if settings.max_gpus is not None and n > settings.max_gpus:
        raise UsageError(f"needs {n} accelerators, more than max_gpus = {settings.max_gpus}")
    if settings.gpus is not None and n != settings.gpus:
        raise UsageError(f"has {n} accelerators, not gpus = {settings.gpus}")
    name = fleet.deployment.accelerator.name
    if settings.prices and name not in settings.prices:
        raise InputError(f"{study.path} [search.prices]: no price for {name}; add it ($/h)")
    return Candidate(
        values=values,
        fleet=fleet,
        posterior=posterior,
        cost=n * settings.prices[name] if settings.prices else float(n),
    )
