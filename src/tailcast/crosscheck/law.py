"""Three numbers as a step law of the engine, and a step law as three numbers."""

from dataclasses import dataclass

import numpy as np

from tailcast.engine.limits import Limits
from tailcast.errors import UsageError
from tailcast.queueing.server import Floats, RequestShape, ServerLimits, ThreeNumbers
from tailcast.step_law import StepLaw

# of a decode's cost: what gamma keeps where the law's decode is cheaper than its prefill
_LEAST_READ = 0.02


def engine_law(numbers: ThreeNumbers, *, schedule_lag: float = 0.0) -> StepLaw:
    r"""Step law that charges what the work model charges.

    A step costs alpha, every token computed beta, and every token of KV cache that a decode reads
    gamma; a decode reads its own token too. The chain lets a chunk of a prompt read the chunks
    before it, the law does not: :math:`\gamma l (c - 1) / 2` a prompt of l tokens in c chunks.

    Parameters
    ----------
    numbers : ThreeNumbers
        Scalars or arrays of shape (n_draw,), in seconds.
    schedule_lag : float
        Steps between fixing a batch and starting it.

    Returns
    -------
    StepLaw
        One row a draw.
    """
    alpha, beta, gamma = np.broadcast_arrays(
        *(
            np.atleast_1d(np.asarray(v, np.float64))
            for v in (numbers.alpha, numbers.beta, numbers.gamma)
        )
    )
    zero = np.zeros(alpha.shape)
    return StepLaw(
        per_step=alpha,
        per_prefill_token=beta + gamma,
        per_prefill_pair=zero,
        per_prefill_request=zero,
        per_decode=beta + gamma,
        per_context_token=gamma,
        ingest=zero,
        finish=zero,
        stream=zero,
        schedule_lag=zero + schedule_lag,
        token_table=np.zeros((alpha.size, 1)),
    )


def engine_limits(limits: ServerLimits, *, kv_blocks: int | None = None) -> Limits:
    """Limits of the chain's replica for the engine, which has no waiting room to overflow.

    Parameters
    ----------
    limits : ServerLimits
        Batch cap and token budget.
    kv_blocks : int, optional
        KV blocks; without end where absent, as in the chain.

    Returns
    -------
    Limits
        Without prefix caching.
    """
    return Limits(
        max_num_seqs=limits.max_batch,
        max_num_batched_tokens=max(limits.max_batched_tokens, limits.max_batch),
        prefix_caching=False,
        kv_blocks=kv_blocks or 2**31 - 1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedNumbers:
    """Three numbers that cost what a step law costs, at one request shape.

    Parameters
    ----------
    log_draws : ndarray, shape (n_draw, 3)
        Logs of alpha, beta and gamma in seconds.
    overhead : ndarray, shape (n_draw,)
        Seconds in TTFT outside the steps.
    clipped : float
        Share of the draws in which the law's decode token is cheaper than its prefill token, so
        that no positive gamma fits and the decode is charged too much.
    """

    log_draws: Floats
    overhead: Floats
    clipped: float


def mapped_numbers(law: StepLaw, shape: RequestShape, *, batch: int = 32) -> MappedNumbers:
    r"""Three numbers of a step law at a request shape.

    Alpha is the cost of a step that is there whatever the batch holds. Beta and gamma follow from
    the law's prefill work :math:`w_p = l(\beta + \gamma)` of a request and from its decode step
    :math:`w_d = \beta + \gamma (l + (m + 1) / 2)`, so that the chain's mean work of a step is the
    law's.

    Parameters
    ----------
    law : StepLaw
        One row a draw.
    shape : RequestShape
        Mean tokens, scalars.
    batch : int
        New tokens in a step at which the part of the law that is not linear in them (experts
        touched, contention) is taken as a constant.

    Returns
    -------
    MappedNumbers
        Exact in prefill, decode and step costs but where clipped.

    Raises
    ------
    UsageError
        If a step, a prefill or a decode costs nothing.
    """
    tokens_in, tokens_out = float(shape.tokens_in), float(shape.tokens_out)
    length = max(tokens_in, 1.0)
    context = tokens_in + (tokens_out - 1.0) / 2.0
    prompt = (
        law.per_prefill_token
        + law.per_prefill_pair * length / 2.0
        + law.per_prefill_request / length
    )
    decode = law.per_decode + law.per_context_token * context
    alpha = law.per_step + law.token_table[:, min(batch, law.token_table.shape[1] - 1)]
    if min(alpha.min(), prompt.min(), decode.min()) <= 0:
        raise UsageError("step law: a step, a prompt token and a decode must all cost time")
    # the tagged request reads its own token too: context + 1 tokens, against one in prefill
    gamma = (decode - prompt) / max(context, 1.0)
    least = _LEAST_READ * decode / (context + 1.0)
    clipped = gamma < least
    gamma = np.where(clipped, least, gamma)
    beta = np.where(clipped, np.maximum(prompt - gamma, least), prompt - gamma)
    return MappedNumbers(
        log_draws=np.log(np.stack([alpha, beta, gamma], axis=-1)),
        overhead=law.ingest + law.stream,
        clipped=float(clipped.mean()),
    )
