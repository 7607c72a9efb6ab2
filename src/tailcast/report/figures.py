"""Figures without a display: made, written whole, closed."""

from pathlib import Path
from typing import Any

from tailcast.errors import UsageError
from tailcast.whole_file import whole_file

INSIDE, OUTSIDE, NEUTRAL = "#1b6ca8", "#c8452f", "0.5"

SUFFIXES = (".png", ".svg", ".pdf")


def new_figure(rows: int, columns: int, inches: tuple[float, float]) -> tuple[Any, Any]:
    """Empty figure with a grid of axes.

    Parameters
    ----------
    rows, columns : int
        Of the grid.
    inches : tuple of float
        Width and height.

    Returns
    -------
    tuple
        Matplotlib figure and array of axes, shape (rows, columns).

    Raises
    ------
    UsageError
        If the plots extra is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise UsageError("plots need matplotlib: pip install 'tailcast[plots]'") from error
    figure = Figure(figsize=inches, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def plain_log_ticks(axes: Any) -> None:
    """Label logarithmic axes with 1, 2 and 5 times powers of ten, written out.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        With two logarithmic scales.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())


def check_figure_path(path: Path) -> None:
    """Refuse a figure that could not be written, before the work that fills it.

    Parameters
    ----------
    path : pathlib.Path
        Wanted file.

    Raises
    ------
    UsageError
        If the suffix is unknown or there is no such folder.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path}: a figure ends in {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: no folder {path.parent}")


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure; the file appears whole or not at all.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Filled.
    path : pathlib.Path
        File; its suffix chooses the format.

    Raises
    ------
    UsageError
        If the suffix is unknown or the file cannot be written.
    """
    check_figure_path(path)
    kind = path.suffix.lower().lstrip(".")
    clock = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    try:
        with whole_file(path, suffix=path.suffix) as temporary:
            figure.savefig(temporary, format=kind, dpi=110, metadata=clock)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from error
