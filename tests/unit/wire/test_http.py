"""The accepting side of a connection over HTTP, and that all who use it refuse alike."""

from __future__ import annotations

import asyncio

import pytest

from onceq.model.http import HttpNames
from onceq.model.limits import HANDSHAKE_BYTES_MAX, HTTP_ENTITY_BYTES_MAX, WATCH_HEAD_BYTES_MAX
from onceq.model.settings import Settings
from onceq.service.peer_transports import Entrance
from onceq.wire.http import HttpRequest, Refusal, ServedConnection
from onceq.wire.srmp.session import Taking
from tests.unit.service.looped import Host
from tests.unit.service.looped import run as run_loop

HOST = b"Host: localhost\r\n"
POST = b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabc"


class Side:
    """A connection that refuses what is put, and what it says."""

    def __init__(self) -> None:
        self.output = bytearray()
        self.heads: list[HttpRequest] = []
        self.connection = ServedConnection(self._judge, self.output.extend, 1_000)

    def _judge(self, head: HttpRequest) -> Refusal | None:
        self.heads.append(head)
        return Refusal(403, "no") if head.method == b"PUT" else None

    def take(self, data: bytes) -> HttpRequest | Refusal | None:
        self.connection.receive(data)
        return self.connection.next_request()

    @property
    def statuses(self) -> list[int]:
        lines = bytes(self.output).split(b"\r\n")
        return [int(line.split()[1]) for line in lines if line.startswith(b"HTTP/1.1 ")]


def test_a_request_is_whole_or_is_not_there() -> None:
    side = Side()
    for at in range(len(POST) - 1):
        assert side.take(POST[at : at + 1]) is None
    assert side.connection.halfway
    found = side.take(POST[-1:])
    assert isinstance(found, HttpRequest)
    assert (found.method, found.target, found.body) == (b"POST", b"/a", b"abc")
    assert (found.field(b"host"), found.field(b"accept")) == ("localhost", "")
    assert [head.body for head in side.heads] == [b""], "judged before its body came"
    assert not side.connection.halfway


def test_the_next_request_waits_for_the_answer_to_the_one_before() -> None:
    side = Side()
    assert isinstance(side.take(POST + POST), HttpRequest)
    assert side.connection.next_request() is None
    side.connection.answer(200, last=False)
    assert isinstance(side.connection.next_request(), HttpRequest)
    side.connection.answer(200, b"x", last=True)
    side.connection.receive(POST)
    assert side.connection.next_request() is None, "the answer was the last one"
    assert side.statuses == [200, 200]


def test_what_waits_behind_a_request_is_bounded() -> None:
    side = Side()
    assert isinstance(side.take(POST), HttpRequest)
    side.connection.receive(b"x" * HTTP_ENTITY_BYTES_MAX)
    assert not side.connection.over
    side.connection.receive(b"x")
    assert "without waiting" in side.connection.over
    side.connection.answer(200, last=False)
    assert side.connection.next_request() is None


def test_an_answer_to_head_says_its_size_and_has_no_content() -> None:
    side = Side()
    assert isinstance(side.take(b"HEAD /a HTTP/1.1\r\n" + HOST + b"\r\n"), HttpRequest)
    side.connection.answer(404, b"nothing", last=False)
    assert side.output.endswith(
        b"Content-Length: 7\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"
    )
    side.output.clear()
    assert isinstance(side.take(b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n"), HttpRequest)
    side.connection.answer(404, b"nothing", last=False)
    assert side.output.endswith(b"\r\n\r\nnothing"), "the next one has"


def test_an_answer_has_the_fields_that_it_is_given() -> None:
    side = Side()
    side.take(POST)
    side.connection.answer(405, b"{}", "application/json", (("Allow", "GET"),), last=True)
    assert bytes(side.output) == (
        b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 2\r\n"
        b"Content-Type: application/json\r\nAllow: GET\r\nConnection: close\r\n\r\n{}"
    )


def test_the_rest_of_a_refused_request_is_dropped_unread() -> None:
    side = Side()
    put = POST.replace(b"POST", b"PUT")
    assert side.take(put[:-2]) == Refusal(403, "no")
    side.connection.answer(403, b"no", last=True)
    before = side.connection.over
    assert side.connection.next_request() is None
    assert side.take(b"bc" + POST) is None
    assert (before, bool(side.connection.over)) == ("", True)
    assert not side.connection.body
    assert len(side.heads) == 1


ALIKE: dict[str, tuple[int, bytes]] = {
    "no head": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    "an empty line first": (400, b"\r\nGET /health/live HTTP/1.1\r\n" + HOST + b"\r\n"),
    "two spaces": (400, b"GET  /health/live HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a target beyond ASCII": (400, b"GET /\xff HTTP/1.1\r\n" + HOST + b"\r\n"),
    "no host": (400, b"GET /health/live HTTP/1.1\r\n\r\n"),
    "two hosts": (400, b"GET /health/live HTTP/1.1\r\n" + 2 * HOST + b"\r\n"),
    "a space in a name": (400, b"GET / HTTP/1.1\r\n" + HOST + b"Bad Head: 1\r\n\r\n"),
    "a space before the colon": (400, b"GET / HTTP/1.1\r\n" + HOST + b"A : 1\r\n\r\n"),
    "a NUL": (400, b"GET / HTTP/1.1\r\n" + HOST + b"A: \x00\r\n\r\n"),
    "no length": (400, b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: x\r\n\r\n"),
    "a length below zero": (400, b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n"),
    "two lengths": (
        400, b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ),
    "an encoding that nobody knows": (
        501, b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip\r\n\r\n",
    ),
}  # fmt: skip
"""Heads that RFC 9112 forbids, or leaves to the server to refuse."""


def of_srmp(data: bytes) -> bytes:
    session = Taking(
        own_id=b"o" * 16, names=lambda: HttpNames(frozenset(("localhost",))), settings=Settings(),
        now_us=0,
    )  # fmt: skip
    session.receive(data, 1)
    return b"".join(map(bytes, session.take_output()))


def of_watching(*requests: bytes) -> list[bytes]:
    found: list[bytes] = []

    async def work() -> None:
        host = Host()
        where = await host.network.listen(Entrance.WATCHERS, "127.0.0.1:0")
        for data in requests:
            reader, writer = await asyncio.open_connection(*where.split(":"))
            writer.write(data)
            found.append(await reader.read())
            writer.close()
        await host.network.shut()
        assert not host.failures

    run_loop(work)
    return found


def parse_answer(answer: bytes) -> tuple[bytes, bytes, bytes, bool]:
    """The first line, the kind of content, the content, and whether the connection ends."""
    head, _, content = answer.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    fields = dict(line.split(b": ", 1) for line in lines)
    ends = fields.get(b"Connection") == b"close"
    return first, fields[b"Content-Type"], content.rstrip(b"\n"), ends


def test_all_refuse_what_is_not_http_alike() -> None:
    data = [data for _, data in ALIKE.values()]
    for (name, (status, _)), posted, watched in zip(
        ALIKE.items(), map(of_srmp, data), of_watching(*data), strict=True
    ):
        assert posted.split()[1] == b"%d" % status, name
        assert parse_answer(posted) == parse_answer(watched), name


@pytest.mark.parametrize("limit", [WATCH_HEAD_BYTES_MAX, HANDSHAKE_BYTES_MAX])
def test_a_head_without_an_end_is_too_large_for_all(limit: int) -> None:
    data = b"GET /" + b"a" * limit
    answer = of_srmp(data) if limit == HANDSHAKE_BYTES_MAX else of_watching(data)[0]
    first, _, content, ends = parse_answer(answer)
    assert (first, ends) == (b"HTTP/1.1 431 Request Header Fields Too Large", True)
    assert content == b"not HTTP"
