"""Groups whose names and prefixes others can guess: nobody keeps one from being committed, undoes
it, or forgets it, but whose it is.

Upholds: I2, I4, I21, I28.
"""

from __future__ import annotations

from typing import Any

import pytest

from onceq.core.inputs import OwnerCame
from onceq.errors import GroupIncomplete, OnceqError, RolledBack, UnknownBranch, UsageError
from onceq.model import requests
from onceq.model.branches import (
    TAG_BYTES,
    DecisionState,
    Vote,
    Xid,
    anchor_xid,
    attempt_of,
    group_prefix,
    group_xid,
)
from onceq.model.results import Sent
from onceq.model.rights import Actor, ActorKind
from onceq.model.views.looks import GroupResult
from tests.unit.core.alone import IDENTITY, Core
from tests.unit.core.somebody import ALICE, BOB, KEY, RUNS, attempt, core, denied, grant, item

PREFIX = group_prefix(IDENTITY.guid, b"a" * TAG_BYTES)
THERE = bytes(range(16))


def two() -> Core:
    """Both may do the same work: what is whose is not told by rights at queues."""
    made = core()
    made.step(OwnerCame(BOB, Actor(ActorKind.ACCOUNT, "bob")))
    for who in ("alice", "bob"):
        grant(made, "send", KEY, who=who)
    return made


def part(made: Core, owner: int, token: bytes = b"b", name: str = "x") -> Xid:
    """A prepared branch of the batch."""
    xid = group_xid(attempt(made, owner, PREFIX, token), name)
    assert vote(made, owner, xid) is Vote.PREPARED
    return xid


def vote(made: Core, owner: int, xid: Xid, *, works: bool = True) -> object:
    """The answer to a prepare, of a branch that sends."""
    made.ask(requests.StartBranch(1, xid), owner=owner)
    if works:
        made.ask(requests.Send(1, [item()]), owner=owner)
    answer = made.ask(requests.PrepareBranch(xid, 1), owner=owner)
    if isinstance(answer, OnceqError):
        made.ask(requests.EndBranch(1, xid), owner=owner)
        made.ask(requests.RollbackBranch(xid), owner=owner)
    return answer


def commit(made: Core, owner: int, *xids: Xid, app: str = "job", version: int = 1) -> Any:
    return made.ask(requests.CommitGroup(app, "", version, PREFIX, xids), owner=owner)


def left(made: Core) -> set[Xid]:
    return {one.xid for one in made.manager.state.branches}


@pytest.mark.parametrize("works", [False, True])
def test_what_another_prepares_in_a_batch_does_not_keep_it_from_being_committed(
    works: bool,
) -> None:
    made = two()
    if works:
        foreign = part(made, BOB, b"c")
    else:
        foreign = anchor_xid(attempt(made, BOB, PREFIX, b"c"), THERE)
        assert vote(made, BOB, foreign, works=False) is Vote.PREPARED
    own, lost = part(made, ALICE), part(made, ALICE, b"d")
    answer = commit(made, ALICE, own)
    assert isinstance(answer, GroupResult)
    assert answer.rolled_back == 1, "an attempt of her own"
    assert lost not in left(made)
    assert left(made) == {foreign}
    again = commit(made, ALICE)
    assert isinstance(again, GroupResult)
    assert (again.already, again.rolled_back) == (True, 0)
    assert made.present() == {"orders": 1}


def test_who_has_the_same_rights_does_not_undo_a_batch() -> None:
    made = two()
    own = part(made, ALICE)
    assert made.ask(requests.RollbackGroup(PREFIX, True), owner=BOB) == 0
    assert isinstance(commit(made, BOB, app="other"), GroupResult)
    for verb in (requests.RollbackBranch, requests.CommitBranch):
        assert denied(made.ask(verb(own), owner=BOB))
    assert denied(commit(made, BOB, own, app="third"))
    assert left(made) == {own}
    assert isinstance(commit(made, ALICE, own), GroupResult)
    assert made.present() == {"orders": 1}


def test_a_batch_is_given_up_by_whose_it_is_and_by_who_runs_the_manager() -> None:
    made = two()
    part(made, ALICE)
    part(made, BOB, b"c")
    assert made.ask(requests.RollbackGroup(PREFIX), owner=ALICE) == 1
    part(made, ALICE)
    assert made.ask(requests.RollbackGroup(PREFIX), owner=RUNS) == 2


def test_a_branch_of_a_batch_elsewhere_is_decided_by_whoever_may_do_its_work() -> None:
    """It has a coordinator, and whoever recovers brings it to what that has decided."""
    made = two()
    prefix = group_prefix(THERE, b"a" * TAG_BYTES)
    far = group_xid(attempt_of(prefix, b"b" * TAG_BYTES, "", b"theirs"), "x")
    assert vote(made, ALICE, far) is Vote.PREPARED
    assert not isinstance(made.ask(requests.CommitBranch(far), owner=BOB), OnceqError)


def test_nobody_prepares_in_the_attempt_of_another() -> None:
    """Its parts at other queue managers would be told to wait as long as that is there."""
    made = two()
    anchor = anchor_xid(attempt(made, ALICE, PREFIX, b"b"), THERE)
    assert vote(made, ALICE, anchor, works=False) is Vote.PREPARED
    for name in ("x", f"for.{bytes(16).hex()}"):
        foreign = group_xid(anchor.gtrid, name)
        assert isinstance(vote(made, BOB, foreign), OnceqError)
    part(made, BOB, b"c")
    assert made.ask(requests.AskDecision(anchor.gtrid), owner=ALICE) is DecisionState.OPEN
    assert made.ask(requests.RollbackGroup(PREFIX), owner=ALICE) == 1
    assert made.ask(requests.AskDecision(anchor.gtrid), owner=ALICE) is DecisionState.ABORTED


@pytest.mark.parametrize("name", ["x", f"for.{THERE.hex()}"])
def test_nobody_decides_what_another_has_rolled_back(name: str) -> None:
    """Parts of it wait elsewhere, and there its identifier is shown: they would be committed."""
    made = two()
    anchor = anchor_xid(attempt(made, ALICE, PREFIX, b"b"), THERE)
    assert vote(made, ALICE, anchor, works=False) is Vote.PREPARED
    assert made.ask(requests.RollbackGroup(PREFIX), owner=ALICE) == 1
    for owner in (BOB, RUNS):
        foreign = group_xid(anchor.gtrid, name)
        answer = made.ask(requests.StartBranch(1, foreign), owner=owner)
        assert isinstance(answer, RolledBack)
        answer = made.ask(requests.PrepareBranch(foreign, 1), owner=owner)
        assert isinstance(answer, UnknownBranch)
        assert isinstance(commit(made, owner, foreign, app="mine"), GroupIncomplete)
    assert made.ask(requests.AskDecision(anchor.gtrid), owner=ALICE) is DecisionState.ABORTED
    assert vote(made, ALICE, anchor, works=False) is Vote.PREPARED


def test_nobody_makes_the_identifier_of_an_attempt_up() -> None:
    """Also not one of another manager's making, of another life, or as older versions had it."""
    made = two()
    token = b"b" * TAG_BYTES
    for gtrid in (
        PREFIX + b"A" * 13,
        PREFIX + b"_" * 13,
        PREFIX + b"0" * 12,
        attempt_of(PREFIX, token, "account:alice", b"another life"),
        attempt_of(PREFIX, token, "", bytes(32)),
    ):
        answer = made.ask(requests.StartBranch(1, group_xid(gtrid, "x")), owner=ALICE)
        assert isinstance(answer, RolledBack), gtrid
    mine = attempt_of(PREFIX, token, "account:alice", bytes(32))
    assert made.ask(requests.StartBranch(1, group_xid(mine, "x")), owner=ALICE) is None


def test_nobody_names_the_transaction_that_a_commit_decides() -> None:
    """Each that decides for partners has an identifier of its own."""
    made = two()
    for owner in (ALICE, BOB):
        made.ask(requests.Begin(1), owner=owner)
    drawn = requests.Enlist(1, "partner", drawn=b"\5")
    gtrid = made.ask(drawn, owner=ALICE)
    assert isinstance(gtrid, bytes)
    made.ask(requests.Abort(1), owner=ALICE)
    other = made.ask(requests.Enlist(1, "partner", drawn=b"\6"), owner=BOB)
    assert isinstance(other, bytes)
    assert isinstance(made.ask(requests.Commit(1), owner=BOB), Sent)
    assert made.ask(requests.AskDecision(gtrid), owner=ALICE) is DecisionState.ABORTED
    assert made.ask(requests.AskDecision(other), owner=ALICE) is DecisionState.OPEN


def test_who_owns_an_application_has_it_forgotten() -> None:
    made = two()
    assert isinstance(commit(made, ALICE, part(made, ALICE)), GroupResult)
    assert denied(made.ask(requests.ForgetGroup("job"), owner=BOB))
    assert made.ask(requests.ForgetGroup("job"), owner=ALICE) is None
    assert isinstance(made.ask(requests.ForgetGroup("job"), owner=ALICE), UsageError)
    assert isinstance(commit(made, BOB), GroupResult), "the name is free"
    assert denied(made.ask(requests.ForgetGroup("job"), owner=ALICE))
    grant(made, "operate")
    assert made.ask(requests.ForgetGroup("job"), owner=ALICE) is None


def test_whose_a_name_was_before_versions_had_owners_is_who_runs_the_manager() -> None:
    made = two()
    assert isinstance(commit(made, RUNS), GroupResult)
    assert denied(commit(made, ALICE, version=2))
    assert denied(made.ask(requests.ForgetGroup("job"), owner=ALICE))
