"""Negative controls: a plain engine with one rule bent must disagree with the compiled one."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from engine import runs
from engine.random_cases import random_case
from engine.reference import Engine, Grant
from engine.test_agreement import compare

ENGINE, CACHE = "engine.reference", "engine.reference_cache"

MUTANTS: dict[str, tuple[str, str, str]] = {
    "queued just in time is late": (
        ENGINE,
        "self.future[0][0] <= cutoff",
        "self.future[0][0] + 1e-13 * bool(self.running) <= cutoff",
    ),
    "leaving just in time is late": (ENGINE, "job.leave <= step.end", "job.leave < step.end"),
    "the last token comes too late": (ENGINE, "if job not in self.unreleased]:\n", "]:\n"),
    "lag is at most one step": (ENGINE, "last - (lag - 1) * (last - before)", "last"),
    "half a step of lag holds nothing": (ENGINE, '"schedule_lag") < 0.5', '"schedule_lag") <= 0.5'),
    "admission after preemption": (ENGINE, "if not preempted:", "if True:"),
    "no second attempt after preemption": (
        ENGINE,
        "(first or preempted)",
        "(first and not preempted)",
    ),
    "the first of the batch is preempted": (ENGINE, "candidates[-1]", "candidates[0]"),
    "the preempted go to the end": (
        ENGINE,
        "self.waiting.insert(0, job)",
        "self.waiting.append(job)",
    ),
    "revoked tokens are lost": (ENGINE, "sum(g.tokens for g in returned)", "0"),
    "preemption forgets generated tokens": (ENGINE, "[job.row]) + job.generated", "[job.row])"),
    "a chunk attends to its end": (ENGINE, "g.progress + g.tokens / 2", "g.progress + g.tokens"),
    "context includes the new token": (ENGINE, "sum(g.progress for", "sum(g.progress + 1 for"),
    "the table is not clipped at its end": (ENGINE, "len(table) - 1)]", "len(table) - 2)]"),
    "the threshold is ignored": (
        ENGINE,
        "if threshold > 0 else left",
        "if threshold > 99 else left",
    ),
    "chunks without chunked prefill": (ENGINE, "and not self.limits.chunked_prefill", "and False"),
    "one slot too many": (ENGINE, "< self.limits.max_num_seqs", "<= self.limits.max_num_seqs"),
    "the last token needs a block": (ENGINE, "ceil((tokens - 1)", "ceil((tokens + 0)"),
    "a fully cached prompt": (CACHE, "(target - 1) //", "target //"),
    "hits in the pool are free": (
        ENGINE,
        "self.cache.free - self.cache.in_pool(hits)",
        "self.cache.free",
    ),
    "young blocks are evicted first": (CACHE, "popitem(last=False)", "popitem(last=True)"),
    "heads are released first": (CACHE, "holding.blocks[::-1]", "holding.blocks"),
    "garbage is released in its place": (
        CACHE,
        "key=lambda block: block.key is not None",
        "key=id",
    ),
    "answers are nobody's content": (CACHE, "or table.session_output[row]", ""),
    "duplicates spoil nothing": (CACHE, "or key[0] in holding.spoilt", ""),
    "priority ties go to the last row": (ENGINE, "job.arrival, job.row)", "job.arrival, -job.row)"),
    "follow-ups come without thinking": (ENGINE, "ready = seen + ", "ready = seen + 0 * "),
    "streaming delays no follow-up": (ENGINE, '"stream") * len', '"stream") * 0 * len'),
}


def bent_engine(patch: pytest.MonkeyPatch, module: str, old: str, new: str) -> None:
    """Put a reference engine in place whose source has one expression replaced."""
    for name in (CACHE, ENGINE):
        source = Path(sys.modules[name].__file__ or "").read_text(encoding="utf-8")
        if name == module:
            assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {name}"
            source = source.replace(old, new)
        bent = ModuleType(name)
        patch.setitem(sys.modules, name, bent)
        exec(compile(source, f"<bent {name}>", "exec"), bent.__dict__)
    form = bent.Engine.form

    def form_for_a_while(self: Engine, cutoff: float) -> tuple[list[Grant], bool]:
        if len(self.steps) + self.preemptions > 20_000:
            raise RuntimeError("a bent engine runs for ever")
        out: tuple[list[Grant], bool] = form(self, cutoff)
        return out

    patch.setattr(bent.Engine, "form", form_for_a_while)
    patch.setattr(runs, "reference_run", bent.reference_run)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_bent_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bent_engine(monkeypatch, *MUTANTS[name])
    for seed in range(300):
        try:
            if compare(random_case(seed)) is not None:
                return
        except (
            RuntimeError,
            LookupError,
            ValueError,
        ):  # it starves somebody or runs for ever: noticed too
            return
    pytest.fail(f"300 random cases do not notice that {name}")
