"""HTTP of whoever posts: when he counts as somebody who speaks it."""

from __future__ import annotations

from onceq.model.http import HttpNames
from onceq.model.limits import HANDSHAKE_BYTES_MAX
from onceq.model.settings import Settings
from onceq.wire.mqqb.internal import Closed, Opened
from onceq.wire.srmp.session import Taking

POST = (
    b"POST /msmq/q HTTP/1.1\r\nHost: b\r\nContent-Type: text/xml\r\n"
    b'SOAPAction: "MSMQMessage"\r\nContent-Length: 4\r\n\r\n<x/>'
)


def taking() -> Taking:
    return Taking(
        own_id=b"o" * 16, names=lambda: HttpNames(frozenset(("b",))), settings=Settings(), now_us=0
    )


def test_others_are_told_of_once_a_whole_head_is_there() -> None:
    session = taking()
    head, end = POST.split(b"\r\n\r\n")
    assert session.receive(head, 1) == []
    events = session.receive(b"\r\n\r\n" + end, 1)
    assert isinstance(events[0], Opened)
    session = taking()
    (closed,) = session.receive(b"GET / HTTP/1.1\r\nX: " + b"x" * HANDSHAKE_BYTES_MAX, 1)
    assert isinstance(closed, Closed)


def test_who_asks_before_the_entity_is_told_to_go_on() -> None:
    """Finding K16: curl asks so for each body of more than a megabyte, and waits a second."""
    session = taking()
    head, entity = POST.split(b"\r\n\r\n")
    session.receive(head + b"\r\nExpect: 100-continue\r\n\r\n", 1)
    (said,) = session.take_output()
    assert bytes(said).startswith(b"HTTP/1.1 100 ")
    session.receive(entity, 2)
    assert b"".join(map(bytes, session.take_output())).startswith(b"HTTP/1.1 400 ")
    session.receive(POST, 3)
    assert b"HTTP/1.1 100 " not in b"".join(map(bytes, session.take_output()))
