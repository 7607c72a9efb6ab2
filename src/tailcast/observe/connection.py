"""Everything that is asked of the server goes through here, and every failure becomes a record."""

import asyncio
import errno
import json
import math
import time
from types import TracebackType
from typing import Any, Self

from tailcast.observe.answer import AnswerReader, error_text
from tailcast.observe.dialect import Dialect
from tailcast.observe.events import EventReader
from tailcast.observe.link import Exchange, LinkPool
from tailcast.observe.record import RequestRecord
from tailcast.observe.response import ProtocolError
from tailcast.observe.settings import ObserveSettings, ServerError, redacted

_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)
_PAGE_TIMEOUT = 30.0


class Connection:
    """Client of one run; use as a context manager inside a running event loop.

    Parameters
    ----------
    settings : ObserveSettings
        Address and patience.
    key : str
        API key, empty for none.

    Attributes
    ----------
    origin : float
        Instant of the monotonic clock that all times count from; `restart_clock` moves it.
    out_of_files : int
        Requests that failed because this process may not open more connections.
    """

    def __init__(self, settings: ObserveSettings, key: str = "") -> None:
        self._settings = settings
        self._key = key
        self._pool = LinkPool(
            settings.url,
            {"Authorization": f"Bearer {key}"} if key else {},
            settings.connect_timeout,
            settings.stall_timeout,
        )
        self.origin = time.monotonic()
        self.out_of_files = 0
        self._run = f"{time.time_ns():x}"[-10:-2]  # request ids of two runs must differ
        self._n_unrecorded = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.close()

    def clock(self) -> float:
        """Seconds since the origin, on the monotonic clock.

        Returns
        -------
        float
            Seconds.
        """
        return time.monotonic() - self.origin

    def restart_clock(self) -> None:
        """Make now the origin."""
        self.origin = time.monotonic()

    async def text(self, path: str, *, seconds: float = _PAGE_TIMEOUT) -> str:
        """Body of a GET that succeeded.

        Parameters
        ----------
        path : str
            For example ``"/metrics"``.
        seconds : float
            Patience.

        Returns
        -------
        str
            Empty where the server has no such page or did not answer in time.
        """
        try:
            status, text = await self._page(path, None, seconds)
        except (OSError, ProtocolError):
            return ""
        return text if status == 200 else ""

    async def json(self, path: str, body: object = None) -> Any:
        """Parsed JSON of a GET, or of a POST where there is a body.

        Parameters
        ----------
        path : str
            For example ``"/v1/models"``.
        body : object
            What to post as JSON; None for a GET.

        Returns
        -------
        object
            None where there is no such page or it is not JSON.

        Raises
        ------
        ServerError
            If nobody answers at all, or the key is refused.
        """
        posted = None if body is None else json.dumps(body).encode()
        try:
            status, text = await self._page(path, posted, _PAGE_TIMEOUT)
        except (OSError, ProtocolError) as error:
            reason = redacted(_reason(error), self._key)
            raise ServerError(f"{self._settings.url}: no answer: {reason}") from error
        if status in {401, 403}:
            raise ServerError(
                f"{self._settings.url}: HTTP {status}, the API key is missing or wrong; "
                "set TAILCAST_API_KEY"
            )
        try:
            return json.loads(text) if status == 200 else None
        except ValueError:
            return None

    async def send(
        self,
        record: RequestRecord,
        body: bytes,
        dialect: Dialect,
        *,
        timeout: float = math.inf,
        keep: bool = False,
    ) -> None:
        """Send one request and read its stream to the end; never raises but when cancelled.

        Parameters
        ----------
        record : RequestRecord
            Filled with what happens.
        body : bytes
            JSON.
        dialect : Dialect
            How to count tokens.
        timeout : float
            Seconds from `record.due` after which the client leaves.
        keep : bool
            Whether to keep the answer itself.
        """
        record.started = self.clock()
        answer = AnswerReader(dialect.cumulative, keep=keep)
        limit = None if math.isinf(timeout) else self.origin + record.due + timeout
        try:
            async with asyncio.timeout_at(limit) as patience:
                await self._stream(record, body, answer)
        except asyncio.CancelledError:
            record.fail("incomplete", "stopped before the answer was complete")
            raise
        except TimeoutError as error:
            reason = f"gave up {timeout:g} s after it was due" if patience.expired() else ""
            record.fail("timeout", reason or _reason(error))
        except (OSError, ProtocolError) as error:
            self.out_of_files += getattr(error, "errno", None) in _OUT_OF_FILES
            record.fail("error", redacted(_reason(error), self._key))
        finally:
            record.ended = self.clock()
            self._note(record, answer)

    async def _stream(self, record: RequestRecord, body: bytes, answer: AnswerReader) -> None:
        path = "/v1/chat/completions" if self._settings.endpoint == "chat" else "/v1/completions"
        events, refusal = EventReader(), list[bytes]()
        exchanges: list[Exchange] = []

        def take(piece: bytes, now: float) -> None:
            if exchanges[0].parser.status != 200:
                refusal.append(piece)
                return
            for payload in events.feed(piece):
                _count(record, answer, payload, now - self.origin)

        name = self._name(record)
        try:
            await self._pool.call(
                path, body, take, headers={"X-Request-Id": name}, watch=exchanges.append
            )
        finally:
            exchange = exchanges[0]
            record.connect = exchange.opened
            record.resent = exchange.resent
            record.http_status = exchange.parser.status
            record.request_id = exchange.parser.headers.get("x-request-id", "")
            record.sent = exchange.sent - self.origin if exchange.sent else math.nan
            record.headers = exchange.answered - self.origin if exchange.answered else math.nan
        for payload in events.close():
            _count(record, answer, payload, self.clock())
        if record.http_status != 200:
            text = b"".join(refusal).decode(errors="replace")
            record.fail("error", redacted(_refusal(record.http_status, text), self._key))

    def _name(self, record: RequestRecord) -> str:
        if record.row >= 0:
            return f"tailcast-{self._run}-{record.row}"
        self._n_unrecorded += 1
        return f"tailcast-{self._run}-u{self._n_unrecorded}"

    def _note(self, record: RequestRecord, answer: AnswerReader) -> None:
        record.finish_reason = answer.finish_reason
        record.server_input_tokens = answer.input_tokens
        record.server_output_tokens = answer.output_tokens
        record.cached_tokens = answer.cached_tokens
        record.counted_by = answer.counted_by if record.token_times else ""
        record.answer_ids, record.answer_text = answer.token_ids, answer.text
        if answer.error:
            record.fail("error", redacted(answer.error, self._key))
        elif not (answer.done or answer.finish_reason):
            record.fail("error", "stream ended before the answer was complete")
        elif not record.token_times:
            record.fail("error", "answer without a token")
        if not record.error:
            record.status = "ok"

    async def _page(self, path: str, body: bytes | None, seconds: float) -> tuple[int, str]:
        pieces: list[bytes] = []
        async with asyncio.timeout(seconds):
            exchange = await self._pool.call(path, body, lambda piece, _: pieces.append(piece))
        return exchange.parser.status, b"".join(pieces).decode(errors="replace")


def _count(record: RequestRecord, answer: AnswerReader, payload: bytes, now: float) -> None:
    n = answer.read(payload)
    if n:
        record.token_times.append(now)
        record.token_counts.append(n)


def _refusal(status: int, text: str) -> str:
    try:
        reason = error_text(json.loads(text))
    except ValueError:
        reason = text
    return f"HTTP {status}: {reason}"


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
