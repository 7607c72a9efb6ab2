"""Events of streamed answers as tokens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailcast.traces.importers.token_events import match_events

GAPS = st.lists(st.floats(0.01, 0.03), min_size=3, max_size=40)


def times(gaps: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Token times from gaps."""
    return 1.0 + np.append(0.0, np.cumsum(gaps))


@given(GAPS, st.integers(1, 80))
def test_tokens_are_conserved_or_nothing_is_claimed(gaps: list[float], n_tokens: int) -> None:
    found = match_events(times(gaps), n_tokens)
    assert found.how == "unmatched" or found.n_tokens.sum() == n_tokens
    assert len(found.time) == len(found.n_tokens) <= len(gaps) + 1
    assert np.all(np.diff(found.time) >= 0)


@given(GAPS)
def test_two_events_a_token_give_the_tokens_back(gaps: list[float]) -> None:
    tokens = times(gaps)
    events = np.sort(np.append(tokens, tokens + 1e-5))
    found = match_events(events, len(tokens))
    assert found.how == "doubled"
    np.testing.assert_allclose(found.time, tokens)


def test_two_events_a_token_at_even_distances_are_not_halved() -> None:
    events = np.arange(60, dtype=np.float64) * 0.01
    assert match_events(events, 30).how == "unmatched"


@pytest.mark.parametrize(("place", "how"), [(0, "role event"), (-1, "final event")])
def test_one_empty_event_at_an_end_is_dropped(place: int, how: str) -> None:
    tokens = times([0.02] * 9)
    extra = tokens[0] - 1e-4 if place == 0 else tokens[-1] + 1e-4
    found = match_events(np.sort(np.append(tokens, extra)), 10)
    assert found.how == how
    np.testing.assert_allclose(found.time, tokens)


def test_an_extra_event_amid_the_others_explains_nothing() -> None:
    assert match_events(np.arange(11, dtype=np.float64) * 0.01, 10).how == "unmatched"


def test_few_merged_tokens_go_to_the_widest_gaps_and_many_to_none() -> None:
    gaps = [0.01] * 40
    gaps[7], gaps[20] = 0.021, 0.03
    found = match_events(times(gaps), 43)
    assert (found.how, found.n_tokens[8], found.n_tokens[21]) == ("merged", 2, 2)
    assert match_events(times(gaps), 44).how == "unmatched"  # 3 of 44 are over 5 %
    assert match_events(times([0.02]), 30).how == "unmatched"
    assert match_events(np.array([1.0]), 1).how == "exact"
