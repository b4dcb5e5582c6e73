"""Whose a decision is, what he may do with it, and what others see of it.

Upholds: I21, I28.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onceq.core.inputs import OwnerCame
from onceq.errors import OnceqError, RolledBack
from onceq.model import requests
from onceq.model.branches import (
    TAG_BYTES,
    DecisionState,
    Join,
    Leave,
    Vote,
    Xid,
    anchor_xid,
    group_prefix,
    group_xid,
    make_gtrid,
    xid_by_row,
)
from onceq.model.requests import Request
from onceq.model.results import Sent
from onceq.model.rights import Actor, ActorKind
from onceq.model.views.view import Page
from tests.unit.core.alone import IDENTITY, Core
from tests.unit.core.somebody import (
    ALICE,
    BOB,
    KEY,
    ORDERS,
    RUNS,
    STRANGER,
    XID,
    attempt,
    core,
    denied,
    grant,
    item,
    prepared,
)


def come(made: Core, **who: str) -> None:
    """Owners are these accounts; nobody was said of any other."""
    for name, account in who.items():
        made.step(OwnerCame({"alice": ALICE, "bob": BOB}[name], Actor(ActorKind.ACCOUNT, account)))


def looked(made: Core, what: str, owner: int = RUNS) -> list[Any]:
    """What is shown to an owner."""
    found = made.ask(requests.Look(what), owner=owner)
    return list(found.views) if isinstance(found, Page) else found  # type: ignore[return-value]


SHARED = make_gtrid(IDENTITY.guid, 1)


def decided(made: Core, owner: int) -> None:
    """A commit that a partner is to be told of; whoever has committed is telling it."""
    grant(made, "send", KEY)
    made.ask(requests.Begin(1), owner=owner)
    made.ask(requests.Send(1, [item()]), owner=owner)
    made.ask(requests.Enlist(1, "partner", drawn=b"\1"), owner=owner)
    assert isinstance(made.ask(requests.Commit(1), owner=owner), Sent)


ENDS_TELLING = [requests.LeaveDecision(SHARED), requests.DecisionDone(SHARED)]


@pytest.mark.parametrize("request_", ENDS_TELLING, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("decides", [ALICE, RUNS])
def test_who_has_decided_says_when_it_is_told(request_: Request, decides: int) -> None:
    """What is not on record any more counts as aborted: its partners would roll back."""
    made = core()
    come(made, bob="bob")
    decided(made, decides)
    assert denied(made.ask(request_, owner=BOB))
    assert made.ask(requests.AskDecision(SHARED), owner=BOB) is DecisionState.OPEN
    assert not denied(made.ask(request_, owner=decides))
    left = (
        DecisionState.ABORTED
        if isinstance(request_, requests.DecisionDone)
        else DecisionState.COMMITTED
    )
    assert made.ask(requests.AskDecision(SHARED), owner=BOB) is left


def test_an_operator_ends_the_decision_of_another() -> None:
    made = core()
    come(made, bob="bob")
    decided(made, ALICE)
    grant(made, "monitor", who="bob")
    assert denied(made.ask(requests.DecisionDone(SHARED), owner=BOB))
    grant(made, "operate", who="bob")
    assert not denied(made.ask(requests.DecisionDone(SHARED), owner=BOB))


def test_of_a_decision_that_is_not_there_everybody_may_say_that_it_is_done() -> None:
    """Recovery says it again where its answer was lost."""
    made = core()
    for request in ENDS_TELLING:
        assert not denied(made.ask(request, owner=ALICE))
        assert denied(made.ask(request, owner=STRANGER))


def test_a_decision_is_of_the_same_one_after_a_restart() -> None:
    made = core()
    decided(made, ALICE)
    made.manager = made.again()
    come(made, alice="alice", bob="carol")
    assert [view.gtrid for view in looked(made, "decisions", ALICE)] == [SHARED.decode()]
    assert looked(made, "decisions", BOB) == []
    assert denied(made.ask(requests.DecisionDone(SHARED), owner=BOB))
    assert not denied(made.ask(requests.DecisionDone(SHARED), owner=ALICE))


def by_row(made: Core, owner: int, *items: requests.SendItem) -> Xid:
    """A promise, with no work of its own if nothing is sent, which decides for a partner."""
    xid = xid_by_row(IDENTITY.guid, 1, "sqlite:x")
    made.ask(requests.Begin(1), owner=owner)
    made.ask(requests.Enlist(1, "partner", drawn=b"\1"), owner=owner)
    assert not isinstance(made.ask(requests.Promise(1, xid, items), owner=owner), OnceqError)
    return xid


@pytest.mark.parametrize("verb", [requests.CommitBranch, requests.RollbackBranch])
@pytest.mark.parametrize("restart", [False, True])
def test_a_branch_that_decides_for_others_is_decided_by_who_has_promised_it(
    verb: Any, restart: bool
) -> None:
    """No right at a queue says what its partners have at stake."""
    made = core()
    xid = by_row(made, ALICE)
    if restart:
        made.manager = made.again()
    come(made, alice="alice", bob="bob")
    grant(made, "send,receive", "*", who="bob")
    assert denied(made.ask(verb(xid), owner=BOB))
    assert not isinstance(made.ask(verb(xid), owner=ALICE), OnceqError)
    if verb is requests.CommitBranch:
        assert denied(made.ask(requests.DecisionDone(SHARED), owner=BOB))
        assert not denied(made.ask(requests.DecisionDone(SHARED), owner=ALICE))


def test_who_is_at_work_is_not_made_to_leave_it_to_others() -> None:
    """Else recovery would ask the database whether the row is there, and forbid it for ever."""
    made = core()
    come(made, bob="bob")
    xid = by_row(made, ALICE)
    for request in (requests.LeaveDecision(xid.gtrid), requests.DecisionDone(xid.gtrid)):
        assert denied(made.ask(request, owner=BOB))
        (view,) = looked(made, "branches")
        assert view.at_work
    assert not denied(made.ask(requests.LeaveDecision(xid.gtrid), owner=ALICE))


def test_what_partners_have_at_stake_is_more_than_the_work_here() -> None:
    made = core()
    come(made, bob="bob")
    grant(made, "send", KEY)
    grant(made, "send", KEY, who="bob")
    xid = by_row(made, ALICE, item())
    assert denied(made.ask(requests.RollbackBranch(xid), owner=BOB))
    assert not denied(made.ask(requests.RollbackBranch(xid), owner=ALICE))


def test_what_an_operator_commits_by_hand_is_decided_for_who_has_promised_it() -> None:
    made = core()
    xid = by_row(made, ALICE)
    assert not isinstance(made.ask(requests.CommitBranch(xid, by_hand=True)), OnceqError)
    assert not denied(made.ask(requests.DecisionDone(SHARED), owner=ALICE))


PREFIX = group_prefix(IDENTITY.guid, b"a" * TAG_BYTES)
THERE = bytes(range(16))


def anchor(made: Core, owner: int) -> Xid:
    """A branch with nothing in it, which stands for those at another queue manager."""
    xid = anchor_xid(attempt(made, owner, PREFIX, b"b"), THERE)
    made.ask(requests.StartBranch(1, xid), owner=owner)
    assert made.ask(requests.PrepareBranch(xid, 1), owner=owner) is Vote.PREPARED
    return xid


def test_what_stands_for_branches_elsewhere_is_decided_by_who_has_prepared_it() -> None:
    made = core()
    come(made, bob="bob")
    xid = anchor(made, ALICE)
    for request in (
        requests.CommitGroup("mine", "", 1, PREFIX, [xid]),
        requests.RollbackBranch(xid),
    ):
        assert denied(made.ask(request, owner=BOB)), request
    ours = requests.CommitGroup("job", "", 1, PREFIX, [xid])
    assert not denied(made.ask(ours, owner=ALICE))
    made.manager = made.again()
    come(made, alice="alice", bob="bob")
    assert denied(made.ask(requests.DecisionDone(xid.gtrid), owner=BOB))
    assert not denied(made.ask(requests.DecisionDone(xid.gtrid), owner=ALICE))


@pytest.mark.parametrize("gives_up", [ALICE, BOB, RUNS])
def test_a_batch_is_given_up_ahead_of_time_for_oneself(gives_up: int) -> None:
    """Its prefix can be guessed; who runs the manager gives it up for all."""
    made = core()
    come(made, bob="bob")
    grant(made, "send", KEY)
    made.ask(requests.RollbackGroup(PREFIX, final=True), owner=gives_up)
    xid = group_xid(attempt(made, ALICE, PREFIX, b"b"), "x")
    made.ask(requests.StartBranch(1, xid), owner=ALICE)
    made.ask(requests.Send(1, [item()]), owner=ALICE)
    answer = made.ask(requests.PrepareBranch(xid, 1), owner=ALICE)
    assert isinstance(answer, RolledBack) is (gives_up != BOB)


def test_a_branch_of_another_is_seen_without_what_it_does() -> None:
    """Recovery has to see that it is there: what is missing in the list counts as over."""
    made = core()
    come(made, bob="bob")
    prepared(made, XID)
    (whole,) = looked(made, "branches")
    (seen,) = looked(made, "branches", BOB)
    assert (whole.messages, whole.destinations) == (1, (ORDERS,))
    assert seen == replace(whole, messages=0, bytes=0, destinations=())
    grant(made, "monitor", who="bob")
    assert looked(made, "branches", BOB) == [whole]
    grant(made, "monitor", who="bob", take=True)
    grant(made, "send", KEY, who="bob")
    assert looked(made, "branches", BOB) == [whole], "it is his to decide"


def test_versions_are_shown_to_whose_application_it_is() -> None:
    made = core()
    come(made, bob="bob")
    made.ask(requests.CommitGroup("job", "", 1, PREFIX, []), owner=ALICE)
    made.ask(requests.CommitGroup("other", "", 1, PREFIX, []))

    def shown(owner: int) -> list[str]:
        return [view.app for view in looked(made, "groups", owner)]

    assert shown(ALICE) == ["job"]
    assert shown(BOB) == []
    grant(made, "monitor", who="bob")
    assert shown(BOB) == ["job", "other"]


def test_who_may_not_prepare_a_branch_does_not_doom_it() -> None:
    """The refusal of one's own send dooms one's own unit of work."""
    made = core()
    for owner in (ALICE, STRANGER):
        made.ask(requests.StartBranch(1, XID))
        made.ask(requests.Send(1, [item()]))
        made.ask(requests.EndBranch(1, XID))
        assert denied(made.ask(requests.PrepareBranch(XID), owner=owner))
        assert made.ask(requests.PrepareBranch(XID)) is Vote.PREPARED
        made.ask(requests.RollbackBranch(XID))


@pytest.mark.parametrize("work", [False, True])
def test_a_branch_that_is_suspended_is_not_ended_by_others(work: bool) -> None:
    made = core()
    made.ask(requests.StartBranch(1, XID))
    if work:
        made.ask(requests.Send(1, [item()]))
    made.ask(requests.EndBranch(1, XID, Leave.SUSPEND))
    for owner in (ALICE, STRANGER):
        assert denied(made.ask(requests.EndBranch(1, XID, Leave.FAIL), owner=owner))
        assert denied(made.ask(requests.StartBranch(1, XID, Join.RESUME), owner=owner))
    assert not denied(made.ask(requests.EndBranch(1, XID)))
    assert made.ask(requests.PrepareBranch(XID)) is (Vote.PREPARED if work else Vote.READ_ONLY)
