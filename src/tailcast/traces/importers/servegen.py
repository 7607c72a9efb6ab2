"""ServeGen: clients by their rates, burstiness and lengths, from which requests are drawn."""

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError
from tailcast.streams import stream
from tailcast.traces.importers.arrival_tables import workload_trace
from tailcast.traces.importers.findings import Findings
from tailcast.traces.importers.imported import Imported, ReadOptions, imported
from tailcast.traces.importers.json_table import JsonTable
from tailcast.traces.importers.sample import Sample

NAME = "servegen"

type Floats = NDArray[np.float64]

_RATES = re.compile(r"chunk-(\d+)-trace\.csv")
_PROCESSES = ("Gamma", "Weibull")
_FIELDS = ("input_tokens", "output_tokens")
_DEFAULT_SPAN = 600.0
_MOST = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """One client within one window: gaps of a law of this shape, at the rate that was counted."""

    client: str
    start: float
    end: float
    rate: float
    process: str
    shape: float


# Tokens at given probabilities; lengths are drawn by inverting it.
type _Law = tuple[Floats, Floats]
type _Lengths = Mapping[tuple[str, str], list[tuple[float, _Law]]]


def recognises(sample: Sample) -> bool:
    """Whether a folder is a pool of ServeGen's clients.

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        By the names of the files.
    """
    return any(_RATES.fullmatch(name) for name in sample.names)


def read(sample: Sample, options: ReadOptions) -> Imported:
    """Requests drawn from a pool of clients.

    ServeGen describes clients, it holds no requests: arrivals are drawn window by window from each
    client's Gamma or Weibull gaps and lengths from its histograms, by the seed. The gaps keep the
    shape of the law and the rate that was counted; the fitted scale is a little off it.

    Parameters
    ----------
    sample : Sample
        Folder with ``chunk-N-trace.csv`` and ``chunk-N-dataset.json`` for each client.
    options : ReadOptions
        Window in seconds of the pool (its first 600 s where absent), limit and seed.

    Returns
    -------
    Imported
        A trace of arrivals and lengths.

    Raises
    ------
    InputError
        If a file is malformed, or the window holds no request or over two million.
    """
    findings = Findings(str(sample.path))
    low, high = options.window or (0.0, _DEFAULT_SPAN)
    if options.window is None:
        findings.note(f"the first {_DEFAULT_SPAN:g} s of the pool were drawn; ask for others")
    windows, lengths = _windows(sample), _lengths(sample, findings)
    inside = [w for w in windows if w.end > low and w.start < high]
    drawn = [w for w in inside if (w.client, _FIELDS[0]) in lengths]
    lost = sum(w.rate * (w.end - w.start) for w in inside) - sum(
        w.rate * (w.end - w.start) for w in drawn
    )
    if lost > 0:
        findings.count("requests of clients without lengths, left out", round(lost))
    expected = sum(w.rate * (min(w.end, high) - max(w.start, low)) for w in drawn)
    if expected > _MOST:
        raise InputError(
            f"{sample.path}: the window holds about {expected:.3g} requests; take a shorter one"
        )
    columns = _drawn(drawn, lengths, (low, high), options)
    if not len(columns[0]):
        raise InputError(f"{sample.path}: no request in the window {low:g}..{high:g} s")
    findings.note(f"requests were drawn with seed {options.seed}")
    trace = workload_trace(
        columns[0], columns[1], columns[2], findings, client_id=np.array(columns[3])
    )
    return imported(NAME, findings, trace)


def _drawn(
    windows: list[_Window], lengths: _Lengths, span: tuple[float, float], options: ReadOptions
) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64], NDArray[np.str_]]:
    """Arrivals, prompt and answer lengths, and clients of the requests."""
    times, clients = [], []
    for window in windows:
        rng = stream(options.seed, "servegen", window.client, int(window.start))
        arrivals = window.start + _arrivals(window, rng)
        arrivals = arrivals[(arrivals >= span[0]) & (arrivals < span[1])]
        times.append(arrivals)
        clients.append(np.full(len(arrivals), window.client))
    empty = np.empty(0)
    time = np.concatenate(times or [empty])
    client = np.concatenate(clients or [np.empty(0, np.str_)])
    order = np.argsort(time, kind="stable")[: options.limit]
    time, client = time[order], client[order]
    tokens = [np.zeros(len(time), dtype=np.int64) for _ in _FIELDS]
    for name in np.unique(client).tolist():
        mine = np.flatnonzero(client == name)
        rng = stream(options.seed, "servegen lengths", name)
        u = rng.random((len(_FIELDS), len(mine)))
        for column, field, draw in zip(tokens, _FIELDS, u, strict=True):
            column[mine] = _lengths_at(lengths[name, field], time[mine], draw)
    return time, tokens[0], tokens[1], client


def _arrivals(window: _Window, rng: np.random.Generator) -> Floats:
    """Seconds from the start of the window; the first gap begins there."""
    span = window.end - window.start
    found = np.empty(0)
    n = int(window.rate * span * 1.3) + 20
    while not len(found) or found[-1] < span:
        if window.process == "Gamma":
            gaps = rng.gamma(window.shape, 1 / (window.rate * window.shape), n)
        else:
            mean = math.gamma(1 + 1 / window.shape)
            gaps = rng.weibull(window.shape, n) / (window.rate * mean)
        last = float(found[-1]) if len(found) else 0.0
        found = np.append(found, last + np.cumsum(gaps))
        if len(found) > 2 * _MOST:
            break
    return found[found < span]


def _lengths_at(laws: list[tuple[float, _Law]], time: Floats, u: Floats) -> NDArray[np.int64]:
    starts = np.array([start for start, _ in laws])
    which = np.clip(np.searchsorted(starts, time, side="right") - 1, 0, None)
    tokens = np.empty(len(time))
    for index in np.unique(which).tolist():
        probability, value = laws[index][1]
        mine = which == index
        tokens[mine] = np.interp(u[mine], probability, value)
    return np.maximum(np.rint(tokens), 1).astype(np.int64)


def _windows(sample: Sample) -> list[_Window]:
    windows = []
    for name in sorted(sample.names):
        match = _RATES.fullmatch(name)
        if match is None:
            continue
        rows = []
        for number, line in sample.inside(name).lines():
            if line.strip():
                where = f"{sample.path / name}:{number}"
                parts = line.split(",")
                if len(parts) != 6:
                    raise InputError(f"{where}: {len(parts)} cells, expected 6")
                rows.append((where, parts))
        if not rows:
            raise InputError(f"{sample.path / name}: no rows")
        starts = [_number(parts[0], where) for where, parts in rows]
        width = float(np.median(np.diff(starts))) if len(starts) > 1 else _DEFAULT_SPAN
        for (where, parts), start, end in zip(
            rows, starts, [*starts[1:], starts[-1] + width], strict=True
        ):
            if parts[3].strip():
                cells = {"rate": parts[1], "dist": parts[3], "shape": parts[4]}
                windows.append(_window(match[1], start, end, cells, where))
    return windows


def _window(client: str, start: float, end: float, cells: Mapping[str, str], where: str) -> _Window:
    process = cells["dist"].strip()
    if process not in _PROCESSES:
        raise InputError(f"{where}: no arrival law {process!r}; known: {', '.join(_PROCESSES)}")
    values = {key: _number(cells[key], f"{where}: {key}") for key in ("rate", "shape")}
    for key, value in values.items():
        if not value > 0:
            raise InputError(f"{where}: {key} must be positive, got {value:g}")
    return _Window(
        client=client,
        start=start,
        end=end,
        rate=values["rate"],
        process=process,
        shape=values["shape"],
    )


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not (np.isfinite(value) and value >= 0):
        raise InputError(f"{where} must be a finite number, not negative, got {text!r:.40}")
    return value


def _lengths(sample: Sample, findings: Findings) -> dict[tuple[str, str], Any]:
    laws: dict[tuple[str, str], list[tuple[float, _Law]]] = {}
    for name in sorted(sample.names):
        match = _RATES.fullmatch(name)
        if match is None:
            continue
        data = name.replace("-trace.csv", "-dataset.json")
        if data not in sample.names:
            findings.note(f"{data} is missing")
            continue
        table = sample.inside(data).table()
        for key in table.value:
            fields = table.table(key)
            found = {field: _histogram(fields, field) for field in _FIELDS}
            if any(law is None for law in found.values()):
                continue
            for field, law in found.items():
                start = _number(key, f"{sample.path / data}: window")
                laws.setdefault((match[1], field), []).append((start, law))  # type: ignore[arg-type]
    for windows in laws.values():
        windows.sort(key=lambda pair: pair[0])
    return laws


def _histogram(fields: JsonTable, field: str) -> _Law | None:
    """Law of a histogram, which is written as text of a Python dictionary of shares by tokens."""
    try:
        shares = ast.literal_eval(fields.text(field))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise InputError(f"{fields.where}: {field} is no histogram") from None
    if not isinstance(shares, dict):
        raise InputError(f"{fields.where}: {field} is no histogram")
    if not shares:
        return None
    try:
        table = np.array(sorted((float(k), float(v)) for k, v in shares.items()))
    except (TypeError, ValueError):
        raise InputError(f"{fields.where}: {field} has a share that is no number") from None
    if not np.all(np.isfinite(table)) or np.any(table < 0) or not table[:, 1].sum() > 0:
        raise InputError(f"{fields.where}: {field} has shares that are no shares")
    upper = np.cumsum(table[:, 1]) / table[:, 1].sum()
    lower = np.append(0.0, upper[:-1])
    # A step function: each length holds its whole share.
    probability = np.stack([lower, np.nextafter(upper, 0)], axis=1).ravel()
    return probability, np.repeat(table[:, 0], 2)
