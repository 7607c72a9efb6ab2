"""Work models: published values, identities and limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailcast.errors import UsageError
from tailcast.queueing.chunked_work import ChunkedWork, SingleStepWork, chunk_count
from tailcast.queueing.server import RequestShape, ServerLimits, TwoLines, three_numbers_ms
from tailcast.queueing.two_line_work import TwoLineWork, two_lines_of
from tailcast.queueing.work_model import work_model

from .servers import LIMITS, LLAMA

MS = 1e-3


def lines(alpha: float, beta: float, gamma: float, delta: float) -> TwoLines:
    return TwoLines(
        decode_base=alpha * MS,
        decode_slope=beta * MS,
        prefill_base=gamma * MS,
        prefill_slope=delta * MS,
    )


@pytest.mark.parametrize(
    ("numbers", "tokens", "n", "chunks", "step", "prefill", "decode", "service"),
    [
        ((8, 0.033, 0.000333), (256, 1024), 1, 1, 8.296954, 16.533249, 8.288911, 8504.378),
        ((8, 0.033, 0.000333), (256, 1024), 80, 1, 31.756298, 39.99259, 31.748257, 32550.205),
        ((4, 0.017, 0.000167), (64, 128), 200, 1, 13.335666, 14.387675, 13.327447, 1720.3009),
        ((8, 0.033, 0.000333), (4096, 64), 200, 39, 498.38052, 19503.664, 497.3364, 51333.195),
    ],
)
def test_v2_has_its_published_primitives(
    numbers: tuple[float, float, float],
    tokens: tuple[float, float],
    n: int,
    chunks: int,
    step: float,
    prefill: float,
    decode: float,
    service: float,
) -> None:
    shape = RequestShape(tokens_in=tokens[0], tokens_out=tokens[1])
    work = ChunkedWork(numbers=three_numbers_ms(*numbers), shape=shape)
    at = np.asarray(float(n))
    assert work.chunks(at) == chunks
    assert work.step_time(at) / MS == pytest.approx(step, rel=1e-6)
    assert work.prefill_time(at) / MS == pytest.approx(prefill, rel=1e-6)
    assert work.decode_time(at) / MS == pytest.approx(decode, rel=1e-6)
    assert work.service_time(at) / MS == pytest.approx(service, rel=1e-6)


@pytest.mark.parametrize(
    ("tokens_in", "n", "expected"), [(0, 4.0, 0.0), (1000, 1.0, 32.0), (500, 2.5, 29.25)]
)
def test_v1_has_its_published_prefill_times(tokens_in: float, n: float, expected: float) -> None:
    shape = RequestShape(tokens_in=tokens_in, tokens_out=0)
    work = SingleStepWork(numbers=three_numbers_ms(10.0, 0.01, 0.001), shape=shape)
    assert work.prefill_time(np.asarray(n)) / MS == pytest.approx(expected, rel=1e-9)


def test_v0_has_its_published_times() -> None:
    shape = RequestShape(tokens_in=2000, tokens_out=1)
    work = TwoLineWork(lines=lines(1.0, 0.01, 10.0, 0.001), shape=shape)
    assert work.prefill_time(np.asarray(8.0)) / MS == pytest.approx(26.0)
    assert work.decode_time(np.asarray(8.0)) / MS == pytest.approx(1.08)
    assert TwoLineWork(
        lines=lines(1.0, 0.01, 10.0, 0.001), shape=RequestShape(tokens_in=0, tokens_out=1)
    ).service_time(np.asarray(2.0)) / MS == pytest.approx(1.02)


@given(
    prompt=st.floats(0, 20_000),
    output=st.floats(1, 4000),
    n=st.integers(1, 64),
    budget=st.integers(64, 8192),
)
def test_the_closed_chunk_count_is_the_smallest_that_serves(
    prompt: float, output: float, n: int, budget: int
) -> None:
    def batch(chunks: float) -> float:
        fits = (chunks + output) * (budget - prompt / chunks) / (prompt + output)
        return float(np.floor(max(0.0, fits)))

    shape = RequestShape(tokens_in=prompt, tokens_out=output)
    chunks = float(chunk_count(float(n), shape, budget))
    assert batch(chunks) >= n
    assert chunks == 1 or batch(chunks - 1) < n


@given(prompt=st.floats(0, 6000), output=st.floats(1, 4000), n=st.integers(1, 256))
def test_prefill_and_decodes_add_up_to_the_service_time(
    prompt: float, output: float, n: int
) -> None:
    work = ChunkedWork(numbers=LLAMA, shape=RequestShape(tokens_in=prompt, tokens_out=output))
    at = np.asarray(float(n))
    total = float(work.prefill_time(at) + output * work.decode_time(at))
    assert total == pytest.approx(float(work.service_time(at)), rel=1e-12)


def test_columns_broadcast_over_occupancies() -> None:
    shape = RequestShape(tokens_in=np.array([64.0, 4096.0]), tokens_out=np.array([128.0, 64.0]))
    work = ChunkedWork(numbers=LLAMA, shape=shape)
    states = np.arange(1.0, 6.0)
    table = work.columns().service_time(states)
    assert table.shape == (2, 5)
    alone = ChunkedWork(numbers=LLAMA, shape=RequestShape(tokens_in=4096, tokens_out=64))
    assert table[1] == pytest.approx(alone.service_time(states), rel=1e-15)


def test_two_lines_agree_with_v2_at_their_shape_while_prefill_takes_one_step() -> None:
    shape = RequestShape(tokens_in=512, tokens_out=256)
    work = ChunkedWork(numbers=LLAMA, shape=shape)
    other = TwoLineWork(lines=two_lines_of(work), shape=shape)
    states = np.arange(1.0, 100.0)
    assert other.prefill_time(states) == pytest.approx(work.prefill_time(states), rel=1e-12)
    assert other.decode_time(states) == pytest.approx(work.decode_time(states), rel=1e-12)


def test_an_unknown_version_is_refused_with_a_hint() -> None:
    shape = RequestShape(tokens_in=1, tokens_out=1)
    with pytest.raises(UsageError, match="did you mean 'V2'"):
        work_model(LLAMA, shape, LIMITS, "v2")
    with pytest.raises(UsageError, match="two lines"):
        work_model(LLAMA, shape, LIMITS, "V0")
    with pytest.raises(UsageError, match="three numbers"):
        work_model(lines(1, 1, 1, 1), shape, LIMITS, "V2")


@pytest.mark.parametrize(
    "spoil",
    [
        {"max_batch": 0},
        {"max_batch": -1},
        {"max_batch": 10**9},
        {"max_batch": 1.5},
        {"max_queue": -1},
        {"max_batched_tokens": -1},
        {"max_batch": None},
        {"max_batch": "many"},
    ],
)
def test_impossible_limits_are_refused(spoil: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        ServerLimits(**spoil)  # type: ignore[arg-type]


def test_no_token_budget_means_the_default() -> None:
    assert ServerLimits(max_batched_tokens=0).max_batched_tokens == 8192


@pytest.mark.parametrize("tokens", [(-1, 1), (1, 0), (1, -1), (float("nan"), 1), (None, 1)])
def test_impossible_shapes_are_refused(tokens: tuple[float, float]) -> None:
    with pytest.raises(UsageError):
        work_model(LLAMA, RequestShape(tokens_in=tokens[0], tokens_out=tokens[1]), LIMITS)


def test_negative_or_missing_costs_are_refused() -> None:
    with pytest.raises(UsageError, match="alpha"):
        three_numbers_ms(-1.0, 0.1, 0.1)
    with pytest.raises(UsageError, match="missing"):
        three_numbers_ms(1.0, None, 0.1)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="positive"):
        lines(0.0, 0.1, 1.0, 0.1)
