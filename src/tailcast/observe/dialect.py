"""What a server understands beyond the plain OpenAI interface, and the request bodies for it."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ENDPOINTS = ("completions", "chat")
DIALECTS = ("vllm", "llamacpp", "plain")

type Prompt = str | Sequence[int] | Sequence[dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Fields that one server takes.

    Parameters
    ----------
    name : str
        One of `DIALECTS`.
    token_prompts : bool
        Prompts may be lists of token ids (completions only), so that lengths are exact.
    ignore_eos, min_tokens : bool
        Fields that make output lengths exact.
    token_ids : bool
        ``return_token_ids`` puts the ids, and so their exact number, into every event.
    continuous_usage, timings : bool
        Every event carries a running count (vLLM's or llama.cpp's way).
    usage : bool
        ``stream_options.include_usage`` gives the server's counts at the end.
    max_completion_tokens : bool
        The output limit has this newer name.
    """

    name: str = "plain"
    token_prompts: bool = True
    ignore_eos: bool = True
    min_tokens: bool = True
    token_ids: bool = True
    continuous_usage: bool = True
    timings: bool = False
    usage: bool = True
    max_completion_tokens: bool = False

    @property
    def cumulative(self) -> str:
        """Which running count events carry, as `AnswerReader` wants it."""
        if self.timings:
            return "timings"
        return "usage" if self.continuous_usage and self.usage else "none"

    @property
    def exact_output(self) -> bool:
        """Whether the server was told to ignore the end-of-sequence token."""
        return self.ignore_eos


# In the order in which they are given up; the field names are what servers complain about.
_OPTIONAL = (
    ("token_ids", "return_token_ids"),
    ("timings", "timings_per_token"),
    ("continuous_usage", "continuous_usage_stats"),
    ("min_tokens", "min_tokens"),
    ("ignore_eos", "ignore_eos"),
    ("usage", "stream_options"),
    ("token_prompts", "prompt"),
)


def first_guess(name: str, endpoint: str) -> Dialect:
    """Everything that servers of this name may understand.

    Parameters
    ----------
    name : str
        One of `DIALECTS`. ``plain`` tries vLLM's fields too: many servers know some of them.
    endpoint : str
        One of `ENDPOINTS`.

    Returns
    -------
    Dialect
        To be probed and weakened with `without`.
    """
    token_prompts = endpoint == "completions"
    if name == "llamacpp":
        return Dialect(
            name=name,
            token_prompts=token_prompts,
            min_tokens=False,
            token_ids=False,
            continuous_usage=False,
            timings=True,
        )
    return Dialect(name=name, token_prompts=token_prompts)


def without(dialect: Dialect, complaint: str) -> Dialect | None:
    """Weaker dialect after a server has refused a request.

    Parameters
    ----------
    dialect : Dialect
        What was sent.
    complaint : str
        The server's message; a field that it names is given up first.

    Returns
    -------
    Dialect or None
        One field less; None where there is nothing left to give up.

    Examples
    --------
    >>> without(Dialect(), "Unrecognized field: min_tokens").min_tokens
    False
    """
    if "max_completion_tokens" in complaint and not dialect.max_completion_tokens:
        return dataclasses.replace(dialect, max_completion_tokens=True)
    held = [(name, word) for name, word in _OPTIONAL if getattr(dialect, name)]
    named = [name for name, word in held if word in complaint and name != "token_prompts"]
    if not held:
        return None
    lost: dict[str, Any] = {(named or [held[0][0]])[0]: False}
    return dataclasses.replace(dialect, **lost)


def request_body(
    dialect: Dialect, endpoint: str, llm: str, prompt: Prompt, output_tokens: int, priority: int = 0
) -> bytes:
    """JSON of one request.

    Parameters
    ----------
    dialect : Dialect
        What the server takes.
    endpoint : str
        One of `ENDPOINTS`; the prompt must fit it.
    llm : str
        Served model name.
    prompt : str, sequence of int, or sequence of messages
        Text, token ids, or chat messages.
    output_tokens : int
        Tokens to generate.
    priority : int
        vLLM's request priority; left out where 0.

    Returns
    -------
    bytes
        UTF-8.
    """
    limit = "max_completion_tokens" if dialect.max_completion_tokens else "max_tokens"
    body: dict[str, Any] = {
        "model": llm,
        "messages" if endpoint == "chat" else "prompt": prompt,
        limit: output_tokens,
        "stream": True,
        "temperature": 1.0,
    }
    if dialect.usage:
        body["stream_options"] = {"include_usage": True}
        if dialect.continuous_usage:
            body["stream_options"]["continuous_usage_stats"] = True
    if dialect.ignore_eos:
        body["ignore_eos"] = True
    if dialect.min_tokens:
        body["min_tokens"] = output_tokens
    if dialect.token_ids:
        body["return_token_ids"] = True
    if dialect.timings:
        body["timings_per_token"] = True
    if priority:
        body["priority"] = priority
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
