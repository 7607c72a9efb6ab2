"""What one streamed answer said: tokens by event, the server's counts, how it ended."""

import json
from collections.abc import Mapping
from typing import Any

# How tokens of an event can be counted, exact ones first. "chunks" takes an event with text for
# one token, which is wrong where the server merges tokens or holds back half a character.
COUNTS = ("token_ids", "usage", "timings", "chunks")
_DECODE = json.JSONDecoder().decode
_TEXT_KEYS = ("content", "reasoning_content", "reasoning", "tool_calls")


class AnswerReader:
    """State of one answer; fed with the payloads of its events.

    Parameters
    ----------
    cumulative : str
        Which running count each event of this server carries: ``usage`` (vLLM's
        ``continuous_usage_stats``), ``timings`` (llama.cpp's ``timings_per_token``) or ``none``.
    keep : bool
        Whether to keep the generated tokens and text (a later prompt of the session needs them).

    Attributes
    ----------
    n_tokens : int
        Tokens seen so far.
    finish_reason, error : str
        As the server gave them; empty where it did not.
    done : bool
        Whether the closing ``[DONE]`` came.
    counted_by : str
        The least exact way of counting that was needed; one of `COUNTS`.
    token_ids : list of int
        Generated tokens, where kept and sent.
    """

    __slots__ = (
        "_cumulative",
        "_keep",
        "_text",
        "_timings",
        "_usage",
        "counted_by",
        "done",
        "error",
        "finish_reason",
        "n_tokens",
        "token_ids",
    )

    def __init__(self, cumulative: str = "none", *, keep: bool = False) -> None:
        self._cumulative = cumulative
        self._keep = keep
        self._text: list[str] = []
        self._usage: Mapping[str, Any] = {}
        self._timings: Mapping[str, Any] = {}
        self.token_ids: list[int] = []
        self.n_tokens = 0
        self.finish_reason = self.error = ""
        self.done = False
        self.counted_by = COUNTS[0]

    @property
    def text(self) -> str:
        """Generated text, where kept."""
        return "".join(self._text)

    @property
    def input_tokens(self) -> int:
        """The server's count of the prompt; -1 where it did not say."""
        return _count(self._usage.get("prompt_tokens"))

    @property
    def output_tokens(self) -> int:
        """The server's count of the answer; -1 where it did not say."""
        return _count(self._usage.get("completion_tokens"))

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that the server had in its cache; -1 where it did not say."""
        details = self._usage.get("prompt_tokens_details") or {}
        told = _count(details.get("cached_tokens"))
        return told if told >= 0 else _count(self._timings.get("cache_n"))

    def read(self, payload: bytes) -> int:
        """Take in one event.

        Parameters
        ----------
        payload : bytes
            Its data.

        Returns
        -------
        int
            Tokens that came with it; 0 for a role, a usage or an empty closing chunk.
        """
        if payload == b"[DONE]":
            self.done = True
            return 0
        try:
            event = _DECODE(payload.decode())
            choices = event.get("choices") or ()
        except (ValueError, AttributeError):
            shown = payload[:80].decode(errors="replace")
            self.error = self.error or f"an event is no JSON object: {shown!r}"
            return 0
        if event.get("error"):
            self.error = self.error or error_text(event)
        if event.get("usage"):
            self._usage = event["usage"]
        if "timings" in event:
            self._timings = event["timings"] or {}
        before = self.n_tokens
        for choice in choices:
            self._choice(choice)
        return self.n_tokens - before

    def _choice(self, choice: Mapping[str, Any]) -> None:
        delta = choice.get("delta") or {}
        ids = choice.get("token_ids", delta.get("token_ids"))
        if choice.get("finish_reason"):
            self.finish_reason = str(choice["finish_reason"])
        if ids is not None:
            self.n_tokens += len(ids)
            if self._keep:
                self.token_ids.extend(ids)
                self._text.append(_text(choice, delta))
            return
        text = _text(choice, delta)
        running = self._running
        if running >= 0:
            n = max(running - self.n_tokens, 0)
            self._note(self._cumulative, n)
        else:
            n = 1 if text else 0
            self._note("chunks", n)
        self.n_tokens += n
        if self._keep:
            self._text.append(text)

    @property
    def _running(self) -> int:
        """Tokens so far by the server's running count; -1 where events carry none."""
        if self._cumulative == "usage":
            return self.output_tokens
        if self._cumulative == "timings":
            return _count(self._timings.get("predicted_n"))
        return -1

    def _note(self, way: str, n: int) -> None:
        if n and COUNTS.index(way) > COUNTS.index(self.counted_by):
            self.counted_by = way


def error_text(answer: object) -> str:
    """One line from an error answer of any of the usual shapes.

    Parameters
    ----------
    answer : object
        Parsed JSON: ``{"error": {"message": ...}}``, ``{"error": "..."}``, ``{"message": ...}`` or
        ``{"detail": ...}``.

    Returns
    -------
    str
        At most 300 characters.

    Examples
    --------
    >>> error_text({"error": {"message": "too long", "code": 400}})
    'too long'
    """
    found: object = answer
    if isinstance(answer, dict):
        found = answer.get("error") or answer.get("message") or answer.get("detail") or answer
    if isinstance(found, dict):
        found = found.get("message") or found
    text = found if isinstance(found, str) else json.dumps(found, default=str)
    return " ".join(text.split())[:300]


def _text(choice: Mapping[str, Any], delta: Mapping[str, Any]) -> str:
    text = choice.get("text") or next((delta[key] for key in _TEXT_KEYS if delta.get(key)), "")
    return text if isinstance(text, str) else json.dumps(text)


def _count(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else -1
