"""The cheapest of 1 100 Llama-2-70B configurations, by the statistic that must hold 300 ms.

python examples/sweep_by_statistic.py > examples/sweep_by_statistic.out
"""

from dataclasses import replace
from pathlib import Path

from tailcast.posteriors import load_posterior
from tailcast.search.executors import Threads
from tailcast.search.search import Search, SearchResult
from tailcast.search.settings import load_search_study
from tailcast.search.space import build_space
from tailcast.slo import parse_objective

STUDY = Path(__file__).with_name("llama2_70b_sweep.toml")


def answer(stat: str) -> SearchResult:
    """Search with one statistic of TTFT as the objective and as the ranking."""
    study = load_search_study(STUDY)
    objective = parse_objective(f"ttft.{stat}=300ms")
    study = replace(
        study,
        terms=replace(study.terms, objectives=(objective,)),
        settings=replace(study.settings, rank=objective),
    )
    posteriors = {study.posterior: load_posterior(study.posterior)}
    search = Search(
        study=study, space=build_space(study), posteriors=posteriors, executor=Threads(2)
    )
    found = search.run()
    search.close()
    return found


def line(stat: str, found: SearchResult) -> str:
    """The answer in one line."""
    used = f"{found.race.runs:.0f} of {found.n_exhaustive} runs"
    winner = found.decision.winner
    if winner is None:
        best = found.sustained
        where = found.space.candidates[best.candidate].label
        return f"{stat:5} none at 8 req/s; {best.held.value:.3g} req/s by {where} ({used})"
    chosen = found.space.candidates[winner.candidate]
    bound = f"P(miss) {winner.p_miss:.1%}, at most {winner.p_miss_high:.1%}"
    return f"{stat:5} {chosen.cost:4.1f} $/h  {chosen.label}: {bound} ({used})"


if __name__ == "__main__":
    for name in ("mean", "p90", "p99"):
        print(line(name, answer(name)))
