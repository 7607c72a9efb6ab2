"""The ``[workload]`` table of a study file."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tailcast.errors import InputError, near_name
from tailcast.workload.arrivals import Arrivals, Stage
from tailcast.workload.csv_file import CsvFile
from tailcast.workload.fields import Fields, placed
from tailcast.workload.lengths import (
    Constant,
    Empirical,
    Gaussian,
    LengthLaw,
    LogNormal,
    Uniform,
)
from tailcast.workload.presets import preset_table
from tailcast.workload.spec import (
    Concurrency,
    RepeatedPrompts,
    RequestClass,
    Session,
    SharedPrefix,
    Workload,
)

_LAWS = ("constant", "uniform", "lognormal", "gaussian", "empirical")


def workload_from_mapping(
    mapping: Mapping[str, Any], where: str, *, folder: Path | None = None
) -> Workload:
    """Workload described by the ``[workload]`` table of a study.

    Parameters
    ----------
    mapping : mapping
        Keys ``preset name rate duration stages n_requests arrivals concurrency classes`` and, for
        a single class, ``input_tokens output_tokens lengths prefix repeat session priority
        timeout``. What the table says itself wins over its preset.
    where : str
        Place named in messages, for example ``"study.toml [workload]"``.
    folder : pathlib.Path, optional
        Folder that files of empirical lengths are relative to; the current one where absent.

    Returns
    -------
    Workload
        Checked; its ``notes`` say what was assumed.

    Raises
    ------
    InputError
        If a key is unknown or a value impossible.
    CatalogError
        If the preset is unknown.

    Examples
    --------
    >>> spec = workload_from_mapping({"preset": "chatbot", "rate": 2}, "[workload]")
    >>> spec.notes[0]
    'Arrivals are assumed Poisson; say arrivals = ... if they are burstier.'
    """
    fields = _with_preset(Fields(mapping, where))
    classes = _classes(fields, folder)
    spec = {
        "classes": classes,
        "stages": _stages(fields),
        "arrivals": arrivals_from(fields),
        "concurrency": _concurrency(fields),
        "n_requests": fields.whole("n_requests", None),
        "name": fields.text("name", "workload"),
    }
    fields.refuse_unused()
    if not spec["stages"] and spec["concurrency"] is None:
        raise InputError(f"{where}: no load given; say rate = ... or concurrency = ...")
    return placed(where, Workload, **spec)


def length_law(fields: Fields, key: str, folder: Path | None = None) -> LengthLaw:
    """Length law under one key: a whole number, or a table with its law.

    Parameters
    ----------
    fields : Fields
        Table that holds the key.
    key : str
        For example ``"input_tokens"``.
    folder : pathlib.Path, optional
        Folder that files are relative to.

    Returns
    -------
    LengthLaw
        Checked law.

    Raises
    ------
    InputError
        If the value is neither.
    """
    value = fields.raw(key)
    if not isinstance(value, Mapping):
        return placed(f"{fields.where} {key}", Constant, value=fields.whole(key))
    table = fields.nested(value, key)
    name = table.text("law").lower().replace("-", "")
    if name not in _LAWS:
        raise InputError(f"{table.where}: no length law {name!r}; {near_name(name, _LAWS)}")
    law = _law(name, table, folder)
    table.refuse_unused()
    return law


def arrivals_from(fields: Fields) -> Arrivals | None:
    """Arrival process under the key ``arrivals``: its name, or a table with ``process`` and ``cv``.

    Parameters
    ----------
    fields : Fields
        Table that may hold the key.

    Returns
    -------
    Arrivals or None
        None where the key is absent.
    """
    value = fields.raw("arrivals")
    if value is None:
        return None
    where = f"{fields.where} arrivals"
    if not isinstance(value, Mapping):
        return placed(where, Arrivals, process=fields.text("arrivals"))
    table = fields.nested(value, "arrivals")
    arrivals = placed(where, Arrivals, process=table.text("process"), cv=table.number("cv", None))
    table.refuse_unused()
    return arrivals


def _with_preset(fields: Fields) -> Fields:
    """Table with the values of its preset under its own."""
    name = fields.text("preset", None)
    if name is None:
        return fields
    if "classes" in fields:
        raise InputError(f"{fields.where}: a preset is one class; name presets within the classes")
    preset = preset_table(name)
    if "lengths" in fields:
        preset.pop("input_tokens", None)
        preset.pop("output_tokens", None)
    if "session" in fields:
        preset.pop("repeat", None)
    if "concurrency" in fields:
        preset.pop("arrivals", None)
    merged = fields.over(preset)
    merged.raw("preset")
    return merged


def _stages(fields: Fields) -> tuple[Stage, ...]:
    tables = fields.tables("stages")
    rate, duration = fields.number("rate", None), fields.duration("duration", None)
    if tables and (rate is not None or duration is not None):
        raise InputError(f"{fields.where}: give stages or a rate, not both")
    if rate is None and duration is not None:
        raise InputError(f"{fields.where}: a duration needs a rate")
    stages = []
    for table in tables:
        stages.append(
            placed(
                table.where,
                Stage,
                rate=table.number("rate"),
                duration=table.duration("duration"),
            )
        )
        table.refuse_unused()
    if rate is not None:
        stages.append(placed(fields.where, Stage, rate=rate, duration=duration))
    return tuple(stages)


def _concurrency(fields: Fields) -> Concurrency | None:
    value = fields.raw("concurrency")
    if value is None:
        return None
    where = f"{fields.where} concurrency"
    if not isinstance(value, Mapping):
        return placed(where, Concurrency, users=fields.whole("concurrency"))
    table = fields.nested(value, "concurrency")
    loop = placed(
        where,
        Concurrency,
        users=table.whole("users"),
        think_time=table.duration("think_time", 0.0),
        ramp=table.duration("ramp", 0.0),
    )
    table.refuse_unused()
    return loop


def _classes(fields: Fields, folder: Path | None) -> tuple[RequestClass, ...]:
    tables = fields.tables("classes")
    if not tables:
        return (_class(fields, folder, {}),)
    both = [key for key in ("input_tokens", "output_tokens", "lengths") if key in fields]
    if both:
        raise InputError(f"{fields.where}: {both[0]} belongs into each of the classes")
    classes = []
    for item in tables:
        item.text("name")  # a preset's own name is not the class's
        table = _with_preset(item)
        table.raw("arrivals")  # of a preset; the whole workload has one law of arrivals
        if "arrivals" in item:
            raise InputError(f"{item.where}: arrivals belong to the whole workload")
        own = {"name": table.text("name"), "weight": table.number("weight", 1.0)}
        classes.append(_class(table, folder, own))
        table.refuse_unused()
    return tuple(classes)


def _class(fields: Fields, folder: Path | None, own: dict[str, Any]) -> RequestClass:
    paired = _paired_lengths(fields, folder)
    if paired is None:
        for key in ("input_tokens", "output_tokens"):
            if key not in fields:
                raise InputError(f"{fields.where}: {key} is missing (or name a preset)")
        laws = (
            length_law(fields, "input_tokens", folder),
            length_law(fields, "output_tokens", folder),
        )
    elif "input_tokens" in fields or "output_tokens" in fields:
        raise InputError(f"{fields.where}: lengths already give input_tokens and output_tokens")
    return placed(
        fields.where,
        RequestClass,
        input_tokens=(paired or laws)[0],
        output_tokens=(paired or laws)[1],
        paired_lengths=paired is not None,
        prefix=_prefix(fields.table("prefix")),
        repeat=_repeat(fields.table("repeat")),
        session=_session(fields.table("session"), folder),
        priority=fields.whole("priority", 0),
        timeout=fields.duration("timeout", math.inf),
        **own,
    )


def _paired_lengths(fields: Fields, folder: Path | None) -> tuple[Empirical, Empirical] | None:
    table = fields.table("lengths")
    if table is None:
        return None
    path = (folder or Path()) / table.text("file")
    columns = (table.text("input_column"), table.text("output_column"))
    table.refuse_unused()
    first, second = _file_columns(path, columns)
    return (
        placed(table.where, Empirical, values=first),
        placed(table.where, Empirical, values=second),
    )


def _prefix(table: Fields | None) -> SharedPrefix | None:
    if table is None:
        return None
    tokens, groups = table.whole("tokens"), table.whole("groups", 1)
    table.refuse_unused()
    return placed(table.where, SharedPrefix, tokens=tokens, groups=groups)


def _repeat(table: Fields | None) -> RepeatedPrompts | None:
    if table is None:
        return None
    distinct, order = table.whole("distinct"), table.text("order", "cycled")
    table.refuse_unused()
    return placed(table.where, RepeatedPrompts, distinct=distinct, order=order)


def _session(table: Fields | None, folder: Path | None) -> Session | None:
    if table is None:
        return None
    session = placed(
        table.where,
        Session,
        turns=length_law(table, "turns", folder),
        think_time=table.duration("think_time", 0.0),
        think_law=table.text("think_law", "exponential"),
        history=table.flag("history", True),
    )
    table.refuse_unused()
    return session


def _law(name: str, table: Fields, folder: Path | None) -> LengthLaw:
    where = table.where
    if name == "constant":
        return placed(where, Constant, value=table.whole("value"))
    if name == "uniform":
        return placed(where, Uniform, minimum=table.whole("min"), maximum=table.whole("max"))
    if name == "empirical":
        return _empirical(table, folder)
    bounds = {}
    for key, field in (("min", "minimum"), ("max", "maximum")):
        value = table.whole(key, None)
        if value is not None:
            bounds[field] = value
    if name == "gaussian":
        return placed(where, Gaussian, mean=table.number("mean"), sd=table.number("sd"), **bounds)
    if "mean" in table:  # moments of the law before clamping
        mean, sd = table.number("mean"), table.number("sd")
        if not (mean > 0 and sd >= 0):
            raise InputError(f"{where}: mean must be positive and sd not negative")
        sigma = math.sqrt(math.log1p((sd / mean) ** 2))
        median = mean / math.sqrt(1 + (sd / mean) ** 2)
    else:
        median, sigma = table.number("median"), table.number("sigma")
    return placed(where, LogNormal, median=median, sigma=sigma, **bounds)


def _empirical(table: Fields, folder: Path | None) -> Empirical:
    if "file" in table:
        path = (folder or Path()) / table.text("file")
        names = [table.text("column")]
        if "weights_column" in table:
            names.append(table.text("weights_column"))
        columns = _file_columns(path, tuple(names))
        weights = columns[1] if len(columns) > 1 else None
        return placed(table.where, Empirical, values=columns[0], weights=weights)
    values, weights = table.raw("values"), table.raw("weights")
    for key, value in (("values", values), ("weights", weights)):
        numbers = isinstance(value, list | tuple) and all(
            isinstance(item, int | float) and not isinstance(item, bool) for item in value
        )
        if not numbers and not (key == "weights" and value is None):
            raise InputError(f"{table.where}: {key} must be a list of numbers, got {value!r:.60}")
    return placed(
        table.where,
        Empirical,
        values=tuple(values),
        weights=None if weights is None else tuple(weights),
    )


def _file_columns(path: Path, names: tuple[str, ...]) -> tuple[tuple[float, ...], ...]:
    file = CsvFile(path)
    file.require(names)
    if not len(file):
        raise InputError(f"{path}: no rows")
    return tuple(tuple(file.numbers(name).tolist()) for name in names)
