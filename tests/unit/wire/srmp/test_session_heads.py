"""Heads of requests are judged before anything of the body is read."""

from __future__ import annotations

from typing import Any

import h11
import pytest

from onceq.model.http import HttpNames
from onceq.model.limits import HANDSHAKE_BYTES_MAX, HTTP_ENTITY_BYTES_MAX
from onceq.model.settings import Settings
from onceq.wire.mqqb.internal import Closed, Event, Opened
from onceq.wire.srmp.session import Taking

FIELDS = {
    "Host": "b",
    "Content-Type": "text/xml",
    "SOAPAction": '"MSMQMessage"',
    "Content-Length": "4",
}
"""What every request of a queue manager has."""
MIXED = 'Multipart/Related; boundary="MSMQ - SOAP boundary, 26500"; type=text/xml'


def taking(*, granted: bool = True) -> Taking:
    return Taking(
        own_id=b"o" * 16, names=lambda: HttpNames(frozenset(("b",))), settings=Settings(),
        now_us=0, granted=lambda: granted,
    )  # fmt: skip


def head(method: str = "POST", **changed: str | None) -> bytes:
    """A head with these fields in place of those; None: without it."""
    fields = FIELDS | {name.replace("_", "-"): value for name, value in changed.items()}
    lines = [f"{name}: {value}\r\n" for name, value in fields.items() if value is not None]
    return (f"{method} /msmq/q HTTP/1.1\r\n" + "".join(lines) + "\r\n").encode()


def said(session: Taking) -> bytes:
    return b"".join(map(bytes, session.take_output()))


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


PAGES: dict[str, dict[str, str | None]] = {
    "a form": {"Content_Type": "text/plain", "Origin": "https://evil.example"},
    "a page of another host": {"Origin": "https://evil.example"},
    "a page without an origin": {"Origin": "null"},
    "a page of a name that leads here": {"Origin": "http://b"},
    "a browser": {"Sec_Fetch_Site": "same-origin"},
    "any word of a browser": {"sec_fetch_Mode": "no-cors"},
}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_requests_of_web_pages_are_refused(page: dict[str, str | None]) -> None:
    session = taking()
    assert session.receive(head("POST", **page), 1) == [], "nobody has spoken who may"
    answer = said(session)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"Connection: close" in answer
    assert answer.endswith(b"web pages post no messages here")
    assert kinds(session.receive(b"<x/>", 2)) == ["Closed"]


@pytest.mark.parametrize(
    ("status", "changed"),
    [
        (400, {"SOAPAction": None}),
        (411, {"Content_Length": None}),
        (411, {"Content_Length": None, "Transfer_Encoding": "chunked"}),
        (413, {"Content_Length": str(HTTP_ENTITY_BYTES_MAX + 1)}),
        (415, {"Content_Type": None}),
        (415, {"Content_Type": "text/plain"}),
        (415, {"Content_Type": "text/plain; a=text/xml"}),
        (415, {"Content_Type": "application/x-www-form-urlencoded"}),
        (415, {"Content_Type": "multipart/form-data; boundary=x"}),
        (405, {"method": "GET"}),
    ],
)
def test_what_no_queue_manager_sends_is_refused(status: int, changed: dict[str, Any]) -> None:
    session = taking()
    session.receive(head(**changed), 1)
    assert said(session).startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize("kind", ["text/xml", "text/xml; charset=UTF-8", "TEXT/XML", MIXED])
def test_what_queue_managers_send_is_taken(kind: str) -> None:
    session = taking()
    (opened,) = session.receive(head(Content_Type=kind), 1)
    assert isinstance(opened, Opened)
    assert said(session) == b""


def test_who_may_send_nowhere_may_post_what_a_receipt_takes() -> None:
    session = taking(granted=False)
    size = HANDSHAKE_BYTES_MAX
    assert kinds(session.receive(head(Content_Length=str(size)), 1)) == ["Opened"]
    session = taking(granted=False)
    asked = head(Content_Length=str(size + 1), Expect="100-continue")
    assert session.receive(asked, 1) == []
    answer = said(session)
    assert answer.startswith(b"HTTP/1.1 400 "), "and it is not told to go on"
    assert answer.endswith(b"access denied")


def test_a_refused_body_is_dropped_and_its_sender_hears_why() -> None:
    """It may read only when it has sent everything."""
    size = 1 << 20
    session = taking(granted=False)
    session.receive(head(Content_Length=str(size)) + b"x" * 100, 1)
    assert said(session).endswith(b"access denied")
    assert session.receive(b"x" * (size - 101), 2) == []
    assert not session._http.body
    assert kinds(session.receive(b"x", 3)) == ["Closed"]
    assert session.receive(b"x", 4) == []


def test_what_comes_behind_a_refused_request_is_not_read() -> None:
    session = taking()
    session.receive(head(Origin="null") + b"<x/>" + head() + b"<x/>", 1)
    assert said(session).count(b"HTTP/1.1 ") == 1
    assert session.receive(head() + b"<x/>", 2) == []


def test_a_refused_sender_that_goes_on_is_cut_off() -> None:
    session = taking()
    session.receive(head(Content_Length=None, Transfer_Encoding="chunked"), 1)
    taken = 0
    while not session.receive(b"1\r\nx\r\n" * 10_000, 2):
        taken += 60_000
    assert taken <= HTTP_ENTITY_BYTES_MAX
    session = taking()
    session.receive(head(Content_Length=None, Transfer_Encoding="chunked"), 1)
    due = session.next_timer()
    assert due is not None
    (closed,) = session.tick(due)
    assert isinstance(closed, Closed)


def test_bytes_in_small_pieces_cost_what_they_weigh(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk of one byte cost a whole turn of the parser, and 70 bytes of memory (finding S14)."""
    turns = 0
    kept = h11.Connection.next_event

    def counted(self: h11.Connection) -> Any:
        nonlocal turns
        turns += 1
        return kept(self)

    monkeypatch.setattr(h11.Connection, "next_event", counted)
    session = taking()
    session.receive(head(Content_Length=None, Transfer_Encoding="chunked"), 1)
    for _ in range(20):
        session.receive(b"1\r\nx\r\n" * 1_000, 2)
    assert turns == 1, "no chunk is taken apart"
    assert not session._http.body

    turns, session = 0, taking()
    session.receive(head(Content_Length="2000"), 1)
    for _ in range(1_999):
        session.receive(b"x", 2)
    assert turns <= 2 * 2_000, "each piece that the network brings is looked at once"
    assert len(session._http.body) == 1_999, "and kept as what it is"
