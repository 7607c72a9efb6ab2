"""From a workload and a seed to the requests that arrive."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError
from tailcast.request import RequestTable
from tailcast.streams import stream
from tailcast.workload.arrivals import start_times
from tailcast.workload.lengths import Empirical
from tailcast.workload.spec import Concurrency, RequestClass, Session, Workload

type Ints = NDArray[np.int64]
type Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Rows by start and turn; every array has shape (n_request,)."""

    kind: Ints
    start: Ints
    turn: Ints
    first: Ints  # row of the session's first turn


def materialise(workload: Workload, seed: int) -> RequestTable:
    """Requests of one realisation of a workload.

    Each consumer reads its own named stream (arrivals by stage; class marks; and, by class, turns,
    think times, input lengths, output lengths, prefixes, prompt order), one number a row in the
    order of the starts. So another rate stretches the same gaps and keeps every length, and another
    length law leaves arrivals alone.

    Parameters
    ----------
    workload : Workload
        What arrives.
    seed : int
        Seed of the realisation, not negative.

    Returns
    -------
    RequestTable
        Sorted by arrival; `group` indexes ``workload.group_names``.

    Raises
    ------
    InputError
        If the workload has no request at all, as when a rate times its duration rounds to none.
    """
    if workload.concurrency is None:
        times, stage = start_times(workload.process, workload.stages, seed, workload.count)
    else:
        times = np.zeros(workload.count or 0)
        stage = np.zeros(len(times), dtype=np.int64)
    rows = _rows(workload, seed, len(times))
    if len(rows.start) == 0:
        raise InputError(f"{workload.name}: no request arrives with seed {seed}; run it longer")
    columns = _columns_of_classes(workload, rows, seed)
    parent = np.where(rows.turn > 0, np.arange(len(rows.start)) - 1, -1)
    think = columns.pop("think_time")
    if workload.concurrency is not None:
        times = _chain(workload.concurrency, rows, parent, think)
    arrival = _earliest(times[rows.start], parent, think)
    n_kind = len(workload.classes)
    order = np.argsort(arrival, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return RequestTable(
        arrival=arrival[order],
        parent=np.where(parent < 0, -1, place[parent])[order],
        think_time=np.where(parent < 0, 0.0, think)[order],
        group=(stage[rows.start] * n_kind + rows.kind)[order],
        session_output=columns.pop("session_output").astype(np.bool_)[order],
        timeout=columns.pop("timeout")[order],
        **{name: column.astype(np.int64)[order] for name, column in columns.items()},
    )


def _rows(workload: Workload, seed: int, n_start: int) -> _Rows:
    kind = np.zeros(n_start, dtype=np.int64)
    if len(workload.classes) > 1:
        weights = np.cumsum([each.weight for each in workload.classes])
        marks = stream(seed, "class").random(n_start)
        kind = np.searchsorted(weights / weights[-1], marks, side="right")
    turns = np.ones(n_start, dtype=np.int64)
    for index, each in enumerate(workload.classes):
        if each.session is not None:
            drawn = each.session.turns.tokens(stream(seed, "turns", each.name), n_start)
            turns = np.where(kind == index, drawn, turns)
    if workload.count is not None:  # the last session is cut so that the count is exact
        before = np.cumsum(turns) - turns
        turns = np.clip(turns, 0, np.maximum(workload.count - before, 0))
    start = np.repeat(np.arange(n_start), turns)
    first = np.repeat(np.cumsum(turns) - turns, turns)
    return _Rows(
        kind=kind[start].astype(np.int64),
        start=start,
        turn=np.arange(len(start)) - first,
        first=first,
    )


def _columns_of_classes(workload: Workload, rows: _Rows, seed: int) -> dict[str, NDArray[Any]]:
    n = len(rows.start)
    if len(workload.classes) == 1:
        return _class_columns(workload.classes[0], rows, np.ones(n, dtype=np.bool_), seed)
    columns: dict[str, NDArray[Any]] = {
        "think_time": np.zeros(n),
        "timeout": np.full(n, np.inf),
        "session_output": np.zeros(n),
        "input_tokens": np.zeros(n),
        "output_tokens": np.zeros(n),
        "prefix_stream": np.zeros(n),
        "prefix_tokens": np.zeros(n),
        "content_stream": np.zeros(n),
        "priority": np.zeros(n),
    }
    n_prefix = n_content = 0
    for index, kind in enumerate(workload.classes):
        mine = rows.kind == index
        for name, column in _class_columns(kind, rows, mine, seed).items():
            shift = {"prefix_stream": n_prefix, "content_stream": n_content}.get(name, 0)
            columns[name] = np.where(
                mine, np.where(column < 0, column, column + shift), columns[name]
            )
        n_prefix += kind.prefix.groups if kind.prefix else 0
        n_content += kind.repeat.distinct if kind.repeat else 0
        n_content += int(rows.start[-1]) + 1 if kind.session and n else 0
    return columns


def _class_columns(
    kind: RequestClass, rows: _Rows, mine: NDArray[np.bool_], seed: int
) -> dict[str, NDArray[Any]]:
    """Columns of one class, drawn for all rows so that weights shift nothing."""
    n, name = len(rows.start), kind.name
    prefix = np.full(n, -1)
    content = np.full(n, -1) if kind.repeat is None else _prompts(kind, seed, mine)
    own, output = _lengths(kind, seed, content)
    if kind.prefix is not None:
        pick = stream(seed, "prefix", name).random(n)[rows.first]
        prefix = np.floor(pick * kind.prefix.groups).astype(np.int64)
        if kind.repeat is not None:
            prefix = content * kind.prefix.groups // kind.repeat.distinct
    prefix_tokens = kind.prefix.tokens if kind.prefix is not None else 0
    history = np.zeros(n, dtype=np.int64)
    growing = kind.session is not None and kind.session.history
    if growing:
        content = rows.start
        said = np.cumsum(own + output) - (own + output)
        history = said - said[rows.first]
    return {
        "input_tokens": own + history + prefix_tokens,
        "output_tokens": output,
        "prefix_stream": prefix,
        "prefix_tokens": np.full(n, prefix_tokens),
        "content_stream": content,
        "session_output": np.full(n, growing),
        "think_time": _think(kind.session, seed, name, n),
        "priority": np.full(n, kind.priority),
        "timeout": np.full(n, kind.timeout),
    }


def _lengths(kind: RequestClass, seed: int, content: Ints) -> tuple[Ints, Ints]:
    n = len(content)
    rng = stream(seed, "input", kind.name)
    first, second = kind.input_tokens, kind.output_tokens
    if kind.repeat is not None:
        own = first.tokens(rng, kind.repeat.distinct)[content]
        return own, second.tokens(stream(seed, "output", kind.name), n)
    if kind.paired_lengths and isinstance(first, Empirical) and isinstance(second, Empirical):
        row = first.rows(rng, n)
        tables = [np.asarray(law.values, dtype=np.int64) for law in (first, second)]
        return tables[0][row], tables[1][row]
    return first.tokens(rng, n), second.tokens(stream(seed, "output", kind.name), n)


def _prompts(kind: RequestClass, seed: int, mine: NDArray[np.bool_]) -> Ints:
    """Prompt of each row; only this class's own rows move its cycle on."""
    rng = stream(seed, "prompts", kind.name)
    distinct = kind.repeat.distinct if kind.repeat else 1
    if kind.repeat and kind.repeat.order == "random":
        return np.floor(rng.random(len(mine)) * distinct).astype(np.int64)
    turn = np.maximum(np.cumsum(mine) - 1, 0) % distinct
    prompts: Ints = rng.permutation(distinct)[turn]
    return prompts


def _think(session: Session | None, seed: int, name: str, n: int) -> Floats:
    if session is None or session.think_time == 0:
        return np.zeros(n)
    if session.think_law == "constant":
        return np.full(n, session.think_time)
    return session.think_time * stream(seed, "think", name).standard_exponential(n)


def _chain(loop: Concurrency, rows: _Rows, parent: Ints, think: Floats) -> Floats:
    """Chain the starts of each user: fills `parent` and `think`, gives the users' first starts."""
    begin = np.flatnonzero(rows.turn == 0)
    last = np.append(begin[1:], len(rows.start)) - 1
    later = begin[loop.users :]
    parent[later] = last[: len(later)]
    think[later] = loop.think_time
    starts: Floats = np.arange(len(begin), dtype=np.float64) * (loop.ramp / loop.users)
    return starts


def _earliest(first: Floats, parent: Ints, think: Floats) -> Floats:
    """Earliest arrivals: nobody comes before the one it waits for, plus the think time."""
    if not np.any(parent >= 0):
        return first
    arrival = first.tolist()
    for row, (before, pause) in enumerate(zip(parent.tolist(), think.tolist(), strict=True)):
        if before >= 0:
            arrival[row] = arrival[before] + pause
    return np.array(arrival)
