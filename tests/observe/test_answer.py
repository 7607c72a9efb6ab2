"""Counting the tokens of a streamed answer."""

import json
from typing import Any

import pytest

from tailcast.observe.answer import AnswerReader, error_text


def _event(**content: Any) -> bytes:
    return json.dumps(content).encode()


def _completion(text: str, ids: list[int] | None = None, finish: str | None = None) -> bytes:
    choice: dict[str, Any] = {"index": 0, "text": text, "finish_reason": finish}
    if ids is not None:
        choice["token_ids"] = ids
    return _event(choices=[choice])


def test_token_ids_count_exactly_even_where_the_text_is_held_back() -> None:
    answer = AnswerReader("usage", keep=True)
    counts = [answer.read(_completion("", [7])), answer.read(_completion("é w", [8, 9, 10]))]
    assert counts == [1, 3]
    assert (answer.token_ids, answer.text) == ([7, 8, 9, 10], "é w")
    assert answer.counted_by == "token_ids"


def test_running_usage_counts_merged_events() -> None:
    answer = AnswerReader("usage")
    counts = [
        answer.read(_event(choices=[{"delta": {"content": "a"}}], usage={"completion_tokens": n}))
        for n in (1, 2, 5, 5)
    ]
    assert counts == [1, 1, 3, 0]
    assert answer.counted_by == "usage"


def test_running_timings_count_as_llama_cpp_sends_them() -> None:
    answer = AnswerReader("timings")
    counts = [
        answer.read(_event(choices=[{"text": text}], timings={"predicted_n": n, "cache_n": 6}))
        for text, n in (("a", 1), ("b", 2), ("", 4))
    ]
    assert counts == [1, 1, 2]
    assert (answer.counted_by, answer.cached_tokens) == ("timings", 6)


def test_without_any_count_an_event_with_text_is_a_token() -> None:
    answer = AnswerReader()
    role = _event(choices=[{"delta": {"role": "assistant", "content": ""}}])
    thought = _event(choices=[{"delta": {"reasoning_content": "hm"}}])
    closing = _event(choices=[{"delta": {}, "finish_reason": "stop"}])
    assert [answer.read(event) for event in (role, thought, closing)] == [0, 1, 0]
    assert (answer.counted_by, answer.finish_reason) == ("chunks", "stop")


def test_the_usage_event_is_no_token_and_gives_the_servers_counts() -> None:
    answer = AnswerReader("usage")
    usage = {
        "prompt_tokens": 40,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 32},
    }
    assert answer.read(_event(choices=[], usage=usage)) == 0
    assert (answer.input_tokens, answer.output_tokens, answer.cached_tokens) == (40, 3, 32)


def test_what_the_server_does_not_say_stays_unknown() -> None:
    answer = AnswerReader()
    answer.read(_event(choices=[], usage={"prompt_tokens": 4, "prompt_tokens_details": None}))
    assert (answer.output_tokens, answer.cached_tokens) == (-1, -1)


@pytest.mark.parametrize("payload", [b"{oops", b"[1, 2]", b"\xff"])
def test_garbage_is_an_error_of_the_answer(payload: bytes) -> None:
    answer = AnswerReader()
    assert answer.read(payload) == 0
    assert "no JSON object" in answer.error


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"message": "too long"}},
        {"error": "too long"},
        {"message": "too long"},
        {"detail": "too long"},
    ],
)
def test_error_answers_of_all_shapes_give_their_message(answer: object) -> None:
    assert error_text(answer) == "too long"


def test_the_end_is_seen() -> None:
    answer = AnswerReader()
    assert not answer.done
    answer.read(b"[DONE]")
    assert answer.done
