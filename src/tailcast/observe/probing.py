"""Finding out what a server is and takes, by asking it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import UsageError, near_name
from tailcast.observe.connection import Connection
from tailcast.observe.dialect import Dialect, Prompt, first_guess, request_body, without
from tailcast.observe.prompts import WORDS, Vocabulary
from tailcast.observe.record import RequestRecord
from tailcast.observe.server_info import told_settings
from tailcast.observe.settings import ObserveSettings, ServerError
from tailcast.streams import stream

_PROBE_OUTPUT = 4
_PROBE_TIMEOUT = 300.0  # a server that has just started compiles on its first request
_MIN_POOL = 32
_PLAIN_IDS = np.arange(256, 768)  # ordinary tokens in every vocabulary of a thousand or more


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What was found out.

    Parameters
    ----------
    llm : str
        Served model name.
    dialect : Dialect
        Fields that it takes.
    vocabulary : Vocabulary
        What prompts can be made of.
    version : str
        Engine version, empty where it does not tell.
    max_model_len : int or None
        Longest sequence in tokens.
    facts : dict
        Further settings that it told, by vLLM's names.
    notes : tuple of str
        What had to be given up; one sentence each.
    """

    llm: str
    dialect: Dialect
    vocabulary: Vocabulary
    version: str
    max_model_len: int | None
    facts: dict[str, Any]
    notes: tuple[str, ...]


async def probe(connection: Connection, settings: ObserveSettings) -> Server:
    """Ask a server what it is and try a few short requests on it.

    Parameters
    ----------
    connection : Connection
        Open connection to it.
    settings : ObserveSettings
        Endpoint, and a dialect that the user insists on.

    Returns
    -------
    Server
        Ready to be driven.

    Raises
    ------
    ServerError
        If it does not answer, or refuses even the plainest request.
    UsageError
        If it serves several models and none was named, or not the one named.
    """
    models = await connection.json("/v1/models")
    llm, card = _served(settings, models)
    name, version, facts = await _identity(connection, settings)
    dialect, notes = await _accepted(
        connection, settings, llm, first_guess(name, settings.endpoint)
    )
    vocabulary = await _vocabulary(connection, settings, llm, dialect)
    length = card.get("max_model_len")
    return Server(
        llm=llm,
        dialect=dialect,
        vocabulary=vocabulary,
        version=version,
        max_model_len=length if isinstance(length, int) else facts.get("max_model_len"),
        facts=facts,
        notes=tuple(notes),
    )


def _served(settings: ObserveSettings, models: Any) -> tuple[str, dict[str, Any]]:
    """Name and card of the model to ask for."""
    listed = models.get("data") if isinstance(models, dict) else None
    cards = {str(card.get("id")): card for card in listed or () if isinstance(card, dict)}
    if settings.llm is not None:
        if cards and settings.llm not in cards:
            raise UsageError(
                f"{settings.url} does not serve {settings.llm!r}; {near_name(settings.llm, cards)}"
            )
        return settings.llm, cards.get(settings.llm, {})
    if not cards:
        raise UsageError(f"{settings.url} does not list its models; name one with --model")
    if len(cards) > 1:
        raise UsageError(
            f"{settings.url} serves several models; pick one with --model: "
            f"{', '.join(sorted(cards)[:20])}"
        )
    return next(iter(cards.items()))


async def _identity(
    connection: Connection, settings: ObserveSettings
) -> tuple[str, str, dict[str, Any]]:
    """Dialect's name, engine version, and settings that the server tells."""
    facts: dict[str, Any] = {}
    found = await connection.json("/version")
    if isinstance(found, dict) and "version" in found:
        facts |= told_settings(await connection.json("/server_info?config_format=json"))
        name = "vllm" if settings.dialect == "auto" else settings.dialect
        return name, str(found["version"]), facts
    props = await connection.json("/props")
    if isinstance(props, dict) and ("build_info" in props or "total_slots" in props):
        slots = props.get("total_slots")
        if isinstance(slots, int):
            facts["max_num_seqs"] = slots
        context = (props.get("default_generation_settings") or {}).get("n_ctx")
        if isinstance(context, int) and context > 0:
            facts["max_model_len"] = context
        name = "llamacpp" if settings.dialect == "auto" else settings.dialect
        return name, str(props.get("build_info", "")), facts
    return "plain" if settings.dialect == "auto" else settings.dialect, "", facts


async def _accepted(
    connection: Connection, settings: ObserveSettings, llm: str, dialect: Dialect
) -> tuple[Dialect, list[str]]:
    """Strongest dialect that the server does not refuse, and what it says about itself."""
    notes = []
    while True:
        prompt = _trial(settings, dialect, 16)
        record = await _ask(connection, llm, settings, dialect, prompt)
        if record.status == "ok" or (record.http_status == 200 and record.finish_reason):
            break
        weaker = without(dialect, record.error) if record.http_status in {400, 422} else None
        if weaker is None:
            raise ServerError(f"{settings.url} refuses the plainest request: {record.error}")
        lost = [f for f in Dialect.__slots__ if getattr(weaker, f) != getattr(dialect, f)]
        notes.append(f"The server refuses {lost[0]}: {record.error}")
        dialect = weaker
    if _PROBE_OUTPUT not in {record.n_tokens, record.server_output_tokens}:
        notes.append("Output lengths are not exact: the server stops where the LLM does.")
    if record.counted_by == "token_ids":  # exact already; spare both sides the running counts
        dialect = replace(dialect, continuous_usage=False)
    if record.counted_by == "chunks":
        notes.append("Tokens are counted by events with text; the server gives no exact count.")
    if record.server_output_tokens < 0:
        notes.append("The server does not report token counts (usage).")
    return dialect, notes


async def _vocabulary(
    connection: Connection, settings: ObserveSettings, llm: str, dialect: Dialect
) -> Vocabulary:
    if dialect.token_prompts:
        return Vocabulary(token_ids=await _token_pool(connection, llm))
    counts = []
    for n in (50, 250):
        prompt = _trial(settings, dialect, n)
        record = await _ask(connection, llm, settings, dialect, prompt)
        counts.append(record.server_input_tokens)
    empty = np.empty(0, dtype=np.int64)
    if min(counts) <= 0:
        return Vocabulary(token_ids=empty)
    slope = max((counts[1] - counts[0]) / 200, 0.1)
    fixed = max(counts[0] - 50 * slope, 0.0)
    return Vocabulary(token_ids=empty, tokens_per_word=slope, fixed_tokens=fixed)


async def _token_pool(connection: Connection, llm: str) -> NDArray[np.int64]:
    """Ids of ordinary tokens, from the server's own tokenizer where it lends it."""
    text = " ".join(WORDS)
    asked = (
        {"model": llm, "prompt": text, "add_special_tokens": False},
        {"content": text, "add_special": False},
    )
    for body in asked:
        answer = await connection.json("/tokenize", body)
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        ids = {token for token in tokens or () if isinstance(token, int)}
        if len(ids) >= _MIN_POOL:
            return np.array(sorted(ids), dtype=np.int64)
    return _PLAIN_IDS


def _trial(settings: ObserveSettings, dialect: Dialect, n: int) -> Prompt:
    if dialect.token_prompts:
        ids: list[int] = _PLAIN_IDS[:n].tolist()
        return ids
    picks = stream(0, "probe", n).integers(len(WORDS), size=n)
    text = " ".join(WORDS[pick] for pick in picks.tolist())
    return [{"role": "user", "content": text}] if settings.endpoint == "chat" else text


async def _ask(
    connection: Connection, llm: str, settings: ObserveSettings, dialect: Dialect, prompt: Prompt
) -> RequestRecord:
    body = request_body(dialect, settings.endpoint, llm, prompt, _PROBE_OUTPUT)
    record = RequestRecord(row=-1, due=connection.clock(), output_tokens=_PROBE_OUTPUT)
    await connection.send(record, body, dialect, timeout=_PROBE_TIMEOUT)
    return record
