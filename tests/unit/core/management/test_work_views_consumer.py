"""Who works on a queue: who holds messages of it, waits at it, or has it open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onceq.core.decision import Answer
from onceq.core.inputs import OwnerCame, OwnerGone
from onceq.core.management import work_views
from onceq.core.manager import Manager
from onceq.core.step.units import Units
from onceq.errors import OnceqError, QueueNotFound
from onceq.model import requests
from onceq.model.branches import Leave, Xid
from onceq.model.marks import FOR_EVER_US
from onceq.model.requests import Access, Share
from onceq.model.rights import Actor, ActorKind
from onceq.model.views.queues import ConsumerView
from tests.unit.core.alone import WAITS, WALL_S, Core
from tests.unit.core.somebody import (
    ALICE,
    BOB,
    KEY,
    ORDERS,
    RUNS,
    STRANGER,
    XID,
    core,
    denied,
    grant,
    item,
)

LATER = f"{ORDERS};later"
PLACE = "local, process 4711"


@pytest.fixture
def made() -> Core:
    """Ten messages, and two others who may do everything with them."""
    one = core()
    one.step(OwnerCame(ALICE, Actor(ActorKind.ACCOUNT, "alice"), where=PLACE))
    one.step(OwnerCame(BOB, Actor(ActorKind.CERTIFICATE, "bob"), where="10.1.2.3"))
    for who in ("alice", "certificate:bob"):
        grant(one, "receive,send", KEY, who=who)
    one.ask(requests.Commit(0, [item(count=10)]))
    return one


def look(made: Core, owner: int = RUNS, queue: str = ORDERS) -> list[ConsumerView]:
    found: Any = made.ask(requests.Look("consumers", queue), owner=owner)
    assert isinstance(found, list), found
    return found


def takes(made: Core, owner: int, count: int, transaction: int = 7, queue: str = ORDERS) -> None:
    """Somebody receives in a transaction that he has begun."""
    asked = requests.Receive(queue, transaction=transaction, count_max=count)
    got = made.ask(asked, owner=owner)
    assert not isinstance(got, OnceqError), got


def begins(made: Core, owner: int, transaction: int = 7) -> None:
    assert made.ask(requests.Begin(transaction), owner=owner) is None


def waits(made: Core, owner: int, *, peek: bool = False) -> None:
    asked = requests.Receive(ORDERS, wait_until_us=FOR_EVER_US, peek=peek)
    assert made.ask(asked, owner=owner) is WAITS


def opens(made: Core, owner: int, access: Access, **more: Any) -> None:
    answer = made.ask(requests.OpenQueue(ORDERS, access, **more), owner=owner)
    assert not isinstance(answer, OnceqError), answer


def prepares(made: Core, owner: int, count: int, xid: Xid = XID) -> None:
    made.ask(requests.StartBranch(9, xid), owner=owner)
    takes(made, owner, count, 9)
    made.ask(requests.PrepareBranch(xid, 9), owner=owner)


# ---- one of them -------------------------------------------------------------------------------


def test_nobody_works_on_a_queue_with_messages(made: Core) -> None:
    assert look(made) == []


def test_who_holds_messages_is_told_with_how_many_and_since_when(made: Core) -> None:
    begins(made, ALICE)
    takes(made, ALICE, 2)
    made.pass_time(60)
    begins(made, ALICE, 8)
    takes(made, ALICE, 3, 8)
    (one,) = look(made)
    assert one == ConsumerView(
        queue="orders", who="account:alice", place=PLACE, connection=ALICE, holds=5,
        since=WALL_S + 1,
    )  # fmt: skip


def test_what_is_decided_is_held_no_longer(made: Core) -> None:
    for number in (7, 8):
        begins(made, ALICE, number)
        takes(made, ALICE, 2, number)
    made.ask(requests.Commit(7), owner=ALICE)
    assert [one.holds for one in look(made)] == [2]
    made.ask(requests.Abort(8), owner=ALICE)
    assert look(made) == []


def test_a_purge_leaves_what_is_held_and_who_has_it(made: Core) -> None:
    begins(made, ALICE)
    takes(made, ALICE, 2)
    made.ask(requests.PurgeQueue(ORDERS))
    assert [one.holds for one in look(made)] == [2]


def test_who_waits_is_told_with_how_often(made: Core) -> None:
    made.ask(requests.PurgeQueue(ORDERS))
    waits(made, BOB)
    waits(made, BOB, peek=True)
    (one,) = look(made)
    assert one == ConsumerView(
        queue="orders", who="certificate:bob", place="10.1.2.3", connection=BOB, waiting=2
    )


def test_who_has_it_open_is_told_with_what_he_keeps_others_from(made: Core) -> None:
    made.pass_time(5)
    opens(made, BOB, Access.PEEK)
    made.pass_time(5)
    opens(made, BOB, Access.RECEIVE, share=Share.DENY_RECEIVE, note="nightly run")
    opens(made, BOB, Access.PEEK)
    opens(made, BOB, Access.SEND)
    (one,) = look(made)
    assert (one.opened, one.access, one.denies) == (3, "peek, receive", "receive")
    assert (one.says, one.since, one.holds, one.waiting) == ("nightly run", WALL_S + 6, 0, 0)


def test_a_program_in_the_process_of_the_queue_manager_has_no_name(made: Core) -> None:
    begins(made, RUNS)
    takes(made, RUNS, 1)
    (one,) = look(made)
    assert (one.who, one.place, one.connection) == ("", "", RUNS)


def test_who_has_gone_is_not_told(made: Core) -> None:
    begins(made, ALICE)
    takes(made, ALICE, 1)
    opens(made, ALICE, Access.PEEK)
    made.step(OwnerGone(ALICE))
    assert look(made) == []


# ---- branches ----------------------------------------------------------------------------------


def test_a_branch_at_work_is_its_applications_own(made: Core) -> None:
    made.ask(requests.StartBranch(9, XID), owner=ALICE)
    takes(made, ALICE, 2, 9)
    made.pass_time(60)
    begins(made, ALICE)
    takes(made, ALICE, 1)
    (one,) = look(made)
    assert (one.connection, one.holds, one.branch) == (ALICE, 3, str(XID))


def test_a_prepared_branch_holds_messages_after_its_application_has_gone(made: Core) -> None:
    made.pass_time(30)
    prepares(made, ALICE, 4)
    made.step(OwnerGone(ALICE))
    (one,) = look(made)
    assert one == ConsumerView(
        queue="orders", who="account:alice", holds=4, since=WALL_S + 31, branch=str(XID)
    )


def test_a_restart_leaves_prepared_branches_and_nobody_else(made: Core) -> None:
    prepares(made, ALICE, 4)
    begins(made, BOB)
    takes(made, BOB, 1)
    opens(made, BOB, Access.PEEK)
    (one,) = after_a_restart(made.again(), made)
    assert (one.who, one.place, one.connection, one.holds) == ("account:alice", "", 0, 4)


def after_a_restart(manager: Manager, made: Core) -> list[ConsumerView]:
    asked = replace(requests.Look("consumers", ORDERS), owner=RUNS, request=1)
    (answer,) = [
        one.result for one in manager.step(made.now(), asked).actions if isinstance(one, Answer)
    ]
    assert isinstance(answer, list), answer
    return answer


def test_nobody_is_at_work_in_a_branch_that_is_suspended(made: Core) -> None:
    made.ask(requests.StartBranch(9, XID), owner=ALICE)
    takes(made, ALICE, 2, 9)
    made.ask(requests.EndBranch(9, XID, Leave.SUSPEND), owner=ALICE)
    (one,) = look(made)
    assert (one.connection, one.who, one.place, one.holds) == (0, "account:alice", PLACE, 2)


# ---- several -----------------------------------------------------------------------------------


def crowd(made: Core) -> None:
    """One has it open, one waits, one holds some for a while, and a branch has held some longer."""
    opens(made, RUNS, Access.PEEK)
    made.pass_time(10)
    prepares(made, ALICE, 6)
    made.pass_time(10)
    begins(made, BOB)
    takes(made, BOB, 4)
    waits(made, ALICE)


def test_holders_come_first_the_oldest_before_the_others(made: Core) -> None:
    crowd(made)
    assert [(one.connection, one.holds, one.waiting, one.opened) for one in look(made)] == [
        (0, 6, 0, 0), (BOB, 4, 0, 0), (ALICE, 0, 1, 0), (RUNS, 0, 0, 1),
    ]  # fmt: skip


def test_of_many_only_so_many_are_told(made: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd(made)
    monkeypatch.setattr(work_views, "CONSUMERS_SHOWN_MAX", 2)
    assert [one.holds for one in look(made)] == [6, 4]


def test_transactions_are_not_looked_at_where_nothing_is_held(
    made: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins(made, ALICE)
    made.ask(requests.Send(7, [item()]), owner=ALICE)
    opens(made, BOB, Access.PEEK)

    def never(units: Units) -> None:
        raise AssertionError("nothing of this queue is locked")

    monkeypatch.setattr(Units, "all", never)
    assert [one.connection for one in look(made)] == [BOB]


def test_a_subqueue_has_its_own(made: Core) -> None:
    first: Any = made.ask(requests.Look("queue", ORDERS))
    assert isinstance(made.ask(requests.MoveMessage(ORDERS, LATER, first.first_lookup)), int)
    begins(made, BOB)
    takes(made, BOB, 5, queue=LATER)
    begins(made, ALICE)
    takes(made, ALICE, 2)
    assert [(one.queue, one.who, one.holds) for one in look(made, queue=LATER)] == [
        ("orders;later", "certificate:bob", 1)
    ]
    assert [(one.queue, one.who) for one in look(made)] == [("orders", "account:alice")]


# ---- who may ask -------------------------------------------------------------------------------


def test_who_may_see_the_queue_and_no_more_sees_what_is_his_own(made: Core) -> None:
    crowd(made)
    assert denied(made.ask(requests.Look("consumers", ORDERS), owner=ALICE))
    for who in ("alice", "certificate:bob"):
        grant(made, "get-properties", KEY, who=who)
    assert [(one.holds, one.waiting) for one in look(made, ALICE)] == [(6, 0), (0, 1)]
    assert [(one.connection, one.holds) for one in look(made, BOB)] == [(BOB, 4)]
    grant(made, "monitor")
    assert look(made, ALICE) == look(made)


def test_a_branch_of_another_is_not_shown_because_one_was_at_work_in_it(made: Core) -> None:
    grant(made, "get-properties", KEY)
    made.ask(requests.StartBranch(9, XID), owner=ALICE)
    takes(made, ALICE, 2, 9)
    made.ask(requests.EndBranch(9, XID), owner=ALICE)
    made.ask(requests.PrepareBranch(XID), owner=BOB)
    assert [one.who for one in look(made)] == ["certificate:bob"]
    assert look(made, ALICE) == []


def test_a_stranger_learns_nothing(made: Core) -> None:
    crowd(made)
    assert denied(made.ask(requests.Look("consumers", ORDERS), owner=STRANGER))


@pytest.mark.parametrize("name", ["", ".\\private$\\none", f"{ORDERS};none"])
def test_a_queue_that_is_there_is_named(made: Core, name: str) -> None:
    answer = made.ask(requests.Look("consumers", name))
    assert isinstance(answer, OnceqError)
    assert not name or isinstance(answer, QueueNotFound)


def test_transactions_say_who_has_begun_them_and_from_where(made: Core) -> None:
    for owner in (ALICE, RUNS):
        begins(made, owner)
    page: Any = made.ask(requests.Look("transactions"))
    found = page.views
    assert [(one.owner, one.who, one.place) for one in found] == [
        (RUNS, "", ""), (ALICE, "account:alice", PLACE),
    ]  # fmt: skip
