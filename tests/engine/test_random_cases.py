"""The random cases are worth their name only if they reach every rule of the engine."""

from collections import Counter

from engine.random_cases import EXACT_LAGS, LAGS, Case, random_case
from engine.reference import Engine, Grant, Job
from engine.reference_cache import Block, Holding, KvCache

RULES = (
    "preempted first come first served",
    "preempted by priority",
    "preempted itself",
    "gave tokens back",
    "tried again after an empty batch",
    "tried again after preempting itself",
    "formed with finished requests unreleased",
    "hit in the free pool",
    "hit in use by another",
    "hit prefix",
    "hit content",
    "hit own",
    "evicted what was cached",
    "computed a duplicate",
    "computed behind a duplicate",
    "waiting client left",
    "running client left",
    "preempted client left",
    "rejected",
    "unsent",
    "unfinished",
    "follow-up sent",
    "chunk cut by budget",
    "chunk cut by threshold",
    "queue stopped by blocks",
    "queue stopped by slots",
    "queue stopped by budget",
    "queued exactly when fixed",
    "single token",
)


class WatchedCache(KvCache):
    """A KV cache that counts what happens in it."""

    seen: Counter[str]

    def claim(self, holding: Holding, hits: list[Block]) -> None:
        """Count hits by where they were found."""
        for block in hits:
            where = "in the free pool" if block.users == 0 else "in use by another"
            self.seen[f"hit {where}"] += 1
            self.seen[f"hit {block.key[0] if block.key else 'nothing'}"] += 1
        super().claim(holding, hits)

    def take(self, holding: Holding) -> None:
        """Count evictions."""
        before = len(self.cached)
        super().take(holding)
        self.seen["evicted what was cached"] += len(self.cached) < before

    def fill(self, holding: Holding, before: int, after: int) -> None:
        """Count copies that are not worth keeping."""
        size = self.limits.block_size
        for index in range(before // size, after // size):
            key = self.key(holding.row, index)
            if key in self.cached:
                self.seen["computed a duplicate"] += 1
            elif key is not None and key[0] in holding.spoilt and self.limits.prefix_caching:
                self.seen["computed behind a duplicate"] += 1
        super().fill(holding, before, after)


class Watched(Engine):
    """A plain engine that counts the rules it uses."""

    def __init__(self, case: Case) -> None:
        super().__init__(case.requests, case.limits, case.law)
        self.seen: Counter[str] = Counter()
        self.cache = WatchedCache(case.requests, case.limits)
        self.cache.seen = self.seen
        self.attempts: list[bool] = []

    def finish(self, job: Job, end: float) -> None:
        """Count answers."""
        self.seen["single token"] += len(job.token_times) == 1
        self.seen["follow-up sent"] += len(self.children[job.row])
        super().finish(job, end)

    def end_without_answer(self, job: Job, status: str) -> None:
        """Count who gets no answer, and in which state."""
        self.seen[status] += 1
        if status == "timed_out":
            preempted = job.preemptions > 0 and job.prefilling and not job.holding.blocks
            running = job.computed > 0 and not preempted
            self.seen[f"{'running' if running else 'waiting'} client left"] += 1
            self.seen["preempted client left"] += preempted
        super().end_without_answer(job, status)

    def preempt(self, job: Job, grants: list[Grant]) -> int:
        """Count preemptions by scheduler."""
        kind = "by priority" if self.limits.priority else "first come first served"
        self.seen[f"preempted {kind}"] += 1
        returned = super().preempt(job, grants)
        self.seen["gave tokens back"] += returned > 0
        return returned

    def form(self, cutoff: float) -> tuple[list[Grant], bool]:
        """Count what a batch ran into."""
        self.seen["formed with finished requests unreleased"] += len(self.unreleased) > 0
        self.seen["queued exactly when fixed"] += len(self.steps) > 0 and any(
            time == cutoff < self.steps[-1].end for time, _ in self.future
        )
        grants, preempted = super().form(cutoff)
        self.seen["preempted itself"] += preempted and not grants
        left = self.limits.max_num_batched_tokens - sum(grant.tokens for grant in grants)
        if self.waiting and not preempted:
            slots = len(self.running) >= self.limits.max_num_seqs
            reason = "slots" if slots else "budget" if left <= 0 else "blocks"
            self.seen[f"queue stopped by {reason}"] += 1
        self.attempts.append(preempted)
        return grants, preempted

    def batch(self, now: float, fixed: float) -> tuple[list[Grant], float, int, int]:
        """Count second attempts that gave a batch."""
        self.attempts.clear()
        out = super().batch(now, fixed)
        if out[0] and len(self.attempts) > 1:
            rule = "preempting itself" if self.attempts[0] else "an empty batch"
            self.seen[f"tried again after {rule}"] += 1
        return out

    def grant(self, job: Job, tokens: int, grants: list[Grant]) -> None:
        """Count chunks by what cut them."""
        if job.prefilling and job.computed + tokens < job.target:
            threshold = self.limits.long_prefill_token_threshold
            by = "threshold" if tokens == threshold else "budget"
            self.seen[f"chunk cut by {by}"] += 1
        super().grant(job, tokens, grants)


def test_the_fast_cases_reach_every_rule() -> None:
    """Each rule in at least three of the 300 cases that the agreement test runs each time."""
    cases: Counter[str] = Counter()
    lags: Counter[tuple[bool, float]] = Counter()
    for seed in range(300):
        case = random_case(seed)
        engine = Watched(case)
        engine.run()
        engine.seen["unfinished"] += any(job.status == "unfinished" for job in engine.jobs)
        cases.update(rule for rule, count in engine.seen.items() if count)
        lags[case.exact, float(case.law.schedule_lag[0])] += 1
    assert {rule: cases[rule] for rule in RULES if cases[rule] < 3} == {}
    assert all(lags[False, lag] >= 10 for lag in LAGS)
    assert all(lags[True, lag] >= 5 for lag in EXACT_LAGS)
