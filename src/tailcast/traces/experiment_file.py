"""Runs and traces as experiment files."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from tailcast.errors import InputError, UsageError
from tailcast.traces.observed import Observed
from tailcast.traces.run_summary import Lengths, RunSummary, Stage, lengths_of
from tailcast.traces.token_times import TokenTimes, token_gaps
from tailcast.traces.trace_header import TraceServer
from tailcast.traces.trace_latencies import STATISTICS, trace_latencies, trace_observed
from tailcast.traces.tracev2 import Trace

_MOST_VALUES = 200
_MOST_TOKENS = 1e9
_SAME_LENGTH = 0.05
_CONSTANT_CV, _POISSON_CV = 0.1, (0.8, 1.25)
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
_ENGINE = (
    "version",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
    "block_size",
    "gpu_memory_utilization",
    "prefix_caching",
    "chunked_prefill",
    "kv_blocks",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the user says of a run, where its file does not or is wrong.

    Parameters
    ----------
    model, gpu : str, optional
        LLM and accelerator.
    tensor_parallel : int, optional
        Accelerators per replica.
    rate : float, optional
        Requests/s offered.
    """

    model: str | None = None
    gpu: str | None = None
    tensor_parallel: int | None = None
    rate: float | None = None


def summary_of_trace(
    trace: Trace, token_times: TokenTimes | None, name: str
) -> tuple[RunSummary, tuple[str, ...]]:
    """Statistics of a trace, stage by stage.

    Parameters
    ----------
    trace : Trace
        Recorded run; its groups are stages where they follow each other in time.
    token_times : TokenTimes or None
        Where there are gaps.
    name : str
        Name of the run.

    Returns
    -------
    run : RunSummary
        One stage a group.
    notes : tuple of str
        What was assumed.
    """
    groups = trace.columns.get("group", np.zeros(len(trace), dtype=np.int64))
    notes = ["prompts are taken as unique: the trace does not say whether they repeat"]
    if not _one_after_the_other(trace["arrival_time"], groups):
        notes.append("the groups overlap in time, so they are one stage")
        groups = np.zeros(len(trace), dtype=np.int64)
    records = trace_observed(trace, groups=groups)
    counted = trace_latencies(trace).counted
    stages = []
    for group in np.unique(groups).tolist():
        mine = groups == group
        arrivals = np.sort(trace["arrival_time"][mine])
        span, n = float(arrivals[-1] - arrivals[0]), len(arrivals)
        if span <= 0:
            raise InputError(f"group {group} has no two arrivals, so it has no rate")
        law, text = _arrivals(arrivals)
        notes.append(f"stage {group}: {text}")
        good = mine & counted
        own = [o for o in records if o.stage == group]
        if token_times is not None:
            own += _gap_records(token_times, good, int(good.sum()))
        prompts = np.where(
            trace["server_input_tokens"] > 0,
            trace["server_input_tokens"],
            trace["input_tokens"] + trace["prefix_length"],
        )
        stages.append(
            Stage(
                name=f"group {group}",
                rate=(n - 1) / span,
                arrivals=law,
                duration=n * span / (n - 1),
                n_requests=int(good.sum()),
                n_failed=int((mine & (trace["status"] != "ok")).sum()),
                input_tokens=lengths_of(prompts[good]),
                output_tokens=lengths_of(trace["output_tokens"][good]),
                observed=tuple(own),
            )
        )
    return RunSummary(id=name, server=trace.header.server, stages=tuple(stages)), tuple(notes)


def experiment_mappings(run: RunSummary, told: Told) -> tuple[dict[str, Any], ...]:
    """Experiments of a run, as they stand in files.

    Stages with rates and like lengths are one experiment; others are one each.

    Parameters
    ----------
    run : RunSummary
        Statistics.
    told : Told
        What the user says.

    Returns
    -------
    tuple of dict
        With ``id deployment workload observed``.

    Raises
    ------
    UsageError
        If LLM, accelerator or load are not known.
    InputError
        If the lengths are not.
    """
    deployment = _deployment(run.server, told)
    stages = [_told_rate(stage, told) for stage in run.stages]
    together = len(stages) > 1 and _alike(stages)
    parts = [stages] if together or len(stages) == 1 else [[stage] for stage in stages]
    found = []
    for index, part in enumerate(parts):
        name = run.id if len(parts) == 1 else f"{run.id}-{index}"
        found.append(
            {
                "id": name,
                "deployment": deployment,
                "workload": _workload(part),
                "observed": [_observed(i, stage) for i, stage in enumerate(part)],
            }
        )
    return tuple(found)


def write_experiment(mapping: Mapping[str, Any], path: Path) -> None:
    """Write an experiment file.

    Parameters
    ----------
    mapping : mapping
        As `experiment_mappings` gives it.
    path : pathlib.Path
        YAML file to write.
    """
    text = yaml.safe_dump(dict(mapping), sort_keys=False, allow_unicode=True, width=100)
    path.write_text(text, encoding="utf-8", newline="\n")


def _one_after_the_other(arrival: NDArray[np.float64], groups: NDArray[np.int64]) -> bool:
    spans = [(arrival[groups == g].min(), arrival[groups == g].max()) for g in np.unique(groups)]
    spans.sort()
    return all(before[1] <= after[0] for before, after in pairwise(spans))


def _arrivals(times: NDArray[np.float64]) -> tuple[Mapping[str, Any] | str, str]:
    """Law of the arrivals, by the scatter of their gaps."""
    gaps = np.diff(times)
    cv = float(gaps.std() / gaps.mean()) if len(gaps) > 1 and gaps.mean() > 0 else 0.0
    if len(gaps) < 10:
        return "conditioned-poisson", "too few arrivals to tell their law; Poisson is assumed"
    if cv < _CONSTANT_CV:
        return "constant", f"arrivals are evenly spaced (CV {cv:.2f})"
    if _POISSON_CV[0] <= cv <= _POISSON_CV[1]:
        return "conditioned-poisson", f"arrivals are like Poisson (CV {cv:.2f})"
    law = {"process": "gamma", "cv": round(min(cv, 30.0), 4)}
    return law, f"arrivals have a CV of {cv:.2f}; gamma gaps are assumed"


def _gap_records(times: TokenTimes, counted: NDArray[np.bool_], n_requests: int) -> list[Observed]:
    row, gap = token_gaps(times)
    values = gap[counted[row]]
    if not len(values) or not values.mean() > 0:
        return []
    found = {"mean": float(values.mean())}
    found.update({k: float(np.quantile(values, _QUANTILES[k])) for k in STATISTICS if k != "mean"})
    return [
        Observed(stage=0, metric="itl", statistic=key, value=value, n_requests=n_requests or None)
        for key, value in found.items()
        if value > 0
    ]


def _told_rate(stage: Stage, told: Told) -> Stage:
    if told.rate is None:
        return stage
    return Stage(
        name=stage.name,
        rate=told.rate,
        arrivals=stage.arrivals,
        duration=stage.n_requests / told.rate if stage.n_requests else math.nan,
        n_requests=stage.n_requests,
        n_failed=stage.n_failed,
        input_tokens=stage.input_tokens,
        output_tokens=stage.output_tokens,
        observed=stage.observed,
        bounds=stage.bounds,
    )


def _alike(stages: Sequence[Stage]) -> bool:
    """Whether stages differ in nothing but their rate."""
    if any(not (s.rate > 0 and s.duration > 0) or s.concurrency for s in stages):
        return False
    if any(s.arrivals != stages[0].arrivals for s in stages):
        return False
    for name in ("input_tokens", "output_tokens"):
        means = [getattr(stage, name).mean for stage in stages]
        if not all(abs(mean / means[0] - 1) <= _SAME_LENGTH for mean in means):
            return False
    return True


def _deployment(server: TraceServer, told: Told) -> dict[str, Any]:
    model, gpu = told.model or server.model, told.gpu or server.accelerator
    if not model:
        raise UsageError("the file does not say the LLM; give --model")
    if not gpu:
        raise UsageError("the file does not say the accelerator; give --gpu")
    engine = {key: getattr(server, key) for key in _ENGINE if getattr(server, key) is not None}
    if server.type:
        engine = {"name": server.type, **engine}
    if isinstance(server.other.get("async_scheduling"), bool):
        engine["async_scheduling"] = server.other["async_scheduling"]
    deployment: dict[str, Any] = {
        "model": model,
        "gpu": gpu,
        "tensor_parallel": told.tensor_parallel or server.tensor_parallel or 1,
    }
    if server.data_parallel:
        deployment["data_parallel"] = server.data_parallel
    if server.dtype:
        deployment["weights"] = server.dtype
    return {**deployment, "engine": engine} if engine else deployment


def _workload(stages: Sequence[Stage]) -> dict[str, Any]:
    inputs = _pooled([stage.input_tokens for stage in stages])
    outputs = _pooled([stage.output_tokens for stage in stages])
    if not (inputs.known and outputs.known):
        raise InputError("the lengths of prompts and answers are not in the file")
    workload: dict[str, Any] = {
        "kind": "unique-prompts",
        "prompt_tokens": _law(inputs),
        "output_tokens": _law(outputs),
    }
    first = stages[0]
    if first.concurrency is not None:
        workload["concurrency"] = first.concurrency
        workload["requests"] = max(first.n_requests + first.n_failed, 1)
        return workload
    if not all(stage.rate > 0 for stage in stages):
        raise UsageError("the file does not say the load; give --rate")
    workload["arrivals"] = first.arrivals
    if all(stage.duration > 0 for stage in stages):
        workload["stages"] = [
            {"rate_rps": _six(stage.rate), "duration_s": _six(stage.duration)} for stage in stages
        ]
    else:
        workload["rate_rps"] = _six(first.rate)
        workload["requests"] = max(first.n_requests + first.n_failed, 1)
    return workload


def _pooled(parts: Sequence[Lengths]) -> Lengths:
    """Lengths of all stages; those of the first where they are not known one by one."""
    values = [part.values for part in parts if part.values is not None]
    if len(values) == len(parts):
        return lengths_of(np.concatenate(values))
    return parts[0]


def _law(lengths: Lengths) -> Any:
    """Length law as far as it is known: the lengths, their quantiles, their scatter, their mean."""
    told = (lengths.mean, lengths.sd, lengths.low, lengths.high, *lengths.quantiles.values())
    if odd := [value for value in told if not (math.isnan(value) or 0 <= value <= _MOST_TOKENS)]:
        raise InputError(f"lengths of {odd[0]:.4g} tokens are impossible")
    if lengths.values is not None:
        values, counts = np.unique(np.maximum(lengths.values, 1), return_counts=True)
        if len(values) == 1:
            return int(values[0])
        if len(values) <= _MOST_VALUES:
            return {"law": "empirical", "values": values.tolist(), "weights": counts.tolist()}
        grid = (np.arange(_MOST_VALUES) + 0.5) / _MOST_VALUES
        return _empirical(np.quantile(lengths.values, grid))
    if lengths.low == lengths.high:
        return max(round(lengths.mean), 1)
    if len(lengths.quantiles) >= 3 and math.isfinite(lengths.low + lengths.high):
        known = {0.0: lengths.low, **lengths.quantiles, 1.0: lengths.high}
        points = sorted(known.items())
        grid = (np.arange(50) + 0.5) / 50
        drawn = np.interp(grid, [q for q, _ in points], [v for _, v in points])
        return _empirical(np.maximum(drawn + lengths.mean - drawn.mean(), 1))
    if lengths.sd > 0:
        law: dict[str, Any] = {"law": "gaussian", "mean": _six(lengths.mean)}
        law["sd"] = _six(lengths.sd)
        for key, bound in (("min", lengths.low), ("max", lengths.high)):
            if math.isfinite(bound):
                law[key] = max(round(bound), 1)
        return law
    return max(round(lengths.mean), 1)


def _empirical(values: NDArray[np.float64]) -> dict[str, Any]:
    whole, counts = np.unique(np.maximum(np.rint(values), 1).astype(np.int64), return_counts=True)
    return {"law": "empirical", "values": whole.tolist(), "weights": counts.tolist()}


def _observed(index: int, stage: Stage) -> dict[str, Any]:
    latency: dict[str, dict[str, float]] = {}
    for record in stage.observed:
        latency.setdefault(record.metric, {})[record.statistic] = _six(record.value * 1e3)
    entry: dict[str, Any] = {"stage": index}
    if stage.n_requests:
        entry["requests"] = stage.n_requests
    entry["latency_ms"] = latency
    if stage.bounds:
        bounds: dict[str, dict[str, list[float | None]]] = {}
        for bound in stage.bounds:
            high = None if math.isinf(bound.high) else _six(bound.high * 1e3)
            pair = [_six(bound.low * 1e3), high]
            bounds.setdefault(bound.metric, {})[bound.statistic] = pair
        entry["quantile_bounds_ms"] = bounds
    if stage.n_failed:
        entry["failed"] = stage.n_failed
    return entry


def _six(value: float) -> float:
    """Six significant digits."""
    return float(f"{value:.6g}")
