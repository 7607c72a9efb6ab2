"""Replicas for a risk, from any source."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailcast.autoscale.replica import Source, capped_by_cache, known_replica, named_deployment
from tailcast.autoscale.size import SizeAnswer, size_replicas
from tailcast.errors import InputError, UsageError
from tailcast.queueing.rate_forecast import parse_forecast
from tailcast.queueing.server import RequestShape, ServerLimits, three_numbers_ms
from tailcast.queueing.sizing import Targets, largest_rate
from tailcast.queueing.steady_state import Replica
from tailcast.queueing.work_model import work_model

SHAPE = RequestShape(tokens_in=1024, tokens_out=256)
EXACT = "6.678ms,20.08us,55.16ns"
UNSURE = "6.678ms+-10%,20.08us+-15%,55.16ns+-25%"
LIMITS = ServerLimits()


def answer(
    numbers: str = UNSURE,
    rate: str = "20rps",
    risk: float = 0.05,
    targets: Targets | None = None,
) -> SizeAnswer:
    wanted = targets or Targets(ttft=0.05, itl=0.025)
    replica = known_replica(Source(numbers=numbers), SHAPE, LIMITS, wanted, seed=0)
    return size_replicas(replica, SHAPE, parse_forecast(rate), wanted, risk, seed=0)


def test_exact_numbers_give_the_plain_count() -> None:
    numbers, targets = three_numbers_ms(6.678, 2.008e-2, 5.516e-5), Targets(ttft=0.05)
    one = Replica(work=work_model(numbers, SHAPE, LIMITS), limits=LIMITS)
    rate = largest_rate(one, targets).rate
    found = answer(EXACT, "20rps", targets=targets)
    assert found.replicas.n_replica == math.ceil(20.0 / rate)
    assert found.replicas.p_miss == 0.0
    assert found.replicas.binding == "ttft"


@settings(max_examples=10, deadline=None)
@given(risk=st.floats(0.01, 0.4), rate=st.floats(1.0, 60.0))
def test_the_answer_is_the_fewest_for_its_risk(risk: float, rate: float) -> None:
    found = answer(rate=f"{rate:.6f}rps", risk=risk)
    n = found.replicas.n_replica
    assert n is not None
    assert found.replicas.p_miss <= risk + 1e-12
    assert found.p_miss_by_replicas[n] == pytest.approx(found.replicas.p_miss)
    if n > 1:
        assert found.p_miss_by_replicas[n - 1] > risk
    misses = list(found.p_miss_by_replicas.values())
    assert misses == sorted(misses, reverse=True)


def test_more_is_needed_for_less_risk_more_load_and_a_vaguer_forecast() -> None:
    def count(found: SizeAnswer) -> int:
        return found.replicas.n_replica or 10**9

    plain = count(answer())
    assert count(answer(risk=0.01)) > plain
    assert count(answer(rate="40rps")) > plain
    assert count(answer(rate="20rps+-40%")) > plain
    assert count(answer(risk=0.3)) <= plain


def test_the_means_with_that_many_meet_the_targets_as_often_as_said() -> None:
    found = answer(risk=0.1)
    missed = (found.ttft > 0.05) | (found.itl > 0.025)
    assert float(missed.mean()) == pytest.approx(found.replicas.p_miss, abs=0.01)


def test_the_binding_target_is_named() -> None:
    assert answer(targets=Targets(ttft=0.2, itl=0.009)).replicas.binding == "itl"
    assert answer(targets=Targets(ttft=0.045, itl=0.05)).replicas.binding == "ttft"


def test_a_target_that_a_lone_request_misses_has_no_answer() -> None:
    found = answer(targets=Targets(ttft=0.02))
    assert found.replicas.n_replica is None
    assert found.replicas.p_infeasible > 0.99
    assert np.median(found.ttft) > 0.02
    # part of the draws can be met: the answer turns on the risk
    part = answer(targets=Targets(ttft=0.036), risk=0.05).replicas
    assert part.n_replica is None
    assert 0.05 < part.p_infeasible < 0.95
    more = answer(targets=Targets(ttft=0.036), risk=part.p_infeasible + 0.02).replicas
    assert more.n_replica is not None


def test_tokens_per_second_are_a_rate() -> None:
    few = answer(targets=Targets(tps=1000.0), rate="1rps").replicas.n_replica
    many = answer(targets=Targets(tps=50_000.0), rate="1rps").replicas.n_replica
    assert few is not None
    assert many is not None
    assert many > few


def test_the_cache_may_hold_fewer_than_the_cap() -> None:
    source = Source(llm_name="llama-3.1-8b", gpu="h100")
    deployment = named_deployment(source, LIMITS)
    same, notes = capped_by_cache(deployment, SHAPE, LIMITS)
    assert (same, notes) == (LIMITS, ())
    long = RequestShape(tokens_in=30_000, tokens_out=256)
    capped, notes = capped_by_cache(deployment, long, LIMITS)
    assert capped.max_batch < 256
    assert "KV cache" in notes[0]


def test_sources_that_say_too_little_or_too_much_are_refused(tmp_path: Path) -> None:
    targets = Targets(ttft=0.05)
    for source, what in (
        (Source(), "name the three numbers"),
        (Source(numbers=EXACT, posterior="x"), "not both"),
        (Source(numbers="6ms+-10%,20us,55ns"), "spreads"),
        (Source(llm_name="llama-3.1-8b"), "name the three numbers"),
    ):
        with pytest.raises(UsageError, match=what):
            known_replica(source, SHAPE, LIMITS, targets, seed=0)
    with pytest.raises(InputError):
        known_replica(Source(numbers=str(tmp_path / "no.nc")), SHAPE, LIMITS, targets, seed=0)
    with pytest.raises(UsageError, match="target"):
        answer(targets=Targets())


def test_a_posterior_is_mapped_and_held_against_the_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tailcast.inference.population import prior_population
    from tailcast.latency_model import load_latency_model
    from tailcast.posteriors import Posterior

    model = load_latency_model("physics")
    fake = Posterior(
        name="prior",
        latency_model=model,
        population=prior_population(model, 40, 0),
        card={},
        path=Path(),
    )
    monkeypatch.setattr("tailcast.posteriors.load_posterior", lambda name: fake)
    source = Source(llm_name="llama-3.1-8b", gpu="h100", posterior="prior")
    targets = Targets(ttft=1.0, itl=0.2)
    replica = known_replica(source, SHAPE, LIMITS, targets, seed=0)
    assert replica.known.log_draws.shape[1] == 3
    assert any("engine over chain" in note for note in replica.notes)
    found = size_replicas(replica, SHAPE, parse_forecast("8rps"), targets, 0.3, seed=0)
    assert found.replicas.n_replica is not None
    assert found.replicas.p_miss <= 0.3
