"""One observed run, from the first probe to the last look at the counters."""

import asyncio
import contextlib
import gc
import secrets
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from tailcast.errors import InputError
from tailcast.observe.connection import Connection
from tailcast.observe.dialect import request_body
from tailcast.observe.drive import Drive, watch_loop
from tailcast.observe.lateness import ClientLateness, client_lateness
from tailcast.observe.probing import Server, probe
from tailcast.observe.prompts import PromptMaker
from tailcast.observe.record import RequestRecord
from tailcast.observe.scrape import Scrapes, scrape, scrape_forever
from tailcast.observe.settings import ObserveSettings, ServerError, api_key
from tailcast.request import RequestTable, request_table

_WARM_UP_TOKENS = (32, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a run stands.

    Parameters
    ----------
    time : float
        Seconds since its start.
    n_request, n_sent, n_open, n_failed : int
        Requests of the table, sent, not yet answered, failed.
    """

    time: float
    n_request: int
    n_sent: int
    n_open: int
    n_failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything that was seen.

    Parameters
    ----------
    settings : ObserveSettings
        How it was observed, with the names and seeds that were found or drawn.
    requests : RequestTable
        What was to be sent.
    server : Server
        What answered.
    records : tuple of RequestRecord
        Requests that were taken up, in that order.
    scrapes : Scrapes
        The server's counters; without pages where it has none.
    lateness : ClientLateness
        Whether the client kept up.
    start : float
        Unix time of the run's time 0.
    duration : float
        Seconds from time 0 to the end of the last answer.
    stopped : bool
        Whether the run was stopped before its end.
    n_unsent : int
        Requests that the stop left unsent.
    parent_failed : tuple of int
        Rows that were not sent because the turn before them failed.
    """

    settings: ObserveSettings
    requests: RequestTable
    server: Server
    records: tuple[RequestRecord, ...]
    scrapes: Scrapes
    lateness: ClientLateness
    start: float
    duration: float
    stopped: bool
    n_unsent: int
    parent_failed: tuple[int, ...]


def observe(
    settings: ObserveSettings,
    requests: RequestTable,
    *,
    progress: Callable[[Progress], None] | None = None,
) -> Observation:
    """Send every request when it is due and note what comes back.

    Ctrl-C (and SIGTERM) stops the run and returns what there is; a second Ctrl-C gives that up.
    The API key is read from the environment (``TAILCAST_API_KEY``, ``OPENAI_API_KEY``).

    Parameters
    ----------
    settings : ObserveSettings
        Server, endpoint, patience.
    requests : RequestTable
        Open loop at `arrival`; rows with a `parent` wait for its answer (closed loop, sessions).
    progress : callable, optional
        Called about once a second.

    Returns
    -------
    Observation
        Failed requests are in it, with their reason. Nothing is sent twice.

    Raises
    ------
    ServerError
        If the server does not answer at the start, or refuses even the plainest request.
    UsageError
        If aiohttp is absent, or the model must be named.
    InputError
        If there is no request.
    """
    if len(requests) == 0:
        raise InputError("no request to send")
    if settings.prompt_seed is None:
        settings = replace(settings, prompt_seed=secrets.randbits(32))
    return asyncio.run(_observe(settings, requests, progress))


def closed_loop(requests: RequestTable, users: int, think_time: float = 0.0) -> RequestTable:
    """The same requests at a fixed concurrency instead of their times.

    Parameters
    ----------
    requests : RequestTable
        Rows without parents.
    users : int
        Requests in flight; row i is sent when row ``i - users`` is answered.
    think_time : float
        Seconds between an answer and the next request.

    Returns
    -------
    RequestTable
        Same rows, chained; an engine can repeat it too.

    Raises
    ------
    InputError
        If rows have parents already, or `users` is not positive.

    Examples
    --------
    >>> closed_loop(request_table(np.zeros(4), 8, 8), 2).parent
    array([-1, -1,  0,  1])
    """
    if users < 1:
        raise InputError(f"concurrency must be at least 1, got {users}")
    if np.any(requests.parent >= 0):
        raise InputError("requests of sessions cannot be sent at a fixed concurrency")
    rows = np.arange(len(requests))
    parent = np.where(rows >= users, rows - users, -1)
    return replace(
        requests,
        arrival=np.zeros(len(requests)),
        parent=parent,
        think_time=np.where(parent >= 0, think_time, 0.0),
    )


async def _observe(
    settings: ObserveSettings,
    requests: RequestTable,
    progress: Callable[[Progress], None] | None,
) -> Observation:
    with Connection(settings, api_key()) as connection:
        server = await probe(connection, settings)
        _check_lengths(requests, server)
        drive = Drive(requests, connection, server, settings)
        drive.prepare()
        await _warm_up(connection, server, settings)
        scrapes, lags = Scrapes(), list[float]()
        await scrape(connection, scrapes)
        stopped = False
        with _quiet_collector(), _terminable():
            connection.restart_clock()
            start, cpu = time.time(), time.process_time()
            if scrapes.times:
                scrapes.times[0] = 0.0
            watchers = [
                watch_loop(lags, connection.clock),
                scrape_forever(connection, scrapes, settings.scrape_interval),
                _report(drive, progress),
            ]
            async with _beside(watchers):
                try:
                    await drive.run()
                except asyncio.CancelledError:
                    stopped = True
                    if (task := asyncio.current_task()) is not None:
                        task.uncancel()
            duration = max((record.ended for record in drive.records), default=0.0)
            share = (time.process_time() - cpu) / max(connection.clock(), 1e-9)
        await scrape(connection, scrapes)
        n_known = len(drive.records) + len(drive.parent_failed)
        return Observation(
            settings=replace(settings, llm=server.llm),
            requests=requests,
            server=server,
            records=tuple(drive.records),
            scrapes=scrapes,
            lateness=client_lateness(
                drive.records, lags, cpu_share=share, out_of_files=connection.out_of_files
            ),
            start=start,
            duration=duration,
            stopped=stopped,
            n_unsent=len(requests) - n_known,
            parent_failed=tuple(drive.parent_failed),
        )


def _check_lengths(requests: RequestTable, server: Server) -> None:
    longest = int((requests.input_tokens + requests.output_tokens).max())
    if server.max_model_len is not None and longest > server.max_model_len:
        raise InputError(
            f"the longest request has {longest} tokens with its output, but the server takes "
            f"{server.max_model_len} (max_model_len)"
        )


async def _warm_up(connection: Connection, server: Server, settings: ObserveSettings) -> None:
    n_input, n_output = _WARM_UP_TOKENS
    table = request_table(np.zeros(max(settings.warm_up, 1)), n_input, n_output)
    prompts = PromptMaker(
        table, server.vocabulary, settings.endpoint, (settings.prompt_seed or 0) + 1
    )
    for row in range(settings.warm_up):
        body = request_body(
            server.dialect, settings.endpoint, server.llm, prompts.prompt(row), n_output
        )
        record = RequestRecord(row=-1, due=connection.clock(), output_tokens=n_output)
        await connection.send(record, body, server.dialect, timeout=settings.timeout)
        if record.status != "ok":
            raise ServerError(f"{settings.url}: warm-up request {row} failed: {record.error}")


async def _report(drive: Drive, progress: Callable[[Progress], None] | None) -> None:
    while progress is not None:
        await asyncio.sleep(1.0)
        ended = [record for record in drive.records if record.ended == record.ended]
        progress(
            Progress(
                time=drive.connection.clock(),
                n_request=len(drive.requests),
                n_sent=len(drive.records),
                n_open=len(drive.records) - len(ended),
                n_failed=sum(record.status != "ok" for record in ended),
            )
        )


@contextlib.asynccontextmanager
async def _beside(watchers: list) -> AsyncIterator[None]:  # type: ignore[type-arg]
    """Run coroutines beside the block; they end with it."""
    tasks = [asyncio.ensure_future(watcher) for watcher in watchers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def _quiet_collector() -> Iterator[None]:
    """Keep the garbage collector from walking everything that was loaded before the run."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM stop the run as Ctrl-C does; only the main thread may do that."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    if task is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
