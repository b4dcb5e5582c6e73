"""What a destination refuses is kept, counted and told, although nobody has asked (finding U1)."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.client.why import why
from onceq.errors import ReceiveTimeout
from onceq.model.message import Journal
from onceq.model.resultcodes import MessageClass as C
from onceq.model.settings import KEEP_ALWAYS, KEEP_ASKED, KEEP_REFUSED
from onceq.packet.arrived import FINAL_ACK
from onceq.testing.links import Passing, faithful
from tests.conformance.policies import no_order_acks
from tests.conformance.world import Node, World, Worlds, fast

DEAD = "SYSTEM$;DEADXACT"
OWN = r"private$\own"
HERE = "DIRECT=OS:B\\private$\\"

REFUSED = {
    "no-such-queue": C.NACK_BAD_DESTINATION_QUEUE,
    "plain": C.NACK_NOT_TRANSACTIONAL_QUEUE,
    "full": C.NACK_QUEUE_EXCEED_QUOTA,
}
"""Queues of B, and why they do not take the message."""


def peopled(worlds: Worlds, keep: str = KEEP_REFUSED) -> World:
    world = worlds("A", "B", settings=fast(xact_dead_letter=keep))
    world["B"].create("q")
    world["B"].create("plain", transactional=False)
    world["B"].create("full", quota_kb=1)
    world["A"].create("own")
    return world


def letters(node: Node, queue: str = DEAD) -> list[tuple[bytes, int]]:
    try:
        return [(m.body, m.message_class) for m in node.messages(queue)]
    except ReceiveTimeout:
        return []


def endings(node: Node, queue: str) -> list[tuple[int, int, int]]:
    view = node.look("outgoing-queue", HERE + queue)
    return [(one.message_class, one.messages, one.dead_letters) for one in view.endings]


BODY = bytes(2_000)


@pytest.mark.parametrize("queue", REFUSED)
def test_it_is_kept_and_counted_although_nobody_has_asked(worlds: Worlds, queue: str) -> None:
    world = peopled(worlds)
    a = world["A"]
    a.once(HERE + queue, BODY)
    world.run(5)
    assert letters(a) == [(BODY, REFUSED[queue])]
    assert endings(a, queue) == [(REFUSED[queue], 1, 1)]
    a.crash()
    a.start()
    assert endings(a, queue) == [(REFUSED[queue], 1, 1)], "it is known after a restart"
    assert "1 message was refused" in why(a.look("outgoing-queue", HERE + queue))
    a.steer(HERE + queue, "pause")  # or it is forgotten, with what was counted
    a.steer("", "tidy")
    a.crash()
    a.start()
    assert endings(a, queue) == [(REFUSED[queue], 1, 1)], "and after a checkpoint"


@pytest.mark.parametrize("queue", REFUSED)
def test_as_msmq_has_it_nothing_is_kept_and_it_is_counted(worlds: Worlds, queue: str) -> None:
    world = peopled(worlds, KEEP_ASKED)
    a = world["A"]
    a.once(HERE + queue, BODY, BODY)
    world.run(5)
    assert letters(a) == []
    assert endings(a, queue) == [(REFUSED[queue], 2, 0)]
    assert "they asked for no dead letter" in why(a.look("outgoing-queue", HERE + queue))


def test_who_asked_has_it_in_the_queue_that_he_named(worlds: Worlds) -> None:
    world = peopled(worlds)
    a = world["A"]
    a.once(HERE + "nowhere", BODY, journal=Journal.DEADLETTER, dead_letter_queue=OWN)
    a.once(HERE + "nowhere", b"asks for nothing")
    world.run(5)
    assert letters(a, OWN) == [(BODY, C.NACK_BAD_DESTINATION_QUEUE)]
    assert letters(a) == [(b"asks for nothing", C.NACK_BAD_DESTINATION_QUEUE)]


@pytest.mark.parametrize("more", [{}, {"time_to_be_received": 10}])
def test_what_was_delivered_is_no_refusal(worlds: Worlds, more: dict[str, Any]) -> None:
    """Purged and expired there: whoever wants to hear of it asks."""
    world = peopled(worlds)
    a, b = world["A"], world["B"]
    a.once(HERE + "q", b"m", **more)
    world.run(5)
    if not more:
        b.purge(r"private$\q")
    world.run(20)
    assert b.bodies(r"private$\q") == []
    assert letters(a) == []


def test_each_destination_for_itself(worlds: Worlds) -> None:
    """One send to four, of which three refuse it: three dead letters, each with its reason."""
    world = peopled(worlds)
    a, b = world["A"], world["B"]
    a.once(",".join(HERE + name for name in ("q", *REFUSED)), BODY)
    world.run(5)
    assert sorted(letters(a)) == sorted((BODY, reason) for reason in REFUSED.values())
    assert b.bodies(r"private$\q") == [BODY]
    assert {name: endings(a, name) for name in ("q", *REFUSED)} == {
        "q": [], **{name: [(reason, 1, 1)] for name, reason in REFUSED.items()},
    }  # fmt: skip


def test_a_queue_here_that_went_between_send_and_commit(worlds: Worlds) -> None:
    for keep in (KEEP_REFUSED, KEEP_ASKED):
        world = peopled(worlds, keep)
        a = world["A"]
        a.create("gone")
        tx = a.begin()
        a.send(tx, r"private$\gone", b"m")
        a.delete(r"private$\gone")
        a.commit(tx)
        kept = [(b"m", C.NACK_BAD_DESTINATION_QUEUE)] if keep == KEEP_REFUSED else []
        assert letters(a) == kept


def test_what_is_told_late_of_what_was_in_doubt(worlds: Worlds) -> None:
    """Its time was over here before the refusal came; it asked for a journal copy alone."""
    world = peopled(worlds)
    a = world["A"]

    def late(p: Passing) -> list[tuple[int, Passing]]:
        return [(60_000_000, p)] if p.kind == FINAL_ACK else no_order_acks(p)

    world.link("A", "B").policy = late
    a.once(HERE + "nowhere", b"m", time_to_reach_queue=10, journal=Journal.JOURNAL)
    world.run(30)
    assert letters(a) == []
    world.run(60)
    assert letters(a) == [(b"m", C.NACK_BAD_DESTINATION_QUEUE)]
    assert endings(a, "nowhere") == [(C.NACK_BAD_DESTINATION_QUEUE, 1, 1)]


def test_the_refusal_is_told_before_the_acknowledgment_that_covers_it(worlds: Worlds) -> None:
    """A new session shows a known stream, so its order acknowledgment leaves at once; were it
    there first, the sender would forget the message before it hears that it was refused."""
    world = peopled(worlds)
    a, link = world["A"], world.link("A", "B")
    link.policy = no_order_acks
    a.once(HERE + "full", b"x")
    world.run(5)
    world.cut("A", "B")
    a.once(HERE + "full", BODY)
    link.policy = faithful
    world.mend("A", "B")
    world.run(60)
    assert letters(a) == [(BODY, C.NACK_QUEUE_EXCEED_QUOTA)]


@pytest.mark.inside("daemons speak HTTP in tests/daemon/test_http.py")
@pytest.mark.parametrize(
    ("name", "reason"),
    [("plain", C.NACK_BAD_DESTINATION_QUEUE), ("nowhere", C.NACK_BAD_DESTINATION_QUEUE)],
)
def test_over_http_too(worlds: Worlds, name: str, reason: int) -> None:
    world = peopled(worlds)
    a, queue = world["A"], f"DIRECT=HTTP://b/msmq/private$/{name}"
    a.once(queue, b"m")
    world.run(60)
    assert letters(a) == [(b"m", reason)]
    view = a.look("outgoing-queue", queue)
    assert [(one.message_class, one.messages) for one in view.endings] == [(reason, 1)]


def test_everything_that_fails_is_kept_if_that_is_set(worlds: Worlds) -> None:
    world = peopled(worlds, KEEP_ALWAYS)
    a, b = world["A"], world["B"]
    a.once(HERE + "q", b"m")
    a.once(HERE + "nowhere", BODY)
    world.run(5)
    b.purge(r"private$\q")
    world.run(5)
    assert sorted(letters(a)) == sorted(
        [(b"m", C.NACK_QUEUE_PURGED), (BODY, C.NACK_BAD_DESTINATION_QUEUE)]
    )
