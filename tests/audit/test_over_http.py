"""Messages that went over HTTP, by names that are mapped, and through a border are no violation.

What arrives there is another packet, written anew by its receiver.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from onceq.audit import command
from onceq.audit.command import Wish
from onceq.model.http import Mappings
from onceq.model.message import Journal
from tests.audit.planting import Row
from tests.conformance.over_http import LOCAL, Q
from tests.history.worlds import HISTORY, Kept

OUTER = "DIRECT=HTTP://gate/msmq/orders"
OVER_TCP = r"DIRECT=OS:B\private$\q"


def told(world: Kept, path: Path) -> Row:
    world.save(path)
    return command.run([str(path)], Wish(settled=True), lambda _: None)


@pytest.fixture
def world() -> Kept:
    made = Kept("A", "B", "C", settings=replace(HISTORY, forward_messages=True))
    made["B"].create("q")
    made["C"].create("q")
    return made


def test_over_http(world: Kept, tmp_path: Path) -> None:
    a, b = world["A"], world["B"]
    a.once(Q, b"1", b"22", journal=Journal.DEADLETTER)
    a.once(f"{Q},{OVER_TCP}", b"333")
    world.run(30)
    assert len(b.receive(LOCAL, count=4)) == 4
    world.run(30)
    found = told(world, tmp_path)
    assert found["violations"] == 0, [
        (s["title"][-30:], [f["fault"] for f in s["faults"]]) for s in found["stories"]
    ]
    assert found["states"] == {"received by an application": 4}


def test_by_a_name_that_its_receiver_maps(world: Kept, tmp_path: Path) -> None:
    a, b = world["A"], world["B"]
    world.gateways["gate"] = "B"
    inward = (("http://gate/msmq/orders", "http://b/msmq/private$/q"),)
    b.http = replace(b.http, mappings=Mappings(inward))
    assert b.engine is not None
    b.engine.http = b.http
    a.once(OUTER, b"1", b"2")
    world.run(30)
    assert len(b.receive(LOCAL, count=2)) == 2
    found = told(world, tmp_path)
    assert found["violations"] == 0, [
        (s["title"][-30:], [f["fault"] for f in s["faults"]]) for s in found["stories"]
    ]


def test_through_a_border(world: Kept, tmp_path: Path) -> None:
    a, b, c = (world[name] for name in "ABC")
    world.gateways["gate"] = "B"
    world.http_dark |= {("A", "c"), ("C", "a")}
    inward = (("http://gate/msmq/orders", "http://c/msmq/private$/q"),)
    b.http = replace(b.http, mappings=Mappings(inward), forward=True)
    c.http = replace(c.http, mappings=Mappings(outbound=(("http://a/*", "http://b/"),)))
    for node in (b, c):
        assert node.engine is not None
        node.engine.http = node.http
    a.once(OUTER, b"m1", b"m2", journal=Journal.DEADLETTER)
    world.run(30)
    assert len(c.receive(LOCAL, count=2)) == 2
    world.run(30)
    found = told(world, tmp_path)
    assert found["violations"] == 0, [
        (s["title"][-30:], [f["fault"] for f in s["faults"]]) for s in found["stories"]
    ]
