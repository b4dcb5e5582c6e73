"""A world in which operators do what they may, and somebody what he may not."""

from __future__ import annotations

import contextlib
from pathlib import Path

from onceq.core.inputs import Witnessed
from onceq.errors import AccessDenied
from onceq.model.marks import marked
from tests.conformance.world import Node
from tests.history.worlds import Kept, save, somebody

Q, TO = r"private$\q", r"DIRECT=OS:B\private$\q"
SLOW, GONE = r"private$\slow", r"private$\gone"


def refused(node: Node) -> None:
    """Mallory tries to purge a queue."""
    somebody(node, "mallory", free=False)
    with contextlib.suppress(AccessDenied):
        node.purge(Q)
    somebody(node)


def administered(path: Path) -> Path:
    """Two managers; B is purged, loses a queue, is killed and joined; A returns a dead letter."""
    world = Kept("A", "B")
    a, b = world["A"], world["B"]
    for node in (a, b):
        somebody(node)
    for name in ("q", "slow", "gone"):
        b.create(name)
    a.once(TO, *[b"%d" % at for at in range(6)])
    a.once(r"DIRECT=OS:B\private$\slow", b"purged", b"too")
    a.once(r"DIRECT=OS:B\private$\gone", b"deleted")
    world.run(20)
    b.purge("./PRIVATE$/slow")
    world.run(6)
    b.receive(Q, count=4)
    refused(b)
    b.kill()
    world.run(6)
    b.start()
    somebody(b, "bob")
    b.delete(GONE)
    world.run(6)
    b.running.submit(Witnessed("peer:gamma", "10.0.0.9", "join", "GAMMA"))
    a.once(TO, b"came back", extension=marked(b"", 1))
    world.run(400)
    for name in "AB":
        save(world.told(name), path / name)
    return path
