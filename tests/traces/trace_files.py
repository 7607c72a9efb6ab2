"""Small TraceV2 files to read back."""

from pathlib import Path

from tailcast.traces.tracev2 import Trace, read_trace

HEADER = "trace_version: 3\ntime_unit: us\nmode: real\n"
_NAMES = (
    "request_id,client_id,tenant_id,slo_class,session_id,round_index,prefix_group,prefix_length,"
    "streaming,input_tokens,output_tokens,text_tokens,image_tokens,audio_tokens,video_tokens,"
    "reason_ratio,model,deadline_us,server_input_tokens,arrival_time_us,send_time_us,"
    "first_chunk_time_us,last_chunk_time_us,num_chunks,status,error_message,finish_reason"
)
NAMES = _NAMES.split(",")
UNIX = 1_795_957_752_102_187


def row(name: str, **cells: object) -> str:
    """One CSV line; cells that are not given are empty or zero."""
    numeric = {"round_index", "prefix_length", "deadline_us", "server_input_tokens"}
    numeric |= {n for n in NAMES if n.endswith(("_tokens", "_us", "_chunks"))} | {"reason_ratio"}
    values = {n: "0" if n in numeric else "" for n in NAMES}
    values |= {"request_id": name, "streaming": "true", "status": "ok"}
    values |= {key: str(value) for key, value in cells.items()}
    return ",".join(values[n] for n in NAMES)


def trace_of(
    folder: Path, *rows: str, header: str = HEADER, names: list[str] | None = None
) -> Trace:
    """Trace read from files of these rows."""
    (folder / "header.yaml").write_text(header)
    (folder / "data.csv").write_text("\n".join([",".join(names or NAMES), *rows]) + "\n")
    return read_trace(folder / "header.yaml", folder / "data.csv")


def plain(name: str, arrival: int, *, clock: int = 0, late: int = 1000, **cells: object) -> str:
    """Request of 40 prompt and 5 output tokens with TTFT 50 ms and E2E 90 ms."""
    send = clock + arrival + late
    times = {
        "arrival_time_us": arrival,
        "send_time_us": send,
        "first_chunk_time_us": send + 50_000,
        "last_chunk_time_us": send + 90_000,
    }
    return row(name, **({"input_tokens": 40, "output_tokens": 5} | times | cells))
