"""Who posts and is nobody, where nobody has a right: nothing of it is read, one answer is given."""

from __future__ import annotations

import pytest

from onceq.model.limits import HANDSHAKE_BYTES_MAX
from onceq.wire.mqqb.internal import Closed
from onceq.wire.srmp.session import Stranger


def post(entity: bytes, method: str = "POST") -> bytes:
    head = f"{method} /msmq/private$/q HTTP/1.1\r\nHost: b\r\nContent-Type: text/xml\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(entity) + entity


def answered(session: Stranger, data: bytes, step: int) -> tuple[bytes, list[str]]:
    """What is answered, and what has happened."""
    events: list[str] = []
    for at in range(0, len(data), step):
        events += [type(one).__name__ for one in session.receive(data[at : at + step], 1)]
    return b"".join(map(bytes, session.take_output())), events


REQUESTS = {
    "post": post(b"<x/>"),
    "get": post(b"", "GET"),
    "long": post(b"x" * (1 << 20)),
    "empty": post(b""),
    "version": b"GET / HTTP/7.0\r\n\r\n",
    "no HTTP": b"\x00\x01\r\n\r\n",
    "long head": b"GET / HTTP/1.1\r\nX: " + b"x" * (1 << 20),
    "chunks": b"POST / HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "two": post(b"<x/>") + post(b"<y/>"),
}


@pytest.mark.parametrize("step", [1 << 22, 997])
def test_one_answer_to_whatever_comes(step: int) -> None:
    said = {name: answered(Stranger(), data, step) for name, data in REQUESTS.items()}
    assert len({answer for answer, _ in said.values()}) == 1, said
    answer, _ = said["post"]
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"Connection: close" in answer
    assert answer.endswith(b"\r\n\r\naccess denied")
    assert all(events == [Closed.__name__] for _, events in said.values()), said


def test_what_is_kept_of_it_is_bounded() -> None:
    session = Stranger()
    data = post(b"x" * (1 << 20))
    taken = 0
    for at in range(0, len(data), 1_000):
        taken += 1_000
        if session.receive(data[at : at + 1_000], 1):
            break
    assert taken < HANDSHAKE_BYTES_MAX
