"""In which regimes a run lies: long decode, stages near saturation."""

import numpy as np
from numpy.typing import NDArray

from tailcast.inference.effective import EffectiveMap, effective_law
from tailcast.inference.forward import RunInput
from tailcast.inference.population import deployment_regimes
from tailcast.latency_model import LONG_DECODE_TOKENS, NEAR_SATURATION
from tailcast.request import RequestTable

Array = NDArray[np.float64]


def workload_regimes(requests: RequestTable) -> tuple[str, ...]:
    """Discrepancies of a run beside those of every run.

    Parameters
    ----------
    requests : RequestTable
        What was sent.

    Returns
    -------
    tuple of str
        ``("long_decode",)`` or empty.
    """
    long = len(requests) and requests.output_tokens.mean() >= LONG_DECODE_TOKENS
    return ("long_decode",) if long else ()


def run_regimes(run: RunInput, requests: RequestTable) -> tuple[str, ...]:
    """All discrepancies that apply to a run beside those of every run and deployment.

    Parameters
    ----------
    run : RunInput
        For its deployment.
    requests : RequestTable
        What was sent.

    Returns
    -------
    tuple of str
        Names in `tailcast.latency_model.DISCREPANCIES`.
    """
    return (*deployment_regimes(run.deployment), *workload_regimes(requests))


def saturated_stages(
    run: RunInput, mapping: EffectiveMap, effective: Array, requests: RequestTable
) -> tuple[int, ...]:
    r"""Stages whose decodes alone offer at least 0.9 of what the largest batch can serve.

    .. math:: \rho = \lambda m T(B) / B

    Parameters
    ----------
    run : RunInput
        For its deployment.
    mapping : EffectiveMap
        Of the run.
    effective : ndarray, shape (n_draw, n_effective)
        Plausible effective numbers; the median load over them counts.
    requests : RequestTable
        What was sent; groups are stages.

    Returns
    -------
    tuple of int
        Stage indices.
    """
    law = effective_law(mapping, effective)
    engine = run.deployment.engine
    kv_tokens = run.deployment.kv_block_count * engine.block_size
    found = []
    for stage in range(requests.n_group):
        own = requests.group == stage
        span = np.ptp(requests.arrival[own]) if own.sum() > 1 else 0.0
        if not span or (requests.parent[own] >= 0).any():
            continue
        prompt, output = requests.input_tokens[own].mean(), requests.output_tokens[own].mean()
        batch = max(1.0, min(float(engine.max_num_seqs), kv_tokens / (prompt + output / 2)))
        rate = (own.sum() - 1) / span
        loads = [
            rate
            * output
            / batch
            * float(law.draw(k).duration(0, 0, 0, batch, batch * (prompt + output / 2))[0])
            for k in range(law.n_draw)
        ]
        if np.median(loads) >= NEAR_SATURATION:
            found.append(stage)
    return tuple(found)
