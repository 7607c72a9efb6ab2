"""The same server in the chain and in the engine, over a grid of shapes, batch caps and loads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tailcast.crosscheck.calibrate import LENGTH_SPREAD, n_request_for, poisson_requests
from tailcast.crosscheck.control import Controlled, controlled_mean
from tailcast.crosscheck.law import engine_law, engine_limits
from tailcast.engine.run import simulate
from tailcast.errors import UsageError
from tailcast.queueing.capacity import capacity_draws
from tailcast.queueing.sensitivity import log_latencies, numbers_of_log
from tailcast.queueing.server import Floats, RequestShape, ServerLimits
from tailcast.queueing.sizing import Targets
from tailcast.queueing.windows import Window, window_columns
from tailcast.request import RequestTable
from tailcast.streams import stream

# prompt tokens, output tokens, batch cap
GRID: tuple[tuple[float, float, int], ...] = (
    (1024, 256, 256),
    (64, 64, 256),
    (256, 1024, 256),
    (4096, 256, 256),
    (512, 256, 32),
)
LOADS = (0.2, 0.6, 0.9)
STATS = ("ttft", "itl", "ttft_p99")
_N_CONTROL = 2000
_WAIT_SHARE = 0.1
_OFF = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareCase:
    """One place of the grid.

    Parameters
    ----------
    tokens_in, tokens_out : float
        Mean lengths.
    max_batch : int
        Batch cap.
    load : float
        Rate over the chain's stability boundary.
    """

    tokens_in: float
    tokens_out: float
    max_batch: int
    load: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Chain against engine at one place.

    Parameters
    ----------
    case : CompareCase
        Where.
    rate : float
        Requests/s at the median numbers.
    engine, chain : dict of str to float
        Geometric means over runs in seconds: ttft, itl, wait, and of the engine ttft_p99.
    log_error : dict of str to tuple of float
        Mean of ln(chain / engine) of ttft and itl, and its standard error.
    control : dict of str to Controlled
        The engine's mean of each statistic with the chain as a control variate.
    reasons : tuple of str
        What makes the chain differ, where it differs by more than a tenth.
    """

    case: CompareCase
    rate: float
    engine: dict[str, float]
    chain: dict[str, float]
    log_error: dict[str, tuple[float, float]]
    control: dict[str, Controlled]
    reasons: tuple[str, ...]


def compare_grid(
    log_numbers: Floats,
    limits: ServerLimits,
    *,
    cases: Sequence[CompareCase],
    n_run: int = 24,
    schedule_lag: float = 0.0,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> list[Compared]:
    """Run the engine at every place and set the chain beside it.

    Parameters
    ----------
    log_numbers : ndarray, shape (n_draw, 3)
        Logs of alpha, beta and gamma in seconds; run i uses draw i, in turn.
    limits : ServerLimits
        Waiting room and token budget; the batch cap is the case's.
    cases : sequence of CompareCase
        Places.
    n_run : int
        Engine runs of each, every one with its own arrivals.
    schedule_lag : float
        Steps that the engine plans ahead.
    seed : int
        Of the arrivals.
    progress : callable, optional
        Told one line a place.

    Returns
    -------
    list of Compared
        In the order of the cases.

    Raises
    ------
    UsageError
        If there are too few runs.
    """
    if n_run < 4:
        raise UsageError(f"compare needs at least 4 runs, got {n_run!r}")
    found = []
    for place, case in enumerate(cases):
        if progress is not None:
            progress(
                f"{place + 1} of {len(cases)}: {case.tokens_in:g}/{case.tokens_out:g}, "
                f"cap {case.max_batch}, load {case.load:g}"
            )
        found.append(_compare(log_numbers, limits, case, n_run, schedule_lag, seed))
    return found


def _compare(
    log_numbers: Floats,
    limits: ServerLimits,
    case: CompareCase,
    n_run: int,
    schedule_lag: float,
    seed: int,
) -> Compared:
    capped = ServerLimits(
        max_batch=case.max_batch,
        max_queue=limits.max_queue,
        max_batched_tokens=limits.max_batched_tokens,
    )
    shape = RequestShape(tokens_in=case.tokens_in, tokens_out=case.tokens_out)
    draws = log_numbers[np.arange(n_run) % log_numbers.shape[0]]
    middle = np.median(log_numbers, axis=0)
    boundary = float(capacity_draws(middle, shape, capped, Targets()).rate[0])
    rate = case.load * boundary
    chain = _chain(draws, shape, capped, np.full(n_run, rate))
    life = float(np.exp(np.median(chain["log_itl"]))) * case.tokens_out
    n_request = n_request_for(rate, life, most=4000)
    tables = [
        poisson_requests(rate, shape, n_request, stream(seed, "compare", k)) for k in range(n_run)
    ]
    engine = _engine(draws, tables, capped, schedule_lag, n_request // 5)
    realised = np.array([_work_rate(table, shape) for table in tables])
    control_here = _chain(draws, shape, capped, realised)
    control_all = _control_population(log_numbers, shape, capped, rate, n_request, seed)
    log_error = {}
    for name in ("ttft", "itl"):
        difference = chain[f"log_{name}"] - np.log(engine[name])
        log_error[name] = (float(difference.mean()), float(difference.std(ddof=1) / n_run**0.5))
    control = {}
    for name in STATS:
        lead = "log_itl" if name == "itl" else "log_ttft"
        # in logs: where some draws are overloaded a mean of seconds is theirs alone, and a few runs
        # say nothing of it
        control[name] = controlled_mean(
            engine[name], control_here[lead], float(control_all[lead].mean())
        )
    means = {name: float(np.exp(np.log(v).mean())) for name, v in engine.items() if name != "wait"}
    means["wait"] = float(engine["wait"].mean())
    wait = np.exp(chain["log_ttft"]) * chain["wait_share"]
    chain_means = {
        "ttft": float(np.exp(chain["log_ttft"].mean())),
        "itl": float(np.exp(chain["log_itl"].mean())),
        "wait": float(wait.mean()),
    }
    return Compared(
        case=case,
        rate=rate,
        engine=means,
        chain=chain_means,
        log_error=log_error,
        control=control,
        reasons=_reasons(case, means, chain_means, log_error, float(chain["wait_share"].mean())),
    )


def _chain(
    draws: Floats, shape: RequestShape, limits: ServerLimits, rate: Floats
) -> dict[str, Floats]:
    plain = Window(tokens_in=float(shape.tokens_in), tokens_out=float(shape.tokens_out), rate=1.0)
    found = log_latencies(draws, window_columns([plain]), limits, rate=rate[:, None])
    return {
        "log_ttft": found.ttft[:, 0],
        "log_itl": found.itl[:, 0],
        "wait_share": found.wait_share[:, 0],
    }


def _engine(
    draws: Floats,
    tables: Sequence[RequestTable],
    limits: ServerLimits,
    schedule_lag: float,
    warmup: int,
) -> dict[str, Floats]:
    law = engine_law(numbers_of_log(draws), schedule_lag=schedule_lag)
    result = simulate(
        tables[0],
        engine_limits(limits),
        law,
        quantiles=(0.99,),
        warmup=warmup,
        threads=2,
        draw_requests=list(tables),
    )
    place = result.metrics.index
    return {
        "ttft": result.stat[:, -1, place("ttft"), 0],
        "itl": result.stat[:, -1, place("itl"), 0],
        "ttft_p99": result.stat[:, -1, place("ttft"), 1],
        "wait": result.stat[:, -1, place("queue_delay"), 0],
    }


def _work_rate(table: RequestTable, shape: RequestShape) -> float:
    """Rate of requests of the mean size that bring the tokens which really arrived."""
    span = float(table.arrival[-1] - table.arrival[0])
    tokens = float(table.input_tokens.mean() + table.output_tokens.mean())
    wanted = float(shape.tokens_in) + float(shape.tokens_out)
    return (len(table) - 1) / span * tokens / wanted


def _control_population(
    log_numbers: Floats,
    shape: RequestShape,
    limits: ServerLimits,
    rate: float,
    n_request: int,
    seed: int,
) -> dict[str, Floats]:
    """The control under many draws of numbers and arrivals, which cost no engine run."""
    generator = stream(seed, "compare control")
    draws = log_numbers[np.arange(_N_CONTROL) % log_numbers.shape[0]]
    span = generator.gamma(n_request - 1, 1.0 / rate, _N_CONTROL)
    lengths = np.array([float(shape.tokens_in), float(shape.tokens_out)])
    sd = LENGTH_SPREAD * lengths / np.sqrt(3.0 * n_request)
    tokens = (lengths + sd * generator.standard_normal((_N_CONTROL, 2))).sum(axis=1)
    realised = (n_request - 1) / span * tokens / lengths.sum()
    return _chain(draws, shape, limits, realised)


def _reasons(
    case: CompareCase,
    engine: dict[str, float],
    chain: dict[str, float],
    log_error: dict[str, tuple[float, float]],
    wait_share: float,
) -> tuple[str, ...]:
    words = []
    ttft = log_error["ttft"][0]
    if wait_share > _WAIT_SHARE and abs(chain["wait"] - engine["wait"]) > _OFF * engine["ttft"]:
        words.append("full batch: the chain takes service for exponential and waits too long")
    elif ttft > _OFF:
        words.append("a whole decode step is charged to TTFT, half a step is waited")
    elif ttft < -_OFF:
        words.append("prompts of others share the steps of a prefill")
    if abs(log_error["itl"][0]) > _OFF:
        words.append("ITL near saturation: every state takes the mean work of a step")
    if engine["ttft_p99"] > 2.0 * engine["ttft"]:
        words.append("the chain has means only")
    return tuple(words)
