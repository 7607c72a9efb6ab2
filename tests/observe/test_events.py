"""Server-sent events, however they are cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailcast.observe.events import EventReader
from tailcast.observe.response import ProtocolError, ResponseParser

_PAYLOADS = st.lists(st.binary(min_size=1, max_size=20).map(lambda b: b.hex().encode()), max_size=8)


def _cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(_PAYLOADS, st.lists(st.integers(0, 10_000), max_size=12), st.sampled_from(["\n", "\r\n"]))
def test_events_do_not_depend_on_how_the_stream_is_cut(
    payloads: list[bytes], places: list[int], end: str
) -> None:
    line = end.encode()
    data = b"".join(b"data: " + payload + line + line for payload in payloads)
    reader = EventReader()
    seen = [event for piece in _cut(data, places) for event in reader.feed(piece)]
    assert seen == payloads
    assert reader.close() == []


def test_comments_and_other_fields_are_no_events() -> None:
    reader = EventReader()
    assert reader.feed(b": ping\n\nevent: x\nid: 3\ndata: 1\n\nretry: 5\n\n") == [b"1"]


def test_lines_of_one_event_are_joined() -> None:
    assert EventReader().feed(b"data: a\ndata: b\n\n") == [b"a\nb"]


def test_an_event_without_its_empty_line_comes_at_the_end() -> None:
    reader = EventReader()
    assert reader.feed(b"data: last") == []
    assert reader.close() == [b"last"]


@pytest.mark.parametrize("line", [b"", b"data: 1\n"])
def test_an_event_without_an_end_is_given_up(line: bytes) -> None:
    reader, piece = EventReader(), (line or b"x") * (2**20 // len(line or b"x"))
    for _ in range(7):
        assert reader.feed(piece) == []
    with pytest.raises(ProtocolError, match="no end"):
        reader.feed(2 * piece)
    whole = EventReader()
    for _ in range(40):  # control: as many bytes in events that end
        assert len(whole.feed(b"data: " + b"x" * 2**18 + b"\n\n")) == 1


def test_a_chunk_size_without_an_end_is_given_up() -> None:
    parser = ResponseParser()
    parser.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    with pytest.raises(ProtocolError, match="chunk size"):
        parser.feed(b"1" * 70_000)
