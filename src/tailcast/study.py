"""A study: one TOML file with deployment, workload, objectives, posterior and search."""

import tomllib
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
from tailcast.slo import Objective, parse_objective
from tailcast.workload.fields import Fields
from tailcast.workload.mapping import workload_from_mapping
from tailcast.workload.spec import Workload

_TABLES = ("deployment", "workload", "slo", "posterior", "search")


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
    posterior : str
        Name or folder of a posterior, or of a latency model without priors.
    mode : str or None
        Engine for a latency model without priors, ``vllm`` or ``blis``; its own where None.
    search : mapping
        The [search] table as read.
    """

    deployment: Deployment
    workload: Workload
    objectives: tuple[Objective, ...] = ()
    risk: float = 0.05
    posterior: str = DEFAULT_POSTERIOR
    mode: str | None = None
    search: Mapping[str, Any] = field(default_factory=dict)


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
        objectives, risk = _objectives(tables.get("slo", {}), path)
        return Study(
            deployment=deployment_from_mapping(tables["deployment"], f"{path} [deployment]"),
            workload=workload_from_mapping(
                tables["workload"], f"{path} [workload]", folder=path.parent
            ),
            objectives=objectives,
            risk=risk,
            posterior=_posterior(tables.get("posterior", {}), path),
            mode=_mode(tables.get("posterior", {}), path),
            search=tables.get("search", {}),
        )
    except (CatalogError, CapacityError, UsageError) as error:
        raise InputError(f"{path}: {error}") from error


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
    try:
        content = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid TOML: {error}") from error
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


def _objectives(table: Mapping[str, Any], path: Path) -> tuple[tuple[Objective, ...], float]:
    risk = 0.05
    objectives = []
    for key, value in table.items():
        if key == "risk":
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
                raise InputError(f"{path} [slo]: risk must lie between 0 and 1, got {value!r}")
            risk = float(value)
            continue
        for name, target in _flat(key, value):
            if not isinstance(target, str):
                raise InputError(
                    f"{path} [slo]: {name} must be a duration in quotes such as "
                    f'"300ms", got {target!r}'
                )
            objectives.append(parse_objective(f"{name}={target}"))
    return tuple(objectives), risk


def _flat(key: str, value: Any) -> list[tuple[str, Any]]:
    """``ttft.p99 = "300ms"`` is a nested table in TOML; a quoted key is flat."""
    if isinstance(value, dict):
        return [(f"{key}.{inner}", target) for inner, target in value.items()]
    return [(key, value)]


def _posterior(table: Mapping[str, Any], path: Path) -> str:
    for key in table:
        if key not in {"name", "mode"}:
            hint = near_name(key, ("name", "mode"))
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
