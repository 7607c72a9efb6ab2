"""Prometheus' text exposition: histograms, and what their buckets say about quantiles."""

import math
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError
from tailcast.traces.importers.sample import Sample

type Floats = NDArray[np.float64]
type Labels = tuple[tuple[str, str], ...]

_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\S+)?")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"\s*,?\s*')


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Counts of observations by bucket.

    Parameters
    ----------
    edges : ndarray, shape (n_bucket,)
        Upper edges, rising; the last is inf.
    counts : ndarray, shape (n_bucket,)
        Observations up to each edge (cumulative).
    total : float
        Sum of the observations; NaN where it is not there.
    """

    edges: Floats
    counts: Floats
    total: float

    @property
    def n(self) -> int:
        """Observations."""
        return round(float(self.counts[-1]))

    @property
    def mean(self) -> float:
        """Exact mean of the observations; NaN where there are none."""
        return self.total / self.n if self.n else math.nan

    def bounds(self, q: float) -> tuple[float, float]:
        """Bucket that a quantile lies in.

        Parameters
        ----------
        q : float
            Probability.

        Returns
        -------
        low, high : float
            Edges; the quantile is above `low` and at most `high`.
        """
        index = int(np.searchsorted(self.counts, q * self.counts[-1], side="left"))
        index = min(index, len(self.edges) - 1)
        while index and self.counts[index] == self.counts[index - 1]:
            index -= 1  # an empty bucket holds no quantile
        return (float(self.edges[index - 1]) if index else 0.0), float(self.edges[index])

    def since(self, before: "Histogram") -> "Histogram":
        """Observations since an earlier scrape.

        Parameters
        ----------
        before : Histogram
            Of the same series.

        Returns
        -------
        Histogram
            The difference.

        Raises
        ------
        InputError
            If the buckets differ or a count fell, as after a restart.
        """
        if not np.array_equal(self.edges, before.edges):
            raise InputError("the buckets of the two scrapes differ")
        counts = self.counts - before.counts
        if np.any(counts < 0):
            raise InputError("counts fell between the scrapes: the server started again")
        return Histogram(edges=self.edges, counts=counts, total=self.total - before.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposition:
    """One scrape.

    Parameters
    ----------
    samples : mapping of str to list of (labels, value)
        By the name of the series, with its suffix.
    n_lines : int
        Samples read.
    """

    samples: dict[str, list[tuple[Labels, float]]]
    n_lines: int

    def histogram(self, name: str) -> Histogram | None:
        """Histogram of a family, summed over its labels.

        Parameters
        ----------
        name : str
            Family, without ``_bucket``.

        Returns
        -------
        Histogram or None
            None where it is not there.

        Raises
        ------
        InputError
            If its buckets are not cumulative or have no end.
        """
        buckets: dict[float, float] = {}
        for labels, value in self.samples.get(f"{name}_bucket", ()):
            edge = _edge(dict(labels).get("le"), name)
            buckets[edge] = buckets.get(edge, 0.0) + value
        if not buckets:
            return None
        edges = np.array(sorted(buckets))
        counts = np.array([buckets[edge] for edge in edges.tolist()])
        if not math.isinf(edges[-1]):
            raise InputError(f"histogram {name} has no bucket +Inf: cut off?")
        if np.any(np.diff(counts) < 0):
            raise InputError(f"histogram {name}: counts fall from one bucket to the next")
        sums = self.samples.get(f"{name}_sum")
        total = sum(value for _, value in sums) if sums else math.nan
        return Histogram(edges=edges, counts=counts, total=total)

    def labels(self, label: str, prefix: str) -> tuple[str, ...]:
        """Values of a label in the series of one prefix.

        Parameters
        ----------
        label : str
            Its name.
        prefix : str
            Start of the series' names.

        Returns
        -------
        tuple of str
            Each once, sorted.
        """
        found = {
            value
            for name, rows in self.samples.items()
            if name.startswith(prefix)
            for labels, _ in rows
            for key, value in labels
            if key == label
        }
        return tuple(sorted(found))

    def value(self, name: str) -> float:
        """Sum of a counter or gauge over its labels.

        Parameters
        ----------
        name : str
            Series.

        Returns
        -------
        float
            NaN where it is not there.
        """
        rows = self.samples.get(name)
        return sum(value for _, value in rows) if rows else math.nan


def read_exposition(sample: Sample) -> Exposition:
    """Scrape of a file.

    Parameters
    ----------
    sample : Sample
        Text exposition.

    Returns
    -------
    Exposition
        All samples.

    Raises
    ------
    InputError
        If a line is none, or a value negative or no number.
    """
    samples: dict[str, list[tuple[Labels, float]]] = {}
    n = 0
    for number, line in sample.lines():
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            raise InputError(f"{sample.path}:{number}: no line of metrics: {text!r:.60}")
        name, inside, shown = match[1], match[2], match[3]
        try:
            value = float(shown)
        except ValueError:
            raise InputError(f"{sample.path}:{number}: {name} {shown!r} is no number") from None
        counted = name.endswith(("_bucket", "_count", "_sum", "_total"))
        if counted and not (math.isfinite(value) and value >= 0):
            raise InputError(f"{sample.path}:{number}: {name} must not be negative, got {shown}")
        labels = tuple((m[1], m[2]) for m in _LABEL.finditer(inside or ""))
        samples.setdefault(name, []).append((labels, value))
        n += 1
    if not n:
        raise InputError(f"{sample.path}: no metrics in this file")
    return Exposition(samples=samples, n_lines=n)


def _edge(text: str | None, name: str) -> float:
    try:
        edge = float(text or "")
    except ValueError:
        edge = math.nan
    if math.isnan(edge):
        raise InputError(f"histogram {name}: bucket edge {text!r} is no number")
    return edge
