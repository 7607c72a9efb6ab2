"""Bars of the three-number model, measured: ``python benchmarks/queueing_bars.py [BAR...]``.

Bars: vectors, point-fit, speed, cold, measured, drift; those of the Bayesian fit are in
`queueing_fit_bars`. Real measurements are looked for in
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
from tailcast.queueing.parameter_prior import NumbersPrior, numbers_prior
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
            drawn = tuner_capacity(tuner, first.shape, targets, generator)
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


def tuner_capacity(
    tuner: Tuner, shape: RequestShape, targets: Targets, generator: np.random.Generator
) -> Floats:
    """Capacity of a replica under a tuner's belief.

    Parameters
    ----------
    tuner : Tuner
        With its belief.
    shape : RequestShape
        Mean tokens.
    targets : Targets
        On means as they are measured.
    generator : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray, shape (200,)
        Requests/s.
    """
    drawn, between = tuner.draws_as_measured(200, generator)
    return capacity_draws(drawn, shape, LIMITS, targets, between).rate


def bar_measured() -> Iterator[str]:
    """From any real point and ten real windows of its shape: the rate of one of them within 15 %.

    The targets are what was measured at the fifth of the seven loads, so that the true capacity is
    the rate there. Nothing is simulated, so that the chain's own error counts.

    Yields
    ------
    str
        Lines.
    """
    by_shape: dict[str, list[Window]] = {}
    for window in sweep():
        by_shape.setdefault(window.label, []).append(window)
    for metrics in (("itl",), ("ttft",), ("ttft", "itl")) if by_shape else ():
        errors: dict[str, list[float]] = {"tuner": [], "WVA, own start": []}
        for place, first in enumerate(sweep()):
            runs = sorted(by_shape[first.label], key=lambda window: window.rate)
            goal, generator = runs[4], stream(0, "measured", place)
            targets = Targets(**{metric: getattr(goal, metric) for metric in metrics})
            prior = NumbersPrior(
                log_mean=TRUTH + np.array(WIDE) * generator.standard_normal(3),
                log_cov=np.diag(np.square(WIDE)),
            )
            tuner, wva = Tuner(prior, LIMITS), WvaTuner(LIMITS.max_batch)
            for window in [first, *(runs[k] for k in generator.integers(0, len(runs), 10))]:
                tuner.update(window)
                wva.update(window)
            found = float(np.median(tuner_capacity(tuner, goal.shape, targets, generator)))
            errors["tuner"].append(abs(found / goal.rate - 1))
            if len(metrics) == 2:
                theirs = wva.capacity(goal.shape, targets)
                errors["WVA, own start"].append(abs(theirs / goal.rate - 1))
        for name, values in errors.items():
            if values:
                share = np.mean(np.array(values) < 0.15)
                yield (
                    f"measured, targets on {' and '.join(metrics)}, {name}: within 15 % in "
                    f"{share:.1%}, median error {np.median(values):.3f}"
                )


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
        middle = np.median(delays)
        yield f"drift, {name} +35 %: found in 10 in {share:.1%}, median {middle:.0f} windows"


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


BARS: dict[str, Callable[[], Iterator[str]]] = {
    "vectors": bar_vectors,
    "point-fit": bar_point_fit,
    "speed": bar_speed,
    "cold": bar_cold,
    "measured": bar_measured,
    "drift": bar_drift,
}

if __name__ == "__main__":
    for bar in sys.argv[1:] or BARS:
        for line in BARS[bar]():
            print(line, flush=True)
