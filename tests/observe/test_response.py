"""HTTP/1.1 answers, however they are cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailcast.observe.response import ProtocolError, ResponseParser

_BODY = st.lists(st.binary(min_size=1, max_size=30), max_size=6)
_PLACES = st.lists(st.integers(0, 10_000), max_size=12)


def _fed(data: bytes, places: list[int]) -> tuple[ResponseParser, bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    parser, body = ResponseParser(), b""
    for a, b in itertools.pairwise(edges):
        body += b"".join(parser.feed(data[a:b]))
    return parser, body


@given(_BODY, _PLACES)
def test_chunked_bodies_do_not_depend_on_how_they_are_cut(
    chunks: list[bytes], places: list[int]
) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Name: v\r\n\r\n"
    data = head + b"".join(b"%x;ext=1\r\n%s\r\n" % (len(c), c) for c in chunks) + b"0\r\n\r\n"
    parser, body = _fed(data, places)
    assert body == b"".join(chunks)
    assert (parser.status, parser.headers["x-name"]) == (200, "v")
    assert parser.complete
    assert parser.keeps_alive


@given(st.binary(max_size=60), _PLACES)
def test_bodies_of_a_stated_length_end_there(body: bytes, places: list[int]) -> None:
    data = b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    parser, seen = _fed(data, places)
    assert (seen, parser.status, parser.complete) == (body, 404, True)


@given(st.binary(max_size=60), _PLACES)
def test_bodies_without_a_length_end_with_the_connection(body: bytes, places: list[int]) -> None:
    parser, seen = _fed(b"HTTP/1.0 200 OK\r\n\r\n" + body, places)
    assert seen == body
    assert not parser.complete
    parser.close()
    assert parser.complete


def test_one_chunk_is_one_piece() -> None:
    parser = ResponseParser()
    parser.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert parser.feed(b"3\r\nabc\r\n2\r\nde\r\n") == [b"abc", b"de"]


def test_trailers_and_interim_answers_are_skipped() -> None:
    parser = ResponseParser()
    data = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"1\r\nx\r\n0\r\nTrailer: 1\r\n\r\n"
    )
    assert parser.feed(data) == [b"x"]
    assert parser.complete


def test_a_connection_that_the_server_will_close_is_not_kept() -> None:
    parser = ResponseParser()
    parser.feed(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    assert parser.complete
    assert not parser.keeps_alive


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 oops\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_http_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        ResponseParser().feed(data)


def test_a_connection_closed_too_early_is_an_error() -> None:
    parser = ResponseParser()
    parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
    with pytest.raises(ProtocolError, match="in the middle"):
        parser.close()
    with pytest.raises(ProtocolError, match="before an answer"):
        ResponseParser().close()
