"""A study: one TOML file with deployment, workload, objectives, posterior and search."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tailcast.artifacts import DEFAULT_POSTERIOR
from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.deployment import Deployment, EngineSettings
from tailcast.engine.point_model import MODES
from tailcast.errors import CapacityError, CatalogError, InputError, UsageError, near_name
from tailcast.slo import Objective, complete_objectives, parse_objective
from tailcast.toml_file import read_toml
from tailcast.workload.fields import Fields
from tailcast.workload.mapping import workload_from_mapping
from tailcast.workload.spec import Workload

_TABLES = ("deployment", "workload", "slo", "posterior", "search", "measure")

_POSTERIOR_KEYS = ("name", "mode", "conformal")

HORIZONS = ("window", "process")
"""What P(miss) is about: the statistic that the next run will show, or the long-run one."""

CURVES = ("rate", "target", "replicas")
"""What risk may be drawn over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What one question is about.

    Parameters
    ----------
    deployment : Deployment
        LLM, accelerator, parallelism, engine.
    workload : Workload
        Requests that arrive.
    objectives : tuple of Objective
        May be empty.
    risk : float
        Accepted P(miss).
    horizon : str
        One of `HORIZONS`; what the decision is about.
    curves : tuple of str
        Of `CURVES`; which risk curves are wanted.
    replicas : int
        Equal replicas that requests are dealt to in turn.
    posterior : str
        Name or folder of a posterior, or of a latency model without priors.
    mode : str or None
        Engine for a latency model without priors, ``vllm`` or ``blis``; its own where None.
    conformal : pathlib.Path, optional
        Evaluation of the posterior from which conformal intervals are wanted too.
    search : mapping
        The [search] table as read.
    measure : mapping
        The [measure] table as read.
    """

    deployment: Deployment
    workload: Workload
    objectives: tuple[Objective, ...] = ()
    risk: float = 0.05
    horizon: str = "window"
    curves: tuple[str, ...] = ("rate",)
    replicas: int = 1
    posterior: str = DEFAULT_POSTERIOR
    mode: str | None = None
    conformal: Path | None = None
    search: Mapping[str, Any] = field(default_factory=dict)
    measure: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SloTerms:
    """The ``[slo]`` table of a study.

    Parameters
    ----------
    objectives : tuple of Objective
        In the file's order.
    risk : float
        Accepted P(miss).
    horizon : str
        One of `HORIZONS`.
    curves : tuple of str
        Of `CURVES`.
    """

    objectives: tuple[Objective, ...] = ()
    risk: float = 0.05
    horizon: str = "window"
    curves: tuple[str, ...] = ("rate",)


def load_study(path: Path) -> Study:
    """Read a study file.

    Parameters
    ----------
    path : pathlib.Path
        TOML with the tables deployment and workload, and optionally slo, posterior, search.

    Returns
    -------
    Study
        Checked.

    Raises
    ------
    InputError
        If the file cannot be read, a table or key is unknown or a value impossible.
    """
    tables = read_study(path)
    for name in ("deployment", "workload"):
        if name not in tables:
            raise InputError(f"{path}: table [{name}] is missing")
    try:
        terms = slo_terms(tables.get("slo", {}), f"{path} [slo]")
        own, replicas = replicas_of(tables["deployment"], f"{path} [deployment]")
        return Study(
            deployment=deployment_from_mapping(own, f"{path} [deployment]"),
            workload=workload_from_mapping(
                tables["workload"], f"{path} [workload]", folder=path.parent
            ),
            objectives=terms.objectives,
            risk=terms.risk,
            horizon=terms.horizon,
            curves=terms.curves,
            replicas=replicas,
            posterior=posterior_name(tables.get("posterior", {}), path),
            mode=_mode(tables.get("posterior", {}), path),
            conformal=_conformal(tables.get("posterior", {}), path),
            search=tables.get("search", {}),
            measure=tables.get("measure", {}),
        )
    except (CatalogError, CapacityError, UsageError) as error:
        raise InputError(f"{path}: {error}") from error


def replicas_of(mapping: Mapping[str, Any], where: str) -> tuple[dict[str, Any], int]:
    """Take the number of replicas out of a ``[deployment]`` table.

    Parameters
    ----------
    mapping : mapping
        The table.
    where : str
        Place named in messages.

    Returns
    -------
    tuple
        The rest of the table, for `deployment_from_mapping`, and the replicas, 1 where not given.

    Raises
    ------
    InputError
        If it is no whole number of at least 1.
    """
    rest = dict(mapping)
    replicas = Fields({"replicas": rest.pop("replicas", 1)}, where).whole("replicas")
    if replicas < 1:
        raise InputError(f"{where}: replicas must be at least 1, got {replicas}")
    return rest, replicas


def read_study(path: Path) -> dict[str, Any]:
    """Tables of a study file, names checked, content not.

    Parameters
    ----------
    path : pathlib.Path
        TOML file.

    Returns
    -------
    dict
        By table name.

    Raises
    ------
    InputError
        If the file cannot be read or holds an unknown table.
    """
    content = read_toml(path)
    for name, table in content.items():
        if name not in _TABLES:
            raise InputError(f"{path}: unknown table [{name}]; {near_name(name, _TABLES)}")
        if not isinstance(table, dict):
            raise InputError(f"{path}: {name} must be a table [{name}], got {table!r}")
    return content


def deployment_from_mapping(mapping: Mapping[str, Any], where: str) -> Deployment:
    """Deployment described by the ``[deployment]`` table of a study.

    Parameters
    ----------
    mapping : mapping
        ``model gpu tensor_parallel data_parallel weights kv_dtype kv_blocks engine{...}``; engine
        settings are spelt as in vLLM and may stand in the table itself.
    where : str
        Place named in messages.

    Returns
    -------
    Deployment
        Checked.

    Raises
    ------
    InputError
        If a key is unknown or a value impossible.
    CatalogError, CapacityError
        If a name is unknown or the deployment cannot exist.
    """
    engine_names = tuple(EngineSettings.__dataclass_fields__)
    own = {"model", "gpu", "tensor_parallel", "data_parallel", "weights", "kv_dtype", "kv_blocks"}
    engine = dict(mapping.get("engine", {})) if isinstance(mapping.get("engine"), dict) else {}
    if "engine" in mapping and not isinstance(mapping["engine"], dict):
        raise InputError(f"{where}: engine must be a table, got {mapping['engine']!r}")
    for key, value in mapping.items():
        if key in engine_names and key != "name":
            engine[key] = value
        elif key not in own and key != "engine":
            raise InputError(
                f"{where}: unknown key {key!r}; {near_name(key, [*own, *engine_names])}"
            )
    for key in engine:
        if key not in engine_names:
            raise InputError(f"{where}: unknown engine key {key!r}; {near_name(key, engine_names)}")
    fields = Fields({k: v for k, v in mapping.items() if k in own}, where)
    try:
        return Deployment(
            llm=llm(fields.text("model")),
            accelerator=accelerator(fields.text("gpu")),
            tensor_parallel=fields.whole("tensor_parallel", 1),
            data_parallel=fields.whole("data_parallel", 1),
            weights=fields.text("weights", None),
            kv_dtype=fields.text("kv_dtype", "auto"),
            kv_blocks=fields.whole("kv_blocks", None),
            engine=EngineSettings(**engine),
        )
    except TypeError as error:
        raise InputError(f"{where}: {error}") from error


def slo_terms(table: Mapping[str, Any], where: str) -> SloTerms:
    """Objectives, risk and horizon of an ``[slo]`` table.

    Parameters
    ----------
    table : mapping
        ``risk horizon curves`` and objectives: ``"ttft.p99" = "300ms"``, ``goodput = 0.95``, or a
        table ``[slo.goodput]`` with ``share`` or ``rate`` and durations by metric.
    where : str
        Place named in messages.

    Returns
    -------
    SloTerms
        Checked.

    Raises
    ------
    InputError
        If a value is impossible.
    UsageError
        If an objective is malformed.
    """
    fields = Fields(table, where)
    risk = fields.number("risk", 0.05)
    if not 0 < risk < 1:
        raise InputError(f"{where}: risk must lie between 0 and 1, got {risk!r}")
    horizon = fields.text("horizon", "window")
    if horizon not in HORIZONS:
        raise InputError(f"{where}: no horizon {horizon!r}; {near_name(horizon, HORIZONS)}")
    curves = fields.raw("curves", ["rate"])
    for name in curves if isinstance(curves, list) else [curves]:
        if name not in CURVES:
            raise InputError(f"{where}: curves must be a list of {', '.join(CURVES)}, got {name!r}")
    texts = [
        f"{name}={target}"
        for key in fields.unused()
        for name, target in _flat(key, table[key], where)
    ]
    return SloTerms(
        objectives=complete_objectives([parse_objective(text) for text in texts]),
        risk=risk,
        horizon=horizon,
        curves=tuple(curves if isinstance(curves, list) else [curves]),
    )


def _flat(key: str, value: Any, where: str) -> list[tuple[str, Any]]:
    """``ttft.p99 = "300ms"`` is a nested table in TOML; a quoted key is flat."""
    goodput = key.startswith("goodput")
    if isinstance(value, dict) and goodput:
        return [_goodput_table(key, value, where)]
    flat = {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}
    for name, target in flat.items():
        number = goodput and isinstance(target, int | float) and not isinstance(target, bool)
        if not isinstance(target, str) and not number:
            raise InputError(
                f'{where}: {name} must be a duration in quotes such as "300ms", got {target!r}'
            )
    return list(flat.items())


def _goodput_table(key: str, value: Mapping[str, Any], where: str) -> tuple[str, Any]:
    rest = dict(value)
    targets = [rest.pop(name, None) for name in ("share", "rate")]
    if (targets[0] is None) == (targets[1] is None):
        raise InputError(f"{where} {key}: give either share = 0.95 or rate = 12 (requests/s)")
    each = ",".join(f"{metric}={seconds}" for metric, seconds in rest.items())
    target = targets[0] if targets[0] is not None else f"{targets[1]}/s"
    return f"goodput({each})" if each else "goodput", target


def posterior_name(table: Mapping[str, Any], path: Path) -> str:
    """Posterior that a study names.

    Parameters
    ----------
    table : mapping
        The ``[posterior]`` table.
    path : pathlib.Path
        The study; a folder with a slash is looked for beside it first.

    Returns
    -------
    str
        Name or folder; the shipped default where absent.

    Raises
    ------
    InputError
        If a key is unknown or the name no text.
    """
    for key in table:
        if key not in _POSTERIOR_KEYS:
            hint = near_name(key, _POSTERIOR_KEYS)
            raise InputError(f"{path} [posterior]: unknown key {key!r}; {hint}")
    name = table.get("name", DEFAULT_POSTERIOR)
    if not isinstance(name, str):
        raise InputError(f"{path} [posterior]: name must be a text, got {name!r}")
    beside = path.parent / name
    return str(beside) if "/" in name and beside.is_dir() else name


def _mode(table: Mapping[str, Any], path: Path) -> str | None:
    mode = table.get("mode")
    if mode is not None and mode not in MODES:
        raise InputError(f"{path} [posterior]: mode must be {' or '.join(MODES)}, got {mode!r}")
    return mode


def _conformal(table: Mapping[str, Any], path: Path) -> Path | None:
    """The evaluation that conformal intervals are wanted from; looked for beside the study."""
    given = table.get("conformal")
    if given is None:
        return None
    if not isinstance(given, str):
        raise InputError(
            f"{path} [posterior]: conformal must be the JSON of tailcast evaluate, got {given!r}"
        )
    return path.parent / given
