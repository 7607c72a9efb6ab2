"""The whole answer: both kinds of P(miss), verdict, sources of spread."""

import numpy as np
import pytest

from risk.cases import deployment, prior_posterior, question, workload
from tailcast.prediction import predictive
from tailcast.risk.assessment import Assessment, assess
from tailcast.risk.fleet import Fleet
from tailcast.slo import miss_probabilities
from tailcast.workload.materialise import materialise


def found(*texts: str, rate: float = 5.0, **options: object) -> Assessment:
    """An assessment with few draws."""
    return assess(
        prior_posterior(),
        Fleet(deployment=deployment()),
        workload(rate=rate),
        question(*texts),
        **{"n_draw": 24, **options},  # type: ignore[arg-type]
    )


def test_the_windows_risk_is_the_predictions() -> None:
    answer = found("ttft.p99=60ms", "tpot.mean=10ms")
    predicted = predictive(
        prior_posterior(), deployment(), lambda s: materialise(workload(), s), n_draw=24
    )
    known = miss_probabilities(predicted, answer.question.objectives)
    assert [m.p_miss for m in answer.window] == [m.p_miss for m in known]
    assert answer.window[-1].label == "all"
    assert answer.mode == "cold"
    assert answer.decisive == answer.window[-1]
    assert 0 < answer.window[0].p_miss < 1


@pytest.mark.slow
def test_the_verdict_follows_the_horizon() -> None:
    easy = found("ttft.p99=20s", horizon="process")
    assert easy.verdict().word == "yes"
    assert easy.decisive == easy.process[-1]
    hard = found("ttft.p50=1ms")
    assert hard.verdict().word == "no"
    over = found("ttft.p99=20s", rate=5000.0)
    assert over.p_saturated == 1
    assert over.verdict().word == "no"
    assert "queue never ends" in over.verdict().reason


def test_what_is_unknown_is_told_from_what_is_chance() -> None:
    target = float(np.quantile(found("tpot.mean=1s").outcomes.value[:, 0], 0.8))
    answer = found(f"tpot.mean={1e3 * target}ms")
    assert answer.verdict().word == "unsure"
    shares = answer.splits()["all"].shares()
    assert shares["coefficients"] > shares["workload"]
    assert "update the posterior" in answer.verdict().advice


@pytest.mark.slow
def test_curves_that_were_asked_for_are_there() -> None:
    answer = found("ttft.p99=60ms", "tpot.mean=10ms", curves=("rate", "target"), risk=0.3)
    assert set(answer.curves) == {"rate", "ttft.p99", "tpot.mean"}
    least = answer.least_targets()[0]
    assert np.mean(answer.outcomes.value[:, 0] > least) <= 0.3


def test_a_rate_that_is_asked_for_is_repeated() -> None:
    assert found("ttft.p99=60ms").rate == pytest.approx(5.0)
