"""Prompts share what the request table says they share, and nothing else."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailcast.observe.dialect import Prompt
from tailcast.observe.prompts import PromptMaker, Vocabulary, continues_session
from tailcast.observe.record import RequestRecord
from tailcast.request import RequestTable, request_table

IDS = Vocabulary(token_ids=np.arange(1000, 1400))
TEXT = Vocabulary(token_ids=np.empty(0, dtype=np.int64))


def _table(n: int, **columns: Any) -> RequestTable:
    arrays = {key: np.asarray(value) for key, value in columns.items()}
    lengths = arrays.pop("input_tokens", np.full(n, 60)), arrays.pop("output_tokens", np.full(n, 8))
    return request_table(np.zeros(n), *lengths, **arrays)


def _ids(prompt: Prompt) -> list[int]:
    return [token for token in prompt if isinstance(token, int)]


def _common(one: list[int], other: list[int]) -> int:
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


@settings(max_examples=30)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=5), st.integers(0, 5))
def test_prompts_of_token_ids_have_their_exact_length(lengths: list[int], seed: int) -> None:
    maker = PromptMaker(_table(len(lengths), input_tokens=lengths), IDS, "completions", seed)
    assert [len(maker.prompt(row)) for row in range(len(lengths))] == lengths


def test_unique_prompts_share_nothing() -> None:
    maker = PromptMaker(_table(2), IDS, "completions", 0)
    assert _common(_ids(maker.prompt(0)), _ids(maker.prompt(1))) < 4


def test_shared_prefixes_are_shared_and_end_where_they_should() -> None:
    table = _table(3, prefix_stream=[4, 4, 5], prefix_tokens=[32, 32, 32])
    maker = PromptMaker(table, IDS, "completions", 0)
    one, two, other = (_ids(maker.prompt(row)) for row in range(3))
    assert 32 <= _common(one, two) < 36
    assert _common(one, other) < 4


def test_repeated_prompts_agree_as_far_as_both_reach() -> None:
    table = _table(2, input_tokens=[40, 60], content_stream=[7, 7])
    maker = PromptMaker(table, IDS, "completions", 0)
    assert _common(_ids(maker.prompt(0)), _ids(maker.prompt(1))) == 40


def test_the_same_content_behind_another_prefix_is_another_prompt() -> None:
    table = _table(2, prefix_stream=[1, 2], prefix_tokens=[16, 16], content_stream=[7, 7])
    maker = PromptMaker(table, IDS, "completions", 0)
    one, two = _ids(maker.prompt(0)), _ids(maker.prompt(1))
    assert sum(a == b for a, b in zip(one, two, strict=True)) < 10


def test_equal_seeds_give_equal_prompts_and_others_do_not() -> None:
    first, again, other = (
        PromptMaker(_table(1), IDS, "completions", seed).prompt(0) for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


def _session() -> RequestTable:
    return _table(
        2,
        input_tokens=[20, 40],
        output_tokens=[10, 5],
        content_stream=[3, 3],
        session_output=[True, True],
        parent=[-1, 0],
    )


def test_a_turn_repeats_prompt_and_answer_as_they_really_were() -> None:
    maker = PromptMaker(_session(), IDS, "completions", 0)
    first = _ids(maker.prompt(0))
    answered = RequestRecord(row=0, due=0.0, answer_ids=list(range(10)))
    second = _ids(maker.prompt(1, answered))
    assert second[:30] == [*first, *range(10)]
    assert len(second) == 40


def test_an_answer_that_was_not_spelt_out_gets_a_stand_in_of_its_length() -> None:
    maker = PromptMaker(_session(), IDS, "completions", 0)
    maker.prompt(0)
    answered = RequestRecord(row=0, due=0.0)
    answered.token_counts.extend([4, 6])
    assert len(maker.prompt(1, answered)) == 40


def test_a_chat_turn_is_a_further_message() -> None:
    maker = PromptMaker(_session(), TEXT, "chat", 0)
    first = maker.prompt(0)
    second = maker.prompt(1, RequestRecord(row=0, due=0.0, answer_text="so it is"))
    assert list(second[:1]) == list(first)
    roles = [message["role"] for message in second if isinstance(message, dict)]
    assert roles == ["user", "assistant", "user"]


def test_text_has_the_words_that_give_its_tokens() -> None:
    vocabulary = Vocabulary(token_ids=np.empty(0, np.int64), tokens_per_word=1.5, fixed_tokens=6)
    table = _table(1, input_tokens=[66])
    prompt = PromptMaker(table, vocabulary, "completions", 0).prompt(0)
    assert isinstance(prompt, str)
    assert len(prompt.split()) == 40


@pytest.mark.parametrize(
    ("column", "value"), [("parent", [-1, -1]), ("session_output", [False, True])]
)
def test_only_turns_of_one_conversation_continue_it(column: str, value: list[Any]) -> None:
    assert continues_session(_session(), 1)
    columns = {
        "content_stream": [3, 3], "session_output": [True, True], "parent": [-1, 0]
    }  # fmt: skip
    assert not continues_session(_table(2, **{**columns, column: value}), 1)
