"""Coverage on runs that were not fitted, from the JSON of ``tailcast evaluate``."""

import json
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
    rows = [r for r in content.get("records", []) if isinstance(r, dict) and "error" not in r]
    try:
        records = [_record(row) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: a record lacks {error}; evaluate again") from error
    told = content.get("posterior")
    return str(told.get("sha256") or "") if isinstance(told, dict) else "", records


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


def _record(row: Mapping[str, Any]) -> EvaluationRecord:
    scored = Score(
        metric=str(row["metric"]),
        statistic=str(row["statistic"]),
        observed=float(row["observed"]),
        mean=float(row["mean"]),
        quantiles={name: float(row[name]) for name in QUANTILE_FIELDS},
        pit=float(row["pit"]),
        crps=float(row["crps"]),
        crps_log=float(row.get("crps_log", 0.0)),
        pinball_log=dict(row.get("pinball_log", {"q50": 0.0})),
    )
    return EvaluationRecord(
        experiment=str(row["experiment"]),
        stage=int(row["stage"]),
        score=scored,
        extrapolates=bool(row.get("extrapolates", False)),
        mode=str(row.get("mode", "")),
    )
