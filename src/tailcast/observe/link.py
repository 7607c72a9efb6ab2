"""Connections to one server, kept for a few seconds and used again.

Bytes are stamped and handed on where the socket is read, without waking a task for each event: at
200 streams in step a task a token would make the client late by more than the server is.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from tailcast.observe.response import ProtocolError, ResponseParser

# uvicorn, which vLLM runs in, closes idle connections after 5 s; reusing one later is a failure.
_IDLE_SECONDS = 3.0
_READ_BYTES = 16384
# A server that closes a connection this soon after an answer closes them all (llama.cpp does after
# every stream, without a word in the headers).
_HASTY_SECONDS = 1.0

type Taker = Callable[[bytes, float], None]


class StalledError(TimeoutError):
    """A server from which nothing came for too long."""


class Exchange:
    """One request and its answer.

    Parameters
    ----------
    take : callable
        Called with each piece of a successful answer's body and the instant it was read, seconds
        of the monotonic clock.
    loop : asyncio.AbstractEventLoop
        Loop that it is waited for in.

    Attributes
    ----------
    parser : ResponseParser
        Head of the answer.
    opened, sent, answered : float
        Seconds spent on opening a connection; instants at which the request was handed over and
        the first byte came, 0 for not yet.
    resent : bool
        Whether a kept connection turned out to be closed, so that it was sent on a new one.
    """

    __slots__ = ("_take", "answered", "ended", "heard", "opened", "parser", "resent", "sent")

    def __init__(self, take: Taker, loop: asyncio.AbstractEventLoop) -> None:
        self._take = take
        self.parser = ResponseParser()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.opened = self.sent = self.answered = self.heard = 0.0
        self.resent = False

    def feed(self, data: bytes) -> None:
        """Take in what was read.

        Parameters
        ----------
        data : bytes
            Bytes off the wire.
        """
        now = self.heard = time.monotonic()
        self.answered = self.answered or now
        try:
            for piece in self.parser.feed(data):
                self._take(piece, now)
        except ProtocolError as error:
            self.fail(error)
        if self.parser.complete and not self.ended.done():
            self.ended.set_result(None)

    def close(self, error: Exception | None) -> None:
        """Take in the end of the connection.

        Parameters
        ----------
        error : Exception, optional
            Why it ended; None where the server closed it in order.
        """
        if self.ended.done():
            return
        try:
            if error is not None:
                raise error
            self.parser.close()
            self.ended.set_result(None)
        except (ProtocolError, OSError) as reason:
            self.fail(reason)

    def renew(self) -> None:
        """Start again: nothing of an answer had come."""
        self.parser = ResponseParser()
        self.ended = self.ended.get_loop().create_future()
        self.resent = True

    def fail(self, error: Exception) -> None:
        """End the exchange with an error; the first one stands.

        Parameters
        ----------
        error : Exception
            What to raise from it.
        """
        if not self.ended.done():
            self.ended.set_exception(error)


class _Link(asyncio.BufferedProtocol):
    """One connection.

    It reads into one small buffer of the pool: the default of asyncio makes 256 KiB for every read,
    which costs five times the read itself.
    """

    def __init__(self, buffer: memoryview, hasty: Callable[[], None]) -> None:
        self._buffer = buffer
        self._hasty = hasty
        self.transport: asyncio.Transport | None = None
        self.exchange: Exchange | None = None
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.exchange is not None:
            self.exchange.feed(bytes(self._buffer[:nbytes]))
        elif self.transport is not None:  # nobody asked: not a connection to be used again
            self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        if self.exchange is not None:
            self.exchange.close(error)
        elif self.idle_since and self.age < _HASTY_SECONDS:
            self._hasty()

    @property
    def age(self) -> float:
        """Seconds since it was last used."""
        return time.monotonic() - self.idle_since

    @property
    def usable(self) -> bool:
        open_still = self.transport is not None and not self.transport.is_closing()
        return open_still and self.age < _IDLE_SECONDS


class LinkPool:
    """HTTP/1.1 client of one address; sends each request once.

    The one exception: a kept connection that the server had closed already, as shows when it ends
    without a byte of an answer. Then the request goes out again on a new one, and the exchange
    says so.

    Parameters
    ----------
    url : str
        Scheme, host, port and leading path.
    headers : mapping of str to str
        Sent with every request.
    connect_timeout : float
        Seconds to open a connection.
    stall_timeout : float
        Seconds without a byte after which an answer is given up.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str], connect_timeout: float, stall_timeout: float
    ) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls else 80)
        self._path = parts.path
        self._headers = {"Host": parts.netloc, "Accept-Encoding": "identity", **headers}
        self._connect_timeout = connect_timeout
        self._stall_timeout = stall_timeout
        self._idle: list[_Link] = []
        self._buffer = memoryview(bytearray(_READ_BYTES))  # TLS writes into slices of it
        self._reuses = True

    def close(self) -> None:
        """Close every idle connection."""
        self._reuses = False
        for link in self._idle:
            if link.transport is not None:
                link.transport.abort()
        self._idle.clear()

    async def call(
        self,
        path: str,
        body: bytes | None,
        take: Taker,
        *,
        headers: Mapping[str, str] | None = None,
        watch: Callable[[Exchange], None] | None = None,
    ) -> Exchange:
        """Send one request and read its answer to the end.

        Parameters
        ----------
        path : str
            Below the pool's address.
        body : bytes or None
            JSON to post; None for a GET.
        take : callable
            Gets each piece of the body, whatever the status.
        headers : mapping of str to str, optional
            Of this request.
        watch : callable, optional
            Gets the exchange before anything is sent, so that its times survive a failure.

        Returns
        -------
        Exchange
            Complete.

        Raises
        ------
        OSError, ProtocolError, StalledError, TimeoutError
            If it failed; cancelling it closes the connection, which makes the server stop too.
        """
        exchange = Exchange(take, asyncio.get_running_loop())
        if watch is not None:
            watch(exchange)
        message = self._message(path, body, headers or {})
        link = self._kept()
        if link is not None:
            try:
                return await self._exchange(link, exchange, message)
            except (OSError, ProtocolError):
                if exchange.answered or time.monotonic() - exchange.sent > _HASTY_SECONDS:
                    raise
                exchange.renew()
        return await self._exchange(await self._opened(exchange), exchange, message)

    async def _exchange(self, link: _Link, exchange: Exchange, message: bytes) -> Exchange:
        transport = link.transport
        if transport is None:
            raise ConnectionResetError("connection was lost at once")
        link.exchange = exchange
        try:
            exchange.sent = exchange.heard = time.monotonic()
            transport.write(message)
            if transport.is_closing():
                exchange.close(None)
            await self._patiently(exchange)
        except BaseException as error:
            exchange.fail(error if isinstance(error, Exception) else ConnectionAbortedError())
            exchange.ended.exception()  # seen, whoever raised first
            transport.abort()
            raise
        finally:
            link.exchange = None
        if exchange.parser.keeps_alive and self._reuses:
            link.idle_since = time.monotonic()
            self._idle.append(link)
        else:
            transport.abort()
        return exchange

    def _kept(self) -> _Link | None:
        while self._idle:
            link = self._idle.pop()
            if link.usable and self._reuses:
                return link
            if link.transport is not None:
                link.transport.abort()
        return None

    def _stop_reuse(self) -> None:
        self._reuses = False

    async def _opened(self, exchange: Exchange) -> _Link:
        loop, before = asyncio.get_running_loop(), time.monotonic()

        def fresh() -> _Link:
            return _Link(self._buffer, self._stop_reuse)

        extra: dict[str, Any] = {"ssl": self._tls} if self._tls else {}
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, link = await loop.create_connection(fresh, self._host, self._port, **extra)
        except TimeoutError as error:
            raise TimeoutError(f"no connection within {self._connect_timeout:g} s") from error
        exchange.opened = time.monotonic() - before
        return link

    async def _patiently(self, exchange: Exchange) -> None:
        """Wait for the end, looking now and then whether bytes still come."""
        while True:
            left = exchange.heard + self._stall_timeout - time.monotonic()
            if left <= 0:
                raise StalledError(f"no byte for {self._stall_timeout:g} s")
            done, _ = await asyncio.wait((exchange.ended,), timeout=left)
            if done:
                return exchange.ended.result()

    def _message(self, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        fields = {**self._headers, **headers}
        if body is not None:
            fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        verb = "GET" if body is None else "POST"
        lines = [f"{verb} {self._path}{path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (body or b"")
