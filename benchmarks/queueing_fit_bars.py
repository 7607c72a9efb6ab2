"""Bars of the Bayesian fit: ``python benchmarks/queueing_fit_bars.py [BAR...]``.

Bars: fit, splits, sbc. The first two need the real sweep, see `queueing_bars`.
"""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import xarray as xr
from queueing_bars import LIMITS, TRUTH, WIDE, capacities, sweep

from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.deployment import Deployment
from tailcast.inference.queue_data import queue_data
from tailcast.inference.queue_draws import draws_from_free, latency_draws, prior_free
from tailcast.inference.queue_fit import QueueSampler, fit_queue
from tailcast.inference.queue_predict import datasheet_shares, predict_windows
from tailcast.inference.queue_tree import QueuePosterior, queue_posterior
from tailcast.queueing.parameter_prior import hardware_prior, numbers_prior
from tailcast.queueing.sensitivity import numbers_of_log
from tailcast.queueing.server import Floats
from tailcast.queueing.sizing import Targets
from tailcast.queueing.windows import Window, WindowColumns, window_columns
from tailcast.streams import stream


def bar_fit() -> Iterator[str]:
    """Bayesian fit of all 112 points, from the datasheet prior.

    Yields
    ------
    str
        Lines.
    """
    windows = sweep()
    if not windows:
        return
    deployment = Deployment(llm=llm("llama-3.1-8b"), accelerator=accelerator("h100"))
    wide = numbers_prior(hardware_prior(deployment).numbers, WIDE)
    columns, observed = window_columns(windows), _observed(windows)
    for name, prior in (("datasheet prior", hardware_prior(deployment)), ("wide prior", wide)):
        start = time.process_time()
        tree = fit_queue(windows, prior, LIMITS, seed=1)
        seconds = time.process_time() - start
        fit = queue_posterior(tree)
        generator = stream(1, "bars")
        for what, discrepancy in (("with shape offsets", True), ("chain and overhead", False)):
            drawn = latency_draws(
                fit.draws, columns, LIMITS, fit.groups, generator, discrepancy=discrepancy
            )
            center = np.median(drawn, axis=0)
            error = np.abs(center - observed).mean(axis=0) / observed.mean(axis=0)
            yield f"fit, {name}, {what}: TTFT {error[0]:.3f}, ITL {error[1]:.3f}"
        yield f"  90 % coverage TTFT {_inside(observed, fit, columns)}, {seconds:.0f} CPU s here"
        yield f"  {_physics(tree, deployment)}"


def _observed(windows: list[Window]) -> Floats:
    return np.array([[window.ttft, window.itl] for window in windows])


def _inside(observed: Floats, fit: QueuePosterior, columns: WindowColumns) -> str:
    drawn = latency_draws(fit.draws, columns, LIMITS, fit.groups, stream(2, "bars"))
    low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
    ttft, itl = ((low <= observed) & (observed <= high)).mean(axis=0)
    return f"{ttft:.2f}, ITL {itl:.2f}"


def _physics(tree: xr.DataTree, deployment: Deployment) -> str:
    shares = datasheet_shares(tree, deployment, seed=1)
    texts = []
    for name, published in (("compute", 0.81), ("kv_read", 0.71)):
        low, middle, high = np.quantile(shares[name], [0.05, 0.5, 0.95])
        inside = "inside" if low <= published <= high else "outside"
        texts.append(f"{name} {middle:.0%} of peak ({low:.0%} .. {high:.0%}), {published} {inside}")
    return "; ".join(texts)


def bar_splits(n_split: int = 20, n_train: int = 8) -> Iterator[str]:
    """Eight random windows predict the other 104.

    Parameters
    ----------
    n_split, n_train : int
        Splits, and windows fitted in each.

    Yields
    ------
    str
        Lines.
    """
    windows, rows = sweep(), []
    if not windows:
        return
    prior = numbers_prior(numbers_of_log(TRUTH), WIDE)
    for split in range(n_split):
        order = stream(split, "split").permutation(len(windows))
        train = [windows[i] for i in order[:n_train]]
        rest = [windows[i] for i in order[n_train:]]
        tree = fit_queue(train, prior, LIMITS, seed=split)
        predicted = predict_windows(tree, rest, seed=split)["predictions"].to_dataset()
        observed, row = _observed(rest), []
        for place, metric in enumerate(("ttft", "itl")):
            draws = predicted[metric].values.reshape(-1, len(rest))
            low, middle, high = np.quantile(draws, [0.05, 0.5, 0.95], axis=0)
            truth = observed[:, place]
            inside = np.mean((low <= truth) & (truth <= high))
            width = float(np.mean(np.log(high / low)))
            row += [np.abs(middle - truth).mean() / truth.mean(), inside, width]
        rows.append(row)
        form = "  split {}: TTFT {:.3f} in {:.2f}, width {:.2f}; ITL {:.3f} in {:.2f}, {:.2f}"
        yield form.format(split, *row)
    mean, low, high = np.mean(rows, axis=0), np.min(rows, axis=0), np.max(rows, axis=0)
    for place, metric in enumerate(("TTFT", "ITL")):
        k = 3 * place
        yield (
            f"splits {metric}: error {mean[k]:.3f} ({low[k]:.3f} .. {high[k]:.3f}), 90 % coverage "
            f"{mean[k + 1]:.3f} ({low[k + 1]:.2f} .. {high[k + 1]:.2f}), "
            f"log width {mean[k + 2]:.2f}"
        )


def bar_sbc(n_fit: int = 60) -> Iterator[str]:
    """Simulation-based calibration of the fit: ranks of the truth among the draws.

    Parameters
    ----------
    n_fit : int
        Truths drawn from the prior.

    Yields
    ------
    str
        Lines.
    """
    prior = numbers_prior(numbers_of_log(TRUTH), WIDE)
    shapes = [(512.0, 256.0), (1024.0, 512.0), (128.0, 1024.0), (2048.0, 128.0)]
    ranks = []
    for seed in range(n_fit):
        generator = stream(seed, "sbc")
        windows = [
            Window(tokens_in=prompt, tokens_out=output, rate=1.0, ttft=1.0, itl=1.0)
            for prompt, output in shapes
            for _ in range(2)
        ]
        data = queue_data(windows, prior, LIMITS)
        truth = draws_from_free(prior_free(1, data, generator), data)
        windows = [
            replace(
                window,
                rate=float(
                    generator.uniform(0.1, 0.8)
                    * capacities(truth.log_numbers[0], window.shape, Targets())[0]
                ),
            )
            for window in windows
        ]
        columns = window_columns(windows)
        drawn = latency_draws(truth, columns, LIMITS, data.groups, generator)[0]
        windows = [
            replace(window, ttft=float(ttft), itl=float(itl))
            for window, (ttft, itl) in zip(windows, drawn, strict=True)
        ]
        tree = fit_queue(windows, prior, LIMITS, seed=seed, sampler=QueueSampler(draws=400))
        fit = queue_posterior(tree).draws
        pairs = [(fit.log_numbers[:, k], truth.log_numbers[0, k]) for k in range(3)]
        pairs += [(fit.overhead, truth.overhead[0])]
        pairs += [(fit.window_scale[:, k], truth.window_scale[0, k]) for k in range(2)]
        ranks.append([float(np.mean(draws < value)) for draws, value in pairs])
    names = ("alpha", "beta", "gamma", "overhead", "window_scale ttft", "window_scale itl")
    for name, column in zip(names, np.array(ranks).T, strict=True):
        counts = np.histogram(column, bins=5, range=(0, 1))[0]
        inside = np.mean((column > 0.05) & (column < 0.95))
        chi2 = float(((counts - n_fit / 5) ** 2 / (n_fit / 5)).sum())
        yield f"sbc {name}: ranks {counts.tolist()}, chi2(4) {chi2:.1f}, 90 % covers {inside:.2f}"


BARS: dict[str, Callable[[], Iterator[str]]] = {
    "fit": bar_fit,
    "splits": bar_splits,
    "sbc": bar_sbc,
}

if __name__ == "__main__":
    for bar in sys.argv[1:] or BARS:
        for line in BARS[bar]():
            print(line, flush=True)
