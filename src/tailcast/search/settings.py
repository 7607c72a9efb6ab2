"""The ``[search]`` table of a study, and a study whose deployment is a space."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tailcast.catalog.accelerators import accelerator
from tailcast.errors import CapacityError, CatalogError, InputError, UsageError, near_name
from tailcast.risk.trial import Question
from tailcast.slo import Objective, parse_objective
from tailcast.study import SloTerms, posterior_name, read_study, slo_terms
from tailcast.workload.fields import Fields
from tailcast.workload.mapping import workload_from_mapping
from tailcast.workload.spec import Workload

_MOST = 20_000
"""Blocks, finalists or runs; numbers beyond it are slips."""

GOALS = ("cheapest", "pareto")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """How a space is searched.

    Parameters
    ----------
    space : mapping of str to tuple
        Values by axis.
    goal : str
        ``"cheapest"`` that meets the objectives, or the ``"pareto"`` front of cost, P(met) and
        capacity.
    prices : mapping of str to float
        Price of an accelerator an hour by catalogue name; cost is the number of accelerators where
        empty.
    rank : Objective or None
        Statistic that decides between candidates of one cost; the first latency objective where
        absent.
    zone : float
        Relative difference of it that does not matter.
    draws : int
        Blocks of one candidate in the race at most.
    confirm : int
        Fresh blocks of a finalist.
    finalists : int
        Candidates that may be confirmed.
    budget : float
        Share of the runs of an exhaustive search that the race may use.
    short_run : float
        Share of the requests in the first, cheap look; 1 for none.
    runs : int
        Runs pooled in each block; more than one where the long run is asked for.
    max_gpus : int or None
        Accelerators of a candidate at most.
    gpus : int or None
        Accelerators of a candidate, exactly.
    """

    space: Mapping[str, tuple[Any, ...]]
    goal: str = "cheapest"
    prices: Mapping[str, float] = field(default_factory=dict)
    rank: Objective | None = None
    zone: float = 0.02
    draws: int = 200
    confirm: int = 200
    finalists: int = 5
    budget: float = 0.15
    short_run: float = 0.25
    runs: int = 1
    max_gpus: int | None = None
    gpus: int | None = None

    def __post_init__(self) -> None:
        if self.goal not in GOALS:
            raise InputError(f"no goal {self.goal!r}; {near_name(self.goal, GOALS)}")
        for name, least in (("draws", 8), ("confirm", 8), ("finalists", 1), ("runs", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, got {getattr(self, name)!r}")
            if getattr(self, name) > _MOST:
                raise InputError(f"{name} must be at most {_MOST}, got {getattr(self, name)!r}")
        for name in ("budget", "short_run"):
            if not 0 < getattr(self, name) <= 1:
                raise InputError(f"{name} must lie in (0, 1], got {getattr(self, name)!r}")
        if not 0 <= self.zone < 1:
            raise InputError(f"zone must lie in [0, 1), got {self.zone!r}")

    @property
    def currency(self) -> str:
        """Unit of cost, for people."""
        return "$/h" if self.prices else "GPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchStudy:
    """A study with a space of deployments.

    Parameters
    ----------
    path : pathlib.Path
        Where it was read from.
    base : mapping
        The ``[deployment]`` table, which every candidate begins with.
    workload : Workload
        What arrives.
    terms : SloTerms
        Objectives and risk.
    posterior : str
        Name or folder, where the space has no axis for it.
    settings : SearchSettings
        How to search.
    measure : mapping
        The ``[measure]`` table as read.
    """

    path: Path
    base: Mapping[str, Any]
    workload: Workload
    terms: SloTerms
    posterior: str
    settings: SearchSettings
    measure: Mapping[str, Any]

    def question(self) -> Question:
        """What is asked of every block.

        Returns
        -------
        Question
            Objectives, classes and the ranking statistic.

        Raises
        ------
        UsageError
            If there is no such request class.
        """
        return Question(
            objectives=self.terms.objectives,
            groups=self.workload.group_names,
            headline=self.settings.rank,
        )


def load_search_study(path: Path) -> SearchStudy:
    """Read a study file that has a ``[search]`` table.

    Parameters
    ----------
    path : pathlib.Path
        TOML file.

    Returns
    -------
    SearchStudy
        Checked, but for the candidates themselves.

    Raises
    ------
    InputError
        If a table is missing, a key unknown or a value impossible.
    """
    tables = read_study(path)
    for name in ("workload", "slo", "search"):
        if name not in tables:
            raise InputError(f"{path}: table [{name}] is missing")
    try:
        terms = slo_terms(tables["slo"], f"{path} [slo]")
        if not terms.objectives:
            raise InputError(f'{path} [slo]: no objective; add for example "ttft.p99" = "300ms"')
        study = SearchStudy(
            path=path,
            base=tables.get("deployment", {}),
            workload=workload_from_mapping(
                tables["workload"], f"{path} [workload]", folder=path.parent
            ),
            terms=terms,
            posterior=posterior_name(tables.get("posterior", {}), path),
            settings=search_settings(tables["search"], f"{path} [search]", terms.horizon),
            measure=tables.get("measure", {}),
        )
        study.question()
        return study
    except (CatalogError, CapacityError, UsageError) as error:
        raise InputError(f"{path}: {error}") from error


def search_settings(
    table: Mapping[str, Any], where: str, horizon: str = "window"
) -> SearchSettings:
    """Settings of a ``[search]`` table.

    Parameters
    ----------
    table : mapping
        Keys of `SearchSettings`; ``space`` and ``prices`` are tables.
    where : str
        Place named in messages.
    horizon : str
        ``"process"`` pools 8 runs in each block unless ``runs`` says otherwise.

    Returns
    -------
    SearchSettings
        Checked.

    Raises
    ------
    InputError
        If a key is unknown or a value impossible.
    """
    fields = Fields(table, where)
    rank = fields.text("rank", None)
    settings = {
        "space": _space(fields.raw("space"), where),
        "prices": _prices(fields.table("prices")),
        "goal": fields.text("goal", "cheapest"),
        "rank": None if rank is None else parse_objective(f"{rank}=1s"),
        "runs": fields.whole("runs", 8 if horizon == "process" else 1),
        "max_gpus": fields.whole("max_gpus", None),
        "gpus": fields.whole("gpus", None),
    }
    for name in ("zone", "budget", "short_run"):
        settings[name] = fields.number(name, getattr(_DEFAULTS, name))
    for name in ("draws", "confirm", "finalists"):
        settings[name] = fields.whole(name, getattr(_DEFAULTS, name))
    fields.refuse_unused()
    try:
        return SearchSettings(**settings)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


_DEFAULTS = SearchSettings(space={})


def _space(value: Any, where: str) -> dict[str, tuple[Any, ...]]:
    if not isinstance(value, Mapping) or not value:
        raise InputError(f"{where}: the table [search.space] is missing; give values by axis")
    space = {}
    for axis, values in value.items():
        if not isinstance(values, list) or not values:
            raise InputError(f"{where} space: {axis} must be a list of values, got {values!r}")
        if len({repr(v) for v in values}) < len(values):
            raise InputError(f"{where} space: {axis} has a value twice")
        space[axis] = tuple(values)
    return space


def _prices(table: Fields | None) -> dict[str, float]:
    if table is None:
        return {}
    prices = {}
    for name in table.unused():
        price = table.number(name)
        if not price > 0:
            raise InputError(f"{table.where}: {name} must be positive ($/h), got {price!r}")
        own = accelerator(name).name
        if own in prices:
            raise InputError(f"{table.where}: {name} is {own}, which has a price already; keep one")
        prices[own] = price
    return prices
