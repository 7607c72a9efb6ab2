"""Limits of the replica that a deployment describes."""

from tailcast.deployment import Deployment
from tailcast.engine.limits import Limits


def deployment_limits(deployment: Deployment, *, horizon: float = float("inf")) -> Limits:
    """Scheduler and KV limits of one replica.

    Parameters
    ----------
    deployment : Deployment
        LLM, accelerator, parallelism, engine settings.
    horizon : float
        Seconds after which no step starts.

    Returns
    -------
    Limits
        For `tailcast.engine.run.simulate`.

    Raises
    ------
    CapacityError
        If the weights do not fit.
    """
    engine = deployment.engine
    return Limits(
        max_num_seqs=engine.max_num_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        max_model_len=deployment.max_model_len,
        block_size=engine.block_size,
        kv_blocks=deployment.kv_block_count,
        prefix_caching=engine.prefix_caching,
        chunked_prefill=engine.chunked_prefill,
        long_prefill_token_threshold=engine.long_prefill_token_threshold,
        priority=engine.scheduler == "priority",
        horizon=horizon,
    )
