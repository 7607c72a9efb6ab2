"""Header of a TraceV2 file: what was run, and on what."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from tailcast.errors import InputError
from tailcast.traces.yaml_file import read_yaml
from tailcast.workload.fields import Fields

VERSIONS = (2, 3)
_MICROSECONDS = {"us", "microsecond", "microseconds"}
_MODES = ("real", "generated", "replayed")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceServer:
    """The server block; None where the file does not say.

    Parameters
    ----------
    type : str, optional
        Engine, for example ``vllm``.
    model : str, optional
        LLM.
    tensor_parallel, data_parallel : int, optional
        Accelerators per replica; replicas behind one endpoint.
    max_num_seqs, max_num_batched_tokens, max_model_len, block_size, kv_blocks : int, optional
        Engine limits, spelt as in vLLM.
    gpu_memory_utilization : float, optional
        Share of the accelerator's memory that vLLM may use.
    accelerator, dtype, version : str, optional
        Hardware, weights and engine version, which TraceV2 itself lacks.
    prefix_caching, chunked_prefill : bool, optional
        Engine settings.
    other : mapping
        Keys that are not known, kept for writing.
    """

    type: str | None = None
    model: str | None = None
    tensor_parallel: int | None = None
    max_num_seqs: int | None = None
    block_size: int | None = None
    gpu_memory_utilization: float | None = None
    max_model_len: int | None = None
    accelerator: str | None = None
    max_num_batched_tokens: int | None = None
    kv_blocks: int | None = None
    dtype: str | None = None
    version: str | None = None
    data_parallel: int | None = None
    prefix_caching: bool | None = None
    chunked_prefill: bool | None = None
    other: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceHeader:
    """Header of a trace.

    Parameters
    ----------
    trace_version : int
        2 or 3.
    mode : str
        ``real``, ``generated`` or ``replayed``.
    created_at : str
        Free text, usually an ISO date; empty where unknown.
    warm_up_requests : int
        Leading requests that statistics leave out; they are replayed all the same.
    workload_seed : int or None
        Seed of the workload.
    session_context_growth : str
        ``accumulate`` where a session's prompts repeat its history, else empty.
    round_trip : float
        Network round trip in seconds, 0 where unknown.
    server : TraceServer
        What served.
    other : mapping
        Keys that are not known, kept for writing.
    """

    trace_version: int = 3
    mode: str = "generated"
    created_at: str = ""
    warm_up_requests: int = 0
    workload_seed: int | None = None
    session_context_growth: str = ""
    round_trip: float = 0.0
    server: TraceServer = field(default_factory=TraceServer)
    other: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.trace_version not in VERSIONS:
            raise InputError(f"trace_version must be 2 or 3, got {self.trace_version!r}")
        if self.mode not in _MODES:
            raise InputError(f"trace mode must be one of {', '.join(_MODES)}, got {self.mode!r}")
        if self.warm_up_requests < 0:
            raise InputError(f"warm_up_requests must not be negative, got {self.warm_up_requests}")
        if self.round_trip < 0:
            raise InputError(f"round trip must not be negative, got {self.round_trip!r}")


def read_header(path: Path) -> TraceHeader:
    """Header of one YAML file.

    Parameters
    ----------
    path : pathlib.Path
        Header file of a trace.

    Returns
    -------
    TraceHeader
        Checked.

    Raises
    ------
    InputError
        If it is malformed, of another version or in another time unit.
    """
    table = Fields(read_yaml(path), str(path))
    unit = table.text("time_unit", "us")
    if unit not in _MICROSECONDS:
        raise InputError(f"{path}: time_unit must be us, got {unit!r}")
    network = table.table("network")
    round_trip = 0.0 if network is None else network.number("measured_rtt_ms", 0.0) * 1e-3
    server = table.table("server")
    known: dict[str, Any] = {
        "trace_version": table.whole("trace_version"),
        "mode": table.text("mode", "real"),
        "created_at": table.text("created_at", ""),
        "warm_up_requests": table.whole("warm_up_requests", 0),
        "workload_seed": table.whole("workload_seed", None),
        "session_context_growth": str(table.raw("session_context_growth", "")),
        "round_trip": round_trip,
        "server": TraceServer() if server is None else _server(server),
    }
    other = {key: table.raw(key) for key in table.unused()}
    if network is not None and network.unused():
        other["network"] = {key: network.raw(key) for key in network.unused()}
    try:
        return TraceHeader(other=other, **known)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def write_header(header: TraceHeader, path: Path) -> None:
    """Write a header as YAML.

    Parameters
    ----------
    header : TraceHeader
        What to write; keys without a value are left out.
    path : pathlib.Path
        File to write.
    """
    server = {
        item.name: getattr(header.server, item.name)
        for item in fields(TraceServer)
        if item.name != "other" and getattr(header.server, item.name) is not None
    }
    network = dict(header.other.get("network", {}))
    if header.round_trip:
        network["measured_rtt_ms"] = header.round_trip * 1e3
    content: dict[str, Any] = {
        "trace_version": header.trace_version,
        "time_unit": "microseconds",
        "created_at": header.created_at or None,
        "mode": header.mode,
        "warm_up_requests": header.warm_up_requests,
        "workload_seed": header.workload_seed,
        "session_context_growth": header.session_context_growth or None,
        "server": {**server, **header.server.other} or None,
        "network": network or None,
    }
    content = {key: value for key, value in content.items() if value is not None}
    content.update({key: value for key, value in header.other.items() if key != "network"})
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def _server(table: Fields) -> TraceServer:
    readers = {
        "type": table.text,
        "model": table.text,
        "tensor_parallel": table.whole,
        "max_num_seqs": table.whole,
        "block_size": table.whole,
        "gpu_memory_utilization": table.number,
        "max_model_len": table.whole,
        "accelerator": table.text,
        "max_num_batched_tokens": table.whole,
        "kv_blocks": table.whole,
        "dtype": table.text,
        "version": table.text,
        "data_parallel": table.whole,
        "prefix_caching": table.flag,
        "chunked_prefill": table.flag,
    }
    known = {key: read(key, None) for key, read in readers.items()}
    return TraceServer(other={key: table.raw(key) for key in table.unused()}, **known)
