"""Truths drawn from the prior lie uniformly among the draws of their posteriors."""

from pathlib import Path

import numpy as np
import pytest

from small_problem import small_model, small_runs
from tailcast.inference.sbc import Calibration, calibrate_simulated

LIMIT = 4.6
"""|z| of a quantity's second moment; false alarm 4e-6 each, below 1e-4 over some 20 quantities."""


def calibration(folder: Path, n: int, power: float = 1.0) -> Calibration:
    """Calibration of the small problem."""
    return calibrate_simulated(
        small_model(folder), small_runs(), n_simulation=n, seed=1, power=power
    )


def flat(found: Calibration) -> bool:
    """Whether no quantity's ranks are too spread, too gathered or shifted."""
    shift = (found.pit.mean(axis=0) - 0.5) * np.sqrt(12 * len(found.pit))
    return bool(np.abs(found.dispersion_z()).max() < LIMIT and np.abs(shift).max() < LIMIT)


@pytest.mark.slow
@pytest.mark.statistical
def test_ranks_of_simulated_truths_are_flat(tmp_path: Path) -> None:
    """False alarm below 1e-4 a moment; 20 truths see intervals a third as wide as they should be
    with power above 0.99 (the control below, whose likelihood counts sixteen times)."""
    assert flat(calibration(tmp_path / "right", 20))


@pytest.mark.slow
@pytest.mark.statistical
def test_ranks_of_a_broken_likelihood_are_not_flat(tmp_path: Path) -> None:
    """The control of the test above, with half as many truths."""
    assert not flat(calibration(tmp_path / "broken", 10, power=16.0))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.statistical
def test_two_hundred_simulated_truths_are_covered(tmp_path: Path) -> None:
    """False alarm below 1e-4 over all; 90 % intervals hold .86-.94 on average over quantities."""
    found = calibration(tmp_path / "many", 200)
    assert flat(found)
    assert found.p_value().min() > 1e-4 / len(found.quantity)
    assert 0.86 <= found.coverage(0.9).mean() <= 0.94


def test_uniform_shares_pass_and_tell_the_moments() -> None:
    rng = np.random.default_rng(3)
    even = Calibration(quantity=("a", "b"), pit=rng.random((500, 2)))
    assert flat(even)
    narrow = Calibration(quantity=("a",), pit=rng.beta(0.4, 0.4, (500, 1)))
    assert narrow.dispersion_z()[0] > LIMIT
    wide = Calibration(quantity=("a",), pit=rng.beta(4, 4, (500, 1)))
    assert wide.dispersion_z()[0] < -LIMIT
    assert even.coverage(0.9) == pytest.approx([0.9, 0.9], abs=0.06)


def test_calibration_is_a_group_that_arviz_plots() -> None:
    pytest.importorskip("matplotlib")
    import arviz as az

    found = Calibration(quantity=("per_step",), pit=np.linspace(0.005, 0.995, 100)[:, None])
    assert list(found.to_tree()["prior_sbc"].data_vars) == ["per_step"]
    az.plot_ecdf_pit(found.to_tree(), backend="none")
