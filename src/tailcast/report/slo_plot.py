"""Risk curves as a picture."""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tailcast.errors import UsageError
from tailcast.risk.assessment import Assessment
from tailcast.risk.curve import Curve, fewest_held, largest_held

_ENDINGS = (".svg", ".png", ".pdf")
_LINE, _BAND, _BEYOND, _MARK = "#1b6ca8", "#9cc3e0", "#d9d9d9", "#c8452f"


def check_plot(path: Path) -> None:
    """Refuse a picture that cannot be drawn, before anything is simulated.

    Parameters
    ----------
    path : pathlib.Path
        File to write.

    Raises
    ------
    UsageError
        If its ending is unknown or matplotlib is not installed.
    """
    from importlib.util import find_spec

    if path.suffix.lower() not in _ENDINGS:
        raise UsageError(f"{path}: a picture ends in {', '.join(_ENDINGS)}")
    if find_spec("matplotlib") is None:
        raise UsageError("drawing needs matplotlib; install tailcast[plots]")


def plot_risk(found: Assessment, path: Path) -> None:
    """Draw every risk curve of an assessment.

    Parameters
    ----------
    found : Assessment
        With at least one curve.
    path : pathlib.Path
        File; it appears whole or not at all.

    Raises
    ------
    UsageError
        If there is no curve, or the file cannot be written.
    """
    if not found.curves:
        raise UsageError("nothing to draw: no risk curve; a closed loop has no rate to vary")
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "tailcast"
    import matplotlib.pyplot as plt

    n = len(found.curves)
    n_column = min(n, 2)
    n_row = -(-n // n_column)
    figure, axes = plt.subplots(
        n_row,
        n_column,
        figsize=(5.2 * n_column, 3.6 * n_row + 0.5),
        layout="constrained",
        squeeze=False,
    )
    for axis, (name, curve) in zip(axes.flat, found.curves.items(), strict=False):
        _panel(axis, name, curve, found)
    for axis in axes.flat[n:]:
        axis.set_visible(False)
    figure.suptitle(f"{found.fleet.title}: P(miss) of the next {found.n_request} requests")
    _save(figure, path)
    plt.close(figure)


def _panel(axis: Any, name: str, curve: Curve, found: Assessment) -> None:
    scale = 1.0 if name in {"rate", "replicas"} else 1e3
    at = curve.at * scale
    p, error = curve.p_miss, 2 * curve.mcse
    axis.fill_between(
        at, np.clip(p - error, 0, 1), np.clip(p + error, 0, 1), color=_BAND, lw=0, alpha=0.7
    )
    axis.plot(at, p, color=_LINE, lw=1.8, marker="o" if len(at) < 30 else None, ms=3.5)
    beyond = curve.saturated.mean(axis=1) > 0.5
    if name == "rate" and beyond.any():
        axis.axvspan(at[beyond][0], at[-1], color=_BEYOND, lw=0, zorder=0)
    axis.axhline(found.risk, color="0.4", lw=0.9, ls="--")
    axis.set(ylim=(-0.02, 1.02), ylabel="P(any missed)" if scale == 1.0 else "P(missed)")
    if name == "rate":
        edge = largest_held(curve, found.risk)
        axis.set_xlabel("requests/s (grey: beyond the stability boundary)")
        title = f"P(miss) <= {found.risk:.0%} up to {edge.value:.3g} req/s"
        _asked(axis, found.rate, "asked")
    elif name == "replicas":
        fewest = fewest_held(curve, found.risk)
        axis.set_xlabel("replicas")
        axis.set_xticks(at)
        title = f"at least {fewest:.0f} replicas" if np.isfinite(fewest) else "never held"
        _asked(axis, found.fleet.replicas, "asked")
    else:
        k = [o.name for o in found.question.objectives].index(name)
        axis.set(xscale="log", xlabel=f"target of {name}, ms")
        _plain_ticks(axis)
        least = found.least_targets()[k]
        held = f"{1e3 * least:.3g} ms" if np.isfinite(least) else "no target"
        title = f"{found.risk:.0%} risk is held from {held} on"
        _asked(axis, found.question.objectives[k].target * scale, "target")
    axis.set_title(title, fontsize=10)


def _plain_ticks(axis: Any) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    low, high = axis.get_xlim()
    steps = (1, 2, 5) if high / low > 8 else (1, 1.5, 2, 3, 4, 5, 6, 8)
    axis.xaxis.set_major_locator(LogLocator(subs=steps))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())


def _asked(axis: Any, at: float, word: str) -> None:
    axis.axvline(at, color=_MARK, lw=1.2)
    axis.annotate(
        word,
        (at, 0.5),
        xytext=(3, 0),
        textcoords="offset points",
        color=_MARK,
        fontsize=8,
        rotation=90,
        va="center",
    )


def _save(figure: Any, path: Path) -> None:
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            kind = path.suffix.lower().lstrip(".")
            volatile = {"png": "Software", "svg": "Date", "pdf": "CreationDate"}[kind]
            figure.savefig(file, format=kind, metadata={volatile: None}, dpi=150)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from error
