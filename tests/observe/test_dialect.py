"""Bodies of requests, and giving up what a server refuses."""

import json

from tailcast.observe.dialect import Dialect, first_guess, request_body, without


def test_exact_lengths_are_asked_for_in_vllms_words() -> None:
    body = json.loads(request_body(first_guess("vllm", "completions"), "completions", "m", [5], 9))
    assert body["prompt"] == [5]
    assert body["max_tokens"] == body["min_tokens"] == 9
    assert body["ignore_eos"]
    assert body["return_token_ids"]
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


def test_llama_cpp_gets_no_field_of_vllm() -> None:
    dialect = first_guess("llamacpp", "completions")
    body = json.loads(request_body(dialect, "completions", "m", [5], 9, priority=0))
    assert body["timings_per_token"]
    assert {"min_tokens", "return_token_ids", "priority"}.isdisjoint(body)


def test_chat_sends_messages() -> None:
    dialect = first_guess("vllm", "chat")
    body = json.loads(request_body(dialect, "chat", "m", [{"role": "user", "content": "x"}], 9))
    assert not dialect.token_prompts
    assert body["messages"][0]["content"] == "x"


def test_a_field_that_is_named_is_given_up_first() -> None:
    weaker = without(Dialect(), "body.ignore_eos: extra fields not permitted")
    assert weaker is not None
    assert not weaker.ignore_eos
    assert weaker.token_ids


def test_giving_up_ends_with_the_plain_interface() -> None:
    dialect: Dialect | None = Dialect()
    last = Dialect()
    for _ in range(20):
        if dialect is None:
            break
        last, dialect = dialect, without(dialect, "no")
    assert dialect is None
    body = json.loads(request_body(last, "completions", "m", "text", 9))
    assert set(body) == {"model", "prompt", "max_tokens", "stream", "temperature"}


def test_the_newer_name_of_the_limit_is_learnt_from_the_complaint() -> None:
    weaker = without(Dialect(), "Use 'max_completion_tokens' instead of 'max_tokens'")
    assert weaker is not None
    assert "max_completion_tokens" in json.loads(request_body(weaker, "chat", "m", [], 9))
