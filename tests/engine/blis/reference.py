"""A plain BLIS engine: real token lists, hashed blocks, an event heap; slow on purpose.

It shares nothing with the compiled engine but the step-time formulas.
"""

import heapq
from collections import OrderedDict
from dataclasses import dataclass, field

from tailcast.engine.blis.latency_model import BatchEntry, BlisLatencyModel
from tailcast.engine.blis.requests import BlisRequests
from tailcast.engine.blis.settings import BlisSettings

Token = tuple[str, int, int]
Hash = tuple[object, ...]
ARRIVAL, QUEUED, STEP, LEFT, TIMEOUT = 0, 1, 3, 5, 6


@dataclass(eq=False)
class Block:
    """One KV block."""

    tokens: list[Token] = field(default_factory=list)
    hash: Hash | None = None
    references: int = 0


@dataclass(eq=False)
class Request:
    """One request and its fate."""

    row: int
    name: str
    arrival: int
    prompt: list[Token]
    output: list[Token]
    budget: int
    deadline: int
    priority: int
    state: str = "pending"
    progress: int = 0
    computed: int = 0
    new: int = 0
    first_token: bool = False
    itl: list[int] = field(default_factory=list)
    ttft: int = -1
    e2e: int = -1
    scheduled: int = -1
    preemptions: int = 0
    capped: bool = False
    blocks: list[Block] | None = None


class Cache:
    """Paged cache with prefix hashes."""

    def __init__(self, n_block: int, size: int) -> None:
        self.n_block = n_block
        self.size = size
        self.free: OrderedDict[Block, None] = OrderedDict((Block(), None) for _ in range(n_block))
        self.by_hash: dict[Hash, Block] = {}
        self.hits = 0
        self.misses = 0

    def lookup(self, request: Request) -> list[Block]:
        """Longest cached run of full prompt blocks."""
        found: list[Block] = []
        previous: Hash | None = None
        for end in range(self.size, len(request.prompt) + 1, self.size):
            previous = (previous, *request.prompt[end - self.size : end])
            if previous not in self.by_hash:
                break
            found.append(self.by_hash[previous])
        return found

    def pop(self) -> Block:
        """Oldest free block, emptied."""
        block, _ = self.free.popitem(last=False)
        if block.hash is not None:
            self.by_hash.pop(block.hash, None)
        block.tokens, block.hash, block.references = [], None, 1
        self.misses += 1
        return block

    def publish(self, request: Request) -> None:
        """Hash the request's last block."""
        blocks = request.blocks or []
        previous = blocks[-2].hash if len(blocks) > 1 else None
        blocks[-1].hash = (previous, *blocks[-1].tokens)
        self.by_hash[blocks[-1].hash] = blocks[-1]

    def allocate(self, request: Request, start: int, end: int, cached: list[Block]) -> bool:
        """Append tokens start..end of the sequence to the request's blocks."""
        in_prompt = request.progress < len(request.prompt)
        if in_prompt:
            tokens = request.prompt[start:end]
            spare = self.size - len(request.blocks[-1].tokens) if request.blocks else 0
            needed = -(-max(0, len(tokens) - spare) // self.size)
            if needed + sum(b.references == 0 for b in cached) > len(self.free):
                return False
        else:
            tokens = [request.output[start - len(request.prompt)]]
            full = not request.blocks or len(request.blocks[-1].tokens) == self.size
            if full and not self.free:
                return False
        if not tokens:
            return True
        if request.blocks is None:
            request.blocks = list(cached)
            for block in cached:
                self.free.pop(block, None)
                block.references += 1
            self.hits += len(cached)
        for token in tokens:
            fresh = not request.blocks or len(request.blocks[-1].tokens) == self.size
            if fresh:
                request.blocks.append(self.pop())
            request.blocks[-1].tokens.append(token)
            if len(request.blocks[-1].tokens) == self.size and (in_prompt or not fresh):
                self.publish(request)
        return True

    def release(self, request: Request) -> None:
        """Give everything back, last block first."""
        for block in reversed(request.blocks or []):
            block.references -= 1
            if block.references == 0:
                self.free[block] = None
        request.blocks = None


class PlainBlis:
    """One instance."""

    def __init__(
        self, requests: BlisRequests, settings: BlisSettings, model: BlisLatencyModel
    ) -> None:
        self.settings = settings
        self.model = model
        self.cache = Cache(settings.kv_blocks, settings.block_size)
        self.requests = [_request(requests, row) for row in range(len(requests))]
        self.queue: list[Request] = []
        self.running: list[Request] = []
        self.events: list[tuple[int, int, int, Request | None]] = []
        self.pending = False
        self.clock = self.sequence = self.steps = self.preempted = self.failures = 0
        self.gaps: list[int] = []

    def push(self, time: int, kind: int, request: Request | None = None) -> None:
        """Schedule an event."""
        heapq.heappush(self.events, (time, kind, self.sequence, request))
        self.sequence += 1

    def run(self) -> "PlainBlis":
        """Play all events up to the horizon."""
        for arriving in sorted(self.requests, key=lambda r: r.arrival):
            self.push(arriving.arrival, ARRIVAL, arriving)
        while self.events and self.events[0][0] <= self.settings.horizon_us:
            now, kind, _, request = heapq.heappop(self.events)
            if kind == TIMEOUT and request is not None and request.state == "completed":
                continue
            self.clock = now
            if kind == STEP:
                self.step(now)
            elif request is not None and kind == ARRIVAL:
                self.push(now + self.model.ingest_us(len(request.prompt)), QUEUED, request)
            elif request is not None and kind == QUEUED:
                self.enqueue(request, now)
                self.wake(now)
            elif request is not None and kind == TIMEOUT:
                self.time_out(request)
                self.wake(now)
        return self

    def wake(self, now: int) -> None:
        """Start a step if there is work and none is pending."""
        if not self.pending and self.queue:
            self.pending = True
            self.push(now, STEP)

    def enqueue(self, request: Request, now: int) -> None:
        """Guards, then the back of the queue."""
        limit, prompt = self.settings.max_model_len, len(request.prompt)
        budget = request.budget
        if budget == 0 and limit > prompt:
            budget = limit - prompt
        too_long = limit > 0 and (prompt >= limit or prompt + budget > limit)
        if too_long or budget < 0 or -(-prompt // self.cache.size) > self.cache.n_block:
            request.state = "dropped"
        elif 0 < request.deadline <= now:
            request.state = "timed_out"
        else:
            request.state = "queued"
            self.queue.append(request)
            if 0 < request.deadline <= self.settings.horizon_us:
                self.push(request.deadline, TIMEOUT, request)

    def time_out(self, request: Request) -> None:
        """The client leaves."""
        (self.running if request.state == "running" else self.queue).remove(request)
        self.cache.release(request)
        request.state = "timed_out"

    def step(self, now: int) -> None:
        """Form a batch, run it, end what is done."""
        self.pending = False
        if not self.running and not self.queue:
            return
        self.steps += 1
        self.form_batch(now)
        batch = [
            BatchEntry(
                input_tokens=len(r.prompt),
                output_tokens=len(r.output),
                progress=r.progress,
                new_tokens=r.new,
            )
            for r in self.running
            if r.new > 0
        ]
        duration = self.model.step_time_us(batch)
        for request in self.running:
            if request.progress < len(request.prompt):
                request.progress = request.computed
            elif request.new > 0:
                request.progress += 1
                request.itl.append(duration + self.model.stream_us)
            if request.progress == len(request.prompt) and not request.first_token:
                request.first_token = True
                request.ttft = now + duration + self.model.stream_us - request.arrival
        self.running = [r for r in self.running if not self.ended(r, now + duration)]
        if self.running or self.queue:
            self.pending = True
            self.push(now + duration, STEP)

    def ended(self, request: Request, end: int) -> bool:
        """Whether the request is done, and its bookkeeping."""
        limit, wanted = self.settings.max_model_len, len(request.output)
        if request.progress >= len(request.prompt) + max(wanted, 1) - 1:
            last = request.progress
            if wanted and not self.cache.allocate(request, last, last + 1, []):
                self.failures += 1
        elif limit > 0 and request.progress >= limit - 1:
            request.capped = True
        else:
            return False
        self.cache.release(request)
        request.state = "completed"
        request.e2e = request.ttft + sum(request.itl) + (self.model.finish_us if wanted else 0)
        self.gaps += request.itl
        self.push(end, LEFT)
        return True

    def form_batch(self, now: int) -> None:
        """Both phases."""
        self.sort_queue()
        limits = self.settings
        budget = limits.max_num_batched_tokens
        before = self.preempted
        for request in self.running:
            request.new = 0
        position = 0
        while position < len(self.running) and budget > 0:
            request = self.running[position]
            tokens = self.grant(request, request.progress, budget)
            served, position, budget = self.make_room(request, tokens, position, budget)
            if not served:
                break
            request.new = tokens
            request.computed += tokens
            budget -= tokens
            position += 1
        while (
            self.preempted == before
            and self.queue
            and len(self.running) < limits.max_num_seqs
            and budget > 0
        ):
            request = self.queue[0]
            cached = self.cache.lookup(request)
            start = len(cached) * self.cache.size
            tokens = self.grant(request, start, budget, admission=True)
            if not self.cache.allocate(request, start, start + tokens, cached):
                break
            self.running.append(self.queue.pop(0))
            request.state, request.scheduled = "running", now
            request.new, request.computed = tokens, start + tokens
            budget -= tokens

    def grant(self, request: Request, start: int, budget: int, admission: bool = False) -> int:
        """Tokens that the caps allow."""
        limit, threshold = self.settings.max_model_len, self.settings.long_prefill_token_threshold
        if start < len(request.prompt) or admission:
            tokens = min(len(request.prompt) - start, budget)
            tokens = min(tokens, threshold) if threshold > 0 else tokens
            return min(tokens, max(limit - 1 - start, 0)) if limit > 0 else tokens
        blocked = limit > 0 and start + 1 > limit - 1
        return 1 if request.output and not blocked else 0

    def make_room(
        self, request: Request, tokens: int, position: int, budget: int
    ) -> tuple[bool, int, int]:
        """Allocate, preempting others; whether it worked, where we are, what is left."""
        if tokens == 0:
            return True, position, budget
        progress = request.progress
        while not self.cache.allocate(request, progress, progress + tokens, []):
            victim = self.running[-1]
            if self.settings.preemption_policy == "priority":
                order = range(len(self.running))
                victim = self.running[max(order, key=lambda i: (*_urgency(self.running[i]), i))]
            where = self.running.index(victim)
            del self.running[where]
            position -= where < position
            budget += victim.new
            victim.new = victim.progress = victim.computed = 0
            victim.itl, victim.first_token, victim.state = [], False, "queued"
            victim.preemptions += 1
            self.preempted += 1
            self.cache.release(victim)
            self.queue.insert(0, victim)
            if victim is request:
                return False, position, budget
        return True, position, budget

    def sort_queue(self) -> None:
        """Order the waiting requests by the scheduler."""
        scheduler = self.settings.scheduler
        if scheduler == "priority-fcfs":
            self.queue.sort(key=lambda r: (r.priority, r.arrival, r.name))
        elif scheduler == "sjf":
            self.queue.sort(key=lambda r: (len(r.prompt), r.arrival, r.name))
        elif scheduler == "reverse-priority":
            self.queue.sort(key=lambda r: (-r.priority, r.arrival, r.name))


def _urgency(request: Request) -> tuple[int, int]:
    return request.priority, request.arrival


def _request(requests: BlisRequests, row: int) -> Request:
    n, out = int(requests.input_tokens[row]), int(requests.output_tokens[row])
    group, shared = int(requests.prefix_group[row]), int(requests.prefix_length[row])
    content = int(requests.content_stream[row])
    own: tuple[str, int] = ("content", content) if content >= 0 else ("row", row)
    generated = own if requests.session_output[row] else ("output", row)
    shared = shared if group >= 0 else 0
    return Request(
        row=row,
        name=requests.request_id[row],
        arrival=int(requests.arrival_us[row]),
        prompt=[("prefix", group, i) for i in range(shared)]
        + [(*own, i) for i in range(shared, n)],
        output=[(*generated, n + i) for i in range(out)],
        budget=int(requests.max_output_tokens[row]),
        deadline=int(requests.deadline_us[row]),
        priority=int(requests.priority[row]),
    )
