"""Bars of the three-number model, measured: ``python benchmarks/queueing_bars.py [BAR...]``.

Bars: vectors, point-fit, fit, splits, cold, drift, speed, sbc. Real measurements are looked for in
``../shared/data``; a bar that needs them is left out where they are absent.
"""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from tailcast.queueing.capacity import capacity_draws
from tailcast.queueing.offline_fit import point_fit
from tailcast.queueing.parameter_prior import NumbersPrior, hardware_prior, numbers_prior
from tailcast.queueing.sensitivity import log_latencies, log_of_numbers, numbers_of_log
from tailcast.queueing.server import Floats, RequestShape, ServerLimits, three_numbers_ms
from tailcast.queueing.sizing import Targets
from tailcast.queueing.sweep import read_sweep
from tailcast.queueing.tuner import Tuner
from tailcast.queueing.vectors import check_vectors
from tailcast.queueing.windows import Window, window_columns
from tailcast.queueing.wva import WvaTuner
from tailcast.streams import stream

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
SWEEP = SHARED / "public" / "inferno-guidellm-llama31-8b"
VECTORS = SHARED / "three_numbers_vectors.yaml"
LIMITS = ServerLimits(max_batch=256, max_queue=256)
# the published V2 fit of the sweep, the truth of everything synthetic here
TRUTH = log_of_numbers(three_numbers_ms(6.678, 2.008e-2, 5.516e-5))
WIDE = (0.3, 0.4, 0.5)
NOISE = (0.08, 0.03)


def sweep() -> list[Window]:
    """The 112 operating points that the published fits use.

    Returns
    -------
    list of Window
        Empty where the data are absent.
    """
    return read_sweep(SWEEP) if SWEEP.exists() else []


def latencies(log_numbers: Floats, window: Window) -> tuple[float, float]:
    """Logs of TTFT and ITL that the chain gives in a window.

    Parameters
    ----------
    log_numbers : ndarray, shape (3,)
        Logs of seconds.
    window : Window
        Rate and shape.

    Returns
    -------
    tuple of float
        Logs of seconds.
    """
    found = log_latencies(log_numbers, window_columns([window]), LIMITS)
    return float(found.ttft[0, 0]), float(found.itl[0, 0])


def measured(
    log_numbers: Floats,
    window: Window,
    generator: np.random.Generator,
    noise: tuple[float, float] = NOISE,
    outliers: float = 0.0,
) -> Window:
    """The window with latencies of the chain and log-normal noise.

    Parameters
    ----------
    log_numbers : ndarray, shape (3,)
        Logs of seconds.
    window : Window
        Rate and shape.
    generator : numpy.random.Generator
        Source of randomness.
    noise : tuple of float
        Standard deviations of the logs of TTFT and ITL.
    outliers : float
        Probability that TTFT is three times too high or too low.

    Returns
    -------
    Window
        With latencies.
    """
    ttft, itl = latencies(log_numbers, window)
    ttft += noise[0] * generator.standard_normal()
    itl += noise[1] * generator.standard_normal()
    if generator.random() < outliers:
        ttft += np.log(3.0) * generator.choice([-1.0, 1.0])
    return replace(window, ttft=float(np.exp(ttft)), itl=float(np.exp(itl)))


def capacities(log_numbers: Floats, shape: RequestShape, targets: Targets) -> Floats:
    """Capacity of a replica by draw.

    Parameters
    ----------
    log_numbers : ndarray, shape (n_draw, 3)
        Logs of seconds.
    shape : RequestShape
        Mean tokens.
    targets : Targets
        On means.

    Returns
    -------
    ndarray, shape (n_draw,)
        Requests/s.
    """
    return capacity_draws(np.atleast_2d(log_numbers), shape, LIMITS, targets).rate


def two_thirds_targets(shape: RequestShape) -> Targets:
    """TTFT and ITL that the true server has at two thirds of its stability boundary.

    Parameters
    ----------
    shape : RequestShape
        Mean tokens.

    Returns
    -------
    Targets
        The load at which WVA's own rule for targets (multiplier 3) aims.
    """
    boundary = float(capacities(TRUTH, shape, Targets())[0])
    prompt, output = float(shape.tokens_in), float(shape.tokens_out)
    window = Window(tokens_in=prompt, tokens_out=output, rate=2.0 / 3.0 * boundary)
    ttft, itl = latencies(TRUTH, window)
    return Targets(ttft=float(np.exp(ttft)), itl=float(np.exp(itl)))


def bar_vectors() -> Iterator[str]:
    """Published and own test vectors.

    Yields
    ------
    str
        Lines.
    """
    if not VECTORS.exists():
        yield "vectors: left out, no file"
        return
    report = check_vectors(VECTORS)
    for outcome in report.outcomes:
        if outcome.status != "passed":
            yield f"  {outcome.name}: {outcome.status}, {outcome.detail}"
    yield f"vectors: {report.summary}"


def bar_point_fit() -> Iterator[str]:
    """Offline point fit of all shapes.

    Yields
    ------
    str
        Lines.
    """
    windows = sweep()
    for version in ("V1", "V2") if windows else ():
        fit = point_fit(windows, LIMITS, version)
        alpha, beta, gamma = (
            1e3 * float(getattr(fit.numbers, f)) for f in ("alpha", "beta", "gamma")
        )
        yield (
            f"point fit {version}: alpha {alpha:.4g} ms, beta {beta:.4g} ms, gamma {gamma:.4g} ms, "
            f"TTFT {fit.ttft_error:.3f}, ITL {fit.itl_error:.3f}, loss {fit.loss:.5f}"
        )


def bar_fit() -> Iterator[str]:
    """Bayesian fit of all 112 points, from the datasheet prior.

    Yields
    ------
    str
        Lines.
    """
    from tailcast.catalog.accelerators import accelerator
    from tailcast.catalog.llms import llm
    from tailcast.deployment import Deployment
    from tailcast.inference.queue_fit import fit_queue, queue_posterior
    from tailcast.inference.queue_model import latency_draws

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
        yield f"  {_physics(deployment, fit.draws.log_numbers)}"


def _observed(windows: list[Window]) -> Floats:
    return np.array([[window.ttft, window.itl] for window in windows])


def _inside(observed: Floats, fit: object, columns: object) -> str:
    from tailcast.inference.queue_model import latency_draws

    drawn = latency_draws(
        fit.draws,  # type: ignore[attr-defined]
        columns,  # type: ignore[arg-type]
        LIMITS,
        fit.groups,  # type: ignore[attr-defined]
        stream(2, "bars"),
    )
    low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
    ttft, itl = ((low <= observed) & (observed <= high)).mean(axis=0)
    return f"{ttft:.2f}, ITL {itl:.2f}"


def _physics(deployment: object, log_numbers: Floats) -> str:
    llm, accelerator = deployment.llm, deployment.accelerator  # type: ignore[attr-defined]
    _, beta, gamma = np.exp(log_numbers).T
    compute = 2.0 * llm.active_parameters / beta / accelerator.peak_flops("bf16")
    read = llm.kv_bytes_per_token / gamma / accelerator.memory_bandwidth
    texts = []
    for name, share in (("peak FLOP/s", compute), ("bandwidth", read)):
        low, middle, high = np.quantile(share, [0.05, 0.5, 0.95])
        texts.append(f"{middle:.0%} of {name} (90 %: {low:.0%} .. {high:.0%})")
    return ", ".join(texts)


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
    from tailcast.inference.queue_fit import fit_queue, predict_windows

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
        yield f"  split {split}: TTFT {row[0]:.3f} in {row[1]:.2f}, ITL {row[3]:.3f} in {row[4]:.2f}"
    mean, low, high = np.mean(rows, axis=0), np.min(rows, axis=0), np.max(rows, axis=0)
    for place, metric in enumerate(("TTFT", "ITL")):
        k = 3 * place
        yield (
            f"splits {metric}: error {mean[k]:.3f} ({low[k]:.3f} .. {high[k]:.3f}), 90 % coverage "
            f"{mean[k + 1]:.3f} ({low[k + 1]:.2f} .. {high[k + 1]:.2f}), log width {mean[k + 2]:.2f}"
        )


def bar_cold(n_seed: int = 3) -> Iterator[str]:
    """From one real point and ten windows of varying load: capacity within 15 %.

    Parameters
    ----------
    n_seed : int
        Priors and noises for each of the 112 points.

    Yields
    ------
    str
        Lines.
    """
    errors: dict[str, list[float]] = {}
    locked: dict[str, list[bool]] = {}
    inside = []
    for seed in range(n_seed):
        for place, first in enumerate(sweep()):
            generator = stream(seed, "cold", place)
            prior = NumbersPrior(
                log_mean=TRUTH + np.array(WIDE) * generator.standard_normal(3),
                log_cov=np.diag(np.square(WIDE)),
            )
            targets = two_thirds_targets(first.shape)
            true = float(capacities(TRUTH, first.shape, targets)[0])
            run = [first]
            for _ in range(10):
                window = replace(first, rate=true * generator.uniform(0.15, 1.0))
                run.append(measured(TRUTH, window, generator))
            tuner = Tuner(prior, LIMITS)
            for window in run:
                tuner.update(window)
            drawn = capacities(tuner.draws(200, generator), first.shape, targets)
            errors.setdefault("tuner", []).append(abs(float(np.median(drawn)) / true - 1))
            low, high = np.quantile(drawn, [0.05, 0.95])
            inside.append(low <= true <= high)
            for name, seeded in (("WVA, own start", False), ("WVA, prior start", True)):
                wva = WvaTuner(LIMITS.max_batch)
                if seeded:
                    wva.seed(prior.numbers)
                accepted = [wva.update(window).status == "accepted" for window in run]
                found = wva.capacity(first.shape, targets)
                errors.setdefault(name, []).append(abs(found / true - 1))
                locked.setdefault(name, []).append(not any(accepted))
    for name, found_errors in errors.items():
        share = np.mean(np.array(found_errors) < 0.15)
        text = (
            f"cold, {name}: within 15 % in {share:.1%}, median error {np.median(found_errors):.3f}"
        )
        if name in locked:
            text += f", no window accepted in {np.mean(locked[name]):.1%}"
        else:
            text += f", 90 % interval covers {np.mean(inside):.1%}"
        yield text


def _drift_run(
    seed: int,
    n_window: int,
    *,
    jump_at: int | None = None,
    axes: tuple[int, ...] = (),
    noise: tuple[float, float] = NOISE,
    outliers: float = 0.0,
    shapes: float = 0.0,
) -> list[int]:
    generator = stream(seed, "drift")
    prior = NumbersPrior(
        log_mean=TRUTH + np.array(WIDE) * generator.standard_normal(3),
        log_cov=np.diag(np.square(WIDE)),
    )
    tuner, truth, found = Tuner(prior, LIMITS), TRUTH.copy(), []
    base = RequestShape(tokens_in=512.0, tokens_out=256.0)
    capacity = float(capacities(TRUTH, base, Targets(ttft=0.12, itl=0.025))[0])
    for place in range(n_window):
        if place == jump_at:
            truth[list(axes)] += np.log(1.35)
        spread = np.exp(shapes * generator.standard_normal(2))
        window = Window(
            tokens_in=512.0 * spread[0],
            tokens_out=256.0 * spread[1],
            rate=capacity * generator.uniform(0.15, 0.85) / spread[1],
        )
        if tuner.update(measured(truth, window, generator, noise, outliers)).drift:
            found.append(place)
    return found


def bar_drift(n_run: int = 40) -> Iterator[str]:
    """A 35 % jump is found within ten windows; false alarms in calm.

    Parameters
    ----------
    n_run : int
        Runs for each case.

    Yields
    ------
    str
        Lines.
    """
    calm: dict[str, dict[str, object]] = {
        "8 % / 3 %": {},
        "with outliers": {"outliers": 0.08},
        "shapes vary 40 %": {"shapes": 0.4},
        "3 % / 1 %": {"noise": (0.03, 0.01)},
        "15 % / 5 %": {"noise": (0.15, 0.05)},
    }
    for name, options in calm.items():
        alarms = sum(len(_drift_run(seed, 250, **options)) for seed in range(n_run))  # type: ignore[arg-type]
        per_500 = 500.0 * alarms / (250 * n_run)
        yield f"drift, calm, {name}: {per_500:.2f} false alarms per 500 windows ({250 * n_run})"
    jumps: dict[str, dict[str, object]] = {
        "alpha": {"axes": (0,)},
        "beta": {"axes": (1,)},
        "gamma": {"axes": (2,)},
        "all": {"axes": (0, 1, 2)},
        "beta, outliers": {"axes": (1,), "outliers": 0.08},
        "beta, shapes vary": {"axes": (1,), "shapes": 0.4},
        "beta, 15 % / 5 %": {"axes": (1,), "noise": (0.15, 0.05)},
    }
    for name, options in jumps.items():
        delays = []
        for seed in range(n_run):
            hits = _drift_run(1000 + seed, 41, jump_at=30, **options)  # type: ignore[arg-type]
            delays.append(min((hit - 29 for hit in hits if hit >= 30), default=99))
        share = np.mean(np.array(delays) <= 10)
        yield f"drift, {name} +35 %: found in 10 in {share:.1%}, median {np.median(delays):.0f} windows"


def bar_speed() -> Iterator[str]:
    """Time of an update, compiled.

    Yields
    ------
    str
        Lines.
    """
    generator = stream(0, "speed")
    tuner = Tuner(numbers_prior(numbers_of_log(TRUTH), WIDE), LIMITS)
    times = []
    for _ in range(200):
        rate = float(generator.uniform(4.0, 25.0))
        window = measured(TRUTH, Window(tokens_in=512, tokens_out=256, rate=rate), generator)
        wall, cpu = time.perf_counter(), time.thread_time()
        tuner.update(window)
        times.append((time.perf_counter() - wall, time.thread_time() - cpu))
    for name, column in zip(("wall", "CPU"), np.array(times[20:]).T * 1e3, strict=True):
        middle, high = np.quantile(column, [0.5, 0.99])
        yield f"speed, update with ten rivals, {name}: median {middle:.2f} ms, 99 % {high:.2f} ms"


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
    from tailcast.inference.queue_fit import QueueSampler, fit_queue, queue_posterior
    from tailcast.inference.queue_model import (
        draws_from_free,
        latency_draws,
        prior_free,
        queue_data,
    )

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
    "vectors": bar_vectors,
    "point-fit": bar_point_fit,
    "speed": bar_speed,
    "cold": bar_cold,
    "drift": bar_drift,
    "fit": bar_fit,
    "splits": bar_splits,
    "sbc": bar_sbc,
}

if __name__ == "__main__":
    for bar in sys.argv[1:] or BARS:
        for line in BARS[bar]():
            print(line, flush=True)
