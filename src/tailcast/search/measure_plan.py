"""Contenders of a decision, and the runs that could be observed for it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tailcast.errors import InputError
from tailcast.risk.blocks import law_key
from tailcast.risk.fleet import Fleet
from tailcast.risk.vary import mean_rate
from tailcast.search.evaluator import Job, Simulator
from tailcast.search.executors import RACE
from tailcast.search.measure import Option, Stakes, Worth, rank_options
from tailcast.search.race import Race
from tailcast.search.settings import SearchStudy
from tailcast.study import deployment_from_mapping, replicas_of
from tailcast.workload.arrivals import Stage
from tailcast.workload.fields import Fields
from tailcast.workload.lengths import Constant
from tailcast.workload.spec import RequestClass, Workload

_MOST_CONTENDERS = 8
_MOST_DEPLOYMENTS = 4
_SHARES = (0.5, 1.0)
_N_REQUEST = 1000


def contenders(race: Race) -> list[int]:
    """Candidates that the decision is between.

    Parameters
    ----------
    race : Race
        That was run.

    Returns
    -------
    list of int
        The two best seen of each cost, cheapest first; those that miss more often than not are left
        out unless nothing else is left. At most 8.
    """
    seen = [k for k in range(len(race.status)) if race.n_seen[k] > 1]
    open_ = [k for k in seen if race.p_miss(k) <= 0.5] or seen
    by_cost: dict[float, list[int]] = {}
    for k in sorted(open_, key=lambda k: (race.p_miss(k), -race.n_seen[k], k)):
        by_cost.setdefault(float(race.evaluator.cost[k]), []).append(k)
    return [k for cost in sorted(by_cost) for k in by_cost[cost][:2]][:_MOST_CONTENDERS]


def observe_next(
    simulator: Simulator,
    study: SearchStudy,
    chosen: Sequence[int],
    *,
    seed: int = 0,
    only_open: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> list[Worth]:
    """Rank runs by what observing them does to the decision between contenders.

    Parameters
    ----------
    simulator : Simulator
        Knows or simulates the contenders' outcomes.
    study : SearchStudy
        With its ``[measure]`` table: ``rates`` (requests/s of one replica), ``lengths`` (pairs of
        prompt and output tokens), ``n_requests``, ``deployments`` (tables over the base).
    chosen : sequence of int
        Contenders.
    seed : int
        Of the simulated noise.
    only_open : bool
        Whether a decision that is settled already is left alone.
    tell : callable
        Told each step.

    Returns
    -------
    list of Worth
        The best first; empty for a settled decision that is left alone.

    Raises
    ------
    InputError
        If the ``[measure]`` table is malformed.
    """
    n = study.settings.draws
    jobs = [Job(candidate=k, purpose=RACE, first=0, last=n) for k in chosen]
    scores = simulator.evaluate(jobs)
    stakes = Stakes(
        cost=simulator.cost[list(chosen)],
        missed=np.array([found.missed for found in scores]),
        risk=study.terms.risk,
    )
    if only_open and stakes.is_settled:
        return []
    fleets = [simulator.candidates[k].fleet for k in chosen]
    blocks = simulator.context.blocks(simulator.candidates[chosen[0]].posterior, RACE)
    options = measure_options(study, fleets)
    return rank_options(options, blocks, stakes, seed=seed, threads=2, progress=tell)


def measure_options(study: SearchStudy, fleets: Sequence[Fleet]) -> list[Option]:
    """Runs that could be observed.

    Parameters
    ----------
    study : SearchStudy
        With its ``[measure]`` table.
    fleets : sequence of Fleet
        Contenders.

    Returns
    -------
    list of Option
        Each deployment that differs in more than scheduler settings, at each rate and length.

    Raises
    ------
    InputError
        If the table is malformed.
    """
    where = f"{study.path} [measure]"
    fields = Fields(study.measure, where)
    rates, lengths = fields.raw("rates"), fields.raw("lengths")
    n_requests = fields.whole("n_requests", _N_REQUEST)
    deployments = fields.raw("deployments")
    fields.refuse_unused()
    distinct: dict[Any, Fleet] = {}
    for fleet in _named(deployments, study, where) if deployments else fleets:
        distinct.setdefault(law_key(fleet.deployment), fleet)
    options = []
    for fleet in list(distinct.values())[:_MOST_DEPLOYMENTS]:
        own = mean_rate(study.workload) / fleet.n_rank
        for rate in _numbers(rates, where) if rates else [own * share for share in _SHARES]:
            for pair in _pairs(lengths, where) if lengths else [None]:
                options.append(_option(study.workload, fleet, rate, pair, n_requests))
    return options


def _option(
    workload: Workload, fleet: Fleet, rate: float, pair: tuple[int, int] | None, n_requests: int
) -> Option:
    if not rate > 0:  # a closed loop stays as it is
        sent, load = workload, "as in the study"
    else:
        sent = replace(
            workload,
            stages=(Stage(rate=rate),),
            n_requests=n_requests,
            concurrency=None,
        )
        load = f"at {rate:.3g} req/s"
    if pair is not None:
        lone = RequestClass(
            input_tokens=Constant(value=pair[0]), output_tokens=Constant(value=pair[1])
        )
        sent = replace(sent, classes=(lone,))
        load += f", {pair[0]} in and {pair[1]} out"
    one = Fleet(deployment=fleet.deployment)
    return Option(fleet=one, workload=sent, label=f"{one.title} {load}")


def _named(deployments: Any, study: SearchStudy, where: str) -> list[Fleet]:
    if not isinstance(deployments, list) or not all(isinstance(d, dict) for d in deployments):
        raise InputError(f"{where}: deployments must be tables [[measure.deployments]]")
    found = []
    for own in deployments:
        table, _ = replicas_of({**study.base, **own}, f"{where} deployments")
        found.append(Fleet(deployment=deployment_from_mapping(table, f"{where} deployments")))
    return found


def _numbers(values: Any, where: str) -> list[float]:
    numbers = values if isinstance(values, list) else [values]
    for value in numbers:
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise InputError(f"{where}: rates must be positive numbers (req/s), got {value!r}")
    return [float(value) for value in numbers]


def _pairs(values: Any, where: str) -> list[tuple[int, int]]:
    if not isinstance(values, list):
        raise InputError(f"{where}: lengths must be pairs such as [[512, 128]], got {values!r}")
    pairs = []
    for pair in values:
        whole = isinstance(pair, list) and len(pair) == 2 and all(type(v) is int for v in pair)
        if not whole or min(pair) < 1:
            raise InputError(f"{where}: lengths must be pairs such as [[512, 128]], got {pair!r}")
        pairs.append((pair[0], pair[1]))
    return pairs
