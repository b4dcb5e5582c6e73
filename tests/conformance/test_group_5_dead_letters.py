"""Conformance cases of group 5: dead-letter queues of one's own, quotas of journals, and refusals.

Case 133 has a message that is refused for its size where the published one is refused
for lack of rights: managers have no rights to refuse for, and what follows
from a refusal is the same for each reason.
"""

from __future__ import annotations

from typing import Any

import pytest

from onceq.errors import (
    BadDeadLetterQueue,
    BodyTooLarge,
    InsufficientProperties,
    InvalidParameter,
    ReceiveTimeout,
    UnsupportedFormatName,
    WrongQueueKind,
)
from onceq.model import requests
from onceq.model.identity import guid_text
from onceq.model.message import Acknowledge, Delivery, Journal
from onceq.model.resultcodes import SECOND_LETTER
from onceq.model.resultcodes import MessageClass as C
from onceq.model.settings import KEEP_ALWAYS
from tests.conformance.policies import no_order_acks
from tests.conformance.world import Node, World, Worlds, fast

Q = r"DIRECT=OS:B\private$\q"
FAR = r"DIRECT=OS:A\private$\q"
N = r"DIRECT=OS:B\private$\n"
LOCAL, OWN, ADMIN = r"private$\q", r"private$\own", r"private$\adm"
DEAD, DEAD_PLAIN = "SYSTEM$;DEADXACT", "SYSTEM$;DEADLETTER"
JOURNAL = "SYSTEM$;JOURNAL"
EVERYTHING = Acknowledge(15)


@pytest.fixture
def world(worlds: Worlds) -> World:
    return peopled(worlds("A", "B"))


def peopled(world: World) -> World:
    world["B"].create("q")
    world["B"].create("n", transactional=False)
    world["A"].create("adm", transactional=False)
    world["A"].create("own")
    return world


def classes(node: Node, queue: str) -> list[int]:
    """Classes of what is in a queue."""
    try:
        return [message.message_class for message in node.messages(queue)]
    except ReceiveTimeout:
        return []


def mine(**more: Any) -> dict[str, Any]:
    """Dead letters are wanted, in a queue of one's own."""
    return {"journal": Journal.DEADLETTER, "dead_letter_queue": OWN, **more}


# ---- a dead-letter queue of one's own --------------------------------------------------------


def test_case_098_a_dead_letter_queue_of_ones_own(world: World) -> None:
    a = world["A"]
    world.cut("A", "B")
    a.once(Q, b"late", **mine(time_to_reach_queue=10))
    a.once(Q, b"other", journal=Journal.DEADLETTER, time_to_reach_queue=10)
    world.run(30)
    (dead,) = a.messages(OWN)
    assert (dead.body, dead.message_class, dead.destination) == (b"late", 0x8002, Q)
    assert dead.arrived_time - dead.sent_time >= 10, "it arrived there when it ended"
    assert a.bodies(DEAD) == [b"other"]
    tx = a.begin()
    assert a.receive(OWN, tx=tx).bodies() == [b"late"], "read like any queue"
    a.commit(tx)


def test_case_098_where_it_cannot_be(world: World) -> None:
    a, b = world["A"], world["B"]
    with pytest.raises(InsufficientProperties) as insufficient:
        a.once(Q, b"m", dead_letter_queue=OWN)
    assert insufficient.value.hresult == 0xC00E003F
    bad = [
        r"DIRECT=OS:B\private$\own", "nonsense", r"private$\gone", ADMIN, DEAD, OWN + ";retry",
        OWN + "," + OWN, OWN + ";JOURNAL",
    ]  # fmt: skip
    for name in bad:
        with pytest.raises(BadDeadLetterQueue) as refused:
            a.once(Q, b"m", **mine(dead_letter_queue=name))
        assert refused.value.hresult == 0xC00E0002
    with pytest.raises(InvalidParameter) as outside:
        a.send(0, N, b"m", **mine())
    assert outside.value.hresult == 0xC00E0006
    world.run(2)
    assert b.bodies(LOCAL) == [], "whatever was refused was not sent"


@pytest.mark.parametrize("how", ["purge", "delete", "reject", "expiry"])
def test_what_ends_behind_its_arrival_comes_there_too(world: World, how: str) -> None:
    a, b = world["A"], world["B"]
    for node, name in ((b, Q), (a, LOCAL)):
        if node is a:
            a.create("q")
        a.once(name, b"m", **mine(time_to_be_received=20))
        world.run(2)
        if how == "purge":
            node.ask(requests.PurgeQueue(LOCAL))
        elif how == "delete":
            node.delete(LOCAL)
        elif how == "reject":
            tx = node.begin()
            lookups = tuple(node.receive(LOCAL, tx=tx).lookup_ids)
            node.ask(requests.Reject(LOCAL, tx, lookups))
            node.commit(tx)
        world.run(30)
    reason = {
        "purge": C.NACK_QUEUE_PURGED, "delete": C.NACK_QUEUE_DELETED,
        "reject": C.NACK_RECEIVE_REJECTED, "expiry": C.NACK_RECEIVE_TIMEOUT,
    }[how]  # fmt: skip
    assert classes(a, OWN) == [reason] * 2
    assert classes(a, DEAD) == classes(b, DEAD) == []


@pytest.mark.parametrize("ended", [False, True])
def test_case_099_a_deleted_dead_letter_queue(
    world: World, ended: bool, caplog: pytest.LogCaptureFixture
) -> None:
    a = world["A"]
    world.cut("A", "B")
    a.once(Q, b"m", **mine(time_to_reach_queue=10))
    if ended:
        world.run(20)
        assert a.bodies(OWN) == [b"m"]
    a.delete(OWN)
    world.run(20)
    assert classes(a, DEAD) == ([] if ended else [C.NACK_REACH_QUEUE_TIMEOUT])
    assert a.bodies(DEAD) == ([] if ended else [b"m"])
    said = a.said if world.processes else caplog.text
    assert ("own dead-letter queue cannot be used" in said) is not ended


def test_a_full_dead_letter_queue_of_ones_own(world: World) -> None:
    a = world["A"]
    a.create("small", quota_kb=1)
    world.cut("A", "B")
    a.once(Q, bytes(700), bytes(700), b"x", **mine(dead_letter_queue=r"private$\small",
                                                  time_to_reach_queue=10))  # fmt: skip
    world.run(20)
    assert sorted(a.bodies(r"private$\small") + a.bodies(DEAD)) == [bytes(700), bytes(700), b"x"]
    assert a.bodies(DEAD), "not everything had room"


def test_it_is_known_after_a_restart(world: World) -> None:
    a = world["A"]
    world.cut("A", "B")
    a.create("here")
    a.once(Q, b"far", **mine(time_to_reach_queue=10))
    a.once(r"private$\here", b"near", **mine(time_to_be_received=10))
    a.crash()
    a.start()
    world.run(5)
    a.steer("", "tidy")
    a.crash()
    a.start()
    world.run(30)
    assert sorted(a.bodies(OWN)) == [b"far", b"near"]
    assert a.bodies(DEAD) == []


def test_one_that_is_deleted_with_its_own_dead_letters_to_come(world: World) -> None:
    a = world["A"]
    a.once(OWN, b"m", **mine())
    a.delete(OWN)
    assert classes(a, DEAD) == [C.NACK_QUEUE_DELETED]


def test_dead_letters_of_all_transactional_messages(worlds: Worlds) -> None:
    world = peopled(worlds("A", "B", settings=fast(xact_dead_letter=KEEP_ALWAYS)))
    a = world["A"]
    a.send(0, N, b"fills the queue up")
    world.cut("A", "B")
    a.once(Q, b"m", time_to_reach_queue=10)
    a.send(0, N, b"plain", time_to_reach_queue=10)
    world.run(20)
    assert a.bodies(DEAD) == [b"m"]
    assert a.bodies(DEAD_PLAIN) == []


# ---- queues of managers ----------------------------------------------------------------------


@pytest.mark.unturned("public", "private", reason="such a queue is known by its name")
def test_case_102_nothing_is_told_of_messages_to_an_administration_queue(worlds: Worlds) -> None:
    asks: dict[str, Any] = {"acknowledge": EVERYTHING, "admin_queue": ADMIN, "journal": Journal(3)}
    far, near = r"DIRECT=OS:B\private$\admin_queue$", r"private$\admin_queue$"
    for quiet in (False, True):
        world = worlds("A", "B", settings=fast(quiet_system_queues=quiet))
        a, b = world["A"], world["B"]
        a.create("adm", transactional=False)
        for node in (a, b):
            node.create("admin_queue$", transactional=False)
            node.create("notify", transactional=False)
        for name in (far, near):
            a.send(0, name, b"m", **asks)
        a.once(far, b"does not fit", **asks)
        world.run(3)
        for node in (a, b):
            assert node.receive(near).bodies() == [b"m"]
        world.run(3)
        told = classes(a, ADMIN), classes(a, DEAD), a.bodies(JOURNAL)
        assert all(told) is not quiet
        assert any(told) is not quiet
        a.send(0, r"DIRECT=OS:B\private$\notify", b"n", **asks)
        world.run(3)
        assert C.ACK_REACH_QUEUE in classes(a, ADMIN), "of other queues it is told"


def test_a_receiver_tells_nothing_of_them_either(worlds: Worlds) -> None:
    world = worlds("A", "B", settings=fast(quiet_system_queues=True))
    a, b = world["A"], world["B"]
    a.kill()
    a.settings = fast()
    a.start()
    a.create("adm", transactional=False)
    b.create("admin_queue$", transactional=False)
    a.send(0, r"DIRECT=OS:B\private$\admin_queue$", b"m", acknowledge=EVERYTHING,
           admin_queue=ADMIN)  # fmt: skip
    world.run(3)
    b.receive(r"private$\admin_queue$")
    world.run(3)
    assert classes(a, ADMIN) == []


def test_acknowledgments_are_never_acknowledged_nor_journaled(world: World) -> None:
    a, b = world["A"], world["B"]
    b.create("adm", transactional=False, journal=True)
    a.once(Q, b"m", acknowledge=EVERYTHING, admin_queue=r"DIRECT=OS:B\private$\adm",
           journal=Journal(3), time_to_be_received=60)  # fmt: skip
    world.run(3)
    assert classes(b, ADMIN) == [C.ACK_REACH_QUEUE]
    b.receive(ADMIN)
    b.receive(LOCAL)
    world.run(200)
    assert classes(b, ADMIN) == [C.ACK_RECEIVE]
    b.ask(requests.PurgeQueue(ADMIN))
    world.run(3)
    assert classes(b, DEAD_PLAIN) == classes(a, DEAD_PLAIN) == []
    assert a.bodies(JOURNAL) == [b"m"]
    assert classes(b, ADMIN + ";JOURNAL") == [C.ACK_REACH_QUEUE], "what was received from it is"


@pytest.mark.parametrize(
    "name",
    [
        "DL=00000000-0000-0000-0000-000000000001", "MULTICAST=224.1.1.1:80", DEAD, JOURNAL,
        r"private$\adm;JOURNAL", r"private$\adm;sub",
    ],
)  # fmt: skip
def test_names_that_cannot_be_administration_queues(world: World, name: str) -> None:
    with pytest.raises(UnsupportedFormatName) as refused:
        world["A"].once(Q, b"m", acknowledge=EVERYTHING, admin_queue=name)
    assert refused.value.hresult == 0xC00E0020
    assert world["B"].bodies(LOCAL) == []


@pytest.mark.unturned("private", reason="it names one queue by its number, and others not")
def test_every_administration_queue_gets_every_acknowledgment(world: World) -> None:
    a, b = world["A"], world["B"]
    b.create("adm", transactional=False)
    guid = guid_text(a.identity.guid)
    (queue,) = [q for q in a.look("queues") if q.name == "adm"]
    a.create("second", transactional=False)
    first = rf"PRIVATE={guid}\{queue.number:08x}"
    both = rf"{first},DIRECT=OS:A\private$\second,DIRECT=OS:B\private$\adm"
    for name in (Q, r"DIRECT=OS:B\private$\gone"):
        a.once(name, b"m", acknowledge=EVERYTHING, admin_queue=both)
    a.create("q")
    a.once(LOCAL, b"here", acknowledge=EVERYTHING, admin_queue=both)
    world.run(3)
    assert b.messages(LOCAL)[0].admin_queue == both
    b.receive(LOCAL)
    a.receive(LOCAL)
    world.run(5)
    expected = sorted([C.ACK_REACH_QUEUE, C.ACK_RECEIVE] * 2 + [C.NACK_BAD_DESTINATION_QUEUE])
    for node, name in ((a, ADMIN), (a, r"private$\second"), (b, ADMIN)):
        assert sorted(classes(node, name)) == expected


# ---- refusals and journals -------------------------------------------------------------------


def test_case_133_a_refused_message_holds_nothing_up_and_is_refused_once(
    worlds: Worlds,
) -> None:
    world = worlds("A", "B")
    a, b = world["A"], world["B"]
    a.create("adm", transactional=False)
    b.create("q", quota_kb=2)
    link = world.link("A", "B")
    link.policy = lambda p: [] if p.kind == 2 else [(0, p)] * 2
    a.once(Q, b"1", acknowledge=EVERYTHING, admin_queue=ADMIN, journal=Journal.DEADLETTER)
    for body in (bytes(3000), b"3"):
        a.once(Q, body, acknowledge=EVERYTHING, admin_queue=ADMIN)
    world.run(200)
    assert b.bodies(LOCAL) == [b"1", b"3"]
    assert classes(a, ADMIN).count(C.NACK_QUEUE_EXCEED_QUOTA) == 1
    sent = len([p for p in link.data() if p.number == 2])
    assert sent <= 4, "not again and again"
    a.once(Q, b"4")
    world.run(4000)
    assert len([p for p in link.data() if p.number == 2]) == sent
    assert b.bodies(LOCAL) == [b"1", b"3", b"4"]
    assert a.look("outgoing-queue", Q).unacknowledged == 0
    for node in (a, b):
        node.crash()
        node.start()
    b.receive(LOCAL, count=3)
    world.run(600)
    assert classes(a, ADMIN).count(C.NACK_QUEUE_EXCEED_QUOTA) == 1, "nor after a restart"
    assert b.bodies(LOCAL) == [], "nor does it come when there is room"


def test_a_full_computer_journal_drops_copies_and_nothing_else(worlds: Worlds) -> None:
    world = peopled(worlds("A", "B", settings=fast(computer_journal_quota_kb=1)))
    a, b = world["A"], world["B"]
    a.create("here", transactional=False)
    for name in (N, r"private$\here"):
        for delivery in (Delivery.RECOVERABLE, Delivery.EXPRESS):
            a.send(0, name, bytes(300), journal=Journal.JOURNAL, delivery=delivery)
    world.run(3)
    a.once(Q, bytes(300), journal=Journal.JOURNAL)
    world.run(3)
    b.receive(LOCAL)
    world.run(3)
    assert a.bodies(JOURNAL) == [bytes(300)] * 2
    assert a.look("outgoing-queue", Q).messages == 0, "it is not waited for"
    a.receive(JOURNAL)
    a.send(0, r"private$\here", b"room again", journal=Journal.JOURNAL)
    assert a.bodies(JOURNAL) == [bytes(300), b"room again"]
    assert len(b.bodies(r"private$\n")) == len(a.bodies(r"private$\here")) - 1 == 2


def test_what_does_not_fit_on_its_own_computer_is_refused_at_the_call(world: World) -> None:
    b = world["B"]
    b.create("adm", transactional=False)
    asks: dict[str, Any] = {"acknowledge": EVERYTHING, "admin_queue": ADMIN}
    number = b.look("queue", LOCAL).format_name
    for name in (LOCAL, r"DIRECT=OS:.\private$\q", number, Q, rf"{Q},{FAR}", rf"{FAR},{Q}"):
        with pytest.raises(WrongQueueKind):
            b.send(0, name, b"1", journal=Journal.DEADLETTER, **asks)
    assert b.bodies(LOCAL) == b.bodies(DEAD_PLAIN) == b.bodies(ADMIN) == []
    tx = b.begin()
    for journal in (Journal.DEADLETTER, Journal.NONE):
        b.send(tx, LOCAL, b"3", journal=journal, **asks)
    b.delete(LOCAL)
    b.commit(tx)
    assert classes(b, DEAD) == [C.NACK_BAD_DESTINATION_QUEUE]
    told = [message.message_class for message in b.messages(ADMIN)]
    assert told.count(C.NACK_BAD_DESTINATION_QUEUE) == 2


def test_purging_what_was_transmitted_is_told_to_nobody_as_not_delivered(world: World) -> None:
    a, b = world["A"], world["B"]
    asks: dict[str, Any] = {
        "acknowledge": EVERYTHING,
        "admin_queue": ADMIN,
        "journal": Journal.DEADLETTER,
    }
    world.link("A", "B").policy = no_order_acks
    a.once(Q, b"1", b"2", **asks)
    world.run(2)
    world.cut("A", "B")
    a.once(Q, b"3", **asks)
    a.ask(requests.PurgeQueue(Q))
    assert a.bodies(DEAD) == [b"1", b"2", b"3"]
    assert classes(a, DEAD) == [C.NACK_RECEIVE_TIMEOUT_AT_SENDER] * 2 + [C.NACK_DELETED]
    assert [m.note for m in a.messages(DEAD)] == [C.NACK_DELETED] * 2 + [0]
    world.mend("A", "B")
    world.run(20)
    assert b.bodies(LOCAL) == [b"1", b"2"]
    assert sorted(classes(a, ADMIN)) == [C.ACK_REACH_QUEUE] * 2 + [C.NACK_DELETED]


def test_rejected_and_kept_by_both_ends(world: World) -> None:
    a = world["A"]
    a.create("q")
    a.once(LOCAL, b"m", **mine())
    a.once(LOCAL, b"nothing asked")
    tx = a.begin()
    lookups = tuple(a.receive(LOCAL, tx=tx, count=2).lookup_ids)
    a.ask(requests.Reject(LOCAL, tx, lookups, True))
    a.commit(tx)
    assert classes(a, OWN) == [C.NACK_RECEIVE_REJECTED]
    assert a.bodies(DEAD) == [b"m", b"nothing asked"]
    assert set(classes(a, DEAD)) == {C.NACK_RECEIVE_REJECTED}
    assert [m.note for m in a.messages(DEAD)] == [SECOND_LETTER, 0], "one of the two is marked"
    assert [m.note for m in a.messages(OWN)] == [0]


def test_administration_queues_that_take_nothing(world: World) -> None:
    a, b = world["A"], world["B"]
    a.create("small", transactional=False, quota_kb=1)
    gone, small = r"DIRECT=OS:A\private$\gone", r"DIRECT=OS:A\private$\small"
    for admin in (r"DIRECT=OS:B\private$\gone", gone, small):
        a.once(Q, *[b"m"] * 10, acknowledge=EVERYTHING, admin_queue=admin)
    a.create("q")
    a.once(LOCAL, *[b"m"] * 10, acknowledge=EVERYTHING, admin_queue=f"{gone},{small}")
    world.run(5)
    assert len(b.bodies(LOCAL)) == 30, "the messages themselves arrive"
    assert 0 < len(classes(a, r"private$\small")) < 10
    assert a.bodies(LOCAL) == [b"m"] * 10
    for node in (a, b):
        node.receive(LOCAL, count=100)
    world.run(5)
    assert sum(view.messages for view in b.look("outgoing")) == 0


def test_acknowledgments_wait_for_a_manager_that_is_away_but_not_for_ever(worlds: Worlds) -> None:
    world = peopled(worlds("A", "B", settings=fast(time_to_reach_queue_s=1000)))
    a, b = world["A"], world["B"]
    a.send(0, N, b"m", acknowledge=EVERYTHING, admin_queue=ADMIN)
    world.run(2)
    a.receive(ADMIN)
    world.cut("A", "B")
    b.receive(r"private$\n")
    world.run(900)
    assert sum(view.messages for view in b.look("outgoing")) == 1
    world.run(200)
    assert sum(view.messages for view in b.look("outgoing")) == 0
    assert classes(b, DEAD_PLAIN) == []


def test_the_body_of_the_largest_message_comes_back_only_if_it_fits(world: World) -> None:
    # The name by number of a remote queue is longer as a response queue than as a destination.
    world.cut("A", "B")
    a, b = world["A"], world["B"]
    (queue,) = [q for q in a.look("queues") if q.name == "adm"]
    admin = f"PRIVATE={guid_text(a.identity.guid)}\\{queue.number:08x}"
    asks: dict[str, Any] = {
        "acknowledge": EVERYTHING,
        "admin_queue": admin,
        "time_to_reach_queue": 5,
    }
    there = f"PRIVATE={guid_text(b.identity.guid)}\\000000ff"
    largest = (4 << 20) - 100
    while True:
        try:
            a.send(0, there, bytes(largest), **asks)
            break
        except BodyTooLarge:
            largest -= 4
    a.send(0, there, bytes(largest - 40), **asks)
    world.run(10)
    large, smaller = a.messages(ADMIN)
    assert large.message_class == smaller.message_class == C.NACK_REACH_QUEUE_TIMEOUT
    assert (len(large.body), len(smaller.body)) == (0, largest - 40)
