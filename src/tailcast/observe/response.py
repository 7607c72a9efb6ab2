"""HTTP/1.1 answers, read piece by piece as they come off the wire."""

from collections.abc import Callable, Mapping

_LONGEST_HEAD = 65536


class ProtocolError(Exception):
    """An answer that is no HTTP/1.1."""


class ResponseParser:
    """State of one answer; fed with bytes, gives back pieces of its body.

    Bodies may be chunked, of a stated length, or end with the connection (RFC 9112, section 6).

    Attributes
    ----------
    status : int
        0 until the head is complete.
    headers : mapping of str to str
        By lower-case name; of several of one name the last.
    complete : bool
        Whether the whole body has been seen.
    """

    __slots__ = ("_buffer", "_left", "_step", "complete", "headers", "status")

    def __init__(self) -> None:
        self._buffer = b""
        self._left = 0
        self._step: Callable[[list[bytes]], bool] = self._head
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.complete = False

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection may be used again once the answer is complete."""
        closing = self.headers.get("connection", "").lower() == "close"
        return self.complete and not closing and not self._buffer

    def feed(self, data: bytes) -> list[bytes]:
        """Take in the next bytes.

        Parameters
        ----------
        data : bytes
            Any number of bytes, cut anywhere.

        Returns
        -------
        list of bytes
            Pieces of the body; one a chunk where it is chunked and not cut.

        Raises
        ------
        ProtocolError
            If this is no HTTP/1.1 answer.
        """
        self._buffer = self._buffer + data if self._buffer else data
        pieces: list[bytes] = []
        while self._step(pieces):
            pass
        return pieces

    def close(self) -> None:
        """Take in the end of the connection, which ends a body without a length.

        Raises
        ------
        ProtocolError
            If the answer is not complete.
        """
        if self._step == self._until_close:
            self.complete = True
        if not self.complete:
            part = "in the middle of the answer" if self.status else "before an answer"
            raise ProtocolError(f"server closed the connection {part}")

    def _head(self, _: list[bytes]) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _LONGEST_HEAD or not b"HTTP/1.".startswith(self._buffer[:7]):
                raise ProtocolError(f"no HTTP/1.1 answer: {self._buffer[:40]!r}")
            return False
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        self._buffer = self._buffer[end + 4 :]
        words = first.split(" ", 2)
        if not words[0].startswith("HTTP/1.") or len(words) < 2 or not words[1].isdigit():
            raise ProtocolError(f"no HTTP/1.1 answer: {first[:40]!r}")
        if words[1].startswith("1"):  # an interim answer such as 100 Continue
            return True
        self.status = int(words[1])
        pairs = (line.partition(":") for line in lines)
        self.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        self._step = self._body_kind()
        return True

    def _body_kind(self) -> Callable[[list[bytes]], bool]:
        if self.headers.get("transfer-encoding", "").lower().endswith("chunked"):
            return self._chunk
        length = self.headers.get("content-length")
        if self.status in {204, 304}:
            length = "0"
        if length is None:
            return self._until_close
        if not length.isdigit():
            raise ProtocolError(f"impossible content-length {length[:40]!r}")
        self._left = int(length)
        return self._fixed

    def _chunk(self, pieces: list[bytes]) -> bool:
        """Start of a chunk; the whole of it where it is all there, as it usually is."""
        buffer = self._buffer
        end = buffer.find(b"\r\n")
        if end < 0:
            if len(buffer) > _LONGEST_HEAD:
                raise ProtocolError(f"impossible chunk size {buffer[:40]!r}")
            return False
        try:
            size = int(buffer[:end].split(b";", 1)[0], 16)
        except ValueError:
            raise ProtocolError(f"impossible chunk size {buffer[:end][:40]!r}") from None
        start = end + 2
        if size == 0:
            self._buffer = buffer[start:]
            self._step = self._trailer
            return True
        stop = start + size
        if len(buffer) >= stop + 2:
            pieces.append(buffer[start:stop])
            self._buffer = buffer[stop + 2 :]
            return bool(self._buffer)
        self._buffer = buffer[start:]
        self._left = size
        self._step = self._rest_of_chunk
        return True

    def _rest_of_chunk(self, pieces: list[bytes]) -> bool:
        if self._left:
            self._take(pieces)
        if self._left or len(self._buffer) < 2:
            return False
        self._buffer = self._buffer[2:]
        self._step = self._chunk
        return True

    def _trailer(self, _: list[bytes]) -> bool:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            return False
        self._buffer = self._buffer[end + 2 :]
        if end == 0:
            self.complete = True
            self._step = self._nothing
        return end > 0

    def _fixed(self, pieces: list[bytes]) -> bool:
        if self._left:
            self._take(pieces)
        if not self._left:
            self.complete = True
            self._step = self._nothing
        return False

    def _until_close(self, pieces: list[bytes]) -> bool:
        if self._buffer:
            pieces.append(self._buffer)
            self._buffer = b""
        return False

    def _nothing(self, _: list[bytes]) -> bool:
        return False

    def _take(self, pieces: list[bytes]) -> None:
        piece = self._buffer[: self._left]
        self._buffer = self._buffer[self._left :]
        self._left -= len(piece)
        if piece:
            pieces.append(piece)
