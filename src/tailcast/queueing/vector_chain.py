"""Vector cases on the work model, the chain and sizing."""

import math

import numpy as np

from tailcast.errors import TailcastError, UsageError
from tailcast.queueing.chain import occupancy_distribution
from tailcast.queueing.chunked_work import ChunkedWork, SingleStepWork
from tailcast.queueing.concurrency import (
    ConcurrencySearch,
    concurrency_brackets,
    optimal_concurrency,
)
from tailcast.queueing.server import (
    MS,
    VERSIONS,
    RequestShape,
    ServerLimits,
    ThreeNumbers,
    TwoLines,
    three_numbers_ms,
)
from tailcast.queueing.sizing import InfeasibleTargetError, Sizing, Targets, largest_rate
from tailcast.queueing.steady_state import Replica, SteadyState
from tailcast.queueing.two_line_work import TwoLineWork
from tailcast.queueing.vector_cases import Results, SkipCaseError, VectorCase
from tailcast.queueing.work_model import work_model


def known_variant(case: VectorCase) -> str:
    """Version of the work model that a case asks for.

    Parameters
    ----------
    case : VectorCase
        Its variant must be one version.

    Returns
    -------
    str
        "V0", "V1" or "V2".

    Raises
    ------
    SkipCaseError
        If it is another.
    """
    if case.variant not in VERSIONS:
        raise SkipCaseError(f"no work model {case.variant!r} here; known: {', '.join(VERSIONS)}")
    return case.variant


def case_numbers(case: VectorCase) -> ThreeNumbers:
    """Three numbers of a case.

    Parameters
    ----------
    case : VectorCase
        With alpha, beta and gamma in ms.

    Returns
    -------
    ThreeNumbers
        In seconds.
    """
    return three_numbers_ms(case.number("alpha"), case.number("beta"), case.number("gamma"))


def case_limits(case: VectorCase, max_batch: float | None = None) -> ServerLimits:
    """Server limits of a case.

    Parameters
    ----------
    case : VectorCase
        With max_queue, and max_batch unless given here.
    max_batch : float, optional
        Batch cap where the case has none.

    Returns
    -------
    ServerLimits
        Checked.
    """
    return limits_of(
        case.number("max_batch", max_batch),
        case.number("max_queue"),
        case.number("max_batched_tokens", 0.0),
    )


def limits_of(max_batch: object, max_queue: object, max_batched_tokens: object) -> ServerLimits:
    """Server limits from values of a file, which may be of any kind.

    Parameters
    ----------
    max_batch, max_queue, max_batched_tokens : object
        As written.

    Returns
    -------
    ServerLimits
        Checked.
    """
    return ServerLimits(
        max_batch=max_batch,  # type: ignore[arg-type]
        max_queue=max_queue,  # type: ignore[arg-type]
        max_batched_tokens=max_batched_tokens,  # type: ignore[arg-type]
    )


def _shape(case: VectorCase, default_out: float | None = None) -> RequestShape:
    return RequestShape(
        tokens_in=case.number("tokens_in"), tokens_out=case.number("tokens_out", default_out)
    )


def two_lines_ms(alpha: float, beta: float, gamma: float, delta: float) -> TwoLines:
    """Two lines in the names and the unit of a vector file.

    Parameters
    ----------
    alpha, beta : float
        Base and slope of decode in ms.
    gamma, delta : float
        Base and slope of prefill in ms.

    Returns
    -------
    TwoLines
        In seconds.
    """
    return TwoLines(
        decode_base=alpha * MS,
        decode_slope=beta * MS,
        prefill_base=gamma * MS,
        prefill_slope=delta * MS,
    )


def _parameters(case: VectorCase) -> ThreeNumbers | TwoLines:
    if known_variant(case) != "V0":
        return case_numbers(case)
    return two_lines_ms(*(case.number(f) for f in ("alpha", "beta", "gamma", "delta")))


def _replica(case: VectorCase) -> Replica:
    limits = case_limits(case)
    work = work_model(_parameters(case), _shape(case), limits, case.variant)
    return Replica(work=work, limits=limits)


def _targets(case: VectorCase) -> Targets:
    return Targets(
        ttft=case.number("target_ttft_ms", 0.0) * MS,
        itl=case.number("target_itl_ms", 0.0) * MS,
        tps=case.number("target_tps", 0.0),
    )


def _state_results(state: SteadyState) -> dict[str, float]:
    return {
        "throughput_rps": float(state.throughput),
        "response_ms": float(state.response / MS),
        "wait_ms": float(state.wait / MS),
        "service_ms": float(state.service / MS),
        "prefill_ms": float(state.prefill / MS),
        "in_service": float(state.in_service),
        "in_system": float(state.in_system),
        "ttft_ms": float(state.ttft / MS),
        "itl_ms": float(state.itl / MS),
        "max_rate_rps": float(state.max_rate),
        "utilisation": float(state.utilisation),
        "utilization": float(state.utilisation),
        "rho": float(state.utilisation),
        "lost_rps": float(state.lost),
    }


def primitives(case: VectorCase) -> Results:
    """Work model at one occupancy.

    Parameters
    ----------
    case : VectorCase
        With the costs, the shape and n.

    Returns
    -------
    mapping
        chunks, iteration_ms, prefill_ms, itl_ms, service_ms.
    """
    version, n = known_variant(case), np.asarray(case.number("n"))
    budget = int(case.number("max_batched_tokens", 0.0)) or 8192
    if version == "V0":
        lines = two_lines_ms(*(case.number(f, 1.0) for f in ("alpha", "beta", "gamma", "delta")))
        two = TwoLineWork(lines=lines, shape=_shape(case, 1.0))
        results = {"prefill_ms": two.prefill_time(n), "itl_ms": two.decode_time(n)}
        results["service_ms"] = two.service_time(n)
    else:
        numbers, shape = case_numbers(case), _shape(case)
        work: ChunkedWork | SingleStepWork = SingleStepWork(numbers=numbers, shape=shape)
        if version == "V2":
            work = ChunkedWork(numbers=numbers, shape=shape, max_batched_tokens=budget)
        results = {"iteration_ms": work.step_time(n), "prefill_ms": work.prefill_time(n)}
        results |= {"itl_ms": work.decode_time(n), "service_ms": work.service_time(n)}
        chunks = work.chunks(n) if isinstance(work, ChunkedWork) else np.asarray(1.0)
        results["chunks"] = chunks * MS
    return {field: float(value) / MS for field, value in results.items()}


def prefill_time(case: VectorCase) -> Results:
    """Prefill time at one occupancy; the source's test leaves out what it does not use.

    Parameters
    ----------
    case : VectorCase
        With the costs, tokens_in and n.

    Returns
    -------
    mapping
        prefill_ms.
    """
    return {"prefill_ms": primitives(case)["prefill_ms"]}


def decode_time(case: VectorCase) -> Results:
    """Duration of a decode step at one occupancy.

    Parameters
    ----------
    case : VectorCase
        With the costs and n; V0 needs no tokens.

    Returns
    -------
    mapping
        itl_ms.
    """
    if known_variant(case) == "V0":
        lines = two_lines_ms(case.number("alpha"), case.number("beta"), 1.0, 0.0)
        work = TwoLineWork(lines=lines, shape=RequestShape(tokens_in=0, tokens_out=1))
        return {"itl_ms": float(work.decode_time(np.asarray(case.number("n")))) / MS}
    return {"itl_ms": primitives(case)["itl_ms"]}


def analyze(case: VectorCase) -> Results:
    """Steady state at one rate.

    Parameters
    ----------
    case : VectorCase
        With the costs, the shape, the limits and rate_rps or rate_rpm.

    Returns
    -------
    mapping
        Means; or only that there was an error.
    """
    rate = case.number("rate_rps", case.number("rate_rpm", math.nan) / 60.0)
    if math.isnan(rate):
        raise case.fault("input 'rate_rps' is missing")
    try:
        state = _replica(case).steady_state(rate)
    except UsageError as error:
        return _refused(case, error)
    return {"error": False, **_state_results(state)}


def _refused(case: VectorCase, error: TailcastError) -> Results:
    if "error" not in case.expected:
        raise error
    return {"error": True}


def slo_throughput(case: VectorCase) -> Results:
    """Sizing of one replica.

    Parameters
    ----------
    case : VectorCase
        With the costs, the shape, the limits and targets.

    Returns
    -------
    mapping
        feasible, and the means at the largest rate; zero throughput where infeasible.
    """
    try:
        sizing = largest_rate(_replica(case), _targets(case))
    except InfeasibleTargetError:
        return {"feasible": False, "throughput_rps": 0.0, "rate_rps": 0.0, "error": True}
    except UsageError as error:
        return _refused(case, error)
    return {"feasible": True, "error": False, **_sizing_results(sizing)}


def _sizing_results(sizing: Sizing) -> dict[str, float]:
    rates = {f"rate_{name}_rps": rate for name, rate in sizing.rate_by_target.items()}
    return {"rate_rps": sizing.rate, **rates, **_state_results(sizing.state)}


def optimal_concurrency_case(case: VectorCase) -> Results:
    """Search of the batch cap.

    Parameters
    ----------
    case : VectorCase
        With the costs, the shape, the waiting room, targets and the search's settings.

    Returns
    -------
    mapping
        concurrency, evaluations, feasible, brackets and the means at that cap.
    """
    _only_v2(case)
    search = ConcurrencySearch(
        least=int(case.number("m_min", 1.0)),
        most=int(case.number("m_max", 256.0)),
        epsilon=case.number("epsilon", 0.02),
        max_steps=int(case.number("max_iters", 6.0)),
    )
    limits = case_limits(case, search.most)
    found = optimal_concurrency(case_numbers(case), _shape(case), limits, _targets(case), search)
    results: dict[str, float | bool] = {
        "concurrency": found.max_batch,
        "evaluations": found.n_evaluation,
        "feasible": found.feasible,
        "m_itl": found.largest_by_itl,
        "m_prefill": found.largest_by_prefill,
    }
    if found.sizing is None:
        return {**results, "throughput_rps": 0.0}
    return {**results, **_sizing_results(found.sizing)}


def _only_v2(case: VectorCase) -> None:
    if known_variant(case) != "V2":
        raise SkipCaseError(f"the search of the batch cap is defined for V2, not {case.variant}")


def closed_form_brackets(case: VectorCase) -> Results:
    """Closed-form brackets of the batch cap, and whether a published cap is an onset.

    A cap counts as an onset within 2 % if its throughput is within 2 % of the best of all caps
    and the cap below it is not yet the best.

    Parameters
    ----------
    case : VectorCase
        With the costs, the shape, the waiting room and targets.

    Returns
    -------
    mapping
        m_itl, m_prefill and onset_within_2pct.
    """
    _only_v2(case)
    most = int(case.number("m_max", 256.0))
    numbers, shape, targets = case_numbers(case), _shape(case), _targets(case)
    limits = case_limits(case, most)
    by_itl, by_prefill = concurrency_brackets(numbers, shape, limits, targets)
    results: dict[str, float] = {"m_itl": by_itl, "m_prefill": by_prefill}
    published = case.expected.get("onset_within_2pct")
    if isinstance(published, int):

        def capacity(cap: int) -> float:
            capped = limits_of(cap, limits.max_queue, limits.max_batched_tokens)
            work = work_model(numbers, shape, capped)
            try:
                return largest_rate(Replica(work=work, limits=capped), targets).capacity
            except InfeasibleTargetError:
                return 0.0

        near = range(max(1, published - 2), min(most, published + 2) + 1)
        caps = {*near, *range(1, most + 1, max(1, most // 16)), most}
        by_cap = {cap: capacity(cap) for cap in caps}
        best = max(by_cap.values())
        early = by_cap.get(published - 1, 0.0) < best * (1.0 - 1e-9)
        within = by_cap.get(published, 0.0) >= 0.98 * best
        nearest = min(cap for cap in caps if by_cap[cap] >= 0.98 * best)
        results["onset_within_2pct"] = published if early and within else nearest
    return results


def birth_death(case: VectorCase) -> Results:
    """Stationary distribution of a chain.

    Parameters
    ----------
    case : VectorCase
        With service_rates, arrival and capacity.

    Returns
    -------
    mapping
        p, mean_in_system, mean_in_service, throughput, wait.
    """
    rates = case.numbers("service_rates")
    if not rates or min(rates) <= 0:
        raise case.fault("input 'service_rates' must hold positive numbers")
    arrival = case.number("arrival")
    found = occupancy_distribution(arrival, np.log(rates), int(case.number("capacity")))
    throughput = arrival * float(found.p_admitted)
    waiting = float(found.in_system - found.in_service)
    return {
        "p": [float(p) for p in found.probabilities()],
        "mean_in_system": float(found.in_system),
        "mean_in_service": float(found.in_service),
        "throughput": throughput,
        "wait": waiting / throughput,
        "p_full": float(np.exp(found.log_p_full)),
    }
