"""Variance components are recovered; the one-way formula is the trap it is said to be."""

import numpy as np
import pytest
from numpy.typing import NDArray

from risk.cases import deployment, prior_posterior, question, tables
from tailcast.risk.blocks import predictive_blocks
from tailcast.risk.fleet import Fleet
from tailcast.risk.split import Crossed, crossed_runs, crossed_split, worst_margin
from tailcast.risk.trial import Outcomes
from tailcast.streams import stream

TRUE = {"coefficients": 0.09, "discrepancy": 0.04, "workload": 0.25, "finite_run": 0.01}


def layouts(k: int, n_draw: int = 40, n_seed: int = 8) -> list[NDArray[np.float64]]:
    """A crossed layout with known components, with its own and with fresh discrepancies."""
    rng = stream(5, "split", k)
    sd = {name: np.sqrt(v) for name, v in TRUE.items()}
    coefficients = sd["coefficients"] * rng.standard_normal((n_draw, 1))
    workload = sd["workload"] * rng.standard_normal((1, n_seed))
    return [
        coefficients
        + sd["discrepancy"] * rng.standard_normal((n_draw, 1))
        + workload
        + sd["finite_run"] * rng.standard_normal((n_draw, n_seed))
        for _ in range(2)
    ]


@pytest.mark.statistical
def test_components_are_recovered_and_one_way_is_biased() -> None:
    """False alarm 6e-5 a component (4 standard errors over 200 layouts); a bias of 10 % of the
    epistemic part would be seen with power 0.99. The one-way formula must fail."""
    splits = [crossed_split(*layouts(k)) for k in range(200)]
    for name, known in TRUE.items():
        found = np.array([getattr(split, name) for split in splits])
        error = abs(found.mean() - known) / (found.std() / np.sqrt(len(found)))
        assert error < 4, (name, found.mean())
    tables_ = [layouts(k)[0] for k in range(200)]
    one_way = np.array(
        [t.mean(axis=1).var(ddof=1) - t.var(axis=1, ddof=1).mean() / 8 for t in tables_]
    )
    known = TRUE["coefficients"] + TRUE["discrepancy"]
    assert abs(one_way.mean() - known) / (one_way.std() / np.sqrt(200)) > 8


def test_nothing_varies_nothing_is_shared_out() -> None:
    split = crossed_split(np.ones((4, 3)), np.ones((4, 3)))
    assert split.total == 0
    assert set(split.shares().values()) == {0.0}


def test_crossed_runs_share_seeds_over_draws_and_draws_over_seeds() -> None:
    blocks = predictive_blocks(prior_posterior(), 6, 0)
    asked = question("ttft.p99=60ms", "tpot.mean=12ms")
    fleet = Fleet(deployment=deployment())
    crossed = crossed_runs(fleet, blocks, tables(), asked, n_seed=3)
    assert len(crossed.both) == 18
    own = Outcomes(**{f: getattr(crossed.both, f)[::7] for f in Outcomes.__slots__})
    from tailcast.risk.trial import run_blocks

    single = run_blocks(fleet, blocks, tables(), asked, np.arange(1))
    np.testing.assert_array_equal(own.value[0], single.value[0])
    shares = crossed.split(asked)
    assert set(shares) == {*(str(o) for o in asked.objectives), "all", "missed"}
    assert shares["all"].total > 0
    assert sum(shares["all"].shares().values()) == pytest.approx(1)


def crossed_of(value: float, above: list[int], load: float = 0.5) -> Crossed:
    """Draws with two runs of 100 requests each, `above` of them beyond the target."""
    n = len(above)
    part = np.repeat(np.array(above, dtype=float)[:, None] / 2, 2, axis=0)
    runs = Outcomes(
        load=np.full(2 * n, load),
        failed=np.zeros(2 * n),
        value=np.full((2 * n, 2), value),
        part=np.hstack([part, part]),
        whole=np.full((2 * n, 2), 100.0),
    )
    return Crossed(both=runs, fresh=runs, n_draw=n, n_seed=2)


def test_the_long_run_is_judged_by_pooled_exceedances() -> None:
    asked = question("ttft.p99=60ms")
    found = crossed_of(0.05, [0, 2, 3]).long_run_missed(asked)
    assert found[:, 0].tolist() == [False, False, True]
    assert crossed_of(0.05, [0], load=1.5).long_run_missed(asked).all()


def test_a_saturated_run_is_as_far_off_as_can_be() -> None:
    asked = question("ttft.p99=60ms")
    beyond = crossed_of(0.01, [0], load=2.0).both
    assert np.all(worst_margin(beyond, asked) == worst_margin(beyond, asked).max())
    assert worst_margin(beyond, asked)[0] == pytest.approx(3.0)
