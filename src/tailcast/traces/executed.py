"""What a load generator really sent: the ``workload`` of an experiment file."""

import json
from collections.abc import Mapping

from tailcast.errors import InputError, near_name
from tailcast.workload.arrivals import PROCESSES, Arrivals, Stage
from tailcast.workload.fields import Fields, placed
from tailcast.workload.lengths import Constant, LengthLaw, Measured
from tailcast.workload.mapping import arrivals_from, length_law, workload_from_mapping
from tailcast.workload.spec import (
    Concurrency,
    RepeatedPrompts,
    RequestClass,
    SharedPrefix,
    Workload,
)

KINDS = ("repeated-prompts", "unique-prompts", "study")
_CONDITIONED = Arrivals(process="conditioned-poisson")


def executed_workload(fields: Fields) -> Workload:
    """Workload of an experiment.

    Parameters
    ----------
    fields : Fields
        Table ``workload``. ``kind`` is ``repeated-prompts`` (``distinct_prompts`` in
        ``prompt_groups``, sent in one shuffled order over and over), ``unique-prompts``, or
        ``study`` with the keys of a study's ``[workload]`` under ``study``. The first two take
        ``prompt_tokens output_tokens system_prompt_tokens prompt_groups arrivals`` and a load:
        ``stages`` of ``rate_rps`` and ``duration_s``, or ``concurrency`` and ``requests``. Load
        generators send a fixed number of requests, so ``arrivals`` is ``conditioned-poisson``
        unless the file says otherwise.

    Returns
    -------
    Workload
        One class, so that groups are stages (but for ``study``).

    Raises
    ------
    InputError
        If the description is incomplete or contradicts itself.
    """
    guess = "repeated-prompts" if "distinct_prompts" in fields else "unique-prompts"
    kind = fields.text("kind", "study" if "study" in fields else guess)
    if kind not in KINDS:
        raise InputError(f"{fields.where}: no workload kind {kind!r}; {near_name(kind, KINDS)}")
    if kind == "study":
        return _study(fields)
    system = fields.whole("system_prompt_tokens", 0)
    groups = fields.whole("prompt_groups", 1)
    prefix = placed(fields.where, SharedPrefix, tokens=system, groups=groups) if system else None
    repeat = None
    if kind == "repeated-prompts":
        distinct = fields.whole("distinct_prompts")
        repeat = placed(fields.where, RepeatedPrompts, distinct=distinct, order=_order(fields))
    elif "distinct_prompts" in fields:
        raise InputError(f"{fields.where}: unique prompts cannot have distinct_prompts")
    requests = placed(
        fields.where,
        RequestClass,
        input_tokens=_own_tokens(fields, system),
        output_tokens=length_law(fields, "output_tokens"),
        prefix=prefix,
        repeat=repeat,
    )
    stages, loop, count = _load(fields)
    return placed(
        fields.where,
        Workload,
        classes=(requests,),
        stages=stages,
        arrivals=_arrivals(fields) if stages else None,
        concurrency=loop,
        n_requests=count,
        name=fields.text("name", "workload"),
    )


def _study(fields: Fields) -> Workload:
    table = fields.raw("study")
    if not isinstance(table, Mapping):
        raise InputError(f"{fields.where}: kind study needs a table study, got {table!r:.60}")
    fields.read[".workload.study"] = json.dumps(table, sort_keys=True, default=str)
    return workload_from_mapping(table, f"{fields.where} study")


def _order(fields: Fields) -> str:
    text = fields.raw("order", "cycled")
    for word, order in (("cycle", "cycled"), ("random", "random"), ("replacement", "random")):
        if isinstance(text, str) and word in text.lower():
            return order
    raise InputError(f"{fields.where}: order must be cycled or random, got {text!r:.60}")


def _arrivals(fields: Fields) -> Arrivals:
    value = fields.raw("arrivals")
    if value is None:
        return _CONDITIONED
    if isinstance(value, str) and value.lower() not in PROCESSES:
        if "rescaled" in value and "exponential" in value:
            return _CONDITIONED
        raise InputError(
            f"{fields.where}: arrivals {value!r:.60} is not understood; use one of "
            f"{', '.join(PROCESSES)}"
        )
    return arrivals_from(fields) or _CONDITIONED


def _own_tokens(fields: Fields, system: int) -> LengthLaw:
    """Law of the prompt without its system prompt."""
    value = fields.raw("prompt_tokens")
    if isinstance(fields.raw("question_tokens"), Mapping):
        if value is not None:
            raise InputError(f"{fields.where}: give prompt_tokens or a law of question_tokens")
        return length_law(fields, "question_tokens")
    question = fields.whole("question_tokens", None)
    if value is None:
        if question is None:
            raise InputError(f"{fields.where}: prompt_tokens is missing")
        return placed(fields.where, Constant, value=question)
    where = f"{fields.where} prompt_tokens"
    if isinstance(value, Mapping) and "law" in value:
        if system:
            raise InputError(f"{where}: a law cannot include a system prompt; give question_tokens")
        return length_law(fields, "prompt_tokens")
    if not isinstance(value, Mapping):
        return _whole_prompt(where, fields.whole("prompt_tokens"), system)
    table = fields.nested(value, "prompt_tokens")
    nominal = table.whole("nominal", None)
    measured = table.table("measured")
    table.ignore_unused()
    if nominal is not None and question is not None and nominal != system + question:
        raise InputError(f"{where}: nominal {nominal} is not {system} + {question}")
    if measured is None:
        if nominal is None:
            raise InputError(f"{where}: give nominal, measured or a law")
        return _whole_prompt(where, nominal, system)
    mean = measured.number("mean")
    low, high = measured.whole("min", round(mean)), measured.whole("max", round(mean))
    measured.ignore_unused()
    if low <= system:
        raise InputError(
            f"{where}: measured min {low} leaves nothing beside {system} shared tokens"
        )
    bounds = {"minimum": low - system, "maximum": high - system}
    return placed(where, Measured, mean=mean - system, **bounds)


def _whole_prompt(where: str, tokens: int, system: int) -> Constant:
    if tokens <= system:
        raise InputError(f"{where}: {tokens} leaves nothing beside {system} shared tokens")
    return Constant(value=tokens - system)


def _load(fields: Fields) -> tuple[tuple[Stage, ...], Concurrency | None, int | None]:
    tables = fields.tables("stages")
    rate, users = fields.number("rate_rps", None), fields.whole("concurrency", None)
    if sum((bool(tables), rate is not None, users is not None)) != 1:
        raise InputError(f"{fields.where}: give one of stages, rate_rps and concurrency")
    count = fields.whole("requests", None)
    if users is not None:
        if count is None:
            raise InputError(f"{fields.where}: a concurrency needs the number of requests")
        return (), placed(fields.where, Concurrency, users=users), count
    if rate is not None:
        duration = fields.number("duration_s", None)
        if (duration is None) == (count is None):
            raise InputError(f"{fields.where}: a rate_rps needs either duration_s or requests")
        return (placed(fields.where, Stage, rate=rate, duration=duration),), None, count
    if count is not None:
        raise InputError(f"{fields.where}: stages have durations; leave requests out")
    stages = []
    for table in tables:
        rate, duration = table.number("rate_rps"), table.number("duration_s")
        stages.append(placed(table.where, Stage, rate=rate, duration=duration))
        table.ignore_unused()
    return tuple(stages), None, None
