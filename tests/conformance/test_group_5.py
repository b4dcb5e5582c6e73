"""Conformance cases of group 5: acknowledgments, journals and dead letters."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.errors import IllegalPropertyValue, ReceiveTimeout
from onceq.model import requests
from onceq.model.message import Acknowledge, Delivery, Journal
from onceq.model.resultcodes import MessageClass as C
from tests.conformance.policies import no_final_acks, no_order_acks
from tests.conformance.world import Node, World, Worlds, fast

Q = r"DIRECT=OS:B\private$\q"
N = r"DIRECT=OS:B\private$\n"
LOCAL, PLAIN = r"private$\q", r"private$\n"
ADMIN = r"private$\adm"
DEAD, DEAD_PLAIN = "SYSTEM$;DEADXACT", "SYSTEM$;DEADLETTER"
JOURNAL = "SYSTEM$;JOURNAL"
FULL_REACH = Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_ARRIVAL
FULL_RECEIVE = (
    Acknowledge.POSITIVE_RECEIVE | Acknowledge.NEGATIVE_ARRIVAL | Acknowledge.NEGATIVE_RECEIVE
)
EVERYTHING = Acknowledge(15)


@pytest.fixture
def world(worlds: Worlds) -> World:
    world = worlds("A", "B")
    world["B"].create("q")
    world["B"].create("n", transactional=False)
    world["A"].create("adm", transactional=False)
    return world


def asking(level: Acknowledge, **more: Any) -> dict[str, Any]:
    return {"acknowledge": level, "admin_queue": ADMIN, **more}


def classes(node: Node, queue: str = ADMIN) -> list[int]:
    """Classes of what is in a queue."""
    try:
        return [message.message_class for message in node.messages(queue)]
    except ReceiveTimeout:
        return []


# ---- acknowledgment messages ---------------------------------------------------------------


def test_case_086_reach_queue_is_acknowledged_on_arrival_and_not_when_received(
    world: World,
) -> None:
    world.cut("A", "B")
    world["A"].once(Q, b"m", **asking(FULL_REACH))
    world["A"].send(0, N, b"n", **asking(FULL_REACH))
    world.run(60)
    assert classes(world["A"]) == [], "not before it is there"
    world.mend("A", "B")
    world.run(10)
    assert classes(world["A"]) == [0x0002] * 2
    assert len({m.correlation_id for m in world["A"].messages(ADMIN)}) == 2
    world["B"].receive(LOCAL)
    world["B"].receive(PLAIN)
    world.run(60)
    assert classes(world["A"]) == [0x0002] * 2


def test_case_087_receive_is_acknowledged_at_the_commit_and_not_before(world: World) -> None:
    b = world["B"]
    world["A"].once(Q, b"m", **asking(FULL_RECEIVE))
    world.run(2)
    assert classes(world["A"]) == []
    tx = b.begin()
    b.receive(LOCAL, tx=tx)
    world.run(2)
    assert classes(world["A"]) == [], "not while the transaction is open"
    b.abort(tx)
    world.run(2)
    assert classes(world["A"]) == [], "not for what was given back"
    b.receive(LOCAL, tx=b.begin())
    b.kill()
    b.start()
    world.run(60)
    assert classes(world["A"]) == [], "nor for what a kill gave back"
    tx = b.begin()
    b.receive(LOCAL, tx=tx)
    b.commit(tx)
    b.crash()
    b.start()
    world.run(60)
    assert classes(world["A"]) == [0x4000], "once, whatever happens after the commit"


def test_case_088_what_an_acknowledgment_looks_like(world: World) -> None:
    sent = world["A"].once(
        Q, b"good", label="of mine", app_specific=7, correlation_id=b"c" * 20, **asking(EVERYTHING)
    )
    world.run(2)
    (ack,) = world["A"].messages(ADMIN)
    assert ack.message_class == C.ACK_REACH_QUEUE
    original = world["B"].messages(LOCAL)[0]
    assert original.id.number == sent.first_message
    assert ack.correlation_id == original.id.pack()
    assert ack.response_queue == Q
    assert (ack.label, ack.app_specific, ack.body) == ("of mine", 7, b"")
    assert ack.delivery is Delivery.RECOVERABLE, "as the original"
    assert (ack.admin_queue, ack.acknowledge, ack.journal) == ("", 0, 0)
    assert not ack.transactional
    world["A"].receive(ADMIN)
    world["A"].send(
        0, N, b"to go", priority=6, delivery=Delivery.EXPRESS, label="second", app_specific=8,
        **asking(EVERYTHING),
    )  # fmt: skip
    world.run(2)
    world["A"].receive(ADMIN)
    gone = world["B"].messages(PLAIN)[0].id
    world["B"].ask(requests.PurgeQueue(PLAIN))
    world.run(2)
    (nack,) = world["A"].messages(ADMIN)
    assert (nack.message_class, nack.body) == (C.NACK_QUEUE_PURGED, b"to go")
    assert (nack.priority, nack.delivery) == (6, Delivery.EXPRESS)
    assert nack.response_queue == N
    assert nack.correlation_id == gone.pack()
    assert (nack.label, nack.app_specific) == ("second", 8)
    assert (nack.admin_queue, nack.acknowledge, nack.journal) == ("", 0, 0)


@pytest.mark.unturned("second", reason="a refusal here is kept here")
def test_case_089_level_and_queue_must_both_be_set(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(Q, b"1", acknowledge=EVERYTHING)
    a.once(Q, b"2", admin_queue=ADMIN)
    a.send(0, N, b"3", acknowledge=EVERYTHING)
    a.once(r"DIRECT=OS:B\private$\nowhere", b"4", acknowledge=EVERYTHING)
    a.once(r"DIRECT=OS:B\private$\nowhere", b"5", admin_queue=ADMIN)
    a.send(0, N, b"6", admin_queue=ADMIN)
    world.run(2)
    b.receive(LOCAL, count=2)
    b.receive(PLAIN, count=2)
    world.run(60)
    assert classes(a) == []
    assert a.look("status").messages == b.look("status").messages == 0


def test_case_090_a_transactional_administration_queue_gets_nothing(world: World) -> None:
    a, b = world["A"], world["B"]
    a.create("t")
    world.run(1)
    far = r"DIRECT=OS:A\private$\t"
    a.once(Q, b"m", acknowledge=EVERYTHING, admin_queue=far)
    a.create("here")
    a.once(r"private$\here", b"local", acknowledge=EVERYTHING, admin_queue=r"private$\t")
    world.run(2)
    b.receive(LOCAL)
    a.receive(r"private$\here")
    world.run(5)
    assert a.bodies(r"private$\t") == []
    assert a.look("status").messages == 0


def test_undefined_bits_of_the_level_are_refused(world: World) -> None:
    with pytest.raises(IllegalPropertyValue):
        world["A"].once(Q, b"m", acknowledge=16, admin_queue=ADMIN)
    assert world["B"].bodies(LOCAL) == []


def test_acknowledgments_on_one_computer(world: World) -> None:
    b = world["B"]
    b.create("adm", transactional=False)
    b.once(LOCAL, b"1", b"2", **asking(EVERYTHING))
    b.send(0, PLAIN, b"3", **asking(EVERYTHING))
    assert classes(b) == [C.ACK_REACH_QUEUE] * 3
    tx = b.begin()
    b.receive(LOCAL, tx=tx)
    b.commit(tx)
    b.receive(PLAIN)
    b.ask(requests.PurgeQueue(LOCAL))
    world.run(1)
    assert sorted(classes(b)) == [C.ACK_REACH_QUEUE] * 3 + [
        C.ACK_RECEIVE, C.ACK_RECEIVE, C.NACK_QUEUE_PURGED,
    ]  # fmt: skip


@pytest.mark.unturned(
    "restore", reason="who was put back knows less, of what has left and of what came"
)
def test_what_was_owed_at_a_crash_is_acknowledged_once_after_it(world: World) -> None:
    a, b = world["A"], world["B"]
    world.cut("A", "B")
    a.send(0, N, b"lost", time_to_reach_queue=5, **asking(EVERYTHING, journal=Journal.DEADLETTER))
    for _ in range(3):
        world.run(4)
        a.crash()
        a.start()
    world.mend("A", "B")
    world.run(60)
    assert classes(a) == [C.NACK_REACH_QUEUE_TIMEOUT]
    assert classes(a, DEAD_PLAIN) == [C.NACK_REACH_QUEUE_TIMEOUT]
    assert b.bodies(PLAIN) == []


# ---- what does not fit ---------------------------------------------------------------------


def test_case_031_a_plain_message_to_a_transactional_queue(world: World) -> None:
    world["A"].send(0, Q, b"m", **asking(Acknowledge.NEGATIVE_ARRIVAL))
    world.run(3)
    assert world["B"].bodies(LOCAL) == []
    (told,) = world["A"].messages(ADMIN)
    assert told.message_class == C.NACK_NOT_TRANSACTIONAL_MESSAGE
    assert (told.body, told.response_queue) == (b"m", Q)
    world["B"].crash()
    world["B"].start()
    world.run(600)
    assert world["B"].bodies(LOCAL) == [], "never"
    assert classes(world["A"]) == [0x800A], "once"
    assert world["A"].look("status").messages == 1, "and nothing waits for it any more"


def test_case_032_a_transactional_message_to_another_queue(world: World) -> None:
    world["A"].once(N, b"m", **asking(Acknowledge.NEGATIVE_ARRIVAL))
    for _ in range(2):
        world.run(60)
        assert world["B"].bodies(PLAIN) == []
        (dead,) = world["B"].messages(DEAD)
        assert (dead.message_class, dead.body) == (0x8009, b"m")
        (told,) = world["A"].messages(ADMIN)
        assert (told.message_class, told.body, told.response_queue) == (0x8009, b"m", N)
        assert classes(world["A"], DEAD) == []
        assert classes(world["B"], DEAD_PLAIN) == []
        for name in "AB":
            world[name].crash()
            world[name].start()


def test_case_033_the_same_with_a_dead_letter_wanted(world: World) -> None:
    world["A"].once(N, b"m", **asking(FULL_REACH, journal=Journal.DEADLETTER))
    world.run(3)
    assert classes(world["B"], DEAD) == [C.NACK_NOT_TRANSACTIONAL_QUEUE]
    (home,) = world["A"].messages(DEAD)
    assert (home.message_class, home.body, home.destination) == (0x8009, b"m", N)
    assert classes(world["A"]) == [C.NACK_NOT_TRANSACTIONAL_QUEUE]
    assert world["B"].bodies(PLAIN) == []


@pytest.mark.unturned("second", reason="a refusal here is kept here")
def test_case_034_the_same_with_nothing_asked_for(world: World) -> None:
    for more in ({}, {"admin_queue": ADMIN}, {"acknowledge": EVERYTHING}):
        world["A"].once(N, b"m", **more)
    world.run(60)
    assert classes(world["B"], DEAD) == [C.NACK_NOT_TRANSACTIONAL_QUEUE] * 3
    assert world["B"].bodies(PLAIN) == []
    assert (classes(world["A"]), classes(world["A"], DEAD)) == ([], [])
    assert classes(world["A"], DEAD_PLAIN) == []
    assert world["A"].look("status").messages == 0, "nothing waits"


def test_a_plain_message_that_is_refused_dies_where_it_is_refused(world: World) -> None:
    world["A"].send(0, Q, b"m", journal=Journal.DEADLETTER)
    world["A"].send(0, r"DIRECT=OS:B\private$\gone", b"g", **asking(EVERYTHING))
    world.run(3)
    assert classes(world["B"], DEAD_PLAIN) == [C.NACK_NOT_TRANSACTIONAL_MESSAGE]
    assert classes(world["A"]) == [C.NACK_BAD_DESTINATION_QUEUE]
    assert classes(world["A"], DEAD_PLAIN) == []


def test_strangers_are_told_nothing_where_that_is_set(worlds: Worlds) -> None:
    world = worlds("A", "B", settings=fast(permit_insecure_nacks=False))
    world["A"].create("adm", transactional=False)
    world["B"].create("n", transactional=False)
    world["A"].once(r"DIRECT=OS:B\private$\gone", b"g", **asking(EVERYTHING))
    world["A"].once(N, b"m", **asking(EVERYTHING))
    world.run(5)
    assert classes(world["A"]) == [C.NACK_NOT_TRANSACTIONAL_QUEUE]


# ---- confirmation and dead letters -----------------------------------------------------------


@pytest.mark.parametrize("deaf_s", [0, 30, 600])
def test_case_091_a_receive_that_commits_leaves_no_dead_letter(world: World, deaf_s: int) -> None:
    """Nor does one of which the sender hears after the time to be received, and the delay."""
    world["A"].once(Q, b"m", journal=Journal.DEADLETTER, time_to_be_received=60)
    world.run(2)
    tx = world["B"].begin()
    world["B"].receive(LOCAL, tx=tx)
    if deaf_s:
        world.cut("A", "B")
    world["B"].commit(tx)
    world.run(deaf_s)
    world.mend("A", "B")
    world.run(3600)
    assert classes(world["A"], DEAD) == []
    assert world["A"].look("outgoing-queue", Q).messages == 0


def test_case_092_what_nobody_receives_in_time_is_a_dead_letter(world: World) -> None:
    world["A"].once(Q, b"m", **asking(EVERYTHING, journal=Journal.DEADLETTER,
                                      time_to_be_received=60))  # fmt: skip
    world.run(57)
    assert world["B"].bodies(LOCAL) == [b"m"]
    assert classes(world["A"], DEAD) == [], "not before its time"
    assert classes(world["A"]) == [C.ACK_REACH_QUEUE]
    world.run(63)
    assert world["B"].bodies(LOCAL) == []
    world.run(600)
    (dead,) = world["A"].messages(DEAD)
    assert (dead.message_class, dead.body, dead.destination) == (0xC002, b"m", Q)
    assert classes(world["A"]) == [C.ACK_REACH_QUEUE, 0xC002]
    assert classes(world["B"], DEAD) == []


@pytest.mark.parametrize("level", [Acknowledge.NONE, FULL_RECEIVE])
def test_case_093_a_purged_message(world: World, level: Acknowledge) -> None:
    world["A"].once(Q, b"m", **asking(level, journal=Journal.DEADLETTER))
    world.run(2)
    world["B"].ask(requests.PurgeQueue(LOCAL))
    world.run(600)
    (dead,) = world["A"].messages(DEAD)
    assert (dead.message_class, dead.body, dead.destination) == (0xC001, b"m", Q)
    assert classes(world["A"]) == ([0xC001] if level else [])
    assert (world["B"].bodies(LOCAL), classes(world["B"], DEAD)) == ([], [])
    assert world["A"].look("outgoing-queue", Q).messages == 0


@pytest.mark.parametrize("level", [Acknowledge.NONE, FULL_RECEIVE])
def test_case_094_a_deleted_queue(world: World, level: Acknowledge) -> None:
    world["A"].once(Q, b"m", **asking(level, journal=Journal.DEADLETTER))
    world.run(2)
    world["B"].delete(LOCAL)
    world["B"].crash()
    world["B"].start()
    world.run(600)
    (dead,) = world["A"].messages(DEAD)
    assert (dead.message_class, dead.body, dead.destination) == (0xC000, b"m", Q)
    assert classes(world["A"]) == ([0xC000] if level else [])
    assert classes(world["B"], DEAD) == []
    assert world["A"].look("outgoing-queue", Q).messages == 0


def test_case_095_no_final_acknowledgment_comes(world: World) -> None:
    world.link("A", "B").policy = no_final_acks
    world["A"].once(Q, b"m", journal=Journal.DEADLETTER, time_to_be_received=60)
    world.run(3)
    world["B"].receive(LOCAL)
    # Neither when its time is over nor before as much time again, the delay, is over (CNF-10).
    world.run(60)
    assert classes(world["A"], DEAD) == []
    world.run(54)
    assert classes(world["A"], DEAD) == []
    world.run(10)
    assert classes(world["A"], DEAD) == [C.NACK_RECEIVE_TIMEOUT_AT_SENDER]
    world.run(3600)
    assert classes(world["A"], DEAD) == [C.NACK_RECEIVE_TIMEOUT_AT_SENDER]


def test_case_096_the_time_to_reach_the_queue_is_over(world: World) -> None:
    world.cut("A", "B")
    world["A"].once(Q, b"m", **asking(FULL_REACH, journal=Journal.DEADLETTER,
                                      time_to_reach_queue=10))  # fmt: skip
    world["A"].once(Q, b"later")
    world.run(9)
    assert classes(world["A"], DEAD) == classes(world["A"]) == [], "not before its time"
    world.run(21)
    (dead,) = world["A"].messages(DEAD)
    assert (dead.message_class, dead.body, dead.destination) == (0x8002, b"m", Q)
    assert classes(world["A"]) == [0x8002]
    world.mend("A", "B")
    world.run(60)
    assert world["B"].bodies(LOCAL) == [b"later"]
    assert classes(world["A"], DEAD) == classes(world["A"]) == [0x8002], "once"


def test_messages_removed_by_an_operator_before_they_left(world: World) -> None:
    world.cut("A", "B")
    world["A"].once(Q, b"m", **asking(EVERYTHING, journal=Journal.DEADLETTER))
    world["A"].ask(requests.PurgeQueue(Q))
    world.run(1)
    assert classes(world["A"], DEAD) == [C.NACK_DELETED]
    assert classes(world["A"]) == [C.NACK_DELETED]


def test_nothing_negative_is_said_of_a_removed_message_that_may_have_arrived(
    world: World,
) -> None:
    """Found by the simulator: the acknowledgment said "removed", and the message was received."""
    world.link("A", "B").policy = no_order_acks
    world["A"].once(Q, b"m", **asking(EVERYTHING, journal=Journal.DEADLETTER))
    world.run(2)
    world["A"].ask(requests.PurgeQueue(Q))
    world["B"].receive(LOCAL)
    world.run(5)
    assert not world["A"].bodies(DEAD), "in doubt until it was received after all"
    assert sorted(classes(world["A"])) == [C.ACK_REACH_QUEUE, C.ACK_RECEIVE]


# ---- journals ------------------------------------------------------------------------------


def test_case_100_the_computer_journal_has_a_copy_once_the_receive_was_committed(
    world: World,
) -> None:
    world["A"].once(Q, b"m", journal=Journal.JOURNAL)
    world["A"].once(Q, b"given back", journal=Journal.JOURNAL)
    world.run(2)
    assert world["A"].bodies(JOURNAL) == []
    tx = world["B"].begin()
    assert len(world["B"].receive(LOCAL, tx=tx, count=2)) == 2
    world["B"].abort(tx)
    world.run(60)
    assert world["A"].bodies(JOURNAL) == []
    tx = world["B"].begin()
    world["B"].receive(LOCAL, tx=tx)
    world.run(2)
    assert world["A"].bodies(JOURNAL) == []
    world["B"].commit(tx)
    world.run(60)
    world["A"].crash()
    world["A"].start()
    (copy,) = world["A"].messages(JOURNAL)
    assert (copy.body, copy.destination) == (b"m", Q)


def test_the_computer_journal_has_what_is_not_transactional_when_it_was_delivered(
    world: World,
) -> None:
    for delivery in Delivery:
        world["A"].send(0, N, b"m", journal=Journal.JOURNAL, delivery=delivery)
    world["A"].create("n", transactional=False)
    world["A"].send(0, PLAIN, b"here", journal=Journal.JOURNAL)
    world["A"].send(0, N, b"not asked")
    world.run(5)
    assert sorted(world["A"].bodies(JOURNAL)) == [b"here", b"m", b"m"]


def test_case_101_the_journal_of_a_queue(world: World) -> None:
    b = world["B"]
    b.create("j", journal=True)
    copies = r"private$\j;JOURNAL"
    b.once(r"private$\j", b"1", b"2", b"3")
    tx = b.begin()
    b.receive(r"private$\j", tx=tx)
    b.abort(tx)
    assert b.bodies(copies) == [], "given back"
    tx = b.begin()
    b.receive(r"private$\j", tx=tx)
    b.commit(tx)
    assert b.bodies(copies) == [b"1"]
    b.receive(r"private$\j")
    assert b.bodies(copies) == [b"1", b"2"]
    b.ask(requests.PurgeQueue(r"private$\j"))
    assert b.bodies(copies) == [b"1", b"2"], "a purge is no receive"
    b.crash()
    b.start()
    assert b.bodies(copies) == [b"1", b"2"]
    assert b.receive(copies).bodies() == [b"1"], "read like a queue, and not copied again"
    assert b.bodies(copies) == [b"2"]


def test_a_full_journal_drops_copies_and_nothing_else(world: World) -> None:
    b = world["B"]
    b.create("j", journal=True, journal_quota_kb=1)
    for body in (bytes(400), bytes(400), b"x"):
        b.once(r"private$\j", body)
        assert b.receive(r"private$\j").bodies() == [body]
    assert b.bodies(r"private$\j;JOURNAL") == [bytes(400), b"x"]
