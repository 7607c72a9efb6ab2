"""The step law is linear, checked on construction, and one row a draw."""

import numpy as np
import pytest

from tailcast.errors import UsageError
from tailcast.step_law import StepLaw


def two_draws() -> StepLaw:
    """A law of two draws, the second one twice as slow."""
    one = StepLaw.single(per_step=0.01, per_decode=1e-4, token_table=np.array([0.0, 1e-3, 2e-3]))
    columns = {
        name: np.concatenate([getattr(one, name), 2 * getattr(one, name)])
        for name in StepLaw.__dataclass_fields__
    }
    return StepLaw(**columns)


def test_duration_is_the_sum_of_its_terms() -> None:
    law = StepLaw.single(
        per_step=1.0,
        per_prefill_token=2.0,
        per_prefill_pair=3.0,
        per_prefill_request=5.0,
        per_decode=7.0,
        per_context_token=11.0,
        token_table=np.arange(100.0),
    )
    assert law.duration(1, 10, 100, 2, 20).item() == 1 + 2 + 30 + 500 + 14 + 220 + 3


def test_overheads_are_not_part_of_a_step() -> None:
    law = StepLaw.single(per_step=1.0, ingest=9.0, finish=9.0, stream=9.0, schedule_lag=1.3)
    assert law.duration(4, 8, 1, 3, 100).item() == 1.0


def test_token_table_is_clipped_at_its_end() -> None:
    law = StepLaw.single(token_table=np.array([0.0, 1.0, 4.0]))
    assert [law.duration(t, 0, 0, 0, 0).item() for t in (0, 1, 2, 3, 1000)] == [0, 1, 4, 4, 4]


def test_a_draw_is_a_row() -> None:
    law = two_draws()
    assert law.n_draw == 2
    for i in (0, 1, -1):
        draw = law.draw(i)
        assert draw.n_draw == 1
        assert draw.duration(0, 0, 0, 1, 5).item() == law.duration(0, 0, 0, 1, 5)[i]


def test_a_draw_out_of_range_is_refused() -> None:
    with pytest.raises(IndexError):
        two_draws().draw(2)


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"per_step": -1.0}, "per_step must be finite and not negative, got -1.0 in draw 0"),
        ({"ingest": np.nan}, "ingest must be finite and not negative, got nan in draw 0"),
        ({"per_decode": np.inf}, "per_decode must be finite"),
        ({"schedule_lag": 2.5}, "schedule_lag must be at most 2, got 2.5"),
        ({"per_stp": 1.0}, "no term 'per_stp'; did you mean 'per_step'?"),
    ],
)
def test_impossible_terms_are_refused(terms: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        StepLaw.single(token_table=None, **terms)


def test_draws_must_match() -> None:
    columns = {name: getattr(two_draws(), name) for name in StepLaw.__dataclass_fields__}
    with pytest.raises(UsageError, match=r"per_decode has shape \(3,\), expected \(2,\)"):
        StepLaw(**(columns | {"per_decode": np.zeros(3)}))
    with pytest.raises(UsageError, match=r"token_table has shape \(2,\), expected \(2, n_table\)"):
        StepLaw(**(columns | {"token_table": np.zeros(2)}))
    with pytest.raises(UsageError, match="at least one column"):
        StepLaw(**(columns | {"token_table": np.zeros((2, 0))}))
    with pytest.raises(UsageError, match=r"per_step has shape \(\), expected \(n_draw,\)"):
        StepLaw(**(columns | {"per_step": np.float64(1.0)}))
