"""BLIS's own workloads: its arrival times, its length distributions."""

import numpy as np
import pytest

from tailcast.engine.blis.presets import (
    BLIS_PRESETS,
    GaussianLength,
    gaussian_requests,
    preset_requests,
)
from tailcast.errors import CatalogError, UsageError


def test_arrivals_are_evenly_spaced_and_truncated() -> None:
    requests = preset_requests("chatbot", rate=3.0, n_request=4)
    assert requests.arrival_us.tolist() == [333333, 666666, 999999, 1333332]
    assert requests.deadline_us.tolist() == [300_000_000 + t for t in requests.arrival_us]
    assert preset_requests("chatbot", rate=1e9, n_request=2).arrival_us.tolist() == [1, 2]


@pytest.mark.statistical
@pytest.mark.parametrize("name", BLIS_PRESETS)
def test_lengths_have_the_stated_mean_and_bounds(name: str) -> None:
    """False alarm below 1e-6 (5 sigma), n = 4000; a mean off by 15 % of an sd must fail."""
    preset = BLIS_PRESETS[name]
    requests = preset_requests(name, n_request=4000, timeout_us=0)
    for values, length in (
        (requests.input_tokens, preset.prompt),
        (requests.output_tokens, preset.output),
    ):
        error = (values.mean() - length.mean) / length.sd * np.sqrt(len(values))
        assert abs(error) < 5
        assert abs(error + 0.15 * np.sqrt(len(values))) > 4  # negative control
        assert length.low <= values.min() <= values.max() <= length.high
    assert not requests.deadline_us.any()


def test_a_seed_gives_the_same_requests() -> None:
    first, again = preset_requests("multidoc", seed=7), preset_requests("multidoc", seed=7)
    assert np.array_equal(first.input_tokens, again.input_tokens)
    assert not np.array_equal(first.input_tokens, preset_requests("multidoc").input_tokens)


def test_a_prefix_is_added_to_every_prompt() -> None:
    fixed = GaussianLength(mean=100, sd=0, low=2, high=7000)
    requests = gaussian_requests(fixed, fixed, rate=1.0, n_request=3, prefix_tokens=50)
    assert requests.input_tokens.tolist() == [150] * 3
    assert requests.prefix_length.tolist() == [50] * 3
    assert requests.prefix_group.tolist() == [0] * 3


def test_impossible_workloads_are_refused() -> None:
    with pytest.raises(CatalogError, match="did you mean 'chatbot'"):
        preset_requests("chatbt")
    with pytest.raises(UsageError, match="rate"):
        preset_requests("chatbot", rate=0.0)
    with pytest.raises(UsageError, match="token length"):
        GaussianLength(mean=1, sd=1, low=5, high=2)
