"""Latency models compared by how well each predicts runs that it was not fitted to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import UsageError
from tailcast.inference.cross_validation import LeftOut, leave_one_out
from tailcast.inference.fit import fit
from tailcast.inference.nuts import Sampler
from tailcast.inference.sources import load_sources
from tailcast.latency_model import LatencyModel

Array = NDArray[np.float64]

SCREEN = Sampler(draws=400, tune=300)
"""Size of the fit that lends its metric to the refits."""

METRICS = ("ttft", "e2e")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One latency model, judged on runs left out in turn.

    Parameters
    ----------
    model : LatencyModel
        Which.
    left_out : tuple of LeftOut
        One a run.
    """

    model: LatencyModel
    left_out: tuple[LeftOut, ...]

    @property
    def elpd(self) -> Array:
        """Log predictive density by run, shape (n_run,)."""
        return np.array([own.elpd for own in self.left_out])

    def column(self, value: Callable[[LeftOut], Array], metric: str, stat: str) -> Array:
        """A score of one statistic over runs and stages.

        Parameters
        ----------
        value : callable
            LeftOut to one number an observation.
        metric, stat : str
            For example ``"e2e"`` and ``"mean"``.

        Returns
        -------
        ndarray, shape (n_observation,)
            In the order of the runs.
        """
        parts = [
            value(own)[[label.endswith(f"/{metric}.{stat}") for label in own.label]]
            for own in self.left_out
        ]
        return np.concatenate(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelComparison:
    """Latency models side by side, the best first.

    Parameters
    ----------
    judged : tuple of Judged
        By total log predictive density, largest first.
    """

    judged: tuple[Judged, ...]

    def difference(self, k: int) -> tuple[float, float]:
        """Log predictive density of model `k` less that of the best, and its standard error.

        Parameters
        ----------
        k : int
            Place among `judged`.

        Returns
        -------
        tuple of float
            Sum over runs of the paired differences; ``sqrt(n) sd`` of them.
        """
        gap = self.judged[k].elpd - self.judged[0].elpd
        return float(gap.sum()), float(np.sqrt(len(gap)) * gap.std(ddof=1))

    def as_json(self) -> dict[str, Any]:
        """The contract ``tailcast/compare/1``.

        Returns
        -------
        dict
            Ready for `json.dumps`.
        """
        return {
            "schema": "tailcast/compare/1",
            "models": [
                {
                    "latency_model": own.model.name,
                    "model_sha256": own.model.sha256,
                    "elpd": float(own.elpd.sum()),
                    "elpd_difference": self.difference(k)[0],
                    "elpd_difference_se": self.difference(k)[1],
                    "scores": scores(own),
                    "residuals": residual_patterns(own),
                    "elpd_by_run": {item.name: item.elpd for item in own.left_out},
                }
                for k, own in enumerate(self.judged)
            ],
        }


def scores(own: Judged) -> list[dict[str, Any]]:
    """Error, coverage, width and CRPS of a model by metric and statistic.

    Parameters
    ----------
    own : Judged
        One model.

    Returns
    -------
    list of dict
        Errors, widths and CRPS in log units.
    """
    rows = []
    labels = [label.rsplit("/", 1)[1] for item in own.left_out for label in item.label]
    for key in sorted(set(labels)):
        metric, stat = key.split(".", 1)
        error = own.column(lambda item: item.median_error, metric, stat)
        pit = own.column(lambda item: item.pit, metric, stat)
        rows.append(
            {
                "metric": metric,
                "statistic": stat,
                "n": len(error),
                "median_error": float(np.median(np.abs(error))),
                "bias": float(error.mean()),
                **{
                    f"coverage{p}": float(np.mean(np.abs(pit - 0.5) <= p / 200))
                    for p in (50, 80, 90)
                },
                "width90": float(own.column(lambda item: item.width(0.9), metric, stat).mean()),
                "crps": float(own.column(lambda item: item.crps, metric, stat).mean()),
            }
        )
    return rows


def residual_patterns(own: Judged) -> list[dict[str, Any]]:
    """Mean signed error of the means by family, TP, accelerator and load stage.

    Parameters
    ----------
    own : Judged
        One model.

    Returns
    -------
    list of dict
        Group, level, metric, number of stages and bias in log units.
    """
    found: dict[tuple[str, str, str], list[float]] = {}
    for item in own.left_out:
        last = max(int(label.split("/")[-2]) for label in item.label)
        for label, error in zip(item.label, item.median_error, strict=True):
            _, stage, key = label.rsplit("/", 2)
            metric, stat = key.split(".", 1)
            if stat != "mean":
                continue
            load = "only stage" if not last else "highest" if int(stage) == last else "lower"
            levels = {
                "family": item.levels["family"],
                "tensor parallel": item.levels["interconnect"].rsplit("-", 1)[1],
                "accelerator": item.levels["accelerator"],
                "load": load,
            }
            for group, level in levels.items():
                found.setdefault((group, level, metric), []).append(float(error))
    return [
        {"group": g, "level": v, "metric": m, "n": len(e), "bias": float(np.mean(e))}
        for (g, v, m), e in sorted(found.items())
    ]


def compare_models(
    models: Sequence[LatencyModel],
    paths: Sequence[Path],
    *,
    seed: int = 0,
    leave_out: Sequence[str] = (),
    report: Callable[[str], None] = lambda _: None,
) -> ModelComparison:
    """Fit each latency model and leave each run out in turn.

    Parameters
    ----------
    models : sequence of LatencyModel
        With priors, names all different.
    paths : sequence of pathlib.Path
        Experiments and step sweeps, as `tailcast.inference.sources.load_sources` takes them.
    seed : int
        Of everything random; the same for every model.
    leave_out : sequence of str
        Sweep files to skip.
    report : callable
        Receives lines of progress.

    Returns
    -------
    ModelComparison
        Best first.

    Raises
    ------
    UsageError
        If fewer than two runs are given or two models share a name.
    InputError, InferenceError
        If data cannot be read or a model cannot be fitted.
    """
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        raise UsageError(f"latency models share a name: {', '.join(names)}; rename one")
    judged = []
    for model in models:
        sources = load_sources(paths, model, leave_out=leave_out)
        if len(sources.runs) < 2:
            raise UsageError(
                f"comparing needs at least 2 runs with summaries, got {len(sources.runs)}"
            )
        report(f"{model.name}: fit to all {len(sources.runs)} runs")
        own = fit(model, sources.runs, sources.steps, seed=seed, sampler=SCREEN, report=report)
        left = leave_one_out(
            model,
            own.evidence,
            own.sampled,
            seed=seed,
            report=lambda line, name=model.name: report(f"{name}: {line}"),  # type: ignore[misc]
        )
        judged.append(Judged(model=model, left_out=tuple(left)))
    judged.sort(key=lambda item: -float(item.elpd.sum()))
    return ModelComparison(judged=tuple(judged))


def by_name(comparison: ModelComparison) -> Mapping[str, Judged]:
    """Judged models by name.

    Parameters
    ----------
    comparison : ModelComparison
        Any.

    Returns
    -------
    mapping of str to Judged
        One a model.
    """
    return {own.model.name: own for own in comparison.judged}
