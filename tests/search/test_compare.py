"""Paired differences in numbers and in words."""

import numpy as np
import pytest

from tailcast.errors import UsageError
from tailcast.search.compare import compare
from tailcast.streams import stream


def ranks(gap: float, n: int = 200, own: float = 0.02) -> tuple[np.ndarray, np.ndarray]:
    """Two candidates, the first better by a log gap."""
    rng = stream(1, "compare", str(gap))
    shared = 0.3 * rng.standard_normal(n)
    return shared - gap + own * rng.standard_normal(n), shared + own * rng.standard_normal(n)


def test_a_clear_gain_is_settled() -> None:
    found = compare(*ranks(0.2))
    assert found.gain == pytest.approx(1 - np.exp(-0.2), abs=0.01)
    assert found.low < found.gain < found.high
    assert found.is_settled
    assert found.p_better == 1.0
    assert found.sentence("B", "A").startswith("B beats A by 18")
    assert "P = 1.00" in found.sentence("B", "A")


def test_the_other_way_round_is_the_same_statement() -> None:
    own, other = ranks(0.2)
    turned = compare(other, own)
    assert turned.gain < 0
    assert turned.sentence("A", "B") == turned.reversed().sentence("B", "A")
    there = compare(own, other)
    assert turned.reversed().gain == pytest.approx(there.gain, abs=1e-3)
    assert turned.reversed().low == pytest.approx(there.low, abs=1e-3)
    assert turned.reversed().p_better == there.p_better


def test_equals_are_not_settled_and_ties_count_half() -> None:
    own, _ = ranks(0.0)
    found = compare(own, own)
    assert (found.gain, found.p_better) == (0.0, 0.5)
    assert not found.is_settled


def test_pairing_needs_far_fewer_blocks() -> None:
    own, other = ranks(0.05, 400)
    paired = next(n for n in range(4, 401) if compare(own[:n], other[:n]).is_settled)
    shifted = np.roll(other, 7)
    unpaired = next((n for n in range(4, 401) if compare(own[:n], shifted[:n]).is_settled), 400)
    assert paired * 4 <= unpaired


def test_one_block_is_not_enough() -> None:
    with pytest.raises(UsageError, match="share 1 blocks"):
        compare(np.zeros(1), np.zeros(5))
