"""Synthetic prompts that share exactly what the request table says they share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.observe.dialect import Prompt
from tailcast.observe.record import RequestRecord
from tailcast.request import RequestTable
from tailcast.streams import stream

# Short and frequent, so that nearly every tokenizer makes one token of each.
_TEXT = """
the and that have for not with you this but his from they say her she will one all would there
their what out about who get which when make can like time just him know take people into year
your good some could them see other than then now look only come its over think also back after
use two how our work first well way even new want because any these give day most us man find
here thing many still long down should call world last never three another old while mean keep
leave put might big same ask late run small large next early young few public bad able water
house city school state family group room night life part place case week company system program
question government number point home hand eye head side book word business issue fact month lot
right study job father power hour game line end member law car community name president team
minute idea body information face others level office door health person art war history party
result change morning reason research girl guy moment air teacher force education foot boy age
policy music market sense nation plan college interest death experience effect class control
field development role effort rate heart drug show leader light voice wife police mind
"""
WORDS: tuple[str, ...] = tuple(_TEXT.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """What prompts are made of.

    Parameters
    ----------
    token_ids : ndarray of int64, shape (n_token,)
        Ids that the server takes; empty where prompts are text.
    tokens_per_word : float
        Tokens that the server makes of one more word of a text prompt.
    fixed_tokens : float
        Tokens that it adds to a text prompt whatever its length (chat template).
    """

    token_ids: NDArray[np.int64]
    tokens_per_word: float = 1.0
    fixed_tokens: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether prompts are token ids, so that their lengths are exact."""
        return len(self.token_ids) > 0


class PromptMaker:
    """Prompts of one run: equal rows of shared columns give equal tokens, all else is random.

    Parameters
    ----------
    requests : RequestTable
        What will be sent.
    vocabulary : Vocabulary
        Token ids or words.
    endpoint : str
        ``completions`` or ``chat``.
    seed : int
        Two runs share prompts only where their seeds are equal.
    """

    def __init__(
        self, requests: RequestTable, vocabulary: Vocabulary, endpoint: str, seed: int
    ) -> None:
        self._requests = requests
        self._vocabulary = vocabulary
        self._chat = endpoint == "chat"
        self._seed = seed
        self._prefixes: dict[int, NDArray[np.int64]] = {}
        self._said: dict[int, Prompt] = {}

    def prompt(self, row: int, parent: RequestRecord | None = None) -> Prompt:
        """Prompt of one row.

        Parameters
        ----------
        row : int
            Row of the table.
        parent : RequestRecord, optional
            What was answered to the parent; needed for the next turn of a session.

        Returns
        -------
        str, list of int, or list of messages
            As dialect and endpoint want it.
        """
        turn = continues_session(self._requests, row) and parent is not None
        earlier = self._said.pop(int(self._requests.parent[row]), None) if turn else None
        if parent is None or earlier is None:
            made = self._opening(row)
        else:
            made = self._next_turn(row, earlier, parent)
        if self._requests.session_output[row]:
            self._said[row] = made
        return made

    def forget(self, row: int) -> None:
        """Drop what was kept of a row that no later turn will follow.

        Parameters
        ----------
        row : int
            Row of the table.
        """
        self._said.pop(row, None)

    def _opening(self, row: int) -> Prompt:
        n_input, n_prefix = self._lengths(row)
        prefix = self._prefix(row, n_prefix)
        own = self._content(row, n_input)[n_prefix:]
        if self._vocabulary.exact:
            ids: list[int] = self._vocabulary.token_ids[np.concatenate([prefix, own])].tolist()
            return ids
        if not self._chat:
            return self._text(np.concatenate([prefix, own]), self._vocabulary.fixed_tokens)
        system = [{"role": "system", "content": self._text(prefix, 0.0)}] if n_prefix else []
        user = self._text(own, self._vocabulary.fixed_tokens)
        return [*system, {"role": "user", "content": user}]

    def _next_turn(self, row: int, earlier: Prompt, parent: RequestRecord) -> Prompt:
        """History as it really went, and then the new part at its planned length."""
        table = self._requests
        before = int(table.input_tokens[parent.row] + table.output_tokens[parent.row])
        new = self._content(row, max(int(table.input_tokens[row]), before + 1))[before:]
        if self._vocabulary.exact:
            answer = parent.answer_ids or self._stand_in(row, parent)
            if isinstance(earlier, str):
                raise TypeError("a session's earlier prompt must be of token ids")
            history = [token for token in earlier if isinstance(token, int)]
            return [*history, *answer, *self._vocabulary.token_ids[new].tolist()]
        if self._chat:
            messages = [message for message in earlier if isinstance(message, dict)]
            answered = {"role": "assistant", "content": parent.answer_text}
            return [*messages, answered, {"role": "user", "content": self._text(new, 0.0)}]
        return f"{earlier}{parent.answer_text} {self._text(new, 0.0)}"

    def _stand_in(self, row: int, parent: RequestRecord) -> Sequence[int]:
        """Tokens in place of an answer that the server did not spell out."""
        start = int(self._requests.input_tokens[parent.row])
        n = parent.n_tokens
        ids: list[int] = self._vocabulary.token_ids[self._content(row, start + n)[start:]].tolist()
        return ids

    def _lengths(self, row: int) -> tuple[int, int]:
        table = self._requests
        shared = table.prefix_stream[row] >= 0
        return int(table.input_tokens[row]), int(table.prefix_tokens[row]) if shared else 0

    def _prefix(self, row: int, n: int) -> NDArray[np.int64]:
        key = int(self._requests.prefix_stream[row])
        held = self._prefixes.get(key)
        if held is None or len(held) < n:
            held = self._drawn(n, "prefix", key)
            self._prefixes[key] = held
        return held[:n]

    def _content(self, row: int, n: int) -> NDArray[np.int64]:
        """Indexes of the first `n` tokens of a row's own stream, counted from its prompt's start.

        One draw a token, in order, so that a longer prompt of a stream starts with a shorter one.
        """
        table = self._requests
        key = int(table.content_stream[row])
        if key < 0:
            return self._drawn(n, "own", row)
        return self._drawn(n, "content", int(table.prefix_stream[row]), key)

    def _drawn(self, n: int, *name: str | int) -> NDArray[np.int64]:
        size = len(self._vocabulary.token_ids) or len(WORDS)
        uniform = stream(self._seed, "prompt", *name).random(n)
        return np.floor(uniform * size).astype(np.int64)

    def _text(self, tokens: NDArray[np.int64], fixed: float) -> str:
        n = max(1, round((len(tokens) - fixed) / self._vocabulary.tokens_per_word))
        words = [WORDS[index] for index in np.resize(tokens, n).tolist()]
        return " ".join(words)


def continues_session(requests: RequestTable, row: int) -> bool:
    """Whether a row's prompt repeats its parent's prompt and answer.

    Parameters
    ----------
    requests : RequestTable
        The table.
    row : int
        Row of it.

    Returns
    -------
    bool
        False for a request that only waits for its parent (fixed concurrency).
    """
    parent = int(requests.parent[row])
    if parent < 0 or not (requests.session_output[row] and requests.session_output[parent]):
        return False
    stream_of = requests.content_stream
    return bool(stream_of[row] >= 0 and stream_of[row] == stream_of[parent])
