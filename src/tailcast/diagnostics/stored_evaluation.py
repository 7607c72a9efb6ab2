"""Coverage on runs that were not fitted, from the JSON of ``tailcast evaluate``."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailcast.errors import InputError
from tailcast.scoring.record import EvaluationRecord
from tailcast.scoring.score import QUANTILE_FIELDS, Score
from tailcast.scoring.summary import Coverage, body_summary

_SCHEMA = "tailcast/evaluate/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvaluation:
    """What an evaluation found, as far as a check needs it.

    Parameters
    ----------
    posterior : str
        Hash of the posterior that was judged; empty where the file does not say.
    n_experiment, n : int
        Experiments and records of mean, P50 and P90.
    coverage : tuple of Coverage
        Counted by experiment.
    pit : tuple of float
        Histogram in five bins; every experiment weighs one.
    pits : tuple of float
        PIT of each record of mean, P50 and P90.
    extrapolates : tuple of str
        Experiments outside the fitted range.
    """

    posterior: str
    n_experiment: int
    n: int
    coverage: tuple[Coverage, ...]
    pit: tuple[float, ...]
    pits: tuple[float, ...]
    extrapolates: tuple[str, ...]


def evaluation_records(path: Path) -> tuple[str, list[EvaluationRecord]]:
    """Read what the JSON of ``tailcast evaluate`` says of each statistic.

    Parameters
    ----------
    path : pathlib.Path
        File.

    Returns
    -------
    tuple
        Hash of the posterior that was judged, empty where the file does not say; its records.

    Raises
    ------
    InputError
        If the file is no such evaluation.
    """
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(content, dict) or content.get("schema") != _SCHEMA:
        raise InputError(f"{path}: not {_SCHEMA}; give the output of tailcast evaluate")
    rows = content.get("records")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: records must be a list of objects; evaluate again")
    told = content.get("posterior")
    sha256 = str(told.get("sha256") or "") if isinstance(told, dict) else ""
    return sha256, [
        _record(row, f"{path}: record {k}") for k, row in enumerate(rows) if "error" not in row
    ]


def load_evaluation(path: Path) -> StoredEvaluation:
    """Read the JSON of ``tailcast evaluate``.

    Parameters
    ----------
    path : pathlib.Path
        File.

    Returns
    -------
    StoredEvaluation
        Counted again from its records.

    Raises
    ------
    InputError
        If the file is no such evaluation or holds no record of mean, P50 or P90.
    """
    sha256, records = evaluation_records(path)
    body = body_summary(records)
    if body is None:
        raise InputError(f"{path}: no record of mean, p50 or p90")
    pooled = [r for r in records if r.score.statistic in {"mean", "p50", "p90"}]
    return StoredEvaluation(
        posterior=sha256,
        n_experiment=body.n_experiment,
        n=body.n,
        coverage=body.coverage,
        pit=body.pit,
        pits=tuple(r.score.pit for r in pooled),
        extrapolates=tuple(sorted({r.experiment for r in records if r.extrapolates})),
    )


def _record(row: Mapping[str, Any], where: str) -> EvaluationRecord:
    quantiles = {name: _number(row, name, where) for name in QUANTILE_FIELDS}
    levels = list(quantiles.values())
    if levels != sorted(levels):
        raise InputError(f"{where}: its quantiles are not in order; evaluate again")
    pinball = row.get("pinball_log", {"q50": 0.0})
    if not isinstance(pinball, dict):
        raise InputError(f"{where}: pinball_log must be an object, got {pinball!r:.60}")
    for name in ("metric", "statistic", "experiment"):
        if not isinstance(row.get(name), str):
            raise InputError(f"{where}: {name} must be text, got {row.get(name)!r:.60}")
    scored = Score(
        metric=row["metric"],
        statistic=row["statistic"],
        observed=_number(row, "observed", where),
        mean=_number(row, "mean", where),
        quantiles=quantiles,
        pit=_number(row, "pit", where, high=1.0),
        crps=_number(row, "crps", where),
        crps_log=_number({"crps_log": 0.0, **row}, "crps_log", where),
        pinball_log={str(name): _number(pinball, name, where) for name in pinball},
    )
    return EvaluationRecord(
        experiment=row["experiment"],
        stage=int(_number(row, "stage", where)),
        score=scored,
        extrapolates=bool(row.get("extrapolates", False)),
        mode=str(row.get("mode", "")),
    )


def _number(row: Mapping[str, Any], name: str, where: str, high: float = math.inf) -> float:
    """A number that is finite and not below zero; none of an evaluation may be."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where}: {name} must be a number, got {value!r:.60}; evaluate again")
    if not (math.isfinite(value) and 0 <= value <= high):
        raise InputError(f"{where}: {name} is impossible, got {value!r}; evaluate again")
    return float(value)
