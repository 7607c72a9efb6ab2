"""What an evaluation found: scores, rivals on the same records, regimes, saturation."""

from dataclasses import asdict, dataclass
from typing import Any

from tailcast.posteriors import Posterior
from tailcast.scoring.record import EvaluationRecord
from tailcast.scoring.regimes import RegimeRow, regime_rows
from tailcast.scoring.rivals import Rival
from tailcast.scoring.saturation import SaturationRecord, SaturationScore, saturation_score
from tailcast.scoring.summary import ScoreSummary, body_summary, summarise, summary_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Result of an evaluation.

    Parameters
    ----------
    posterior : Posterior
        Which was judged.
    records : tuple of EvaluationRecord
        One a statistic.
    errors : tuple of (str, str)
        Experiments that could not be simulated: id and reason.
    duplicates : tuple of tuple of str
        Runs that occur more than once; each set was counted once.
    saturation : tuple of SaturationRecord
        Stages of open workloads whose class is known.
    rivals : tuple of Rival
        Residual baseline, conformal wrapper, peers.
    """

    posterior: Posterior
    records: tuple[EvaluationRecord, ...]
    errors: tuple[tuple[str, str], ...]
    duplicates: tuple[tuple[str, ...], ...]
    saturation: tuple[SaturationRecord, ...] = ()
    rivals: tuple[Rival, ...] = ()

    @property
    def summary(self) -> list[ScoreSummary]:
        """Scores by metric and statistic."""
        return summarise(self.records)

    @property
    def body(self) -> ScoreSummary | None:
        """Scores of mean, P50 and P90 of all metrics together."""
        return body_summary(self.records)

    @property
    def regimes(self) -> list[RegimeRow]:
        """Scores by regime."""
        return regime_rows(self.records)

    @property
    def saturation_score(self) -> SaturationScore | None:
        """Brier score of saturation; None where no class is known."""
        return saturation_score(self.saturation)

    def beside(self, rival: Rival) -> list[tuple[ScoreSummary, ScoreSummary]]:
        """Scores of a rival and of the posterior on the very same records.

        Parameters
        ----------
        rival : Rival
            One of `rivals`.

        Returns
        -------
        list of (ScoreSummary, ScoreSummary)
            Rival and posterior by metric and statistic.
        """
        own = {record.key: record for record in self.records}
        return [
            (row, summary_of(_matching(rival, row, own), row.metric, row.statistic))
            for row in summarise(rival.records)
        ]

    def pooled(self, rival: Rival) -> tuple[ScoreSummary, ScoreSummary] | None:
        """Scores of mean, P50 and P90 of all metrics on the records that both have.

        Parameters
        ----------
        rival : Rival
            One of `rivals`.

        Returns
        -------
        tuple of ScoreSummary, or None
            Rival and posterior; None where the rival has none of them.
        """
        theirs = body_summary(rival.records)
        keys = {record.key for record in rival.records}
        ours = body_summary([record for record in self.records if record.key in keys])
        return (theirs, ours) if theirs and ours else None

    def as_json(self) -> dict[str, Any]:
        """The contract ``tailcast/evaluate/1``; latencies in seconds.

        Returns
        -------
        dict
            Ready for `json.dumps`.
        """
        records = [_record_json(r) for r in self.records]
        records += [{"experiment": name, "error": reason} for name, reason in self.errors]
        card = self.posterior.card
        return {
            "schema": "tailcast/evaluate/1",
            "posterior": {
                "name": self.posterior.name,
                "latency_model": card["latency_model"],
                "model_sha256": card["model_sha256"],
                "sha256": card.get("posterior_sha256"),
            },
            "records": records,
            "summary": [row.as_json() for row in self.summary],
            "body": self.body.as_json() if self.body else None,
            "regimes": [
                {"kind": row.kind, "level": row.level, **row.scores.as_json()}
                for row in self.regimes
            ],
            "saturation": self._saturation_json(),
            "methods": [
                {
                    "method": rival.name,
                    **row.as_json(),
                    "posterior_median_ape": ours.median_ape,
                    "posterior_crps_log": ours.crps_log,
                }
                for rival in self.rivals
                for row, ours in self.beside(rival)
            ],
            "left_out": {rival.name: rival.n_left_out for rival in self.rivals},
            "duplicates": [list(names) for names in self.duplicates],
        }

    def _saturation_json(self) -> dict[str, Any] | None:
        found = self.saturation_score
        if found is None:
            return None
        return {
            "n": found.n,
            "n_saturated": found.n_saturated,
            "brier": found.brier,
            "brier_base_rate": found.brier_base_rate,
            "records": [asdict(r) for r in self.saturation],
        }


def _matching(
    rival: Rival, row: ScoreSummary, own: dict[tuple[str, int, str, str], EvaluationRecord]
) -> list[EvaluationRecord]:
    return [
        own[r.key]
        for r in rival.records
        if (r.score.metric, r.score.statistic) == (row.metric, row.statistic)
    ]


def _record_json(record: EvaluationRecord) -> dict[str, Any]:
    own = record.score
    return {
        "experiment": record.experiment,
        "stage": record.stage,
        "metric": own.metric,
        "statistic": own.statistic,
        "observed": own.observed,
        "mean": own.mean,
        **own.quantiles,
        "pit": own.pit,
        "crps": own.crps,
        "crps_log": own.crps_log,
        "pinball_log": dict(own.pinball_log),
        "extrapolates": record.extrapolates,
        "mode": record.mode,
        "n_unserved": record.n_unserved,
        "regime": dict(record.regime),
    }
