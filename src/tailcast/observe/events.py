"""Server-sent events: from bytes as they arrive to the payloads of complete events."""

from tailcast.observe.response import ProtocolError

_LONGEST_EVENT = 8 * 2**20


class EventReader:
    """Cuts a byte stream into event payloads, whatever the pieces it comes in.

    Comments and fields other than ``data`` are skipped; ``data`` lines of one event are joined by
    a line feed, as the HTML standard (section 9.2) has it.
    """

    __slots__ = ("_data", "_held", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._held = 0
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """Take in the next bytes.

        Parameters
        ----------
        piece : bytes
            Any number of bytes, cut anywhere.

        Returns
        -------
        list of bytes
            Payloads of the events that are complete now.

        Raises
        ------
        ProtocolError
            If an event does not end within 8 MiB.

        Examples
        --------
        >>> reader = EventReader()
        >>> reader.feed(b'data: {"a"'), reader.feed(b":1}\\n\\ndata: [DONE]\\n\\n")
        ([], [b'{"a":1}', b'[DONE]'])
        """
        if not (self._rest or self._data) and _is_one_event(piece):
            return [piece[5:].strip()]
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        events = self._events(lines)
        self._held = 0 if events or not (self._rest or self._data) else self._held + len(piece)
        if self._held > _LONGEST_EVENT:
            raise ProtocolError(f"an event of more than {_LONGEST_EVENT >> 20} MiB has no end")
        return events

    def close(self) -> list[bytes]:
        """Take in the end of the stream.

        Returns
        -------
        list of bytes
            Payload of an event that the server did not end with an empty line, if any.
        """
        lines = [self._rest, b""]
        self._rest = b""
        return self._events(lines)

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events = []
        for raw in lines:
            line = raw.rstrip(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].strip())
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events


def _is_one_event(piece: bytes) -> bool:
    """Whether a piece is exactly one event of one line, which is the usual case."""
    return piece.startswith(b"data:") and piece.endswith(b"\n\n") and piece.count(b"\n") == 2
