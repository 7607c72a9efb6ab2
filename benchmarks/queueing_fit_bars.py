"""Bars of the Bayesian fit: ``python benchmarks/queueing_fit_bars.py [BAR[:FIRST:COUNT]...]``.

Bars: fit, splits, shapes, sbc. All but the last need the real sweep, see `queueing_bars`. A range
runs a part of a bar's fits. The prior of the numbers is not taken from the sweep: it is the
datasheet times the shares that the latency model expects anywhere (weights 0.80 and KV cache 0.77
of the bandwidth, compute 0.60 of the peak), and wide.
"""

import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import xarray as xr
from queueing_bars import LIMITS, TRUTH, WIDE, sweep

from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.deployment import Deployment
from tailcast.inference.queue_data import queue_data
from tailcast.inference.queue_draws import latency_draws
from tailcast.inference.queue_fit import CompiledQueueModel, QueueSampler, fit_queue
from tailcast.inference.queue_predict import datasheet_shares, predict_windows
from tailcast.inference.queue_sbc import SbcDesign, queue_sbc, rank_uniformity
from tailcast.inference.queue_tree import queue_posterior
from tailcast.queueing.parameter_prior import (
    NumbersPrior,
    hardware_prior,
    numbers_at_peak,
    numbers_prior,
)
from tailcast.queueing.sensitivity import numbers_of_log
from tailcast.queueing.server import Floats, ThreeNumbers
from tailcast.queueing.windows import Window, window_columns
from tailcast.streams import stream

SAMPLER = QueueSampler(chains=2, cores=1)


def deployment() -> Deployment:
    """What the sweep was measured on.

    Returns
    -------
    Deployment
        Llama-3.1-8B on one H100.
    """
    return Deployment(llm=llm("llama-3.1-8b"), accelerator=accelerator("h100"))


def neutral_prior() -> NumbersPrior:
    """Belief that owes nothing to the sweep.

    Returns
    -------
    NumbersPrior
        Wide.
    """
    peak = numbers_at_peak(deployment())
    numbers = ThreeNumbers(
        alpha=float(peak.alpha) / 0.8, beta=float(peak.beta) / 0.6, gamma=float(peak.gamma) / 0.77
    )
    return numbers_prior(numbers, WIDE)


def bar_fit(first: int = 0, count: int = 2) -> Iterator[str]:
    """Bayesian fit of all 112 points.

    Parameters
    ----------
    first, count : int
        Priors: the neutral one, then the datasheet's.

    Yields
    ------
    str
        Lines.
    """
    windows = sweep()
    if not windows:
        return
    priors = [("neutral prior", neutral_prior()), ("datasheet prior", hardware_prior(deployment()))]
    columns, observed = window_columns(windows), _observed(windows)
    for name, prior in priors[first : first + count]:
        start = time.process_time()
        tree = fit_queue(windows, prior, LIMITS, seed=1, sampler=SAMPLER)
        seconds = time.process_time() - start
        fit = queue_posterior(tree)
        for what, discrepancy in (("with shape offsets", True), ("chain and overhead", False)):
            drawn = latency_draws(
                fit.draws, columns, LIMITS, fit.groups, stream(1, "b"), discrepancy=discrepancy
            )
            row = _scores(drawn, observed)
            yield f"fit, {name}, {what}: TTFT {row[0]:.3f}, ITL {row[3]:.3f}"
            if discrepancy:
                yield f"  90 % coverage TTFT {row[1]:.2f}, ITL {row[4]:.2f}; {seconds:.0f} CPU s"
        yield f"  {_numbers(tree)}"
        yield f"  {_physics(tree)}"


def _numbers(tree: xr.DataTree) -> str:
    data, texts = tree["posterior"].to_dataset(), []
    for name, unit, factor in (
        ("alpha", "ms", 1e3),
        ("beta", "us", 1e6),
        ("gamma", "ns", 1e9),
        ("overhead", "ms", 1e3),
    ):
        low, middle, high = np.quantile(data[name].values * factor, [0.05, 0.5, 0.95])
        texts.append(f"{name} {middle:.3g} {unit} ({low:.3g} .. {high:.3g})")
    return f"{', '.join(texts)}; r-hat {tree.attrs['rhat']:.3f}"


def _observed(windows: list[Window]) -> Floats:
    return np.array([[window.ttft, window.itl] for window in windows])


def _scores(drawn: Floats, observed: Floats) -> list[float]:
    """Error, 90 % coverage and log width of TTFT, then of ITL."""
    row: list[float] = []
    low, middle, high = np.quantile(drawn, [0.05, 0.5, 0.95], axis=0)
    for place in (0, 1):
        truth = observed[:, place]
        inside = (low[:, place] <= truth) & (truth <= high[:, place])
        row.append(float(np.abs(middle[:, place] - truth).mean() / truth.mean()))
        row += [float(inside.mean()), float(np.log(high / low)[:, place].mean())]
    return row


def _physics(tree: xr.DataTree) -> str:
    shares = datasheet_shares(tree, deployment(), seed=1)
    texts = []
    for name, published in (("compute", 0.81), ("kv_read", 0.71)):
        low, middle, high = np.quantile(shares[name], [0.05, 0.5, 0.95])
        inside = "inside" if low <= published <= high else "outside"
        texts.append(f"{name} {middle:.0%} of peak ({low:.0%} .. {high:.0%}), {published} {inside}")
    return "; ".join(texts)


def _predicted(tree: xr.DataTree, rest: list[Window], seed: int) -> Floats:
    found = predict_windows(tree, rest, seed=seed)["predictions"].to_dataset()
    table = [found[metric].values.reshape(-1, len(rest)) for metric in ("ttft", "itl")]
    return np.stack(table, axis=-1)


def _line(name: str, row: list[float]) -> str:
    return (
        f"  {name}: TTFT {row[0]:.3f}, covered {row[1]:.2f}, log width {row[2]:.2f}; "
        f"ITL {row[3]:.3f}, covered {row[4]:.2f}, log width {row[5]:.2f}"
    )


def bar_splits(first: int = 0, count: int = 20, n_train: int = 8) -> Iterator[str]:
    """Eight random windows predict the other 104.

    Parameters
    ----------
    first, count, n_train : int
        Splits, and windows fitted in each.

    Yields
    ------
    str
        Lines.
    """
    windows, rows = sweep(), []
    if not windows:
        return
    for split in range(first, first + count):
        order = stream(split, "split").permutation(len(windows))
        train = [windows[i] for i in order[:n_train]]
        rest = [windows[i] for i in order[n_train:]]
        tree = fit_queue(train, neutral_prior(), LIMITS, seed=split, sampler=SAMPLER)
        rows.append(_scores(_predicted(tree, rest, split), _observed(rest)))
        yield _line(f"split {split}", rows[-1])
    yield from _over_all("splits", rows)


def _over_all(name: str, rows: list[list[float]]) -> Iterator[str]:
    mean, low, high = np.mean(rows, axis=0), np.min(rows, axis=0), np.max(rows, axis=0)
    for metric, k in (("TTFT", 0), ("ITL", 3)):
        yield (
            f"{name} {metric}: error {mean[k]:.3f} ({low[k]:.3f} .. {high[k]:.3f}), 90 % coverage "
            f"{mean[k + 1]:.3f} ({low[k + 1]:.2f} .. {high[k + 1]:.2f}), "
            f"log width {mean[k + 2]:.2f}"
        )


def bar_shapes(first: int = 0, count: int = 16) -> Iterator[str]:
    """Fifteen request shapes predict the sixteenth.

    Parameters
    ----------
    first, count : int
        Shapes left out.

    Yields
    ------
    str
        Lines.
    """
    windows = sweep()
    labels = list(dict.fromkeys(window.label for window in windows))[first : first + count]
    drawn: list[Floats] = []
    observed: list[Floats] = []
    compiled: CompiledQueueModel | None = None
    for place, label in enumerate(labels):
        train = [window for window in windows if window.label != label]
        rest = [window for window in windows if window.label == label]
        data = queue_data(train, neutral_prior(), LIMITS)
        # realised lengths of a shape differ, so that leaving one out can change the groups
        if compiled is None or not compiled.fits(data):
            compiled = CompiledQueueModel(data)
        tree = fit_queue(
            train, neutral_prior(), LIMITS, seed=first + place, sampler=SAMPLER, compiled=compiled
        )
        drawn.append(_predicted(tree, rest, place))
        observed.append(_observed(rest))
        yield _line(f"without {label}", _scores(drawn[-1], observed[-1]))
    if drawn:
        n_draw = min(len(one) for one in drawn)
        every = np.concatenate([one[:n_draw] for one in drawn], axis=1)
        yield _line("shapes, all held out", _scores(every, np.concatenate(observed)))


def bar_sbc(first: int = 0, count: int = 200) -> Iterator[str]:
    """Simulation-based calibration of the fit, and a control whose likelihood is wrong.

    Parameters
    ----------
    first, count : int
        Seed and truths.

    Yields
    ------
    str
        Lines.
    """
    prior = numbers_prior(numbers_of_log(TRUTH), WIDE)
    for name, spread, n in (("sbc", 1.0, count), ("sbc control, 2 x spread", 2.0, count // 4)):
        tree = queue_sbc(n, prior, LIMITS, seed=first, design=SbcDesign(spread=spread))
        found = rank_uniformity(tree)
        group = tree["prior_sbc"].to_dataset()
        for unknown in found.p_location:
            ranks = group[unknown].values.ravel()
            inside = np.mean(np.abs(2 * ranks - 1) < 0.9)
            counts = np.histogram(ranks, bins=5, range=(0, 1))[0].tolist()
            yield (
                f"  {name} {unknown}: ranks {counts}, 90 % covers {inside:.2f}, "
                f"p {found.p_location[unknown]:.2g} and {found.p_spread[unknown]:.2g}"
            )
        yield f"{name}: {n} fits, p of uniform ranks {found.p_value:.2g}"


BARS: dict[str, Callable[..., Iterator[str]]] = {
    "fit": bar_fit,
    "splits": bar_splits,
    "shapes": bar_shapes,
    "sbc": bar_sbc,
}

if __name__ == "__main__":
    for asked in sys.argv[1:] or BARS:
        bar, *part = asked.split(":")
        for line in BARS[bar](*map(int, part)):
            print(line, flush=True)
