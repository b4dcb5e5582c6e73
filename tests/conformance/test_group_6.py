"""Conformance cases 103 to 113: receiving and subqueues."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.errors import OperationCancelled, QueueDeleted, ReceiveTimeout
from onceq.model.message import Acknowledge, Journal
from onceq.model.requests import Access, Receive, Seek, Share
from tests.conformance.applications import Applications
from tests.conformance.one_queue import (
    DEAD,
    HERE,
    POISON,
    REMOTE,
    RETRY,
    Q,
    a,
    in_queue,
    three,
    world,
)
from tests.conformance.reading import body, code_of, cursor, move, purge, reject, seek
from tests.conformance.world import Node, World, lookups

__all__ = ["a", "three", "world"]


def test_case_104_abort_restores_the_order(three: Node) -> None:
    tx = three.begin()
    assert three.receive(Q, tx=tx).bodies() == [b"m1"]
    three.abort(tx)
    assert in_queue(three) == [b"m1", b"m2", b"m3"]
    places = list(lookups(three.messages(Q)))
    one, other = three.begin(), three.begin()
    assert three.receive(Q, tx=one).bodies() == [b"m1"]
    assert three.receive(Q, tx=other).bodies() == [b"m2"]
    three.once(HERE, b"m4")
    three.abort(one)
    three.abort(other)
    assert in_queue(three) == [b"m1", b"m2", b"m3", b"m4"]
    assert list(lookups(three.messages(Q)))[:3] == places
    three.kill()
    three.start()
    assert three.receive(Q, count=4).bodies() == [b"m1", b"m2", b"m3", b"m4"]


def test_case_105_what_is_locked_is_not_there_for_others(three: Node) -> None:
    other = three.stranger()
    tx = three.begin()
    three.receive(Q, tx=tx)
    assert in_queue(three) == [b"m2", b"m3"]
    assert other.bodies(Q) == [b"m2", b"m3"]
    inner = other.begin()
    assert other.receive(Q, tx=inner).bodies() == [b"m2"]
    assert other.bodies(Q) == in_queue(three) == [b"m3"]
    three.abort(tx)
    assert other.bodies(Q) == [b"m1", b"m3"]
    other.commit(inner)
    other.leave()
    assert in_queue(three) == [b"m1", b"m3"]


def test_case_106_allow_peek_shows_it_until_the_outcome(three: Node) -> None:
    other = three.stranger()
    first = lookups(three.messages(Q))[0]
    tx = three.begin()
    held = seek(three, Q, Seek.CURRENT, first, peek=False, tx=tx, allow_peek=True)
    assert held.bodies() == [b"m1"]
    for who in (three, other):
        assert who.bodies(Q) == [b"m1", b"m2", b"m3"]
        assert body(who, Q, Seek.FIRST) == b"m1"
        assert body(who, Q, Seek.CURRENT, first) == b"m1"
        assert code_of(seek, who, Q, Seek.CURRENT, first, peek=False) == 0xC00E0088
    assert other.receive(Q).bodies() == [b"m2"], "it is still locked for receivers"
    three.commit(tx)
    for who in (three, other):
        assert who.bodies(Q) == [b"m3"]
        assert code_of(seek, who, Q, Seek.CURRENT, first) == 0xC00E0088


def test_case_106_an_abort_ends_the_showing_too(three: Node) -> None:
    first = lookups(three.messages(Q))[0]
    tx = three.begin()
    seek(three, Q, Seek.CURRENT, first, peek=False, tx=tx, allow_peek=True)
    three.abort(tx)
    assert in_queue(three) == [b"m1", b"m2", b"m3"]
    tx = three.begin()
    three.receive(Q, tx=tx)
    assert in_queue(three) == [b"m2", b"m3"]


def test_case_107_aborts_and_moves_are_counted(three: Node) -> None:
    for _ in range(2):
        tx = three.begin()
        three.receive(Q, tx=tx)
        three.abort(tx)
    (first, *_) = three.messages(Q)
    assert (first.abort_count, first.move_count, first.last_move_time) == (2, 0, 0)
    tx = three.begin()
    move(three, Q, first.lookup_id, RETRY, tx=tx)
    three.commit(tx)
    (moved,) = three.messages(RETRY)
    assert (moved.abort_count, moved.move_count) == (0, 1)
    assert moved.last_move_time >= moved.arrived_time > 0
    move(three, RETRY, moved.lookup_id, Q)
    *_, back = three.messages(Q)
    assert (back.body, back.abort_count, back.move_count) == (b"m1", 0, 2)


def test_case_107_the_counts_survive_a_restart(three: Node) -> None:
    move(three, Q, lookups(three.messages(Q))[0], RETRY)
    tx = three.begin()
    three.receive(RETRY, tx=tx)
    three.kill()
    three.start()
    (moved,) = three.messages(RETRY)
    assert (moved.body, moved.abort_count, moved.move_count) == (b"m1", 1, 1)
    assert in_queue(three) == [b"m2", b"m3"]


def test_case_108_what_cannot_be_moved(three: Node) -> None:
    three.create("other")
    first, second, _ = lookups(three.messages(Q))
    elsewhere = r"private$\other;retry"
    assert code_of(move, three, Q, first, elsewhere) == 0xC00E0006
    assert code_of(move, three, Q, first, r"private$\other") == 0xC00E0006
    assert code_of(move, three, Q, first, Q) == 0xC00E0006, "that is no move"
    tx, mine = three.begin(), three.begin()
    three.receive(Q, tx=tx)
    assert code_of(move, three, Q, first, RETRY) == 0xC00E009C
    assert code_of(move, three, Q, first, RETRY, tx=mine) == 0xC00E009C
    assert code_of(move, three, Q, 0x7777, RETRY) == 0xC00E0088
    assert code_of(move, three, Q, second, RETRY, tx=987654) == 0xC00E0051
    three.abort(tx)
    three.open(Q, Access.RECEIVE, Share.DENY_RECEIVE)
    assert code_of(move, three.stranger(), Q, second, RETRY) == 0xC00E0009, "whose it is alone"
    assert in_queue(three) == [b"m1", b"m2", b"m3"]


def test_case_108_the_order_of_checks(three: Node) -> None:
    """Q-33: handle, relation, transactional target, identifier, lock, transaction."""
    three.create("plain", transactional=False)
    three.send(0, r"DIRECT=OS:.\private$\plain", b"p")
    plain, bad_tx, bad_id = r"private$\plain", 987654, 0x7777
    receiving = three.open(Q, Access.RECEIVE).handle
    unrelated = three.open(r"private$\plain;x", Access.MOVE).handle
    assert code_of(move, three, Q, bad_id, "", tx=bad_tx, handle=receiving) == 0xC00E0007
    assert code_of(move, three, Q, bad_id, "", tx=bad_tx, handle=4711) == 0xC00E0007
    assert code_of(move, three, Q, bad_id, "", tx=bad_tx, handle=unrelated) == 0xC00E0006
    assert code_of(move, three, plain, bad_id, plain + ";x", tx=bad_tx) == 0xC00E0050
    assert code_of(move, three, Q, bad_id, RETRY, tx=bad_tx) == 0xC00E0088
    tx = three.begin()
    first = lookups(three.receive(Q, tx=tx))[0]
    assert code_of(move, three, Q, first, RETRY, tx=bad_tx) == 0xC00E009C
    place = lookups(three.messages(plain))[0]
    assert move(three, plain, place, "", handle=unrelated)
    assert in_queue(three, plain + ";x") == [b"p"]


def test_case_108_a_move_is_provisional_until_the_commit(three: Node) -> None:
    _, second, _ = lookups(three.messages(Q))
    tx = three.begin()
    move(three, Q, second, RETRY, tx=tx)
    assert in_queue(three) == [b"m1", b"m3"]
    assert in_queue(three, RETRY) == []
    three.abort(tx)
    assert in_queue(three) == [b"m1", b"m2", b"m3"]
    assert [m.abort_count for m in three.messages(Q)] == [0, 1, 0]
    tx = three.begin()
    move(three, Q, second, RETRY, tx=tx)
    three.commit(tx)
    assert (in_queue(three), in_queue(three, RETRY)) == ([b"m1", b"m3"], [b"m2"])


@pytest.mark.unturned("second", reason="it counts queues")
def test_case_109_subqueues_come_and_go(three: Node) -> None:
    assert code_of(three.open, RETRY, Access.SEND) == 0xC00E0045
    assert code_of(three.once, HERE + ";retry", b"x") == 0xC00E0020
    assert code_of(three.look, "queue", RETRY) == 0xC00E0003
    handle = three.open(RETRY, Access.PEEK).handle
    assert three.look("queue", RETRY).messages == 0
    place = move(three, Q, lookups(three.messages(Q))[0], RETRY)
    three.close_handle(handle)
    assert three.look("queue", RETRY).messages == 1
    assert seek(three, RETRY, Seek.CURRENT, place, peek=False).bodies() == [b"m1"]
    assert code_of(three.look, "queue", RETRY) == 0xC00E0003
    # Emptied while it is open, it goes when it is closed; by whoever has it open last.
    other = three.stranger()
    handles = [who.open(RETRY, Access.RECEIVE).handle for who in (three, other)]
    move(three, Q, lookups(three.messages(Q))[0], RETRY)
    assert other.receive(RETRY).bodies() == [b"m2"]
    assert three.look("queue", RETRY).messages == 0
    three.close_handle(handles[0])
    assert three.look("queue", RETRY).messages == 0
    other.close_handle(handles[1])
    assert code_of(three.look, "queue", RETRY) == 0xC00E0003


def test_case_109_one_that_is_empty_goes_with_a_restart(three: Node) -> None:
    three.open(RETRY, Access.PEEK)
    move(three, Q, lookups(three.messages(Q))[0], POISON)
    three.kill()
    three.start()
    assert code_of(three.look, "queue", RETRY) == 0xC00E0003
    assert in_queue(three, POISON) == [b"m1"]


def test_case_110_cursors(three: Node) -> None:
    at = cursor(three, Q)
    assert code_of(seek, three, Q, Seek.NEXT, cursor=at) == 0xC00E001C
    assert body(three, Q, Seek.CURRENT, cursor=at) == b"m1"
    assert body(three, Q, Seek.NEXT, cursor=at) == b"m2"
    assert body(three, Q, Seek.CURRENT, cursor=at) == b"m2"
    three.stranger().receive(Q, count=2)
    assert code_of(seek, three, Q, Seek.CURRENT, cursor=at) == 0xC00E001D
    assert code_of(seek, three, Q, Seek.CURRENT, cursor=at, peek=False) == 0xC00E001D
    assert body(three, Q, Seek.NEXT, cursor=at) == b"m3"
    assert code_of(seek, three, Q, Seek.NEXT, cursor=at) == 0xC00E001B
    three.create("other")
    other = cursor(three, r"private$\other")
    for who, queue, place in (
        (three.stranger(), Q, at), (three, r"private$\other", at), (three, Q, other),
        (three, Q, 4711),
    ):  # fmt: skip
        assert code_of(seek, who, queue, Seek.FIRST, cursor=place) == 0xC00E0007, "not of theirs"


def test_case_110_receiving_through_a_cursor(three: Node) -> None:
    at = cursor(three, Q)
    assert body(three, Q, Seek.CURRENT, cursor=at) == b"m1"
    assert body(three, Q, Seek.NEXT, cursor=at) == b"m2"
    assert body(three, Q, Seek.CURRENT, cursor=at, peek=False) == b"m2"
    assert body(three, Q, Seek.CURRENT, cursor=at) == b"m3", "the next call is about the following"
    assert body(three, Q, Seek.CURRENT, cursor=at, peek=False) == b"m3"
    assert code_of(seek, three, Q, Seek.CURRENT, cursor=at, peek=False) == 0xC00E001B
    assert in_queue(three) == [b"m1"]
    assert body(three, Q, Seek.FIRST, cursor=at) == b"m1"
    assert code_of(seek, three, Q, Seek.PREV, cursor=at) == 0xC00E0088


def test_case_110_what_a_cursor_stands_at_is_known_to_be_gone(three: Node) -> None:
    at = cursor(three, Q)
    first, second, _ = lookups(three.messages(Q))
    body(three, Q, Seek.CURRENT, cursor=at)
    three.receive(Q, count=2)
    assert code_of(seek, three, Q, Seek.CURRENT, first) == 0xC00E001D
    assert code_of(seek, three, Q, Seek.CURRENT, second) == 0xC00E0088


def test_case_111_by_lookup_identifier(a: Node) -> None:
    a.once(HERE, *(b"m%d" % n for n in range(1, 6)))
    ids = lookups(a.messages(Q))
    tx = a.begin()
    seek(a, Q, Seek.CURRENT, ids[2], peek=False, tx=tx)
    assert body(a, Q, Seek.NEXT, ids[1]) == b"m4"
    assert body(a, Q, Seek.PREV, ids[3]) == b"m2"
    assert body(a, Q, Seek.FIRST, 0x7777) == b"m1"
    assert body(a, Q, Seek.LAST, 0x7777) == b"m5"
    assert body(a, Q, Seek.FIRST) == b"m1"
    assert code_of(seek, a, Q, Seek.CURRENT, 0x7777) == 0xC00E0088
    other = a.stranger()
    assert body(other, Q, Seek.NEXT, ids[1]) == b"m4"
    assert body(other, Q, Seek.PREV, ids[3]) == b"m2"
    assert code_of(seek, other, Q, Seek.CURRENT, ids[2]) == 0xC00E0050
    assert code_of(seek, a, Q, Seek.CURRENT, ids[2]) == 0xC00E0050
    assert code_of(seek, a, Q, Seek.CURRENT, ids[2], peek=False) == 0xC00E0088
    assert code_of(seek, a, Q, Seek.NEXT, ids[4]) == 0xC00E0088
    assert code_of(seek, a, Q, Seek.PREV, ids[0]) == 0xC00E0088
    assert code_of(seek, a, Q, Seek.NEXT, 0) == 0xC00E0006
    assert code_of(seek, a, Q, Seek.NEXT, ids[4], wait_s=60) == 0xC00E0088, "it never waits"
    assert body(a, Q, Seek.LAST, peek=False) == b"m5"
    assert body(a, Q, Seek.PREV, ids[1], peek=False) == b"m1"
    a.abort(tx)
    assert in_queue(a) == [b"m2", b"m3", b"m4"]


def test_case_111_over_the_priorities(a: Node) -> None:
    a.create("plain", transactional=False)
    plain = r"private$\plain"
    for priority in (3, 7, 0, 7):
        a.send(0, r"DIRECT=OS:.\private$\plain", b"p%d" % priority, priority=priority)
    ids = lookups(a.messages(plain))
    assert list(ids) == sorted(ids)
    assert [body(a, plain, Seek.NEXT, id) for id in ids[:-1]] == [b"p7", b"p3", b"p0"]
    assert [body(a, plain, Seek.PREV, id) for id in ids[1:]] == [b"p7", b"p7", b"p3"]
    assert (body(a, plain, Seek.FIRST), body(a, plain, Seek.LAST)) == (b"p7", b"p0")


def dead(a: Node) -> list[tuple[bytes, int]]:
    try:
        return [(m.body, m.message_class) for m in a.messages(DEAD)]
    except ReceiveTimeout:
        return []


ADMIN = r"private$\adm"
ASKED: dict[str, Any] = {
    "journal": Journal.DEADLETTER, "acknowledge": Acknowledge(15), "admin_queue": ADMIN,
}  # fmt: skip


def told(a: Node) -> list[tuple[bytes, int]]:
    """Bodies and classes of the acknowledgments, but for those of arrivals; they are taken away."""
    try:
        found = a.receive(ADMIN, count=100)
    except ReceiveTimeout:
        return []
    return [(m.body, m.message_class) for m in found if m.message_class != 0x0002]


@pytest.mark.parametrize("outcome", ["commit", "abort", "gone", "kill"])
def test_case_112_purge_while_a_message_is_held(a: Node, outcome: str) -> None:
    a.create("adm", transactional=False)
    a.once(HERE, b"m1", b"m2", b"m3", **ASKED)
    holder: Applications = a if outcome == "kill" else a.stranger()
    tx = holder.begin()
    holder.receive(Q, tx=tx)
    purge(a, Q)
    others = [(b"m2", 0xC001), (b"m3", 0xC001)]
    assert dead(a) == told(a) == others
    if outcome == "commit":
        holder.commit(tx)
    elif outcome == "abort":
        holder.abort(tx)
    elif outcome == "gone":
        holder.leave()
    else:
        a.kill()
        a.start()
    a.world.run(1)
    assert in_queue(a) == []
    if outcome == "commit":
        assert (dead(a), told(a)) == (others, [(b"", 0x4000)]), "received, and not purged"
    else:
        assert (dead(a), told(a)) == ([*others, (b"m1", 0xC001)], [(b"m1", 0xC001)])


@pytest.mark.parametrize("outcome", ["commit", "abort", "gone", "kill"])
def test_case_113_time_to_be_received_ends_while_it_is_held(world: World, outcome: str) -> None:
    a = world["A"]
    a.create("adm", transactional=False)
    a.once(HERE, b"m1", **ASKED, time_to_be_received=5)
    holder: Applications = a if outcome == "kill" else a.stranger()
    tx = holder.begin()
    holder.receive(Q, tx=tx)
    world.run(10)
    assert (dead(a), told(a)) == ([], []), "it does not expire as long as it is held"
    if outcome == "commit":
        holder.commit(tx)
    elif outcome == "abort":
        holder.abort(tx)
    elif outcome == "gone":
        holder.leave()
    else:
        a.kill()
        a.start()
    world.run(60)
    assert in_queue(a) == []
    if outcome == "commit":
        assert (dead(a), told(a)) == ([], [(b"", 0x4000)])
    else:
        assert dead(a) == told(a) == [(b"m1", 0xC002)]


def test_case_113_nobody_who_waits_gets_what_has_expired(world: World) -> None:
    a = world["A"]
    a.once(HERE, b"m1", time_to_be_received=5)
    tx = a.begin()
    a.receive(Q, tx=tx)
    world.run(10)
    world.after(1_000_000, lambda: a.abort(tx))
    with pytest.raises(ReceiveTimeout):
        a.receive(Q, wait_s=5)


# ---- rules of receiving that have no case of their own ----------------------------------


def test_only_what_this_transaction_has_received_can_be_rejected(three: Node) -> None:
    first, second, _ = lookups(three.messages(Q))
    tx, other = three.begin(), three.begin()
    three.receive(Q, tx=other)
    assert code_of(reject, three, Q, tx, second) == 0xC00E0050
    assert code_of(reject, three, Q, tx, first) == 0xC00E0050
    three.abort(other)


def test_case_103_a_rejected_message_is_a_dead_letter_of_its_sender(a: Node) -> None:
    a.once(HERE, b"m1", b"m2", b"m3", journal=Journal.DEADLETTER)
    tx = a.begin()
    batch = a.receive(Q, tx=tx, count=3)
    reject(a, Q, tx, batch.lookup_ids[1])
    assert dead(a) == []
    a.abort(tx)
    assert (len(in_queue(a)), dead(a)) == (3, []), "an abort undoes it"
    tx = a.begin()
    batch = a.receive(Q, tx=tx, count=3)
    for outside in (0, 77):
        assert code_of(reject, a, Q, outside, batch.lookup_ids[0]) in (0xC00E0050, 0xC00E0051)
    assert code_of(reject, a, Q, 0, batch.lookup_ids[0]) == 0xC00E0050
    reject(a, Q, tx, batch.lookup_ids[1])
    a.commit(tx)
    assert in_queue(a) == []
    assert dead(a) == [(b"m2", 0xC004)]


@pytest.mark.parametrize("moved", [False, True])
def test_case_103_the_sender_elsewhere_gets_it_back(world: World, moved: bool) -> None:
    a, b = world["A"], world["B"]
    b.create("q")
    a.create("adm", transactional=False)
    asks: dict[str, Any] = {"acknowledge": Acknowledge(15), "admin_queue": r"private$\adm"}
    a.once(REMOTE, b"m1", b"m2", b"m3", journal=Journal.DEADLETTER, **asks)
    world.run(10)
    queue = Q
    if moved:
        queue = RETRY
        for lookup in lookups(b.messages(Q)):
            move(b, Q, lookup, RETRY)
    tx = b.begin()
    batch = b.receive(queue, tx=tx, count=3)
    reject(b, queue, tx, batch.lookup_ids[1])
    b.commit(tx)
    world.run(60)
    assert dead(a) == [(b"m2", 0xC004)]
    assert dead(b) == []
    told = [m for m in a.messages(r"private$\adm") if m.message_class != 0x0002]
    assert sorted(m.message_class for m in told) == [0x4000, 0x4000, 0xC004]
    (nack,) = (m for m in told if m.message_class == 0xC004)
    assert (nack.body, nack.response_queue) == (b"m2", REMOTE)


def test_case_113_what_expires_in_a_subqueue_is_told_to_its_sender(world: World) -> None:
    a, b = world["A"], world["B"]
    b.create("q")
    a.once(REMOTE, b"m1", journal=Journal.DEADLETTER, time_to_be_received=100)
    world.run(10)
    move(b, Q, lookups(b.messages(Q))[0], RETRY)
    world.run(300)
    assert in_queue(b, RETRY) == []
    assert dead(a) == [(b"m1", 0xC002)]


def test_a_rejection_is_undone_by_an_abort(a: Node) -> None:
    a.once(HERE, b"m1", journal=Journal.DEADLETTER)
    tx = a.begin()
    reject(a, Q, tx, a.receive(Q, tx=tx).lookup_ids[0])
    a.abort(tx)
    assert (in_queue(a), dead(a)) == ([b"m1"], [])


def test_a_moved_message_still_expires_and_is_told_of(world: World) -> None:
    a = world["A"]
    a.once(HERE, b"m1", journal=Journal.DEADLETTER, time_to_be_received=20)
    move(a, Q, lookups(a.messages(Q))[0], RETRY)
    world.run(30)
    assert in_queue(a, RETRY) == []
    assert dead(a) == [(b"m1", 0xC002)]
    assert code_of(a.look, "queue", RETRY) == 0xC00E0003


def test_what_is_purged_under_a_move_ends_as_purged(a: Node) -> None:
    a.once(HERE, b"m1", journal=Journal.DEADLETTER)
    tx = a.begin()
    move(a, Q, lookups(a.messages(Q))[0], RETRY, tx=tx)
    purge(a, Q)
    a.commit(tx)
    assert (in_queue(a, RETRY), dead(a)) == ([], [(b"m1", 0xC001)])


def test_a_deleted_queue_leaves_stale_handles(three: Node) -> None:
    """Q-37."""
    handle = three.open(Q, Access.RECEIVE).handle
    move(three, Q, lookups(three.messages(Q))[0], RETRY)
    tx = three.begin()
    three.receive(Q, tx=tx)
    assert three.delete(Q) == 3

    def through() -> object:
        return three.ask(Receive(Q, handle=handle))

    with pytest.raises(QueueDeleted) as caught:
        through()
    assert caught.value.hresult == 0xC00E005A
    three.create("q")
    with pytest.raises(QueueDeleted):
        through()
    three.close_handle(handle)
    three.commit(tx)


def test_a_wait_at_a_deleted_queue_ends(world: World, a: Node) -> None:
    world.after(1_000_000, lambda: a.delete(Q))
    with pytest.raises(QueueDeleted):
        a.receive(Q, wait_s=60)


def test_a_closed_handle_ends_its_waits(world: World, a: Node) -> None:
    """RCV-4."""
    handle = a.open(Q, Access.RECEIVE).handle
    until = world.now_us + 60_000_000
    world.after(1_000_000, lambda: a.close_handle(handle))
    with pytest.raises(OperationCancelled) as caught:
        a.ask(Receive(Q, wait_until_us=until, handle=handle))
    assert caught.value.hresult == 0xC00E0008
