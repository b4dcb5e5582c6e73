"""Readers that look, write elsewhere and remove: who has read is remembered with the removal,
copies are kept in the journal, and a hold that nobody renews ends."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.errors import (
    BranchState,
    InsufficientResources,
    InvalidHandle,
    InvalidParameter,
    SharingViolation,
    TransactionUsage,
    UnsupportedAccessMode,
    UsageError,
)
from onceq.model.branches import Xid
from onceq.model.limits import READERS_MAX
from onceq.model.requests import Access, ForgetReader, Receive, Remove, RenewHold, Share, TakeRead
from onceq.testing.disk import STORE_POINTS
from tests.conformance.world import AnswerLost, World, Worlds, fast

Q = r"private$\q"
JOURNAL = Q + ";journal"
LEASE_MS = 10_000
DENY = (Access.RECEIVE, Share.DENY_RECEIVE)


@pytest.fixture
def world(worlds: Worlds) -> World:
    made = worlds("A", settings=fast())
    made["A"].create("q")
    return made


def fill(a: Any, count: int = 4, queue: str = Q) -> list[int]:
    """Send some; their lookup identifiers."""
    a.once(queue, *(b"%d" % n for n in range(count)))
    return list(a.messages(queue).lookup_ids)


def take(a: Any, first: int, last: int, *, tx: int = 0, queue: str = Q, **more: Any) -> Any:
    return a.ask(TakeRead(queue, tx, first, last, **more))


def taken(a: Any, first: int, last: int, **more: Any) -> Any:
    """In a transaction that is committed."""
    tx = a.begin()
    found = take(a, first, last, tx=tx, **more)
    a.commit(tx)
    return found


def known(a: Any, queue: str = Q) -> list[tuple[str, str, int]]:
    return [(one.reader, one.query, one.to) for one in a.look("readers", queue)]


# ---- who has read -------------------------------------------------------------------------------


def test_who_has_read_is_remembered_with_the_commit(world: World) -> None:
    a = world["A"]
    places = fill(a)
    tx = a.begin()
    said = {"reader": "orders", "query": "q1", "who": "a stream on host h"}
    assert take(a, places[0], places[1], tx=tx, **said) == 2
    assert known(a) == [], "not before the commit"
    a.commit(tx)
    assert a.bodies(Q) == [b"2", b"3"]
    (view,) = a.look("readers", "")
    assert (view.queue, view.reader, view.query, view.to) == (Q, "orders", "q1", places[1])
    assert (view.who, view.since > 0) == ("a stream on host h", True)


def test_an_abort_has_read_nothing(world: World) -> None:
    a = world["A"]
    places = fill(a)
    tx = a.begin()
    take(a, places[0], places[3], tx=tx, reader="r")
    a.abort(tx)
    assert known(a) == []
    assert len(a.bodies(Q)) == 4


def test_each_name_is_a_reader_and_the_last_query_counts(world: World) -> None:
    a = world["A"]
    places = fill(a)
    taken(a, places[0], places[0], reader="", query="x")
    taken(a, places[1], places[1], reader="other", query="y")
    taken(a, places[2], places[2], reader="", query="z")
    assert sorted(known(a)) == [("", "z", places[2]), ("other", "y", places[1])]
    assert taken(a, places[0], places[0], reader="", query="z") == 0, "asked again"
    assert ("", "z", places[2]) in known(a), "and it is no step back"
    taken(a, places[0], places[0], reader="", query="w")
    assert ("", "w", places[0]) in known(a), "another one begins where it likes"


@pytest.mark.unturned("checkpoint", reason="it counts syncs")
@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("point", STORE_POINTS)
def test_killed_while_it_is_committed(world: World, point: str, count: int) -> None:
    """Messages are gone and it is known who has read them, or neither (I2)."""
    a = world["A"]
    places = fill(a)
    a.die_at(point, count)
    try:
        taken(a, places[0], places[3], reader="r", query="q")
    except AnswerLost:
        a.start()
    else:
        a.crash()
        a.start()
    assert (a.bodies(Q) == []) is (known(a) == [("r", "q", places[3])])
    assert len(a.bodies(Q)) in (0, 4)
    taken(a, places[0], places[3], reader="r", query="q")
    assert (a.bodies(Q), known(a)) == ([], [("r", "q", places[3])])


def test_it_is_remembered_through_restarts_and_checkpoints(world: World) -> None:
    a = world["A"]
    places = fill(a)
    taken(a, places[0], places[1], reader="r\u00e9", query="q")
    for ends in (a.crash, a.kill, a.crash):
        engine = getattr(a, "engine", None)
        if engine is not None:  # a process of its own makes them when it likes
            engine.checkpoint()
        ends()
        a.start()
        assert known(a) == [("r\u00e9", "q", places[1])]
    a.ask(ForgetReader(Q, "r\u00e9"))
    a.crash()
    a.start()
    assert known(a) == []
    with pytest.raises(UsageError, match="no reader 're' of"):
        a.ask(ForgetReader(Q, "re"))


def test_a_queue_that_is_made_again_knows_nobody(world: World) -> None:
    a = world["A"]
    places = fill(a)
    taken(a, places[0], places[3], reader="r")
    a.delete(Q)
    assert a.look("readers", "") == []
    a.create("q")
    assert known(a) == []
    a.crash()
    a.start()
    assert known(a) == []


def test_a_queue_that_is_deleted_before_the_commit(world: World) -> None:
    a = world["A"]
    places = fill(a)
    tx = a.begin()
    take(a, places[0], places[3], tx=tx, reader="r")
    a.delete(Q)
    a.commit(tx)
    assert a.look("readers", "") == []


def test_readers_are_bounded(world: World) -> None:
    """The one that has not read for the longest time makes room."""
    a = world["A"]
    (place,) = fill(a, 1)
    for number in range(READERS_MAX + 1):
        taken(a, place, place, reader=f"r{number}")
        taken(a, place, place, reader="always")
    names = {reader for reader, _, _ in known(a)}
    assert len(names) == READERS_MAX
    assert {"always", f"r{READERS_MAX}"} <= names
    assert not {"r0", "r1"} & names


def test_outside_a_transaction_it_is_one_record_too(world: World) -> None:
    a = world["A"]
    a.create("plain", transactional=False)
    a.send(0, r"private$\plain", b"x", b"y")
    places = list(a.messages(r"private$\plain").lookup_ids)
    with pytest.raises(TransactionUsage):
        take(a, places[0], places[1], tx=a.begin(), queue=r"private$\plain")
    assert take(a, places[0], places[1], queue=r"private$\plain", reader="r") == 2
    a.crash()
    a.start()
    assert known(a, r"private$\plain") == [("r", "", places[1])]


def test_what_cannot_say_who_has_read(world: World) -> None:
    """A branch is promised without it, so it is refused there."""
    a = world["A"]
    places = fill(a)
    branch = a.start_branch(Xid(7, b"g", b"b"))
    with pytest.raises(BranchState):
        take(a, places[0], places[0], tx=branch, reader="r")
    assert len(a.bodies(Q)) == 4


# ---- copies -------------------------------------------------------------------------------------


def test_copies_are_kept_where_they_are_wanted(world: World) -> None:
    a = world["A"]
    places = fill(a)
    assert taken(a, places[0], places[1], keep=True) == 2
    taken(a, places[2], places[2])
    assert a.bodies(JOURNAL) == [b"0", b"1"], "its property does not ask for copies"
    a.crash()
    a.start()
    assert (a.bodies(JOURNAL), a.bodies(Q)) == ([b"0", b"1"], [b"3"])
    take(a, places[3], places[3], keep=True)
    assert a.bodies(JOURNAL) == [b"0", b"1", b"3"]


def test_a_full_journal_refuses_and_nothing_is_removed(world: World) -> None:
    a = world["A"]
    a.create("small", journal_quota_kb=1)
    small = r"private$\small"
    a.once(small, bytes(600), bytes(600))
    places = list(a.messages(small).lookup_ids)
    tx = a.begin()
    with pytest.raises(InsufficientResources, match="nothing is removed"):
        take(a, places[0], places[1], tx=tx, queue=small, keep=True)
    a.abort(tx)
    assert len(a.bodies(small)) == 2
    assert taken(a, places[0], places[0], queue=small, keep=True) == 1
    assert len(a.bodies(small + ";journal")) == 1


def test_a_copy_that_was_promised_is_kept(world: World) -> None:
    """Whatever has come into the journal between the request and the commit."""
    a = world["A"]
    a.create("small", journal_quota_kb=1, journal=True)
    small = r"private$\small"
    a.once(small, bytes(600), bytes(600))
    places = list(a.messages(small).lookup_ids)
    tx = a.begin()
    take(a, places[0], places[0], tx=tx, queue=small, keep=True)
    a.receive(small)
    a.commit(tx)
    assert len(a.bodies(small + ";journal")) == 2


def test_a_journal_has_no_journal(world: World) -> None:
    a = world["A"]
    places = fill(a)
    taken(a, places[0], places[3], keep=True)
    kept = list(a.messages(JOURNAL).lookup_ids)
    with pytest.raises(InvalidParameter, match="has no journal"):
        take(a, kept[0], kept[1], queue=JOURNAL, keep=True)
    assert take(a, kept[0], kept[3], queue=JOURNAL, reader="r") == 4
    assert known(a, JOURNAL) == [("r", "", kept[3])]


# ---- holds --------------------------------------------------------------------------------------


def held(who: Any, lease_ms: int = LEASE_MS) -> Any:
    opened = who.open(Q, *DENY)
    who.ask(RenewHold(opened.handle, lease_ms))
    return opened


def test_a_hold_that_nobody_renews_ends_when_it_is_in_the_way(world: World) -> None:
    a = world["A"]
    one, other = a.stranger(), a.stranger()
    first = held(one)
    world.run(LEASE_MS / 1000 - 1)
    with pytest.raises(SharingViolation):
        other.open(Q, *DENY)
    world.run(2)
    second = other.open(Q, *DENY)
    assert second.turn == first.turn + 1
    for asked in (
        RenewHold(first.handle, LEASE_MS),
        TakeRead(Q, 0, 1, 1, handle=first.handle),
        Receive(Q, handle=first.handle),
    ):
        with pytest.raises(InvalidHandle):
            one.ask(asked)
    with pytest.raises(SharingViolation):
        one.ask(Remove(Q, 0, 1, 1))


def test_a_hold_that_is_renewed_lasts(world: World) -> None:
    a = world["A"]
    one, other = a.stranger(), a.stranger()
    opened = held(one)
    for _ in range(5):
        world.run(LEASE_MS / 1000 - 1)
        one.ask(RenewHold(opened.handle, LEASE_MS))
        with pytest.raises(SharingViolation):
            other.open(Q, *DENY)
    one.ask(RenewHold(opened.handle, 0))
    world.run(1000)
    with pytest.raises(SharingViolation):
        other.open(Q, *DENY)


def test_who_is_slow_and_was_not_replaced_goes_on(world: World) -> None:
    a = world["A"]
    one = a.stranger()
    places = fill(a)
    opened = held(one)
    world.run(1000)
    one.ask(RenewHold(opened.handle, LEASE_MS))
    assert one.ask(TakeRead(Q, 0, places[0], places[1], handle=opened.handle)) == 2


@pytest.mark.parametrize(
    "asked", [lambda first: Receive(Q), lambda first: Remove(Q, 0, first, first)],
    ids=["receive", "remove"],
)  # fmt: skip
def test_whoever_wants_the_queue_ends_it(world: World, asked: Any) -> None:
    a = world["A"]
    one, other = a.stranger(), a.stranger()
    first = fill(a)[0]
    held(one)
    with pytest.raises(SharingViolation):
        other.ask(asked(first))
    world.run(LEASE_MS / 1000 + 1)
    other.ask(asked(first))
    assert a.bodies(Q) == [b"1", b"2", b"3"]


def test_what_has_no_lease(world: World) -> None:
    a = world["A"]
    one, other = a.stranger(), a.stranger()
    places = fill(a)
    plain = one.open(Q, Access.PEEK)
    with pytest.raises(UnsupportedAccessMode):
        one.ask(RenewHold(plain.handle, LEASE_MS))
    with pytest.raises(InvalidHandle, match="not held"):
        one.ask(TakeRead(Q, 0, places[0], places[0], handle=plain.handle))
    opened = held(one)
    with pytest.raises(InvalidHandle):
        other.ask(RenewHold(opened.handle, LEASE_MS))
    assert len(a.bodies(Q)) == 4
