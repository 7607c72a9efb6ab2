"""A plain engine: one step at a time, one object a request, one float a token; slow on purpose."""

from bisect import insort
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, inf, isnan, nan

from engine.reference_cache import Holding, KvCache
from tailcast.engine.limits import Limits
from tailcast.request import RequestTable
from tailcast.step_law import StepLaw


@dataclass(eq=False)
class Job:
    """One request on its way through the engine."""

    row: int
    arrival: float = nan
    queue_time: float = nan
    leave: float = inf
    status: str = "unfinished"
    target: int = 0
    computed: int = 0
    prefilling: bool = True
    generated: int = 0
    scheduled: float = nan
    cached_tokens: int = 0
    preemptions: int = 0
    token_times: list[float] = field(default_factory=list)
    holding: Holding = field(init=False)

    def __post_init__(self) -> None:
        self.holding = Holding(self.row)


@dataclass
class Grant:
    """Tokens that a request may compute in one step."""

    job: Job
    progress: int
    tokens: int
    prefill: bool


@dataclass
class Step:
    """One executed step."""

    start: float
    end: float
    fixed: float
    grants: list[Grant]
    used_blocks: int
    running: int
    waiting: int

    @cached_property
    def work(self) -> tuple[int, float, int, int, int]:
        """Prefill tokens, prefill pairs, chunks, decodes and their context."""
        chunks = [g for g in self.grants if g.prefill]
        decodes = [g for g in self.grants if not g.prefill]
        return (
            sum(g.tokens for g in chunks),
            sum(g.tokens * (g.progress + g.tokens / 2) for g in chunks),
            len(chunks),
            len(decodes),
            sum(g.progress for g in decodes),
        )


class Engine:
    """One replica that serves one table of requests under one draw of the law."""

    def __init__(self, requests: RequestTable, limits: Limits, law: StepLaw) -> None:
        self.requests = requests
        self.limits = limits
        self.law = law
        self.cache = KvCache(requests, limits)
        self.jobs = [Job(row) for row in range(len(requests))]
        self.children: list[list[int]] = [[] for _ in self.jobs]
        for row, parent in enumerate(requests.parent):
            if parent >= 0:
                self.children[int(parent)].append(row)
        self.future: list[tuple[float, int]] = []
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.unreleased: list[Job] = []
        self.steps: list[Step] = []
        self.preemptions = 0
        self.cached_tokens = 0

    def seconds(self, name: str) -> float:
        """One coefficient of the law."""
        return float(getattr(self.law, name)[0])

    # Arrivals -------------------------------------------------------------------------------

    def send(self, row: int, arrival: float) -> None:
        """A client sends a request, which the server may reject at once."""
        table, limits, job = self.requests, self.limits, self.jobs[row]
        if arrival >= limits.horizon:
            return
        job.arrival = arrival
        tokens = int(table.input_tokens[row] + table.output_tokens[row])
        too_long = tokens > limits.max_model_len
        if too_long or ceil((tokens - 1) / limits.block_size) > limits.kv_blocks:
            self.end_without_answer(job, "rejected")
            return
        job.queue_time = arrival + self.seconds("ingest")
        job.leave = arrival + float(table.timeout[row])
        job.target = int(table.input_tokens[row])
        insort(self.future, (job.queue_time, row))

    def end_without_answer(self, job: Job, status: str) -> None:
        """Close a request that will never finish; what depends on it is never sent."""
        job.status = status
        for child in self.children[job.row]:
            self.end_without_answer(self.jobs[child], "unsent")

    def finish(self, job: Job, end: float) -> None:
        """Close a request that has its last token and send what waited for it."""
        job.status = "finished"
        seen = end + self.seconds("stream") * len(job.token_times) + self.seconds("finish")
        for child in self.children[job.row]:
            ready = seen + float(self.requests.think_time[child])
            self.send(child, max(float(self.requests.arrival[child]), ready))

    # Queue ----------------------------------------------------------------------------------

    def rank(self, job: Job) -> tuple[int, float, int]:
        """Place in the priority scheduler's order; the smallest is served first."""
        return (int(self.requests.priority[job.row]), job.arrival, job.row)

    def open_queue(self, cutoff: float) -> None:
        """Let in who is queued by `cutoff`, then let go who has left by then."""
        while self.future and self.future[0][0] <= cutoff:
            self.waiting.append(self.jobs[self.future.pop(0)[1]])
        for job in [job for job in self.waiting if job.leave <= cutoff]:
            self.waiting.remove(job)
            self.end_without_answer(job, "timed_out")
        if self.limits.priority:
            self.waiting.sort(key=self.rank)

    def victim(self) -> Job:
        """The running request that loses its blocks first."""
        candidates = [job for job in self.running if job not in self.unreleased]
        return max(candidates, key=self.rank) if self.limits.priority else candidates[-1]

    def preempt(self, job: Job, grants: list[Grant]) -> int:
        """Put a running request back into the queue; returns the tokens it gives back."""
        returned = [g for g in grants if g.job is job]
        for grant in returned:
            grants.remove(grant)
        self.running.remove(job)
        self.cache.release(job.holding)
        job.computed = 0
        job.prefilling = True
        job.target = int(self.requests.input_tokens[job.row]) + job.generated
        job.preemptions += 1
        self.preemptions += 1
        self.waiting.insert(0, job)
        if self.limits.priority:
            self.waiting.sort(key=self.rank)
        return sum(g.tokens for g in returned)

    # Batch formation ------------------------------------------------------------------------

    def wanted(self, job: Job) -> int:
        """Tokens a request would compute in this step if the budget allowed."""
        if not job.prefilling:
            return 1
        left = job.target - job.computed
        threshold = self.limits.long_prefill_token_threshold
        return min(left, threshold) if threshold > 0 else left

    def blocks_missing(self, job: Job, tokens: int) -> int:
        """Blocks that a request needs for more tokens beyond those it holds."""
        needed = ceil((job.computed + tokens) / self.limits.block_size)
        return max(0, needed - len(job.holding.blocks))

    def grant(self, job: Job, tokens: int, grants: list[Grant]) -> None:
        """Give a request blocks for tokens, and the tokens."""
        for _ in range(self.blocks_missing(job, tokens)):
            self.cache.take(job.holding)
        self.cache.fill(job.holding, job.computed, job.computed + tokens)
        grants.append(Grant(job, job.computed, tokens, job.prefilling))

    def form(self, cutoff: float) -> tuple[list[Grant], bool]:
        """The batch that is fixed at `cutoff`, and whether somebody was preempted for it."""
        self.open_queue(cutoff)
        grants: list[Grant] = []
        budget = self.limits.max_num_batched_tokens
        budget, preempted = self.continue_running(grants, budget)
        if not preempted:
            self.admit_waiting(grants, budget)
        return grants, preempted

    def continue_running(self, grants: list[Grant], budget: int) -> tuple[int, bool]:
        """Phase 1: running requests in admission order."""
        preempted = False
        for job in list(self.running):
            if budget <= 0:
                break
            if job not in self.running or job in self.unreleased:
                continue
            tokens = min(self.wanted(job), budget)
            while self.blocks_missing(job, tokens) > self.cache.free:
                loser = self.victim()
                budget += self.preempt(loser, grants)
                preempted = True
                if loser is job:
                    return budget, preempted
            self.grant(job, tokens, grants)
            budget -= tokens
        return budget, preempted

    def admit_waiting(self, grants: list[Grant], budget: int) -> None:
        """Phase 2: the head of the queue, as long as it fits."""
        while self.waiting and len(self.running) < self.limits.max_num_seqs and budget > 0:
            job = self.waiting[0]
            hits = self.cache.hits(job.row, job.target)
            job.computed = len(hits) * self.limits.block_size
            tokens = self.wanted(job)
            if job.target - job.computed > budget and not self.limits.chunked_prefill:
                break
            tokens = min(tokens, budget)
            new_blocks = ceil((job.computed + tokens) / self.limits.block_size) - len(hits)
            if new_blocks > self.cache.free - self.cache.in_pool(hits):
                break
            self.waiting.pop(0)
            self.running.append(job)
            self.cache.claim(job.holding, hits)
            self.cached_tokens += job.computed
            job.cached_tokens += job.computed
            self.grant(job, tokens, grants)
            budget -= tokens

    # Clock ----------------------------------------------------------------------------------

    def fixing_time(self, starts: list[float]) -> float:
        """When the batch of the step that starts at ``starts[-1]`` is fixed.

        `starts` are the starts of the busy period's steps.
        """
        lag = self.seconds("schedule_lag")
        now = starts[-1]
        if len(starts) == 1:
            return now
        last = starts[-2]
        before = starts[-3] if len(starts) > 2 else last
        if lag < 1:
            return max(starts[0], now - lag * (now - last))
        return max(starts[0], last - (lag - 1) * (last - before))

    def duration(self, work: tuple[int, float, int, int, int]) -> float:
        """Seconds that a step takes."""
        tokens, pairs, chunks, decodes, context = work
        table = self.law.token_table[0]
        return (
            self.seconds("per_step")
            + self.seconds("per_prefill_token") * tokens
            + self.seconds("per_prefill_pair") * pairs
            + self.seconds("per_prefill_request") * chunks
            + self.seconds("per_decode") * decodes
            + self.seconds("per_context_token") * context
            + float(table[min(tokens + decodes, len(table) - 1)])
        )

    def release_finished(self) -> None:
        """Give back slots and blocks of requests that have their last token."""
        for job in self.unreleased:
            self.running.remove(job)
            self.cache.release(job.holding)
        self.unreleased = []

    def batch(self, now: float, fixed: float) -> tuple[list[Grant], float, int, int]:
        """The batch that starts now, when it was fixed, blocks used and requests left waiting."""
        grants, preempted = self.form(fixed)
        used, waiting = self.limits.kv_blocks - self.cache.free, len(self.waiting)
        self.release_finished()
        first = True
        while not grants and (first or preempted):
            first = False
            fixed = now
            grants, preempted = self.form(now)
            used, waiting = self.limits.kv_blocks - self.cache.free, len(self.waiting)
        return grants, fixed, used, waiting

    def deliver(self, step: Step) -> None:
        """End of a step: tokens reach their requests, which may finish or have left."""
        for grant in step.grants:
            job = grant.job
            job.computed += grant.tokens
            if job.prefilling and job.computed < job.target:
                continue
            job.prefilling = False
            job.generated += 1
            job.token_times.append(step.end)
            if job.generated == self.requests.output_tokens[job.row]:
                self.finish(job, step.end)
        self.unreleased = [job for job in self.running if job.status == "finished"]
        if self.seconds("schedule_lag") < 0.5:
            self.release_finished()
        for job in [job for job in self.running if job not in self.unreleased]:
            if job.leave <= step.end:
                self.running.remove(job)
                self.cache.release(job.holding)
                self.end_without_answer(job, "timed_out")

    def busy_period(self, start: float) -> bool:
        """Steps back to back until nothing can be scheduled; false if the horizon cuts them off."""
        starts = [start]
        while starts[-1] < self.limits.horizon:
            now = starts[-1]
            grants, fixed, used, waiting = self.batch(now, self.fixing_time(starts))
            if not grants:
                if self.waiting or self.running:
                    raise RuntimeError(f"nothing can be scheduled at {now!r} but requests wait")
                return True
            for grant in grants:
                if isnan(grant.job.scheduled):
                    grant.job.scheduled = now
            step = Step(now, now, fixed, grants, used, len(self.running), waiting)
            step.end = now + self.duration(step.work)
            self.steps.append(step)
            self.deliver(step)
            starts.append(step.end)
        return False

    def run(self) -> None:
        """Serve everything that can be served before the horizon."""
        for row in range(len(self.requests)):
            if self.requests.parent[row] < 0:
                self.send(row, float(self.requests.arrival[row]))
        while self.future and self.busy_period(self.future[0][0]):
            pass


def reference_run(requests: RequestTable, limits: Limits, law: StepLaw) -> Engine:
    """Run the plain engine to its end."""
    engine = Engine(requests, limits, law)
    engine.run()
    return engine
