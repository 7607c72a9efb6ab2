"""Ranks of truths among the draws of their fits are uniform, and a wrong likelihood is seen."""

import numpy as np
import pytest
import xarray as xr

from tailcast.inference.queue_fit import QueueSampler
from tailcast.inference.queue_sbc import SbcDesign, queue_sbc, rank_uniformity
from tailcast.queueing.parameter_prior import numbers_prior
from tailcast.queueing.server import ServerLimits, three_numbers_ms
from tailcast.streams import stream

PRIOR = numbers_prior(three_numbers_ms(8.0, 1.6e-2, 7e-5))
LIMITS = ServerLimits(max_batch=256, max_queue=256)
SHAPES = ((512.0, 256.0), (2048.0, 128.0))
QUICK = QueueSampler(draws=120, tune=200, chains=1, cores=1, target_accept=0.8)
FALSE_ALARM = 1e-4


def ranks_of(values: np.ndarray) -> xr.DataTree:
    data = xr.Dataset({"x": (("chain", "draw"), values[None])})
    return xr.DataTree.from_dict({"/prior_sbc": data})


@pytest.mark.statistical
def test_the_rank_test_sees_shifted_and_narrow_posteriors() -> None:
    """200 ranks. At the level of 1e-4 a shift of half a posterior sd is seen with power 0.97, and
    intervals two thirds as wide as they should be with power 0.96.
    """
    from scipy.stats import norm

    z = stream(1, "ranks").standard_normal(200)
    assert rank_uniformity(ranks_of(norm.cdf(z))).p_value > FALSE_ALARM
    assert rank_uniformity(ranks_of(norm.cdf(z + 0.5))).p_value < FALSE_ALARM
    assert rank_uniformity(ranks_of(norm.cdf(1.5 * z))).p_value < FALSE_ALARM


@pytest.mark.slow
@pytest.mark.statistical
def test_ranks_of_the_fit_are_uniform() -> None:
    """20 fits; false alarm at most 1e-4 (exact tests of location and spread of 11 unknowns,
    Bonferroni). Control: 8 truths whose discrepancy is four times what the likelihood holds.
    """
    tree = queue_sbc(20, PRIOR, LIMITS, seed=1, design=SbcDesign(shapes=SHAPES), sampler=QUICK)
    ranks = tree["prior_sbc"].to_dataset()
    assert ranks.sizes == {"chain": 1, "draw": 20}
    assert rank_uniformity(tree).p_value > FALSE_ALARM
    wrong = SbcDesign(shapes=SHAPES, spread=4.0)
    control = queue_sbc(8, PRIOR, LIMITS, seed=2, design=wrong, sampler=QUICK)
    assert rank_uniformity(control).p_value < FALSE_ALARM
