"""What waits in a stream that its receiver has left, at the edges: copies, crashes, twice."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from onceq.testing.disk import Plan
from onceq.testing.links import faithful
from proof.sim.base.packets import names_end
from tests.conformance.copies import dead, image, twin_of
from tests.conformance.policies import settling
from tests.conformance.stranding import LOCAL, Q, forget_all, newer, stranded
from tests.conformance.world import World, fast


@pytest.fixture
def world() -> World:
    world = World("A", "B")
    world["B"].create("q")
    return world


@pytest.mark.parametrize("kept", range(5))
def test_what_an_undone_life_has_sent_is_not_sent_again_after_a_crash(kept: int) -> None:
    """A machine that was rolled back notices it, and has forgotten it in a crash when it hears
    what became of its messages. These never left it; by the life that is undone they arrived."""
    world = World("A", "B", settings=fast(unacknowledged_messages_max=3))
    world["B"].create("q")
    a, b = world["A"], world["B"]
    a.once(Q, b"1")
    world.run(1)
    newer(world, a)
    world.cut("A", "B")
    many = [b"%03d" % n for n in range(12)]  # more than leave before anything is answered
    a.once(Q, *many)
    snapshot = image(a)
    world.mend("A", "B")
    world.run(120)
    assert b.bodies(LOCAL) == [b"1", b"N", *many]
    a.kill()
    a.files = snapshot.image(Plan((), ()))  # and nothing tells that it is not the same directory
    world.link("A", "B").policy = settling(kept)
    a.start()
    world.run(40)
    a.crash()
    a.start()
    world.link("A", "B").policy = faithful
    world.run(200)
    assert b.bodies(LOCAL) == [b"1", b"N", *many], "once"
    assert dead(a) == dict.fromkeys(many, 0xC003)
    assert a.look("outgoing-queue", Q).messages == 0


@pytest.mark.parametrize("kept", range(5))
def test_what_a_copy_has_sent_is_not_sent_again_after_a_restart(kept: int) -> None:
    """The original learns that it runs twice, and both have forgotten it in a restart when it hears
    what became of its messages: their receiver does not know. Most never left the original."""
    world = World("A", "B", settings=fast(unacknowledged_messages_max=1))
    world["B"].create("q")
    a, b = world["A"], world["B"]
    a.once(Q, b"0")
    world.run(5)
    world.cut("A", "B")
    world.run(60)
    a.once(Q, b"1", b"2", b"3")
    world.run(5)
    a.kill()
    world.mend("A", "B")
    twin = twin_of(world, a, image(a))
    twin.once(Q, b"4")
    world.run(120)
    assert b.bodies(LOCAL) == [b"0", b"1", b"2", b"3", b"4"]
    forget_all(b)
    twin.kill()
    world.link("A", "B").policy = settling(kept)
    a.start()
    world.run(40)
    world.cut("A", "B")
    world.run(60)
    for node in (a, b):
        node.kill()
        node.start()
    forget_all(b)
    world.mend("A", "B")
    world.link("A", "B").policy = faithful
    world.run(200)
    assert b.bodies(LOCAL) == [b"0", b"1", b"2", b"3", b"4"], "once"
    assert dead(a) == dict.fromkeys([b"1", b"2", b"3"], 0xC003)


def test_what_is_stranded_twice_is_settled_twice(world: World) -> None:
    a, b = world["A"], world["B"]
    stranded(world, b"1", b"2", b"3")
    link = world.link("A", "B")
    link.policy = faithful
    world.run(120)
    assert b.bodies(LOCAL) == [b"1", b"N", b"2", b"3"]
    a.once(Q, b"1")
    world.run(5)
    kept = [p for p in link.data() if p.stream == a.look("outgoing-queue", Q).stream][-1]
    packet = bytearray(kept.packet)
    at, _ = names_end(packet, 0)
    struct.pack_into("<QII", packet, at + 4, kept.stream + (1 << 32), 1, 0)
    start = packet.index(b"1", at + 20 + 56)
    packet[start : start + 1] = b"M"
    link.inject(replace(kept, packet=bytes(packet)))
    world.run(0.5)
    a.once(Q, b"4", b"5")
    world.run(200)
    assert b.bodies(LOCAL) == [b"1", b"N", b"2", b"3", b"1", b"M", b"4", b"5"]
    assert dead(a) == {}


@pytest.mark.parametrize("kept", range(5))
def test_what_a_later_life_sends_goes_on_behind_what_was_stranded(world: World, kept: int) -> None:
    """The life that began the new stream ends before it has moved its messages there."""
    a, b = world["A"], world["B"]
    stranded(world, b"1", b"2", b"3")
    world.link("A", "B").policy = settling(kept)
    world.run(100)
    a.crash()
    a.start()
    a.once(Q, b"4")
    a.once(Q, b"5")
    world.run(2)
    world.link("A", "B").policy = faithful
    world.run(200)
    assert b.bodies(LOCAL) == [b"1", b"N", b"2", b"3", b"4", b"5"]
    assert dead(a) == {}
    assert a.look("outgoing-queue", Q).messages == 0
    a.once(Q, b"6")
    world.run(5)
    assert b.bodies(LOCAL)[-1] == b"6"
