"""Vector cases on fits: guesses, condition numbers, calibration, losses on measured sweeps."""

import math
import re
from dataclasses import replace
from pathlib import Path

from tailcast.queueing.first_guess import ALPHA_SHARE, WVA_DEFAULT, seed_guess, share_guess
from tailcast.queueing.offline_fit import (
    condition_number,
    point_fit,
    predicted_latencies,
    relative_errors,
    trainer_loss,
)
from tailcast.queueing.server import MS, ServerLimits, ThreeNumbers, three_numbers_ms
from tailcast.queueing.sweep import read_sweep
from tailcast.queueing.vector_cases import Found, Results, SkipCaseError, VectorCase
from tailcast.queueing.vector_chain import case_limits, case_numbers, known_variant
from tailcast.queueing.windows import Window

_SHARE = re.compile(r"alpha\s*=\s*([0-9.]+)\s*\*\s*ITL", re.IGNORECASE)
# a value computed by the file's author, without a tolerance of its own
_OWN_VALUE_TOL = 0.02
_SHAPE_LABEL = re.compile(r"i\d+-o\d+")


def _in_ms(numbers: ThreeNumbers) -> dict[str, float]:
    return {f: float(getattr(numbers, f)) / MS for f in ("alpha", "beta", "gamma")}


def initial_guess(case: VectorCase) -> Results:
    """Closed-form guess from one window.

    Parameters
    ----------
    case : VectorCase
        With ttft_ms, itl_ms, the shape and, for the seed-anchored guess, a seed.

    Returns
    -------
    mapping
        alpha, beta and gamma in ms.
    """
    window = Window(
        tokens_in=case.number("tokens_in"),
        tokens_out=case.number("tokens_out"),
        rate=1.0,
        ttft=case.number("ttft_ms") * MS,
        itl=case.number("itl_ms") * MS,
    )
    share = _SHARE.fullmatch(case.variant)
    if share:
        guess = share_guess(window, float(share[1])) or WVA_DEFAULT
    elif case.variant == "seed-anchored":
        seed = case.numbers("seed")
        if len(seed) != 3:
            raise case.fault(f"input 'seed' must hold three numbers, got {seed!r}")
        guess = seed_guess(window, three_numbers_ms(*seed))
    else:
        known = f"seed-anchored, alpha={ALPHA_SHARE}*ITL"
        raise SkipCaseError(f"no guess {case.variant!r} here; known: {known}")
    allowed = case.expected.get("abs_tol", 0.0)
    by_field = allowed if isinstance(allowed, list) else [allowed] * 3
    found = _in_ms(guess)
    results: dict[str, Found] = {
        field: Found(value=found[field], abs_tol=float(tolerance))
        for field, tolerance in zip(found, by_field, strict=True)
    }
    return {**results, "abs_tol": allowed}  # type: ignore[dict-item]


def _points(case: VectorCase, field: str) -> list[Window]:
    return [
        Window(rate=rpm / 60.0, tokens_in=tokens_in, tokens_out=tokens_out)
        for rpm, tokens_in, tokens_out in case.rows(field, 3)
    ]


def condition_number_case(case: VectorCase) -> Results:
    """Condition number of a design at its parameters.

    Parameters
    ----------
    case : VectorCase
        With the costs, the limits and points of rate, prompt and output.

    Returns
    -------
    mapping
        own_value (and value); min and max as bounds.
    """
    points = _points(case, "points_rpm_in_out")
    version = known_variant(case)
    found = condition_number(case_numbers(case), points, case_limits(case), version)
    return {
        "own_value": found,
        "value": found,
        "condition_number": found,
        "min": Found(value=found, sense="at least"),
        "max": Found(value=found, sense="at most"),
    }


def calibration(case: VectorCase) -> Results:
    """Fit to points that the chain made itself, judged on a point held out.

    Parameters
    ----------
    case : VectorCase
        With the true costs, the limits, the points and the point held out.

    Returns
    -------
    mapping
        Latencies there from the fit, and the condition number of the fit.
    """
    version, limits, truth = known_variant(case), case_limits(case), case_numbers(case)
    points = _points(case, "points_rpm_in_out")
    held_out = case.numbers("holdout_rpm_in_out")
    if len(held_out) != 3:
        raise case.fault("input 'holdout_rpm_in_out' must hold rate, prompt and output")
    latencies = predicted_latencies(truth, points, limits, version)
    swept = [
        replace(point, ttft=float(ttft), itl=float(itl))
        for point, (ttft, itl) in zip(points, latencies, strict=True)
    ]
    fit = point_fit(swept, limits, version)
    rpm, tokens_in, tokens_out = held_out
    target = Window(rate=rpm / 60.0, tokens_in=tokens_in, tokens_out=tokens_out)
    ttft, itl = predicted_latencies(fit.numbers, [target], limits, version)[0] / MS
    allowed = case.expected.get("holdout_rel_tol", case.rel_tol)
    rel_tol = float(allowed) if isinstance(allowed, (int, float)) else case.rel_tol
    found = condition_number(fit.numbers, swept, limits, version)
    return {
        "holdout_ttft_ms": Found(value=float(ttft), rel_tol=rel_tol),
        "holdout_itl_ms": Found(value=float(itl), rel_tol=rel_tol),
        "holdout_rel_tol": rel_tol,
        "own_condition_number": Found(value=found, rel_tol=max(case.rel_tol, _OWN_VALUE_TOL)),
        **_in_ms(fit.numbers),
    }


def dataset_path(case: VectorCase) -> Path:
    """Folder or file that a case measures itself against.

    Parameters
    ----------
    case : VectorCase
        Its dataset is a path relative to some folder above the vector file.

    Returns
    -------
    Path
        That exists.

    Raises
    ------
    SkipCaseError
        If it is not here.
    """
    named = Path(case.text("dataset"))
    here = case.file.resolve()
    roots = [*here.parents, Path.cwd(), *Path.cwd().parents]
    tails = [Path(*named.parts[start:]) for start in range(len(named.parts))]
    candidates = [named, *(root / named for root in roots), *(here.parent / t for t in tails)]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise SkipCaseError(f"the data set {str(named)!r} is not here")


def _limits(case: VectorCase) -> ServerLimits:
    # what every published fit of these sweeps assumes
    return ServerLimits(
        max_batch=int(case.number("max_batch", 256.0)),
        max_queue=int(case.number("max_queue", 256.0)),
        max_batched_tokens=int(case.number("max_batched_tokens", 0.0)),
    )


def _swept(case: VectorCase, label: str | None) -> list[Window]:
    path, points = dataset_path(case), case.number("points")
    every = read_sweep(path, n_load=1)
    shapes = {window.label for window in every}
    if label is not None and label not in shapes:
        raise case.fault(f"the data set has no workload {label!r}")
    n_load = round(points / (1 if label else len(shapes))) - 1
    windows = read_sweep(path, n_load=max(0, n_load))
    kept = [window for window in windows if label in (None, window.label)]
    if len(kept) != points:
        raise SkipCaseError(f"the point rule gives {len(kept)} points here, not {points:g}")
    return kept


def fit_loss(case: VectorCase) -> Results:
    """Loss of given parameters on one shape of a sweep, or on all.

    Parameters
    ----------
    case : VectorCase
        With the costs, the data set and the workload.

    Returns
    -------
    mapping
        loss and own_loss, err_ttft and err_itl.
    """
    version, numbers, limits = known_variant(case), case_numbers(case), _limits(case)
    label = case.text("workload") if "workload" in case.inputs else None
    if label is not None and not _SHAPE_LABEL.fullmatch(label):
        raise case.fault(f"workload {label!r} is not of the form i<prompt>-o<output>")
    windows = _swept(case, label)
    loss = trainer_loss(numbers, windows, limits, version)
    ttft, itl = relative_errors(numbers, windows, limits, version)
    return {"loss": loss, "own_loss": loss, "err_ttft": ttft, "err_itl": itl}


def joint_fit(case: VectorCase) -> Results:
    """Point fit to all shapes of a sweep.

    Parameters
    ----------
    case : VectorCase
        With the data set, the number of points and the start.

    Returns
    -------
    mapping
        alpha, beta and gamma in ms, loss, err_ttft, err_itl.
    """
    version, limits = known_variant(case), _limits(case)
    start = case.numbers("init") if "init" in case.inputs else [1.0, 0.01, 1e-4]
    if len(start) != 3:
        raise case.fault(f"input 'init' must hold three numbers, got {start!r}")
    label = case.text("workload") if "workload" in case.inputs else None
    windows = _swept(case, label)
    fit = point_fit(windows, limits, version, three_numbers_ms(*start))
    errors = {"err_ttft": fit.ttft_error, "err_itl": fit.itl_error}
    physical = {} if math.isinf(fit.loss) else _in_ms(fit.numbers)
    return {**physical, **errors, "loss": fit.loss, "own_loss": fit.loss}
