"""The Bayesian fit: its graph equals plain NumPy, it finds a truth, and admits what it misses."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from tailcast.errors import InputError, UsageError
from tailcast.inference.chain_op import ChainLatencies
from tailcast.inference.queue_data import (
    BIAS_SD,
    SCALE_LOG_SD,
    STUDENT_DOF,
    WINDOW_SCALE,
    QueueData,
    bias_design,
    queue_data,
    shape_groups,
    total_log_sd,
)
from tailcast.inference.queue_draws import draws_from_free, prior_free
from tailcast.inference.queue_fit import CompiledQueueModel, QueueSampler, fit_queue
from tailcast.inference.queue_model import build_queue_model
from tailcast.inference.queue_predict import (
    fitted_discrepancy,
    predict_windows,
    propose_measurement,
    tuner_from_fit,
    unseen,
)
from tailcast.inference.queue_tree import QueuePosterior, queue_posterior
from tailcast.queueing.capacity import capacity_draws
from tailcast.queueing.parameter_prior import numbers_prior
from tailcast.queueing.sensitivity import chunk_table, log_latencies, log_of_numbers
from tailcast.queueing.server import RequestShape, ServerLimits, three_numbers_ms
from tailcast.queueing.sizing import Targets
from tailcast.queueing.tuner import Tuner, TunerSettings
from tailcast.queueing.windows import Window, window_columns
from tailcast.streams import stream

LIMITS = ServerLimits(max_batch=256, max_queue=256)
TRUTH = three_numbers_ms(6.678, 2.008e-2, 5.516e-5)
PRIOR = numbers_prior(three_numbers_ms(8.0, 1.6e-2, 7e-5))
SHAPES = [(512.0, 256.0), (1024.0, 512.0), (128.0, 1024.0), (2048.0, 128.0)]
SMALL = QueueSampler(draws=150, tune=300, chains=2, cores=1)


def synthetic(shapes: list[tuple[float, float]], n_each: int, seed: int) -> list[Window]:
    """Windows of the true server with the discrepancy that the model expects, no overhead."""
    generator, windows = stream(seed, "synthetic"), []
    for tokens_in, tokens_out in shapes:
        shape = RequestShape(tokens_in=tokens_in, tokens_out=tokens_out)
        boundary = capacity_draws(log_of_numbers(TRUTH), shape, LIMITS, Targets()).rate[0]
        for _ in range(n_each):
            rate = float(boundary * generator.uniform(0.1, 0.8))
            window = Window(tokens_in=tokens_in, tokens_out=tokens_out, rate=rate)
            found = log_latencies(log_of_numbers(TRUTH), window_columns([window]), LIMITS)
            noise = np.array(WINDOW_SCALE) * generator.standard_normal(2)
            ttft, itl = np.exp([found.ttft[0, 0] + noise[0], found.itl[0, 0] + noise[1]])
            windows.append(replace(window, ttft=float(ttft), itl=float(itl)))
    return windows


def density(data: QueueData, free: dict[str, Any]) -> float:
    """Log density of the model in plain NumPy and SciPy."""
    draws = draws_from_free({name: value[None] for name, value in free.items()}, data)
    found = log_latencies(draws.log_numbers, data.columns, LIMITS)
    logs = np.stack([np.logaddexp(found.ttft[0], np.log(draws.overhead[0])), found.itl[0]], axis=-1)
    logs[:, 0] += bias_design(data.columns) @ draws.bias[0]
    logs += draws.shape_offset[0, data.groups.members(data.columns)]
    scale = np.hypot(draws.window_scale[0], data.noise)
    each = stats.t.logpdf(data.log_measured, STUDENT_DOF, loc=logs, scale=scale)
    total = float(np.nansum(each))
    spread = np.exp(SCALE_LOG_SD * free["z_shape_scale"]) ** data.centring
    total += stats.norm.logpdf(free["z_offset"], scale=spread).sum()
    for name in ("z_numbers", "z_overhead", "z_bias", "z_window_scale", "z_shape_scale"):
        total += float(np.sum(stats.norm.logpdf(free[name])))
    if data.saturated.any():
        short = data.saturated
        completed = np.log(data.columns.throughput[short])
        total += stats.t.logpdf(completed, 5.0, loc=found.throughput[0, short], scale=0.05).sum()
    return float(total)


def spoilt_windows() -> list[Window]:
    """Windows with everything odd: unknown latencies, saturation, two shapes."""
    windows = synthetic(SHAPES[:2], 3, 1)
    windows[0] = replace(windows[0], ttft=float("nan"))
    windows[1] = replace(windows[1], itl=float("nan"), n_request=50.0)
    windows[2] = replace(windows[2], rate=60.0, throughput=31.0)
    return windows


@pytest.fixture(scope="module")
def odd_model() -> tuple[QueueData, Any]:
    data = queue_data(spoilt_windows(), PRIOR, LIMITS)
    return data, build_queue_model(data)


@pytest.mark.slow
def test_the_graph_has_the_density_of_plain_numpy(odd_model: tuple[QueueData, Any]) -> None:
    data, graph = odd_model
    compiled = graph.compile_logp()
    for seed in range(5):
        free = {name: value[0] for name, value in prior_free(1, data, stream(seed, "free")).items()}
        point = {name: np.asarray(value) for name, value in free.items()}
        assert float(compiled(point)) == pytest.approx(density(data, free), rel=1e-9)


@pytest.mark.slow
def test_the_gradient_of_the_graph_equals_differences(odd_model: tuple[QueueData, Any]) -> None:
    data, graph = odd_model
    free = {name: value[0] for name, value in prior_free(1, data, stream(7, "free")).items()}
    value_of = graph.logp_dlogp_function(ravel_inputs=True)
    value_of.set_extra_values({})
    from pymc.blocking import DictToArrayBijection, RaveledVars

    flat = DictToArrayBijection.map({name: np.asarray(value) for name, value in free.items()})
    names = [str(name) for name, *_ in flat.point_map_info]
    assert names == [variable.name for variable in graph.value_vars]
    _, gradient = value_of(flat)
    for place in range(flat.data.size):
        ends = []
        for sign in (1.0, -1.0):
            moved = flat.data.copy()
            moved[place] += sign * 1e-5
            ends.append(float(value_of(RaveledVars(moved, flat.point_map_info))[0]))
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(gradient[place], rel=1e-4, abs=1e-4)


def test_the_operation_gives_what_the_kernel_gives() -> None:
    windows = synthetic(SHAPES, 1, 2)
    columns, numbers = window_columns(windows), log_of_numbers(TRUTH)
    storage: list[list[Any]] = [[None], [None]]
    parameters = np.append(numbers, 0.003)
    inputs = [parameters, columns.tokens_in, columns.tokens_out, columns.rate]
    inputs.append(chunk_table(columns.shape, LIMITS))
    ChainLatencies(LIMITS.max_queue).perform(None, inputs, storage)
    values, slopes = storage[0][0], storage[1][0]
    found = log_latencies(numbers, columns, LIMITS)
    assert values[:, 0] == pytest.approx(np.log(np.exp(found.ttft[0]) + 0.003), rel=1e-12)
    assert values[:, 1] == pytest.approx(found.itl[0], rel=1e-12)
    ttft = np.exp(found.ttft[0])
    assert slopes[:, 0, 3] == pytest.approx(1.0 / (ttft + 0.003), rel=1e-12)
    assert slopes[:, 1, :3] == pytest.approx(found.slopes[0, :, 1, :3], rel=1e-12)


def test_shapes_within_a_quarter_share_an_offset() -> None:
    tokens = [(512, 256), (560, 240), (4096, 64), (500, 300), (0, 64)]
    windows = [Window(tokens_in=i, tokens_out=o, rate=1.0) for i, o in tokens]
    columns = window_columns(windows)
    groups = shape_groups(columns)
    assert groups.names == ["i512-o256", "i4096-o64", "i0-o64"]
    assert groups.members(columns).tolist() == [0, 0, 1, 0, 2]
    other = window_columns([Window(tokens_in=128, tokens_out=4096, rate=1.0)])
    assert groups.members(other).tolist() == [-1]


def test_prior_draws_have_the_scales_that_the_model_states() -> None:
    data = queue_data(synthetic(SHAPES, 2, 3), PRIOR, LIMITS)
    draws = draws_from_free(prior_free(20_000, data, stream(1, "prior")), data)
    quantiles = np.quantile(draws.overhead, [0.05, 0.5, 0.95])
    assert quantiles == pytest.approx([0.0006, 0.0034, 0.0098], rel=0.1)
    assert np.median(draws.window_scale, axis=0) == pytest.approx(WINDOW_SCALE, rel=0.02)
    ratio = draws.shape_offset / draws.shape_scale[:, None]
    assert ratio.std(axis=0) == pytest.approx(np.ones((4, 2)), rel=0.05)
    assert total_log_sd()[0] == pytest.approx(0.16, abs=0.02)
    assert draws.log_numbers.std(axis=0) == pytest.approx([0.3, 0.4, 0.5], rel=0.05)
    assert draws.bias.shape == (20_000, len(BIAS_SD))


def test_a_fit_needs_a_latency() -> None:
    with pytest.raises(UsageError, match="TTFT or ITL"):
        queue_data([Window(tokens_in=1, tokens_out=1, rate=1)], PRIOR, LIMITS)
    with pytest.raises(InputError, match="not a fit"):
        queue_posterior(xr.DataTree())


def scales(fit: QueuePosterior) -> tuple[Any, Any]:
    return fit.draws.window_scale, fit.draws.shape_scale


@pytest.fixture(scope="module")
def eight_windows() -> xr.DataTree:
    return fit_queue(synthetic(SHAPES, 2, 4), PRIOR, LIMITS, seed=1, sampler=SMALL)


@pytest.mark.slow
def test_eight_windows_of_four_shapes_find_the_truth(eight_windows: xr.DataTree) -> None:
    fit = queue_posterior(eight_windows)
    off = (fit.belief.log_mean - log_of_numbers(TRUTH)) / fit.belief.log_sd
    assert np.abs(off).max() < 3.5
    assert np.all(fit.belief.log_sd < 0.5 * PRIOR.log_sd)
    assert unseen(eight_windows) == []
    assert eight_windows.attrs["rhat"] < 1.05


@pytest.mark.slow
def test_a_fit_has_the_groups_and_units_of_a_posterior(eight_windows: xr.DataTree) -> None:
    groups = {"posterior", "prior", "sample_stats", "observed_data"}
    assert groups | {"posterior_predictive", "constant_data"} <= set(eight_windows.children)
    posterior = eight_windows["posterior"].to_dataset()
    assert posterior["alpha"].dims == ("chain", "draw")
    assert posterior["alpha"].attrs["units"] == "s"
    assert posterior["shape_offset"].dims == ("chain", "draw", "shape", "metric")
    replicated = eight_windows["posterior_predictive"].to_dataset()["ttft"]
    observed = eight_windows["observed_data"].to_dataset()["ttft"]
    low, high = replicated.quantile([0.005, 0.995], dim=("chain", "draw"))
    assert float(((low < observed) & (observed < high)).mean()) >= 0.75


@pytest.mark.slow
def test_predictions_cover_new_windows_and_flag_what_lies_outside(
    eight_windows: xr.DataTree,
) -> None:
    rest = synthetic(SHAPES, 10, 5)
    predictions = predict_windows(eight_windows, rest, seed=2)["predictions"].to_dataset()
    truth = np.array([[window.ttft, window.itl] for window in rest])
    for place, metric in enumerate(("ttft", "itl")):
        draws = predictions[metric].values.reshape(-1, len(rest))
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        inside = np.mean((low < truth[:, place]) & (truth[:, place] < high))
        assert inside > 0.75
    busy = Window(tokens_in=512, tokens_out=256, rate=500.0)
    flagged = predict_windows(eight_windows, [rest[0], busy], seed=2)["predictions"]
    assert json.loads(flagged.attrs["extrapolates"]) == [1]


@pytest.mark.slow
def test_one_window_says_what_it_cannot_tell_and_what_to_measure_next() -> None:
    (window,) = synthetic(SHAPES[:1], 1, 6)
    tree = fit_queue([window], PRIOR, LIMITS, seed=3, sampler=SMALL)
    missing = unseen(tree)
    assert missing
    assert any("gamma" in direction.name for direction in missing)
    shape = RequestShape(tokens_in=2048.0, tokens_out=1024.0)
    advice = propose_measurement(tree, shape, Targets(ttft=0.5, itl=0.05))
    assert advice is not None
    assert advice.log_sd_after < 0.8 * advice.log_sd_before


@pytest.mark.slow
def test_a_fit_hands_over_to_sizing_and_to_the_tuner(eight_windows: xr.DataTree) -> None:
    shape = RequestShape(tokens_in=512.0, tokens_out=256.0)
    fit = queue_posterior(eight_windows)
    between = fitted_discrepancy(eight_windows, shape, seed=4)
    targets = Targets(ttft=0.12, itl=0.025)
    found = capacity_draws(fit.draws.log_numbers, shape, LIMITS, targets, between).rate
    true = capacity_draws(log_of_numbers(TRUTH), shape, LIMITS, targets).rate[0]
    low, high = np.quantile(found, [0.01, 0.99])
    assert low < true < high
    tuner = tuner_from_fit(eight_windows, shape)
    assert tuner.belief.log_mean == pytest.approx(fit.belief.log_mean)
    assert tuner.settings.overhead == pytest.approx(float(fit.draws.overhead.mean()))
    before = np.linalg.slogdet(tuner.belief.log_cov)[1]
    for window in synthetic(SHAPES[:1], 10, 7):
        tuner.update(window)
    # one shape tells a sum of the numbers: the belief narrows, not each number
    assert np.linalg.slogdet(tuner.belief.log_cov)[1] < before - 0.5


@pytest.mark.slow
def test_odd_windows_are_fitted_too() -> None:
    tree = fit_queue(spoilt_windows(), PRIOR, LIMITS, seed=5, sampler=SMALL)
    observed = tree["observed_data"].to_dataset()
    assert np.isnan(observed["ttft"].values[0])
    assert np.isnan(observed["itl"].values[1])
    draws = queue_posterior(tree).draws
    assert np.all(np.isfinite(draws.log_numbers))


@pytest.mark.slow
def test_the_filter_and_the_fit_agree_on_the_same_windows(eight_windows: xr.DataTree) -> None:
    fit = queue_posterior(eight_windows)
    level = BIAS_SD[0] * math.sqrt(2.0)
    settings = TunerSettings(
        walk=0.0,
        ttft_bias_walk=0.0,
        ttft_bias_log_sd=level,
        ttft_log_sd=float(np.hypot(*(s[:, 0].mean() for s in scales(fit)))),
        itl_log_sd=float(np.hypot(*(s[:, 1].mean() for s in scales(fit)))),
        overhead=float(fit.draws.overhead.mean()),
        n_rival=0,
        noise_weight=1e6,
    )
    tuner = Tuner(PRIOR, LIMITS, settings)
    for window in synthetic(SHAPES, 2, 4):
        tuner.update(window)
    away = (tuner.belief.log_mean - fit.belief.log_mean) / fit.belief.log_sd
    assert np.abs(away).max() < 1.0
    ratio = tuner.belief.log_sd / fit.belief.log_sd
    assert np.all((ratio > 0.5) & (ratio < 1.5))


@pytest.mark.slow
def test_a_filter_that_starts_at_a_fit_goes_where_a_new_fit_would(
    eight_windows: xr.DataTree,
) -> None:
    """Moments handed over and one more window, against NUTS on all nine."""
    shape = RequestShape(tokens_in=4096.0, tokens_out=64.0)
    (new,) = synthetic([(4096.0, 64.0)], 1, 8)
    tuner = tuner_from_fit(eight_windows, shape)
    before = tuner.belief
    tuner.update(new)
    windows = [*synthetic(SHAPES, 2, 4), new]
    joint = queue_posterior(fit_queue(windows, PRIOR, LIMITS, seed=2, sampler=SMALL)).belief
    away = (tuner.belief.log_mean - joint.log_mean) / joint.log_sd
    assert np.abs(away).max() < 1.0
    assert tuner.belief.log_sd == pytest.approx(joint.log_sd, rel=0.4)
    assert not np.allclose(before.log_mean, tuner.belief.log_mean, atol=1e-4)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_draws_whatever_was_compiled(
    eight_windows: xr.DataTree,
) -> None:
    compiled = CompiledQueueModel(queue_data(synthetic(SHAPES, 2, 9), PRIOR, LIMITS))
    again = fit_queue(
        synthetic(SHAPES, 2, 4), PRIOR, LIMITS, seed=1, sampler=SMALL, compiled=compiled
    )
    assert np.array_equal(
        again["posterior"].to_dataset()["gamma"], eight_windows["posterior"].to_dataset()["gamma"]
    )
    assert compiled.fits(queue_data(synthetic(SHAPES, 2, 4), PRIOR, LIMITS))
    fewer = queue_data(synthetic(SHAPES, 1, 4), PRIOR, LIMITS)
    assert not compiled.fits(fewer)
    with pytest.raises(UsageError, match="laid out"):
        compiled.take(fewer)
