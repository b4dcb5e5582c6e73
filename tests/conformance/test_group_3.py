"""Conformance cases of group 3: exactly-once in-order delivery on the wire."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onceq.errors import ReceiveTimeout
from onceq.model.limits import DUPLICATE_AGE_S_MAX
from onceq.model.message import Delivery, Journal
from onceq.model.resultcodes import MessageClass
from onceq.packet.acks import ORDER_QUEUE_NUMBER, parse_order_ack
from onceq.testing import disk
from onceq.testing.links import Passing, faithful
from tests.conformance.policies import drop, no_order_acks, up_to
from tests.conformance.world import World, Worlds, fast, routed

Q = r"DIRECT=OS:B\private$\q"
LOCAL = r"private$\q"
DEAD = "SYSTEM$;DEADXACT"
S = 1_000_000


@pytest.fixture
def world(worlds: Worlds) -> World:
    world = worlds("A", "B")
    world["B"].create("q")
    return world


def numbers(world: World) -> list[tuple[int, int]]:
    return [(p.number, p.previous) for p in world.link("A", "B").data()]


def test_case_040_041_numbers_and_links(world: World) -> None:
    world["A"].once(Q, b"1", b"2")
    world["A"].once(Q, b"3")
    world["A"].once(Q, b"4", b"5")
    world.run(0.3)
    assert numbers(world) == [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4)]
    assert len({p.stream for p in world.link("A", "B").data()}) == 1


@pytest.mark.parametrize("apart_us", [1000, 3 * S], ids=["at once", "after its stream"])
def test_case_042_every_packet_twice(world: World, apart_us: int) -> None:
    """The second copy may come when the stream is over, and another has begun."""
    world.link("A", "B").policy = lambda p: [(0, p), (apart_us, p)]
    bodies = [b"%d" % n for n in range(20)]
    for body in bodies[:10]:
        world["A"].once(Q, body)
    world.run(2)
    for body in bodies[10:]:
        world["A"].once(Q, body)
    world.run(1)
    assert world["B"].receive(LOCAL).bodies() == bodies[:1], "also of what is not there any more"
    world.run(60)
    assert world["B"].bodies(LOCAL) == bodies[1:]
    assert len({p.stream for p in world.link("A", "B").data()}) == 2
    (stream,) = world["B"].look("streams")
    assert stream.duplicates > 0
    assert (stream.stale > 0) is (apart_us > S)


def test_case_043_second_packet_dropped_once(world: World) -> None:
    dropped: list[int] = []

    def policy(p: Passing) -> list[tuple[int, Passing]]:
        if p.number == 2 and not dropped:
            dropped.append(2)
            return []
        return faithful(p)

    world.link("A", "B").policy = policy
    world["A"].once(Q, b"1", b"2", b"3")
    world.run(1)
    assert world["B"].bodies(LOCAL) == [b"1", b"2", b"3"]
    assert sorted(p.number for p in world.link("A", "B").data()) == [1, 2, 2, 3]


def test_case_044_packets_in_the_order_3_2_1(world: World) -> None:
    delays = {1: 3000, 2: 2000, 3: 1000}
    first: set[int] = set()

    def policy(p: Passing) -> list[tuple[int, Passing]]:
        if p.number in delays and p.number not in first:
            first.add(p.number)
            return [(delays[p.number], p)]
        return faithful(p)

    world.link("A", "B").policy = policy
    world["A"].once(Q, b"1", b"2", b"3")
    world.run(1)
    assert world["B"].bodies(LOCAL) == [b"1", b"2", b"3"]
    world.run(60)
    assert world["B"].bodies(LOCAL) == [b"1", b"2", b"3"]
    assert world["A"].look("outgoing-queue", Q).messages == 0


def test_case_046_resends_while_acknowledgments_are_lost(world: World) -> None:
    world.link("A", "B").policy = no_order_acks
    world["A"].once(Q, b"1", b"2")
    world.run(95)
    sent = numbers(world)
    assert sent == [(1, 0), (2, 1)] * 4
    assert len({(p.stream, p.number) for p in world.link("A", "B").data()}) == 2
    assert world["B"].bodies(LOCAL) == [b"1", b"2"]
    (stream,) = world["B"].look("streams")
    assert stream.rejects == 6
    acks = [parse_order_ack(ack.packet) for ack in world.link("A", "B").order_acks()]
    assert len(acks) >= 4
    assert {(ack.stream, ack.number) for ack in acks} == {(stream.stream, 2)}
    world.link("A", "B").policy = faithful
    world.run(300)
    assert len(numbers(world)) == 10
    assert world["A"].look("outgoing-queue", Q).messages == 0
    world.run(86_400)
    assert len(numbers(world)) == 10, "it is known now, and not sent again"
    assert world["B"].bodies(LOCAL) == [b"1", b"2"]


def test_case_047_partial_acknowledgment(world: World) -> None:
    link = world.link("A", "B")
    held: list[Passing] = []

    def policy(p: Passing) -> list[tuple[int, Passing]]:
        if p.kind == 1:
            held.append(p)
            return []
        return [] if p.number > 3 else faithful(p)

    link.policy = policy
    world["A"].once(Q, b"1", b"2", b"3", b"4", b"5")
    world.run(2)
    assert parse_order_ack(held[-1].packet).number == 3
    link.policy = faithful
    link.inject(held[-1])
    world.run(1)
    assert world["A"].look("outgoing")[0].unacknowledged == 2
    link.seen.clear()
    world.run(40)
    assert [n for n, _ in numbers(world)] == [4, 5]
    assert world["B"].bodies(LOCAL) == [b"1", b"2", b"3", b"4", b"5"]


def test_case_048_expired_in_the_middle_is_relinked(world: World) -> None:
    link = world.link("A", "B")
    link.policy = lambda p: [] if p.kind == 1 or p.number > 1 else faithful(p)
    world["A"].once(Q, b"1")
    world["A"].once(Q, b"2", time_to_reach_queue=10)
    world["A"].once(Q, b"3")
    world.run(20)
    assert world["B"].bodies(LOCAL) == [b"1"]
    link.seen.clear()
    link.policy = no_order_acks
    world.run(20)
    assert numbers(world) == [(1, 0), (3, 1)]
    assert world["B"].bodies(LOCAL) == [b"1", b"3"]


def test_case_049_head_after_release_carries_zero(world: World) -> None:
    link = world.link("A", "B")
    link.policy = up_to(3)
    world["A"].once(Q, b"1", b"2", b"3", b"4", b"5")
    world.run(2)
    assert world["A"].look("outgoing")[0].first_unacked == 4
    link.policy = faithful
    link.seen.clear()
    world.run(40)
    assert numbers(world) == [(4, 0), (5, 4)]


def test_case_050_receiver_without_its_table_goes_on(world: World) -> None:
    link = world.link("A", "B")
    link.policy = up_to(3)
    world["A"].once(Q, b"1", b"2", b"3", b"4", b"5")
    world.run(2)
    world["B"].forget_streams()
    link.policy = faithful
    world.run(40)
    assert world["B"].bodies(LOCAL) == [b"1", b"2", b"3", b"4", b"5"]


def test_case_051_follower_waits_for_the_head(world: World) -> None:
    link = world.link("A", "B")
    link.policy = up_to(3)
    world["A"].once(Q, b"1", b"2", b"3", b"4", b"5")
    world.run(2)
    world["B"].forget_streams()
    link.policy = lambda p: [] if p.number == 4 else faithful(p)
    link.seen.clear()
    world.run(32)
    assert numbers(world) == [(4, 0), (5, 4)]
    assert world["B"].bodies(LOCAL) == [b"1", b"2", b"3"]
    assert world["A"].look("outgoing-queue", Q).first_unacked == 4, "and not acknowledged"
    link.policy = faithful
    world.run(40)
    assert world["B"].bodies(LOCAL) == [b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize("how", ["kill", "crash"])
def test_case_052_same_numbers_after_a_restart(world: World, how: str) -> None:
    link = world.link("A", "B")
    link.policy = drop
    world["A"].once(Q, b"1", b"2")
    world.run(1)
    before = [(p.stream, p.number, p.packet[56:60]) for p in link.data()]
    getattr(world["A"], how)()
    link.seen.clear()
    world["A"].start()
    world.run(10)
    after = [(p.stream, p.number, p.packet[56:60]) for p in link.data()]
    assert after == before
    assert len(before) == 2


@pytest.mark.unturned("public", "private", reason="it is about direct names")
@pytest.mark.parametrize("by", ["a direct name", "its number"])
def test_case_053_one_return_address(world: World, by: str) -> None:
    """The messages carry who sent them; where the acknowledgments of a session go follows the kind
    of name by which its queue is addressed (EOD-35)."""
    a = world["A"]
    name = Q if by == "a direct name" else world["B"].look("queue", LOCAL).format_name
    for n in range(10):
        a.once(name, b"%d" % n)
        if n == 5:
            a.kill()
            a.start()
            world.run(10)
        world.run(0.7)
    link = world.link("A", "B")
    assert {p.run.source for p in link.data()} == {a.identity.guid}
    acks = link.order_acks()
    assert len(acks) >= 5
    assert {ack.sender for ack in acks} == {world["B"].identity.guid}
    there = {(ack.run.destination.direct, ack.run.destination.number) for ack in acks}
    if by == "a direct name":
        assert there == {(f"TCP:{a.address}\\PRIVATE$\\order_queue$", 0)}
    else:
        assert there == {("", ORDER_QUEUE_NUMBER)}
        assert {ack.run.destination_manager for ack in acks} == {a.identity.guid}


def test_case_054_acknowledgment_from_durable_progress(world: World) -> None:
    link = world.link("A", "B")
    link.policy = no_order_acks
    world["A"].once(Q, b"1", b"2", b"3")
    world.run(0.2)
    assert link.order_acks() == []
    world["B"].crash()
    world["B"].start()
    link.policy = faithful
    stream = link.data()[0].stream
    link.seen.clear()
    world.run(10)
    ack = parse_order_ack(link.order_acks()[0].packet)
    assert (ack.stream, ack.number) == (stream, 3)
    assert world["A"].look("outgoing-queue", Q).messages == 0
    assert world["B"].bodies(LOCAL) == [b"1", b"2", b"3"]


def test_case_055_no_acknowledgment_over_a_gap(world: World) -> None:
    link = world.link("A", "B")
    link.policy = lambda p: [(20 * S, p)] if p.number == 3 else faithful(p)
    world["A"].once(Q, b"1", b"2", b"3", b"4")
    world.run(15)
    said = [parse_order_ack(ack.packet).number for ack in link.order_acks()]
    assert said
    assert max(said) == 2
    world.run(60)
    said = [parse_order_ack(ack.packet).number for ack in link.order_acks()]
    assert max(said) == 4
    assert world["B"].bodies(LOCAL) == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize(
    "point", [disk.BEFORE_APPEND, disk.AFTER_APPEND, disk.BEFORE_SYNC, disk.AFTER_SYNC]
)
def test_case_056_killed_around_the_durable_store(world: World, point: str) -> None:
    """The packet has come, and no acknowledgment of it was ever sent."""
    b = world["B"]
    link = world.link("A", "B")
    world["A"].once(Q, b"warm up")
    world.run(2)
    link.seen.clear()
    b.die_at(point)
    world["A"].once(Q, b"m")
    world.run(5)
    assert b.dead
    assert link.order_acks() == []
    b.start()
    world.run(40)
    assert b.bodies(LOCAL) == [b"warm up", b"m"]
    assert parse_order_ack(link.order_acks()[-1].packet).number == 1
    assert world["A"].look("outgoing-queue", Q).unacknowledged == 0


@pytest.mark.inside("the simulated disk fails, and then loses what was not synced")
def test_case_056_power_cut_before_the_store_is_durable(world: World) -> None:
    """The packet is in B's inbox, its record is not on the disk: no acknowledgment exists."""
    b = world["B"]
    link = world.link("A", "B")
    world["A"].once(Q, b"warm up")
    world.run(2)
    link.seen.clear()
    b.fail_disk()
    world["A"].once(Q, b"m")
    world.run(5)
    assert b.failure is not None
    assert b.dead
    assert link.order_acks() == []
    b.power_cut()
    b.start()
    world.run(10)
    assert b.bodies(LOCAL) == [b"warm up", b"m"]


def test_case_057_new_stream_when_everything_is_acknowledged(world: World) -> None:
    world["A"].once(Q, b"1", b"2")
    world.run(2)
    world["A"].once(Q, b"3")
    world.run(2)
    sent = world.link("A", "B").data()
    assert [(p.number, p.previous) for p in sent] == [(1, 0), (2, 1), (1, 0)]
    streams = [sent[0].stream, sent[2].stream]
    for body in (b"4", b"5"):
        world["A"].crash()
        world["A"].start()
        world["A"].once(Q, body)
        world.run(10)
        last = world.link("A", "B").data()[-1]
        assert (last.number, last.previous) == (1, 0)
        streams.append(last.stream)
    assert streams == sorted(set(streams)), "greater each time, also in another life"
    assert world["B"].bodies(LOCAL) == [b"1", b"2", b"3", b"4", b"5"]


def test_case_062_a_router_passes_numbers_on_untouched(worlds: Worlds) -> None:
    world, name = routed(worlds)
    a, r, b = world["A"], world["R"], world["B"]
    a.once(name, b"1", b"2", b"3")
    world.run(20)
    assert b.bodies(LOCAL) == [b"1", b"2", b"3"]
    before, behind = world.link("A", "R").data(), world.link("R", "B").data()
    numbers = [(p.stream, p.number, p.previous) for p in behind]
    assert numbers == [(p.stream, p.number, p.previous) for p in before]
    assert [number for _, number, _ in numbers] == [1, 2, 3]
    assert [message.hops for message in b.messages(LOCAL)] == [1, 1, 1]
    assert r.look("streams") == []
    assert all(view.stream == 0 for view in r.look("outgoing"))
    assert all(view.messages == 0 for view in r.look("outgoing"))
    assert a.look("outgoing-queue", name).messages == 0, "the order acknowledgment came back"
    assert world.link("A", "B").seen == []


@pytest.mark.tier("rest")
@pytest.mark.parametrize("history", ["full", "expired"])
def test_case_063_the_history_does_not_matter_to_streams(world: World, history: str) -> None:
    b = world["B"]
    b.create("plain", transactional=False)
    a = world["A"]
    link = world.link("A", "B")
    link.policy = no_order_acks
    a.once(Q, b"once")
    for _ in range(11 if history == "full" else 1):
        a.send(0, r"DIRECT=OS:B\private$\plain", *[b"x"] * 1000)
        world.run(1)
    if not world.processes:
        assert b.engine is not None
        assert len(b.engine.manager.state.seen) == (10_000 if history == "full" else 1_000)
    world.run(40 if history == "full" else DUPLICATE_AGE_S_MAX + 700)
    assert b.bodies(LOCAL) == [b"once"]
    (stream,) = b.look("streams")
    assert stream.rejects > 0


def test_expired_without_dead_lettering_leaves_nothing(world: World) -> None:
    world.cut("A", "B")
    world["A"].once(Q, b"m", time_to_reach_queue=20)
    world.run(60)
    with pytest.raises(ReceiveTimeout):
        world["A"].receive(DEAD)
    assert world["A"].look("outgoing")[0].messages == 0


def test_dead_lettered_message_is_forgotten_after_its_final_acknowledgment(world: World) -> None:
    """DEADLETTER keeps a message until its end is known (EOD-11, CNF-11)."""
    world["A"].once(Q, b"m", journal=Journal.DEADLETTER)
    world.run(5)
    found = world["A"].look("outgoing")[0]
    assert (found.unacknowledged, found.awaiting_final) == (0, 1)
    assert world["B"].receive(LOCAL).bodies() == [b"m"]
    world.run(10)
    assert world["A"].look("outgoing-queue", Q).messages == 0
    assert world["A"].bodies(DEAD) == []


@pytest.mark.parametrize(
    ("destination", "reason"),
    [
        (r"DIRECT=OS:B\private$\nowhere", MessageClass.NACK_BAD_DESTINATION_QUEUE),
        (r"DIRECT=OS:B\private$\plain", MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE),
    ],
)
def test_refused_messages_do_not_block_their_stream(
    world: World, destination: str, reason: MessageClass
) -> None:
    """EOD-29: refused in order, once, with a final acknowledgment; X-1 at the target."""
    world["B"].create("plain", transactional=False)
    a = world["A"]
    a.once(destination, b"1", journal=Journal.DEADLETTER)
    a.once(destination, b"2")
    world.run(20)
    (dead,) = a.messages(DEAD)
    assert (dead.body, dead.message_class) == (b"1", reason)
    assert a.look("outgoing-queue", destination).messages == 0
    at_target = world["B"].bodies(DEAD)
    assert at_target == ([b"1", b"2"] if "plain" in destination else [])
    assert replace(fast(), resend_first_s=1).resend_first_s == 1


@pytest.mark.unturned("public", "private", reason="it is about two direct names")
def test_two_spellings_of_one_queue_are_two_streams(world: World) -> None:
    """Numbers follow the name that the sender uses (U10), so neither stream may starve (I26)."""
    a, b = world["A"], world["B"]
    spellings = [Q, rf"DIRECT=TCP:{b.address}\private$\q"]
    world.cut("A", "B")
    for n in range(3):
        a.once(spellings[0], b"os-%d" % n)
        a.once(spellings[1], b"tcp-%d" % n)
    world.mend("A", "B")
    world.run(60)
    a.once(spellings[0], b"os-3")
    world.run(60)
    found = b.bodies(LOCAL)
    assert [body for body in found if body[:2] == b"os"] == [b"os-%d" % n for n in range(4)]
    assert [body for body in found if body[:3] == b"tcp"] == [b"tcp-%d" % n for n in range(3)]
    assert [view.messages for view in a.look("outgoing")] == [0, 0]


def test_order_acknowledgments_have_numbers_of_their_own(world: World) -> None:
    for n in range(5):
        world["A"].once(Q, b"%d" % n)
        world.run(0.7)
    used = [ack.run.message_numbers[ack.index] for ack in world.link("A", "B").order_acks()]
    assert len(set(used)) == len(used) >= 4
    assert 0 not in used


def test_a_deleted_queue_does_not_refuse_what_it_had_accepted(world: World) -> None:
    """Stream progress outlives its queue (decision 0003): a repetition of an accepted message is
    answered as one, and never refused for want of the queue (I11)."""
    a, b = world["A"], world["B"]
    link = world.link("A", "B")
    link.policy = no_order_acks
    a.once(Q, b"1", journal=Journal.DEADLETTER)
    world.run(2)
    assert b.receive(LOCAL).bodies() == [b"1"]
    b.delete(LOCAL)
    link.policy = faithful
    world.run(60)
    assert a.bodies(DEAD) == []
    b.create("q")
    a.once(Q, b"2")
    world.run(40)
    assert b.bodies(LOCAL) == [b"2"]


@pytest.mark.inside("a power cut: what was written and not synced is lost")
def test_numbers_of_express_messages_do_not_come_again(world: World) -> None:
    """A recoverable message must not be taken for a repetition of a lost express one (found by
    the simulator, seed 0x1c50)."""
    a, b = world["A"], world["B"]
    b.create("plain", transactional=False)
    name = r"DIRECT=OS:B\private$\plain"

    def send(body: bytes, delivery: Delivery) -> None:
        a.send(0, name, body, delivery=delivery)
        world.run(2)

    send(b"express", Delivery.EXPRESS)
    a.power_cut()
    a.start()
    send(b"recoverable", Delivery.RECOVERABLE)
    assert b.bodies(r"private$\plain") == [b"express", b"recoverable"]


@pytest.mark.inside("a power cut: what was written and not synced is lost")
def test_places_of_express_messages_do_not_come_again(world: World) -> None:
    """I18, also through a power cut that takes the message with it."""
    a = world["A"]
    a.create("plain", transactional=False)
    name = r"private$\plain"
    seen = []
    for n in range(3):
        a.send(0, name, b"%d" % n, delivery=Delivery.EXPRESS)
        seen += list(a.messages(name).lookup_ids)
        a.power_cut()
        a.start()
        assert a.bodies(name) == []
    assert len(set(seen)) == 3
