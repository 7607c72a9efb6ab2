"""Chain and engine side by side, and the chain as a control variate."""

import numpy as np
import pytest

from tailcast.crosscheck.compare import CompareCase, Compared, compare_grid
from tailcast.crosscheck.control import controlled_mean, pooled_variance_ratio
from tailcast.errors import UsageError
from tailcast.queueing.parameter_prior import numbers_prior
from tailcast.queueing.sensitivity import log_of_numbers
from tailcast.queueing.server import ServerLimits, three_numbers_ms
from tailcast.streams import stream

LLAMA = three_numbers_ms(6.678, 2.008e-2, 5.516e-5)
EXACT = log_of_numbers(LLAMA)[None]


def compared(
    tokens_in: float, tokens_out: float, max_batch: int, load: float, *, n_run: int = 8
) -> Compared:
    case = CompareCase(tokens_in=tokens_in, tokens_out=tokens_out, max_batch=max_batch, load=load)
    return compare_grid(EXACT, ServerLimits(), cases=[case], n_run=n_run)[0]


def test_itl_agrees_at_low_load() -> None:
    found = compared(256, 128, 256, 0.3)
    assert abs(found.log_error["itl"][0]) < 0.05


def test_short_prompts_are_charged_too_much_and_the_reason_is_named() -> None:
    found = compared(64, 64, 256, 0.6)
    mean, error = found.log_error["ttft"]
    assert mean > 0.1 + 4 * error
    assert any("decode step" in reason for reason in found.reasons)


def test_a_capped_batch_waits_too_long_in_the_chain() -> None:
    found = compared(512, 256, 32, 0.9)
    assert found.chain["wait"] > 1.3 * found.engine["wait"]
    assert any("full batch" in reason for reason in found.reasons)
    assert any("means only" in reason for reason in found.reasons)


def test_few_runs_are_refused() -> None:
    with pytest.raises(UsageError, match="4 runs"):
        compared(64, 64, 256, 0.6, n_run=3)


@pytest.mark.statistical
@pytest.mark.parametrize(("noise", "low", "high"), [(0.3, 4.0, 40.0), (1e9, 0.7, 1.3)])
def test_a_control_is_worth_what_its_correlation_says(
    noise: float, low: float, high: float
) -> None:
    """y = 2 x + noise: 1 / (1 - rho^2) is 12.1 with noise 0.6 to slope 2, one without a relation.

    400 runs: the ratio's log has sd below 0.15, so the bounds are wider than 7 sigma (false alarm
    below 1e-10); the second case is the control without any relation.
    """
    generator = stream(2, "control")
    x = generator.standard_normal(400)
    y = 2.0 * x + 2.0 * noise * generator.standard_normal(400)
    found = controlled_mean(y, x, 0.0)
    assert low < found.variance_ratio < high
    assert abs(found.mean) < 5 * found.se


def test_a_constant_control_changes_nothing() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0])
    found = controlled_mean(values, np.ones(4), 1.0)
    assert (found.mean, found.variance_ratio) == (2.5, 1.0)
    assert pooled_variance_ratio([found, found]) == 1.0
    with pytest.raises(UsageError, match="paired"):
        controlled_mean(values, np.ones(3), 1.0)


@pytest.mark.slow
def test_the_chain_is_worth_runs_where_the_numbers_are_unsure() -> None:
    """TTFT over draws of a prior: the chain explains most of the spread between draws."""
    case = CompareCase(tokens_in=1024, tokens_out=256, max_batch=256, load=0.6)
    draws = numbers_prior(LLAMA, (0.1, 0.15, 0.25)).draws(400, stream(0, "prior"))
    (found,) = compare_grid(draws, ServerLimits(), cases=[case], n_run=24)
    assert found.control["ttft"].variance_ratio > 2.0
    assert found.control["itl"].variance_ratio > 2.0


@pytest.mark.slow
def test_a_few_overloaded_draws_do_not_spoil_the_control() -> None:
    """Near a stability boundary that is not known the chain's TTFT has a tail of seconds, which
    eight runs do not show: the control must not be drawn to its mean."""
    case = CompareCase(tokens_in=256, tokens_out=1024, max_batch=256, load=0.6)
    draws = numbers_prior(LLAMA, (0.1, 0.15, 0.25)).draws(400, stream(0, "prior"))
    (found,) = compare_grid(draws, ServerLimits(), cases=[case], n_run=8)
    for name in ("ttft", "itl", "ttft_p99"):
        control = found.control[name]
        assert control.variance_ratio > 1.0
        assert control.mean == pytest.approx(control.plain, abs=4.0 * control.plain_se)
