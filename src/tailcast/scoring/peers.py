"""Point predictions of other tools, scored on the records that the posterior is scored on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tailcast.errors import InputError
from tailcast.scoring.record import EvaluationRecord
from tailcast.scoring.rivals import Rival
from tailcast.scoring.score import point_score
from tailcast.traces.observed import METRICS, statistic_name
from tailcast.workload.csv_file import CsvFile

COLUMNS = ("experiment", "stage", "metric", "statistic", "value_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPrediction:
    """One number that another tool predicts.

    Parameters
    ----------
    peer : str
        Its name.
    experiment : str
        Id of the run.
    stage : int
        Load stage.
    metric, statistic : str
        For example ``"ttft"`` and ``"p99"``.
    value : float
        Seconds.
    """

    peer: str
    experiment: str
    stage: int
    metric: str
    statistic: str
    value: float


def load_peers(path: Path) -> tuple[PeerPrediction, ...]:
    """Point predictions of a CSV file.

    Parameters
    ----------
    path : pathlib.Path
        Columns ``experiment,stage,metric,statistic,value_s`` and, where several tools are in it,
        ``peer``; without that column the file's name names the tool.

    Returns
    -------
    tuple of PeerPrediction
        In the order of the file.

    Raises
    ------
    InputError
        If a column is missing, a cell impossible, or a prediction given twice.
    """
    file = CsvFile(path)
    file.require(COLUMNS)
    names = file.text("peer") if "peer" in file else [path.name.split(".")[0]] * len(file)
    stages, values = file.whole("stage"), file.numbers("value_s")
    found: dict[tuple[str, str, int, str, str], PeerPrediction] = {}
    rows = zip(
        names, file.text("experiment"), file.text("metric"), file.text("statistic"), strict=True
    )
    for row, (peer, experiment, metric, statistic) in enumerate(rows):
        if metric not in METRICS:
            raise file.error(row, f"no metric {metric!r}; use {', '.join(METRICS)}")
        try:
            stat = statistic_name(statistic)
        except InputError as error:
            raise file.error(row, str(error)) from error
        if not values[row] > 0:
            raise file.error(row, f"value_s must be positive seconds, got {values[row]:g}")
        key = (peer, experiment, int(stages[row]), metric, stat)
        if key in found:
            raise file.error(row, f"{peer!r} predicts {metric} {stat} of this stage twice")
        found[key] = PeerPrediction(
            peer=peer,
            experiment=experiment,
            stage=int(stages[row]),
            metric=metric,
            statistic=stat,
            value=float(values[row]),
        )
    return tuple(found.values())


def score_peers(
    predictions: Sequence[PeerPrediction], records: Sequence[EvaluationRecord]
) -> tuple[Rival, ...]:
    """Score other tools on the statistics that were observed.

    Parameters
    ----------
    predictions : sequence of PeerPrediction
        Of any number of tools.
    records : sequence of EvaluationRecord
        Of the posterior: they hold what was observed.

    Returns
    -------
    tuple of Rival
        One a tool, in order of appearance; predictions of what was not observed are counted.
    """
    known = {record.key: record for record in records}
    rivals = []
    for peer in dict.fromkeys(p.peer for p in predictions):
        own = [p for p in predictions if p.peer == peer]
        made = []
        for p in own:
            record = known.get((p.experiment, p.stage, p.metric, p.statistic))
            if record is not None:
                scored = point_score(p.metric, p.statistic, p.value, record.score.observed)
                made.append(replace(record, score=scored))
        rivals.append(
            Rival(
                name=peer,
                note="point predictions of a peer",
                records=tuple(made),
                n_left_out=len(own) - len(made),
            )
        )
    return tuple(rivals)
