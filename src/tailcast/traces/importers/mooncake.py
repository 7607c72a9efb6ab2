"""Mooncake's traces: arrivals, lengths and the blocks that prompts share."""

import math
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError
from tailcast.traces.importers.arrival_tables import workload_trace
from tailcast.traces.importers.findings import Findings
from tailcast.traces.importers.imported import Imported, ReadOptions, imported
from tailcast.traces.importers.json_table import JsonTable
from tailcast.traces.importers.prefix_chains import prefix_streams
from tailcast.traces.importers.sample import Sample

NAME = "mooncake"

_BLOCK_SIZES = (512, 16, 32, 64, 128, 256, 1024)
_COLUMNS = {"arrival_ms": "timestamp", "n_in": "input_length", "n_out": "output_length"}
_PARQUET = b"PAR1"


def recognises(sample: Sample) -> bool:
    """Whether a file is a trace of Mooncake.

    Parameters
    ----------
    sample : Sample
        What may be one: JSON Lines, or a Parquet file of the same.

    Returns
    -------
    bool
        By the keys at its start.
    """
    if not sample.is_folder and sample.start[:4] == _PARQUET:
        return True
    return sample.has_keys("timestamp", "input_length", "output_length")


def read(sample: Sample, options: ReadOptions) -> Imported:
    """Requests of a trace, with their shared beginnings.

    Parameters
    ----------
    sample : Sample
        One request a line: ``timestamp`` (ms), ``input_length``, ``output_length``, ``hash_ids``.
    options : ReadOptions
        Limit and window.

    Returns
    -------
    Imported
        A trace of arrivals, lengths and shared prefixes, without latencies.

    Raises
    ------
    InputError
        If a row is malformed.
    """
    findings = Findings(str(sample.path), lines=[])
    arrival, inputs, outputs, hashes = _requests(sample, options, findings)
    ties = np.unique(arrival, return_counts=True)[1]
    if len(arrival) > 10 and np.sum(ties[ties > 1]) > len(arrival) / 2:
        step = float(np.median(np.diff(np.unique(arrival)))) if len(ties) > 1 else 0.0
        findings.note(
            f"arrivals come in ticks of about {step:g} s; within a tick they are at once here"
        )
    columns = _shared_columns(inputs, hashes, findings)
    trace = workload_trace(arrival, inputs, outputs, findings, **columns)
    return imported(NAME, findings, trace)


def _requests(
    sample: Sample, options: ReadOptions, findings: Findings
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], list[list[int]]]:
    if sample.start[:4] == _PARQUET:
        tables = enumerate(_parquet(sample), start=1)
    else:
        tables = sample.objects()  # type: ignore[assignment]
    wanted = options.limit if options.window is None else None
    rows: list[tuple[float, int, int]] = []
    hashes: list[list[int]] = []
    lines: list[int] = []
    for number, table in islice(tables, wanted):
        lines.append(number)
        rows.append(
            (
                table.number("timestamp", least=0) * 1e-3,
                table.whole("input_length", least=1),
                table.whole("output_length"),
            )
        )
        hashes.append(_blocks(table))
    if not rows:
        raise InputError(f"{sample.path}: no requests")
    if wanted is not None and len(rows) == wanted:
        findings.note(f"only the first {wanted} requests of the file were read")
    times = np.array([row[0] for row in rows])
    keep = np.argsort(times, kind="stable")
    if options.window is not None:
        since = times[keep] - times.min()
        keep = keep[(since >= options.window[0]) & (since < options.window[1])][: options.limit]
        findings.count("outside the window, left out", len(rows) - len(keep))
    findings.lines = [lines[row] for row in keep]
    lengths = np.array([row[1:] for row in rows], dtype=np.int64)[keep]
    return times[keep], lengths[:, 0], lengths[:, 1], [hashes[row] for row in keep]


def _blocks(table: JsonTable) -> list[int]:
    if "hash_ids" not in table:
        return []
    values = table.listed("hash_ids")
    if not all(type(value) is int for value in values):
        raise InputError(f"{table.where}: hash_ids must be whole numbers")
    return values


def _parquet(sample: Sample) -> list[JsonTable]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import read_table
    except ImportError as error:
        raise InputError(
            f"{sample.path}: reading Parquet needs pyarrow; install it or convert to JSON Lines"
        ) from error
    try:
        table = read_table(sample.path)
    except (ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{sample.path}: not a Parquet file: {reason}") from error
    names = {name: _COLUMNS.get(name, name) for name in table.column_names}
    wanted = {"timestamp", "input_length", "output_length"}
    if not wanted <= set(names.values()):
        raise InputError(
            f"{sample.path}: no columns {', '.join(sorted(wanted - set(names.values())))}"
        )
    return [
        JsonTable({names[k]: v for k, v in row.items()}, f"{sample.path}: row {i}")
        for i, row in enumerate(table.to_pylist())
    ]


def _shared_columns(
    inputs: NDArray[np.int64], hashes: list[list[int]], findings: Findings
) -> dict[str, NDArray[Any]]:
    """Columns of shared beginnings; none where the blocks do not fit the prompts."""
    n_blocks = np.array([len(blocks) for blocks in hashes])
    if not n_blocks.any():
        findings.note("there are no block hashes, so prompts are taken as unique")
        return {}
    size = next((s for s in _BLOCK_SIZES if np.array_equal(n_blocks, -(-inputs // s))), None)
    if size is None:
        findings.whole("count", "the numbers of blocks fit no block size", "hash_ids")
        findings.note("block hashes do not fit the lengths, so prompts are taken as unique")
        return {}
    # A block that is not full is no block of the cache, and another prompt goes on differently.
    full = [blocks[: length // size] for blocks, length in zip(hashes, inputs, strict=True)]
    streams = prefix_streams(full)
    total, hits = int(sum(map(len, full))), int(streams.hits.sum())
    kept = int(streams.hits_kept.sum())
    if total:
        share = kept / hits if hits else math.nan
        findings.note(
            f"blocks of {size} tokens: {hits / total:.1%} of the full ones were seen before"
            + (f", {share:.1%} of these are kept as shared prefixes and contents" if hits else "")
        )
    shared = streams.prefix_stream >= 0
    return {
        "prefix_group": np.where(
            shared, np.char.add("prefix_", streams.prefix_stream.astype(np.str_)), ""
        ),
        "prefix_length": streams.prefix_blocks * size,
        "content_stream": streams.content_stream,
    }
