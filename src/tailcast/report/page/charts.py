"""Charts as inline SVG: a line with a band, points on a diagonal, intervals, bars."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 480.0, 280.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 78.0, 26.0, 14.0, 46.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis.

    Parameters
    ----------
    label : str
        With its unit.
    low, high : float
        Ends.
    log : bool
        Whether it is logarithmic.
    show : callable
        Value to tick label.
    """

    label: str
    low: float
    high: float
    log: bool = False
    show: Callable[[float], str] = lambda v: f"{v:g}"

    def share(self, value: float) -> float:
        """Place of a value between the ends.

        Parameters
        ----------
        value : float
            In the axis's unit.

        Returns
        -------
        float
            0 at the low end, 1 at the high one; clipped.
        """
        low, high, v = self.low, self.high, value
        if self.log:
            low, high, v = math.log(low), math.log(high), math.log(max(value, 1e-300))
        return min(max((v - low) / (high - low), 0.0), 1.0) if high > low else 0.5

    def ticks(self) -> list[float]:
        """Round values between the ends.

        Returns
        -------
        list of float
            In order.
        """
        if self.log:
            start, stop = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            every = [f * 10.0**e for e in range(start, stop + 1) for f in (1.0, 2.0, 5.0)]
            inside = [v for v in every if self.low <= v <= self.high]
            tens = [v for v in inside if math.isclose(v, 10.0 ** round(math.log10(v)))]
            return tens if len(tens) >= 3 else inside[:: max(1, len(inside) // 6)]
        raw = (self.high - self.low) / 5
        size = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
        step = next(s * size for s in (1.0, 2.0, 5.0, 10.0) if s * size >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _x(axis: Axis, value: float) -> float:
    return _LEFT + axis.share(value) * (WIDTH - _LEFT - _RIGHT)


def _y(axis: Axis, value: float) -> float:
    return HEIGHT - _BOTTOM - axis.share(value) * (HEIGHT - _TOP - _BOTTOM)


def _frame(x: Axis, y: Axis) -> str:
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    parts = [
        f'<line class="axis" x1="{_LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>',
        f'<line class="axis" x1="{_LEFT}" y1="{_TOP}" x2="{_LEFT}" y2="{bottom}"/>',
    ]
    for value in x.ticks():
        place = _x(x, value)
        parts.append(
            f'<line class="axis" x1="{place:.1f}" y1="{bottom}" x2="{place:.1f}" '
            f'y2="{bottom + 4}"/>'
        )
        parts.append(
            f'<text x="{place:.1f}" y="{bottom + 18}" text-anchor="middle">'
            f"{escape(x.show(value))}</text>"
        )
    for value in y.ticks():
        place = _y(y, value)
        parts.append(
            f'<line class="axis" x1="{_LEFT}" y1="{place:.1f}" x2="{right}" '
            f'y2="{place:.1f}" opacity="0.5"/>'
        )
        parts.append(
            f'<text x="{_LEFT - 6}" y="{place + 4:.1f}" text-anchor="end">'
            f"{escape(y.show(value))}</text>"
        )
    middle = (_LEFT + right) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x.label)}</text>'
    )
    parts.append(
        f'<text x="14" y="{(_TOP + bottom) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {(_TOP + bottom) / 2})">{escape(y.label)}</text>'
    )
    return "".join(parts)


def figure(content: str, *, title: str, caption: str) -> str:
    """A figure around SVG content.

    Parameters
    ----------
    content : str
        SVG markup.
    title : str
        What it shows, for readers who do not see it.
    caption : str
        Below it.

    Returns
    -------
    str
        Markup.
    """
    return (
        f'<figure><svg viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img" '
        f'aria-label="{escape(title)}">{content}</svg>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def line(
    x: Axis,
    y: Axis,
    points: Sequence[tuple[float, float]],
    *,
    band: Sequence[tuple[float, float, float]] = (),
    limit: float | None = None,
) -> str:
    """A line through points, with a band and a horizontal limit.

    Parameters
    ----------
    x, y : Axis
        Axes.
    points : sequence of (float, float)
        In order of x.
    band : sequence of (float, float, float)
        x, low, high.
    limit : float, optional
        Height of a dashed line.

    Returns
    -------
    str
        SVG markup.
    """
    parts = [_frame(x, y)]
    if band:
        upper = [f"{_x(x, a):.1f},{_y(y, high):.1f}" for a, _, high in band]
        lower = [f"{_x(x, a):.1f},{_y(y, low):.1f}" for a, low, _ in reversed(band)]
        parts.append(f'<polygon class="band" points="{" ".join(upper + lower)}"/>')
    if limit is not None:
        height = _y(y, limit)
        parts.append(
            f'<line class="limit" x1="{_LEFT}" y1="{height:.1f}" x2="{WIDTH - _RIGHT}" '
            f'y2="{height:.1f}"/>'
        )
    path = " ".join(f"{_x(x, a):.1f},{_y(y, b):.1f}" for a, b in points)
    parts.append(f'<polyline class="ink" points="{path}"/>')
    parts += [
        f'<circle class="dot" cx="{_x(x, a):.1f}" cy="{_y(y, b):.1f}" r="3"/>' for a, b in points
    ]
    return "".join(parts)


def against(x: Axis, y: Axis, rows: Sequence[tuple[float, float, float, float]]) -> str:
    """Intervals against observations, with the diagonal.

    Parameters
    ----------
    x, y : Axis
        Axes of the same unit.
    rows : sequence of (float, float, float, float)
        Observed, low, middle, high.

    Returns
    -------
    str
        SVG markup.
    """
    low, high = max(x.low, y.low), min(x.high, y.high)
    parts = [_frame(x, y)]
    parts.append(
        f'<line class="ideal" x1="{_x(x, low):.1f}" y1="{_y(y, low):.1f}" '
        f'x2="{_x(x, high):.1f}" y2="{_y(y, high):.1f}"/>'
    )
    for seen, bottom, middle, top in rows:
        place = _x(x, seen)
        parts.append(
            f'<line class="ink" x1="{place:.1f}" y1="{_y(y, bottom):.1f}" '
            f'x2="{place:.1f}" y2="{_y(y, top):.1f}" opacity="0.45"/>'
        )
        parts.append(f'<circle class="dot" cx="{place:.1f}" cy="{_y(y, middle):.1f}" r="3"/>')
    return "".join(parts)


def bars(x: Axis, y: Axis, values: Sequence[float], *, ideal: float | None = None) -> str:
    """Bars of equal width from the low end of x to the high one.

    Parameters
    ----------
    x, y : Axis
        Axes.
    values : sequence of float
        Heights.
    ideal : float, optional
        Height of a dotted line.

    Returns
    -------
    str
        SVG markup.
    """
    parts = [_frame(x, y)]
    wide = (WIDTH - _LEFT - _RIGHT) / max(len(values), 1)
    for k, value in enumerate(values):
        top = _y(y, value)
        parts.append(
            f'<rect class="band" x="{_LEFT + k * wide + 2:.1f}" y="{top:.1f}" '
            f'width="{wide - 4:.1f}" height="{HEIGHT - _BOTTOM - top:.1f}"/>'
        )
    if ideal is not None:
        height = _y(y, ideal)
        parts.append(
            f'<line class="ideal" x1="{_LEFT}" y1="{height:.1f}" x2="{WIDTH - _RIGHT}" '
            f'y2="{height:.1f}"/>'
        )
    return "".join(parts)
