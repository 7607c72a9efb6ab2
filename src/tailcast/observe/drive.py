"""Sending every request of a table when it is due."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from tailcast.observe.connection import Connection
from tailcast.observe.dialect import Prompt, request_body
from tailcast.observe.probing import Server
from tailcast.observe.prompts import PromptMaker, continues_session
from tailcast.observe.record import RequestRecord
from tailcast.observe.settings import ObserveSettings
from tailcast.request import RequestTable

# Bodies are made before the run where they fit into this many prompt tokens (about 6 bytes each).
_PREPARED_TOKENS = 30_000_000


@dataclass(slots=True)
class Drive:
    """State of one run.

    Parameters
    ----------
    requests : RequestTable
        What to send.
    connection : Connection
        To the server.
    server : Server
        What the server takes.
    settings : ObserveSettings
        Endpoint and patience.
    records : list of RequestRecord
        Requests taken up so far, in the order of sending.
    parent_failed : list of int
        Rows that were not sent because the turn before them failed.
    """

    requests: RequestTable
    connection: Connection
    server: Server
    settings: ObserveSettings
    records: list[RequestRecord] = field(default_factory=list)
    parent_failed: list[int] = field(default_factory=list)
    _prompts: PromptMaker = field(init=False)
    _bodies: dict[int, bytes] = field(init=False, default_factory=dict)
    _children: dict[int, list[int]] = field(init=False, default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(init=False, default_factory=set)
    _faults: list[BaseException] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._prompts = PromptMaker(
            self.requests,
            self.server.vocabulary,
            self.settings.endpoint,
            self.settings.prompt_seed or 0,
        )
        for row, parent in enumerate(self.requests.parent.tolist()):
            if parent >= 0:
                self._children.setdefault(parent, []).append(row)

    def prepare(self) -> None:
        """Make the bodies of all requests that do not continue a session."""
        table = self.requests
        if int(table.input_tokens.sum()) > _PREPARED_TOKENS:
            return
        for row in range(len(table)):
            if not continues_session(table, row):
                self._bodies[row] = self._body(row, self._prompts.prompt(row))

    async def run(self) -> None:
        """Send everything; returns when the last answer is complete.

        Raises
        ------
        CancelledError
            If the run is stopped; open requests are then noted as incomplete.
        """
        starts = [row for row, parent in enumerate(self.requests.parent.tolist()) if parent < 0]
        try:
            for row in starts:
                due = float(self.requests.arrival[row])
                await self._until(due)
                self._start(self._one(row, due, None))
            while self._tasks and not self._faults:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            if self._faults:
                raise self._faults[0]
        finally:
            open_tasks = list(self._tasks)
            for task in open_tasks:
                task.cancel()
            await asyncio.gather(*open_tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        fault = None if task.cancelled() else task.exception()
        if fault is not None:  # a defect of this program; failures of requests are records
            self._faults.append(fault)

    async def _until(self, due: float) -> None:
        wait = due - self.connection.clock()
        if wait > 0:
            await asyncio.sleep(wait)

    async def _one(self, row: int, due: float, parent: RequestRecord | None) -> None:
        await self._until(due)
        table = self.requests
        record = RequestRecord(
            row=row,
            due=due,
            input_tokens=int(table.input_tokens[row]),
            output_tokens=int(table.output_tokens[row]),
        )
        self.records.append(record)
        body = self._bodies.pop(row, None)
        if body is None:
            body = self._body(row, self._prompts.prompt(row, parent))
        children = self._children.get(row, [])
        await self.connection.send(
            record,
            body,
            self.server.dialect,
            timeout=min(float(table.timeout[row]), self.settings.timeout),
            keep=any(continues_session(table, child) for child in children),
        )
        for child in children:
            self._follow(child, record)
        if not children:
            self._prompts.forget(row)

    def _follow(self, child: int, parent: RequestRecord) -> None:
        """Plan a request that waits for another; a session ends with its first failure."""
        table = self.requests
        if parent.status != "ok" and continues_session(table, child):
            self._give_up(child)
            return
        due = max(float(table.arrival[child]), parent.ended + float(table.think_time[child]))
        self._start(self._one(child, due, parent if parent.status == "ok" else None))

    def _give_up(self, row: int) -> None:
        self.parent_failed.append(row)
        for child in self._children.get(row, []):
            if continues_session(self.requests, child):
                self._give_up(child)
            else:  # it only waits for its turn
                due = max(float(self.requests.arrival[child]), self.connection.clock())
                self._start(self._one(child, due, None))

    def _body(self, row: int, prompt: Prompt) -> bytes:
        table = self.requests
        return request_body(
            self.server.dialect,
            self.settings.endpoint,
            self.server.llm,
            prompt,
            int(table.output_tokens[row]),
            int(table.priority[row]) if self.server.dialect.name == "vllm" else 0,
        )


async def watch_loop(lags: list[float], clock: Callable[[], float], period: float = 0.02) -> None:
    """Note how late the event loop wakes a task, until cancelled.

    Parameters
    ----------
    lags : list of float
        Grows by one entry a period, in seconds.
    clock : callable
        Monotonic seconds.
    period : float
        Seconds between looks.
    """
    while True:
        before = clock()
        await asyncio.sleep(period)
        lags.append(max(clock() - before - period, 0.0))
