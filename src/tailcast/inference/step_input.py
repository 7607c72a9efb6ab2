"""From a log of engine steps to evidence with an exact likelihood."""

import numpy as np
from numpy.typing import NDArray

from tailcast.basis import FEATURES
from tailcast.deployment import Deployment
from tailcast.errors import InputError
from tailcast.inference.evidence import StepEvidence, content_hash, step_evidence
from tailcast.inference.population import deployment_key
from tailcast.inference.trace_input import RECORDED
from tailcast.latency_model import LatencyModel
from tailcast.traces.step_log import StepLog
from tailcast.traces.step_noise import StepNoise, step_noise

Array = NDArray[np.float64]

MOST_STEPS = 1500
"""Steps of a log that enter a fit, evenly spread: neighbours say nearly the same."""


def step_log_evidence(
    log: StepLog, model: LatencyModel, deployment: Deployment, name: str
) -> tuple[StepEvidence, tuple[str, ...]]:
    """Evidence of single steps with known batches.

    Durations scatter by a noise that is skewed and drifts slowly, so the likelihood is raised to
    the power at which all steps together tell as much as independent ones would.

    Parameters
    ----------
    log : StepLog
        Steps of one server.
    model : LatencyModel
        Whose bases are meant; needs the noise scales ``step.decode``, ``step.mixed`` and
        ``step.prefill``.
    deployment : Deployment
        What ran them.
    name : str
        Of the log; the evidence's identity is this and a hash of its content.

    Returns
    -------
    evidence : StepEvidence
        One row a step that was kept.
    notes : tuple of str
        What was left out or estimated.

    Raises
    ------
    InputError
        If no step has a duration.
    """
    timed = np.flatnonzero((log.elapsed > 0) & (log.new_tokens > 0))
    if not len(timed):
        raise InputError(f"{name}: no step of the log has a duration")
    noise = step_noise(log)
    kept = timed
    if len(timed) > MOST_STEPS:
        kept = timed[np.linspace(0, len(timed) - 1, MOST_STEPS).round().astype(int)]
    features = _features(log, deployment)
    elapsed = log.elapsed * mean_over_median(noise)
    rows = [(features[k], float(elapsed[k]), _noise_name(log, k)) for k in kept.tolist()]
    content = content_hash(
        log.elapsed, log.prefill_tokens, log.decode_tokens, deployment_key(deployment)
    )
    found = step_evidence(f"{RECORDED[1]}{name} {content[:12]}", model, deployment, rows)
    weight = min(1.0, noise.n_effective / len(kept))
    return (
        StepEvidence(
            name=found.name,
            levels=found.levels,
            deployment=found.deployment,
            clock=_within(found.clock, model),
            overhead=found.overhead,
            log_observed=found.log_observed,
            noise=found.noise,
            weight=float(f"{weight:.4g}"),
        ),
        _notes(log, noise, len(timed), len(kept), name),
    )


def mean_over_median(noise: StepNoise) -> float:
    """Factor from the middle of skewed step durations to their mean, which latencies add up.

    Parameters
    ----------
    noise : StepNoise
        Of a log.

    Returns
    -------
    float
        At least 1; the largest half percent of the durations is cut to the quantile there.
    """
    residual = noise.residual[np.isfinite(noise.residual)]
    if len(residual) < 3:
        return 1.0
    factor = np.exp(residual - np.median(residual))
    return max(float(np.minimum(factor, np.quantile(factor, 0.995)).mean()), 1.0)


def _within(clock: Array, model: LatencyModel) -> Array:
    """Bases of what the engine times: not the gap between one step and the next."""
    inside = np.array([c.basis != "gap_count" for c in model.coefficients])
    timed: Array = clock * inside
    return timed


def _features(log: StepLog, deployment: Deployment) -> Array:
    """Batch features by step; contexts from KV usage, prompts taken from their beginning."""
    capacity = deployment.kv_block_count * deployment.engine.block_size
    context = np.nan_to_num(log.kv_usage) * capacity
    chunk = log.prefill_tokens / np.maximum(log.prefill_requests, 1)
    by_name = {
        "step": np.ones(len(log)),
        "prefill_token": log.prefill_tokens,
        "prefill_pair": log.prefill_requests * chunk**2 / 2.0,
        "prefill_request": log.prefill_requests,
        "decode": log.decode_requests,
        "context_token": np.where(log.decode_requests > 0, context, 0.0),
    }
    return np.array([by_name[name] for name in FEATURES], dtype=np.float64).T


def _noise_name(log: StepLog, k: int) -> str:
    if log.prefill_tokens[k] == 0:
        return "step.decode"
    return "step.mixed" if log.decode_requests[k] else "step.prefill"


def _notes(log: StepLog, noise: StepNoise, n_timed: int, n_kept: int, name: str) -> tuple[str, ...]:
    notes = [
        f"{name}: {n_timed} steps, scatter {100 * noise.sd:.0f} % (skewness {noise.skew:.1f}, "
        f"correlation of neighbours {noise.lag1:.2f}): they count as {noise.n_effective:.0f} "
        f"independent ones; means lie {100 * (mean_over_median(noise) - 1):.0f} % above medians"
    ]
    if n_timed < len(log):
        notes.append(f"{name}: {len(log) - n_timed} steps without a duration were left out")
    if n_kept < n_timed:
        notes.append(f"{name}: every {n_timed / n_kept:.1f}th step enters the fit")
    if not np.any(np.nan_to_num(log.kv_usage) > 0):
        notes.append(f"{name}: KV usage is not known, so it says nothing about the context's cost")
    return tuple(notes)
