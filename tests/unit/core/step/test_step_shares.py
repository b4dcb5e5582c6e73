"""What one owner may have of the things that all share: each line of the table, filled by one and
used by another.

Upholds: I24, I28.
"""

from __future__ import annotations

import pytest

from onceq.core.inputs import OwnerCame, OwnerGone
from onceq.errors import InsufficientResources, OnceqError
from onceq.model import requests
from onceq.model.branches import Xid
from onceq.model.rights import Actor, ActorKind
from onceq.model.shares import RESERVE_PART, TABLE, Thing, why_not
from tests.few import few
from tests.unit.core.somebody import KEY, RUNS
from tests.unit.core.step.fillers import ADMIN, ALICE, FILLERS, NAMES, by, fill, house

WHOLE = 48
BOB = 4


def test_every_line_of_the_table_is_filled_here() -> None:
    assert list(FILLERS) == list(TABLE) == list(Thing)


@pytest.mark.parametrize("thing", Thing, ids=lambda thing: thing.name.lower())
def test_one_fills_and_another_works(thing: Thing, monkeypatch: pytest.MonkeyPatch) -> None:
    made = house()
    few(monkeypatch, thing, WHOLE)
    limit, had = TABLE[thing], 0
    owners = [owner for owner in NAMES if owner not in (ALICE, ADMIN)]
    for at, owner in enumerate(owners):
        count, refused = fill(made, thing, owner, 10 + at * 30, WHOLE)
        assert 1 <= count <= limit.share
        had += count
        if thing is not Thing.STREAMS:
            assert str(thing) in refused.text
            assert limit.cure in refused.text
            assert f"{by(owner)} has {count} " in refused.text
    assert not isinstance(FILLERS[thing](made, ALICE, 1), OnceqError), "others work"
    assert had + 1 <= WHOLE - limit.reserve
    if not limit.reserve:
        return
    count, refused = fill(made, thing, ADMIN, 140, WHOLE)
    assert count >= limit.reserve
    assert f"of at most {WHOLE}" in refused.text
    assert limit.cure in refused.text
    assert isinstance(FILLERS[thing](made, RUNS, 250), OnceqError), "it is full"


@pytest.mark.parametrize("thing", Thing, ids=lambda thing: thing.name.lower())
def test_the_first_one_has_its_share(thing: Thing, monkeypatch: pytest.MonkeyPatch) -> None:
    made = house()
    few(monkeypatch, thing, WHOLE * 4)
    count, _ = fill(made, thing, BOB, 10, WHOLE * 4)
    share = TABLE[thing].share
    # What there was before takes from the half that is left for others.
    there = 8 if share * 2 > (WHOLE * 4 - TABLE[thing].reserve) * 0.9 else 0
    assert share - there <= count <= share


def test_what_is_full_for_one_has_room_again_when_something_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = house()
    few(monkeypatch, Thing.QUEUES, WHOLE)
    count, _ = fill(made, Thing.QUEUES, BOB, 10, WHOLE)
    assert made.ask(requests.DeleteQueue("private$\\q10"), owner=BOB) == 0
    assert fill(made, Thing.QUEUES, BOB, 100, WHOLE)[0] == 1
    assert made.manager.state.makers.counts[Thing.QUEUES].of(by(BOB)) == count


def test_who_is_gone_leaves_what_ends_with_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    made = house()
    things = (Thing.HANDLES, Thing.CURSORS, Thing.WAITS, Thing.TRANSACTIONS)
    for thing in things:
        few(monkeypatch, thing, WHOLE)
    few(monkeypatch, Thing.HANDLES, 100 * WHOLE)
    counts = {thing: fill(made, thing, BOB, 10, WHOLE)[0] for thing in things[1:]}
    # Another connection of the same account has no share of its own.
    made.step(OwnerCame(9, Actor(ActorKind.ACCOUNT, "bob")))
    monkeypatch.setitem(NAMES, 9, "bob")
    for thing in things[1:]:
        assert isinstance(FILLERS[thing](made, 9, 99), OnceqError), thing
    made.step(OwnerGone(BOB))
    for thing in things[1:]:
        assert fill(made, thing, 9, 10, WHOLE)[0] == counts[thing]


def test_what_was_begun_and_left_without_a_promise_counts_as_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An end leaves a branch in memory until it is prepared."""
    made = house()
    few(monkeypatch, Thing.TRANSACTIONS, WHOLE)
    for number in range(1, TABLE[Thing.TRANSACTIONS].share + 1):
        xid = Xid(7, b"%d" % number, b"b")
        assert made.ask(requests.StartBranch(number, xid), owner=BOB) is None
        assert made.ask(requests.EndBranch(number, xid), owner=BOB) is None
    refused = made.ask(requests.StartBranch(99, Xid(7, b"99", b"b")), owner=BOB)
    assert isinstance(refused, InsufficientResources)
    assert "open transactions" in refused.text
    made.ask(requests.PrepareBranch(xid), owner=BOB)
    assert made.ask(requests.StartBranch(99, Xid(7, b"99", b"b")), owner=BOB) is None


def test_a_token_brings_no_more_grants_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = house()
    few(monkeypatch, Thing.GRANTS, WHOLE)
    fill(made, Thing.GRANTS, ADMIN, 10, WHOLE)
    asked = requests.CreateToken("t", 0, [("peek", KEY)])
    asked.check()
    asked.secret = bytes(16)
    answer = made.ask(asked, owner=ADMIN)
    assert isinstance(answer, OnceqError)
    assert f"of at most {WHOLE}" in answer.text


def test_the_table_leaves_administrators_something() -> None:
    for thing, line in TABLE.items():
        assert 0 < line.share <= (line.whole - line.reserve) // 2, thing
        if line.reserve:
            assert line.reserve == line.whole // RESERVE_PART
        # Nobody who owns nothing is refused below.
        assert not why_not(thing, "account:x", 0, line.plenty - 1, administers=False)
        assert why_not(thing, "account:x", 0, line.whole - line.reserve, administers=False)
        if line.reserve:
            assert not why_not(thing, "", 0, line.whole - 1, administers=True)
        assert why_not(thing, "", 0, line.whole, administers=True)
