"""What the tests of messages over HTTP share: two managers, and what passed between them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from onceq.model.http import Mappings
from tests.conformance.world import World, Worlds, fast

Q = "DIRECT=HTTP://b/msmq/private$/q"
GATE = "DIRECT=HTTP://gate/msmq/orders"
LOCAL = r"private$\q"
DEAD = "system$;deadxact"
PLAIN = "DIRECT=HTTP://b/msmq/private$/plain"
JOURNAL = "system$;journal"
DEAD_PLAIN = "system$;deadletter"


def pair(worlds: Worlds) -> World:
    """A, which sends, and B with a transactional queue and a plain one."""
    made = worlds("A", "B", settings=fast(connect_retry_s=1.0))
    made["B"].create("q")
    made["B"].create("plain", transactional=False)
    made["A"].create("acks", transactional=False)
    return made


def outgoing(node: Any, name: str = Q) -> Any:
    return node.look("outgoing-queue", name)


def answers(world: World) -> list[int]:
    """Status codes of all answers, in the order of the connections."""
    found: list[int] = []
    for wire in world.http:
        found += map(int, re.findall(rb"HTTP/1\.1 (\d{3})", bytes(wire.said[1])))
    return found


def posts(world: World, by: str) -> bytes:
    """All that a manager has posted."""
    return b"".join(bytes(w.said[0]) for w in world.http if w.names[0] == by)


def requests(world: World, by: str) -> list[tuple[str, bytes]]:
    """Content type and entity of each request of a manager, in the order of the connections."""
    found, data = [], posts(world, by)
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        kind = re.search(rb"Content-Type: ([^\r]*)", head)
        size = re.search(rb"Content-Length: (\d+)", head)
        assert kind is not None
        assert size is not None
        found.append((kind[1].decode(), rest[: int(size[1])]))
        data = rest[int(size[1]) :]
    return found


def behind_a_gateway(world: World, *, mapped: bool) -> None:
    """B is known outside as gate; A is not reached from there but through its own gateway."""
    a, b = world["A"], world["B"]
    world.gateways.update({"gate": "B", "gate-a": "A"})
    world.http_dark.add(("B", "a"))
    inward = (("http://gate/msmq/orders", "http://b/msmq/private$/q"),)
    b.http = replace(b.http, mappings=Mappings(inward))
    own = a.http.own | {"gate-a"}
    receipts = (("http://gate/*", "http://gate-a/msmq/private$/order_queue$"),)
    mappings = Mappings(receipts=receipts if mapped else ())
    a.http = replace(a.http, own=own, mappings=mappings)
    for node in (a, b):
        assert node.engine is not None
        node.engine.http = node.http


def posted(world: World, entity: bytes, kind: str = "text/xml", *, to: str = "A") -> bytes:
    """What a manager answers to a stranger."""
    node = world[to]
    said: list[bytes] = []

    class Stranger:
        writable = True

        def write(self, pieces: Any) -> None:
            said.extend(map(bytes, pieces))

        def close(self) -> None:
            said.append(b"(closed)")

    assert node.engine is not None
    session = node.engine.sessions.accepted_http(Stranger(), "10.9.9.9")
    head = f"POST /msmq/x HTTP/1.1\r\nHost: {to.lower()}\r\nContent-Type: {kind}\r\n"
    head += 'SOAPAction: "MSMQMessage"\r\n'
    data = head.encode() + b"Content-Length: %d\r\n\r\n" % len(entity) + entity
    for at in range(0, len(data), 100):
        node.engine.sessions.data(session, data[at : at + 100])
    node.pump()
    world.run(0.01)
    return b"".join(said)
