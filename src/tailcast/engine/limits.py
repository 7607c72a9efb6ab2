"""What one replica's scheduler and KV cache allow."""

from dataclasses import dataclass, fields

import numpy as np

from tailcast.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one replica, in vLLM's words.

    Parameters
    ----------
    max_num_seqs : int
        Requests that may run at once.
    max_num_batched_tokens : int
        New tokens that one step may compute.
    max_model_len : int
        Longest prompt plus output in tokens; longer requests are rejected on arrival.
    block_size : int
        Tokens in a KV block.
    kv_blocks : int
        KV blocks of the replica.
    prefix_caching : bool
        Whether full blocks of equal leading tokens are shared and kept after their request.
    chunked_prefill : bool
        Whether a prompt may be spread over several steps.
    long_prefill_token_threshold : int
        Most prompt tokens that one request may compute in a step; 0 for no such limit.
    priority : bool
        Whether the priority scheduler is used rather than first come, first served.
    horizon : float
        Seconds; no step starts at or after it.
    """

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    max_model_len: int = 2**31 - 1
    block_size: int = 16
    kv_blocks: int = 2**31 - 1
    prefix_caching: bool = True
    chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    priority: bool = False
    horizon: float = float("inf")

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type is int:
                if not isinstance(value, int | np.integer):
                    raise UsageError(f"{field.name} must be a whole number, got {value!r}")
                least = 0 if field.name == "long_prefill_token_threshold" else 1
                if not least <= value < 2**31:
                    raise UsageError(f"{field.name} must lie in {least}..2147483647, got {value!r}")
        if not self.horizon > 0:
            raise UsageError(f"horizon must be positive, got {self.horizon!r}")
