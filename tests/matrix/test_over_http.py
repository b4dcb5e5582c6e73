"""Every cell of the table of what is posted over HTTPS, on a real queue manager.

Upholds: I28.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse

import pytest

from onceq.model.http import HttpNames
from onceq.model.identity import guid_text
from onceq.packet.acks import order_ack
from onceq.wire.srmp import convert, envelope
from onceq.wire.srmp.convert import post_of
from tests.matrix import over_http as table
from tests.matrix.crowd import ELSEWHERE_HOST, SOURCES, Crowd
from tests.matrix.daemon import ELSEWHERE
from tests.matrix.over_http import POSTS, WHO
from tests.matrix.speaker import message

pytestmark = [pytest.mark.slow, pytest.mark.tier("rest")]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    made = Crowd(tmp_path_factory.mktemp("http"))
    yield made
    made.close()


def packet(crowd: Crowd, who: str, what: str) -> tuple[bytes, str]:
    """What is posted, and the URL that it is for."""
    guid, host = crowd.guid(who), crowd.secure
    here = f"https://{host.http_at[0]}:{host.http_at[1]}/msmq/private$"
    if what == table.RECEIPT:
        run = crowd.message_of_another(who)
        acked = order_ack(
            own=guid, own_message=crowd.number(), sent_time=int(time.time()), address="",
            destination_manager=host.guid, stream=run.stream, number=run.first_number,
        )  # fmt: skip
        return acked, f"{here}/order_queue$"
    stream = crowd.stream() if what == table.TRANSACTIONAL else 0
    url = {
        table.RECOVERABLE: f"{here}/spare",
        table.TRANSACTIONAL: f"{here}/orders",
        table.FOR_OTHERS: f"https://{ELSEWHERE_HOST}/msmq/private$/spare",
    }[what]
    return message(guid, url, stream=stream, message=crowd.number()), url


def posted(crowd: Crowd, who: str, what: str) -> tuple[str, str]:
    """The status and the text of the answer; "": there is none."""
    data, url = packet(crowd, who, what)
    back = f"https://{SOURCES.get(who, ELSEWHERE)}:9/msmq/private$/order_queue$"
    post = post_of(data, url, crowd.guid(who), HttpNames(frozenset(), back))
    kind, entity = convert.write(
        envelope.write(post.envelope), post.body, guid_text(crowd.guid(who))
    )
    host, _, path = url.partition("://")[2].partition("/")
    head = (
        f"POST /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\n"
        'SOAPAction: "MSMQMessage"\r\n'
        f"Content-Length: {len(entity)}\r\nConnection: close\r\n\r\n"
    )
    with contextlib.suppress(OSError, HTTPException), crowd.https(who) as own:
        own.settimeout(60)
        own.sendall(head.encode() + entity)
        answer = HTTPResponse(own)
        answer.begin()
        return str(answer.status), answer.read().decode()
    return "", ""


def outcome(crowd: Crowd, who: str, what: str) -> str:
    """What becomes of a post."""
    before, parsed = crowd.counts(), crowd.secure.parsed()
    status, text = posted(crowd, who, what)
    changed = {name for name, count in crowd.counts().items() if count != before.get(name, 0)}
    if not status:
        assert not changed
        assert crowd.secure.parsed() == parsed
        return table.CUT
    if status == "200":
        wanted = {table.RECOVERABLE: "spare", table.TRANSACTIONAL: "orders",
                  table.FOR_OTHERS: ELSEWHERE_HOST}.get(what, "")  # fmt: skip
        assert changed <= {wanted}
        return table.TAKEN if changed else table.IGNORED
    assert not changed
    if (status, text) == ("400", "access denied"):
        assert crowd.secure.parsed() == parsed
        return table.UNREAD
    return table.DENIED if (status, text) == ("400", "nack-access-denied") else f"{status} {text}"


@pytest.mark.parametrize("who", WHO)
def test_what_becomes_of_each_post(crowd: Crowd, who: str) -> None:
    assert {what: outcome(crowd, who, what) for what in POSTS} == WHO[who]
