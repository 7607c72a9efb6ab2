"""What a tuner believes, window by window: for people, for programs, for Prometheus."""

import json
import math
from datetime import UTC, datetime
from statistics import NormalDist
from typing import Any

from tailcast.observe.follow import FollowedWindow, Follower
from tailcast.queueing.parameter_prior import NAMES
from tailcast.queueing.tuner import Tuner
from tailcast.queueing.wva import WvaTuner
from tailcast.units import format_duration

HEADER = (
    "window",
    "replica",
    "requests",
    "rate",
    "ttft",
    "itl",
    "alpha",
    "beta",
    "gamma",
    "remark",
)
# a share of cached prompt tokens from which beta is told too low
_CACHED_ABOVE = 0.1
_SCALE = {"alpha": (1e3, "ms"), "beta": (1e6, "us"), "gamma": (1e9, "ns")}
_HELP = {"alpha": "step overhead", "beta": "compute per token", "gamma": "KV read per token"}


def estimates(tuner: Tuner, ci_prob: float) -> dict[str, tuple[float, float, float]]:
    """Median and interval of each number.

    Parameters
    ----------
    tuner : Tuner
        Present belief.
    ci_prob : float
        Mass of the interval.

    Returns
    -------
    dict of str to tuple
        Median, low and high in seconds.
    """
    belief = tuner.belief
    z = NormalDist().inv_cdf(0.5 + 0.5 * ci_prob)
    found = {}
    for name, mean, sd in zip(NAMES, belief.log_mean, belief.log_sd, strict=True):
        found[name] = (
            math.exp(float(mean)),
            math.exp(float(mean - z * sd)),
            math.exp(float(mean + z * sd)),
        )
    return found


def estimate_text(name: str, found: tuple[float, float, float]) -> str:
    """One number with its interval, in the field's unit.

    Parameters
    ----------
    name : str
        alpha, beta or gamma.
    found : tuple of float
        Median, low and high in seconds.

    Returns
    -------
    str
        For example ``"6.68 ms [6.51, 6.86]"``.
    """
    scale, unit = _SCALE[name]
    middle, low, high = (scale * value for value in found)
    return f"{middle:.3g} {unit} [{low:.3g}, {high:.3g}]"


def remark(window: FollowedWindow) -> str:
    """What is odd about a window.

    Parameters
    ----------
    window : FollowedWindow
        One.

    Returns
    -------
    str
        Empty for an ordinary one.
    """
    words = []
    if window.counted.reason:
        words.append(f"unusable: {window.counted.reason}")
    if window.update is not None:
        if window.update.drift:
            words.append("DRIFT")
        elif min(window.update.ttft_weight, window.update.itl_weight) < 0.2:
            words.append("outlier")
    if window.cached_share > _CACHED_ABOVE:
        words.append(f"{window.cached_share:.0%} of the prompt cached: beta too low")
    if window.baseline is not None:
        words.append(f"wva {window.baseline.status}")
    return "; ".join(words)


def tune_row(window: FollowedWindow, tuner: Tuner, ci_prob: float) -> list[str]:
    """One window as a row.

    Parameters
    ----------
    window : FollowedWindow
        One.
    tuner : Tuner
        After it.
    ci_prob : float
        Mass of the intervals.

    Returns
    -------
    list of str
        Cells under `HEADER`.
    """
    seen, counted = window.counted.window, window.counted
    when = f"{window.time:g}"
    if window.time > 1e8:
        when = datetime.fromtimestamp(window.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = estimates(tuner, ci_prob)
    return [
        when,
        window.replica,
        f"{counted.n_request:.0f}",
        f"{seen.rate:.3g} /s" if seen else "",
        format_duration(seen.ttft) if seen else "",
        format_duration(seen.itl) if seen else "",
        *(estimate_text(name, found[name]) for name in NAMES),
        remark(window),
    ]


def tune_json(
    window: FollowedWindow, tuner: Tuner, baseline: WvaTuner | None, ci_prob: float
) -> dict[str, Any]:
    """One window for programs, in SI units.

    Parameters
    ----------
    window : FollowedWindow
        One.
    tuner : Tuner
        After it.
    baseline : WvaTuner or None
        After it.
    ci_prob : float
        Mass of the intervals.

    Returns
    -------
    dict
        Schema ``tailcast/tune/1``.
    """
    seen, update = window.counted.window, window.update
    content: dict[str, Any] = {
        "schema": "tailcast/tune/1",
        "time": window.time,
        "replica": window.replica,
        "usable": seen is not None,
        "reason": window.counted.reason,
        "n_request": window.counted.n_request,
        "duration": window.counted.duration,
        "cached_share": window.cached_share,
        "ci_prob": ci_prob,
        "estimates": {
            name: {"median": middle, "low": low, "high": high, "unit": "s"}
            for name, (middle, low, high) in estimates(tuner, ci_prob).items()
        },
        "noise_log_sd": dict(zip(("ttft", "itl"), tuner.noise_log_sd, strict=True)),
        "n_window": tuner.n_window,
        "n_drift": tuner.n_drift,
    }
    if seen is not None:
        fields = ("tokens_in", "tokens_out", "rate", "ttft", "itl", "throughput")
        content["window"] = {name: getattr(seen, name) for name in fields}
    if update is not None:
        content["drift"] = update.drift
        content["log_bayes_factor"] = update.log_bayes_factor
        content["weights"] = {"ttft": update.ttft_weight, "itl": update.itl_weight}
    if window.baseline is not None and baseline is not None:
        numbers = baseline.numbers
        content["wva"] = {
            "status": window.baseline.status,
            "nis": window.baseline.nis,
            "estimates": None
            if numbers is None
            else {name: float(getattr(numbers, name)) for name in NAMES},
        }
    return content


def tune_line(
    window: FollowedWindow, tuner: Tuner, baseline: WvaTuner | None, ci_prob: float
) -> str:
    """One window as a line of JSON; what is not a finite number is null.

    Parameters
    ----------
    window : FollowedWindow
        One.
    tuner : Tuner
        After it.
    baseline : WvaTuner, optional
        After it.
    ci_prob : float
        Mass of the intervals.

    Returns
    -------
    str
        Schema ``tailcast/tune/1``.
    """
    content = tune_json(window, tuner, baseline, ci_prob)
    return json.dumps(_finite(content), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def exposition(
    follower: Follower, last: FollowedWindow | None, n_failed: int, ci_prob: float
) -> str:
    """The tuner's belief in Prometheus' text format.

    Parameters
    ----------
    follower : Follower
        With its tuner.
    last : FollowedWindow, optional
        The latest window.
    n_failed : int
        Looks at the server that failed.
    ci_prob : float
        Mass of the intervals.

    Returns
    -------
    str
        With a final newline.
    """
    tuner = follower.tuner
    lines: list[str] = []

    def family(name: str, kind: str, words: str, samples: list[tuple[str, float]]) -> None:
        lines.append(f"# HELP tailcast_{name} {words}")
        lines.append(f"# TYPE tailcast_{name} {kind}")
        lines.extend(f"tailcast_{name}{labels} {_number(value)}" for labels, value in samples)

    for name, (middle, low, high) in estimates(tuner, ci_prob).items():
        stats = (("median", middle), ("low", low), ("high", high))
        family(
            f"{name}_seconds",
            "gauge",
            f"{_HELP[name].capitalize()}: median and {ci_prob:.0%} interval.",
            [(f'{{stat="{stat}"}}', value) for stat, value in stats],
        )
    noise = [
        (f'{{metric="{metric}"}}', value)
        for metric, value in zip(("ttft", "itl"), tuner.noise_log_sd, strict=True)
    ]
    family("noise_log_sd", "gauge", "Learned noise of the logs of measured means.", noise)
    family("windows_total", "counter", "Windows learned from.", [("", tuner.n_window)])
    family("windows_unusable_total", "counter", "Windows not used.", [("", follower.n_unusable)])
    family("drifts_total", "counter", "Jumps of the server found.", [("", tuner.n_drift)])
    family("restarts_total", "counter", "Restarts of replicas seen.", [("", follower.n_restart)])
    family("poll_failures_total", "counter", "Looks that failed.", [("", n_failed)])
    if last is not None:
        family(
            "last_window_timestamp_seconds", "gauge", "End of the last window.", [("", last.time)]
        )
        if last.update is not None and math.isfinite(last.update.log_bayes_factor):
            family(
                "drift_log_bayes_factor",
                "gauge",
                "Evidence of a jump, in nats; believed at 6.",
                [("", last.update.log_bayes_factor)],
            )
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:.10g}"
