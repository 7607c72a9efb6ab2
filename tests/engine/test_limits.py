"""Limits are refused when they cannot be meant."""

import pytest

from tailcast.engine.limits import Limits
from tailcast.errors import UsageError


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_num_seqs": 0}, r"max_num_seqs must lie in 1\.\.2147483647, got 0"),
        ({"kv_blocks": 2**31}, "kv_blocks must lie in"),
        ({"block_size": -16}, "block_size must lie in"),
        ({"long_prefill_token_threshold": -1}, r"threshold must lie in 0\.\."),
        ({"max_num_batched_tokens": 2048.0}, "max_num_batched_tokens must be a whole number"),
        ({"horizon": 0.0}, "horizon must be positive, got 0.0"),
        ({"horizon": float("nan")}, "horizon must be positive, got nan"),
    ],
)
def test_impossible_limits_are_refused(limits: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Limits(**limits)  # type: ignore[arg-type]


def test_no_threshold_and_no_horizon_are_fine() -> None:
    assert Limits(long_prefill_token_threshold=0, horizon=float("inf")).block_size == 16
