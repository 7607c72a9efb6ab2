"""A simulated run as a trace, so that it can be replayed, shown, or fed to another simulator."""

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.blis.columns import Status as BlisStatus
from tailcast.engine.blis.result import BlisResult
from tailcast.engine.result import RequestRecords, Status
from tailcast.request import RequestTable
from tailcast.step_law import StepLaw
from tailcast.traces.trace_header import TraceHeader
from tailcast.traces.trace_replay import run_trace
from tailcast.traces.tracev2 import Trace, blank_columns

_STATUS_NAMES = {
    Status.COMPLETED: "ok",
    Status.REJECTED: "error",
    Status.TIMED_OUT: "timeout",
    Status.UNFINISHED: "incomplete",
    Status.UNSENT: "incomplete",
}
_BLIS_STATUS_NAMES = {
    BlisStatus.COMPLETED: "ok",
    BlisStatus.DROPPED: "error",
    BlisStatus.TIMED_OUT: "timeout",
}


def simulated_trace(
    requests: RequestTable,
    records: RequestRecords,
    law: StepLaw,
    header: TraceHeader,
    *,
    request_id: NDArray[np.str_] | None = None,
) -> Trace:
    """Trace of a run in mode ``vllm``, with times as the client sees them.

    Parameters
    ----------
    requests : RequestTable
        What was sent.
    records : RequestRecords
        What became of it.
    law : StepLaw
        One draw, for the overheads between the engine and the client.
    header : TraceHeader
        What was run.
    request_id : ndarray of str, shape (n_request,), optional
        Names; ``request_<row>`` where absent.

    Returns
    -------
    Trace
        One row a request, sorted by arrival; requests that were never sent are left out.
    """
    stream, finish = float(law.stream[0]), float(law.finish[0])
    names = np.array([_STATUS_NAMES[Status(s)] for s in range(len(Status))], dtype=np.str_)
    arrival = np.where(records.status == Status.UNSENT, np.nan, records.arrival)
    lost = np.isnan(arrival) & (requests.parent < 0)
    return run_trace(
        requests,
        arrival=np.where(lost, requests.arrival, arrival),
        first_token=records.first_token + stream,
        finish=records.finish + stream * requests.output_tokens + finish,
        status=names[records.status],
        cached_tokens=records.cached_tokens,
        header=header,
        request_id=request_id,
    )


def blis_simulated_trace(result: BlisResult, header: TraceHeader) -> Trace:
    """Trace of a run in mode ``blis``; every time is a whole microsecond.

    Parameters
    ----------
    result : BlisResult
        Requests and what became of them.
    header : TraceHeader
        What was run.

    Returns
    -------
    Trace
        One row a request, sorted by arrival.
    """
    r = result.requests
    n = len(r)
    grouped = r.prefix_group >= 0
    own = r.input_tokens - r.prefix_length
    done = result.completed
    groups = [f"prefix_{group}" if group >= 0 else "" for group in r.prefix_group.tolist()]
    status = [_BLIS_STATUS_NAMES.get(BlisStatus(s), "incomplete") for s in result.status.tolist()]
    arrival = r.arrival_us / 1e6
    columns = {
        **blank_columns(n),
        "request_id": np.array(r.request_id, dtype=np.str_),
        "client_id": np.full(n, "tailcast"),
        "prefix_group": np.array(groups, dtype=np.str_),
        "prefix_length": np.where(grouped, r.prefix_length, 0),
        "streaming": np.ones(n, dtype=np.bool_),
        "input_tokens": own,
        "output_tokens": r.output_tokens,
        "text_tokens": own,
        "server_input_tokens": r.input_tokens,
        "model": np.full(n, header.server.model or ""),
        "deadline": np.where(r.deadline_us > 0, r.deadline_us / 1e6, np.nan),
        "arrival_time": arrival,
        "send_time": arrival,
        "first_chunk_time": np.where(
            result.ttft_us >= 0, (r.arrival_us + result.ttft_us) / 1e6, np.nan
        ),
        "last_chunk_time": np.where(done, (r.arrival_us + result.e2e_us) / 1e6, np.nan),
        "num_chunks": np.where(done, r.output_tokens, 0),
        "status": np.array(status, dtype=np.str_),
        "finish_reason": np.where(done, "length", ""),
        "vllm_priority": r.priority,
        "content_stream": r.content_stream,
        "session_output": r.session_output,
        "cached_tokens": result.cached_tokens,
    }
    order = np.argsort(r.arrival_us, kind="stable")
    return Trace(header=header, columns={name: column[order] for name, column in columns.items()})
