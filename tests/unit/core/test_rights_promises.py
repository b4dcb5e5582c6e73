"""A promise is judged once, when it is made, and by the names that its sender has used.

Two names of one place share an outgoing queue, which has the name that came first. Here that is the
direct one, of somebody else, and Alice may use only the public one (finding J2).

Upholds: I20 (a promise is kept), I28.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceq.core.inputs import DirectoryChanged, OwnerCame, OwnerGone
from onceq.core.state.snapshot import restore
from onceq.core.state.state import State
from onceq.core.transaction.xa_branch import batches_of
from onceq.errors import OnceqError
from onceq.model import requests
from onceq.model.branches import Vote, Xid, xid_by_row
from onceq.model.directory import Computer, PublicQueue, Snapshot
from onceq.model.identity import guid_text
from onceq.model.requests import Access
from onceq.model.results import Sent
from onceq.model.rights import Actor, ActorKind
from tests.unit.core.alone import IDENTITY, Core
from tests.unit.core.somebody import ALICE, BOB, RUNS, XID, denied, grant, item

THERE = b"B" * 16
PUBLIC = PublicQueue(b"q" * 16, "BETA", "orders", True)
NAME = f"PUBLIC={guid_text(PUBLIC.guid)}"
ROW = xid_by_row(IDENTITY.guid, 1, "sqlite:x")

Promise = Callable[[Core], Xid]


def joined() -> Core:
    """The direct name was first; Alice may use the public one."""
    made = Core()
    made.step(DirectoryChanged(Snapshot([Computer("BETA", THERE)], [PUBLIC])))
    come(made)
    grant(made, "send", NAME)
    made.ask(requests.Commit(0, [item(PUBLIC.direct)]), owner=RUNS)
    return made


def come(made: Core) -> None:
    made.step(OwnerCame(ALICE, Actor(ActorKind.ACCOUNT, "alice")))
    made.step(OwnerCame(BOB, Actor(ActorKind.ACCOUNT, "bob")))


def waiting(made: Core) -> int:
    (outgoing,) = made.manager.state.outgoing.values()
    return len(outgoing)


def prepared(made: Core) -> Xid:
    made.ask(requests.StartBranch(1, XID), owner=ALICE)
    assert not denied(made.ask(requests.Send(1, [item(NAME)]), owner=ALICE))
    assert made.ask(requests.PrepareBranch(XID, 1), owner=ALICE) is Vote.PREPARED
    return XID


def by_row(made: Core) -> Xid:
    made.ask(requests.Begin(1), owner=ALICE)
    assert not denied(made.ask(requests.Send(1, [item(NAME)]), owner=ALICE))
    assert not isinstance(made.ask(requests.Promise(1, ROW), owner=ALICE), OnceqError)
    return ROW


PROMISES = pytest.mark.parametrize("promise", [prepared, by_row])


def test_one_shot_and_in_a_transaction_the_same_name_is_judged() -> None:
    made = joined()
    assert isinstance(made.ask(requests.Commit(0, [item(NAME)]), owner=ALICE), Sent)
    made.ask(requests.Begin(1), owner=ALICE)
    made.ask(requests.Send(1, [item(NAME)]), owner=ALICE)
    assert isinstance(made.ask(requests.Commit(1), owner=ALICE), Sent)
    assert waiting(made) == 3


def test_a_name_that_was_not_granted_is_none_however_the_queue_was_called_first() -> None:
    made = joined()
    assert denied(made.ask(requests.Commit(0, [item(PUBLIC.direct)]), owner=ALICE))
    made.ask(requests.Begin(1), owner=ALICE)
    made.ask(requests.Send(1, [item(NAME)]), owner=ALICE)
    grant(made, "send", NAME, take=True)
    grant(made, "send", PUBLIC.direct)
    assert isinstance(made.ask(requests.Commit(1), owner=ALICE), OnceqError)
    assert waiting(made) == 1


@PROMISES
@pytest.mark.parametrize("restart", [False, True])
def test_a_promise_is_kept_whatever_the_place_was_called_first(
    promise: Promise, restart: bool
) -> None:
    made = joined()
    xid = promise(made)
    if restart:
        made.step(OwnerGone(ALICE))
        made.manager = made.again()
        come(made)
    assert not isinstance(made.ask(requests.CommitBranch(xid), owner=ALICE), OnceqError)
    assert waiting(made) == 2


@PROMISES
@pytest.mark.parametrize("verb", [requests.CommitBranch, requests.RollbackBranch])
def test_a_right_that_is_taken_away_after_the_promise_changes_nothing(
    promise: Promise, verb: type[requests.CommitBranch]
) -> None:
    """The database has committed its part, or will."""
    made = joined()
    xid = promise(made)
    grant(made, "send", NAME, take=True)
    assert not isinstance(made.ask(verb(xid), owner=ALICE), OnceqError)
    assert waiting(made) == (2 if verb is requests.CommitBranch else 1)


def test_who_may_do_his_work_no_more_may_undo_it() -> None:
    made = joined()
    made.ask(requests.StartBranch(1, XID), owner=ALICE)
    made.ask(requests.Send(1, [item(NAME)]), owner=ALICE)
    made.ask(requests.EndBranch(1, XID), owner=ALICE)
    grant(made, "send", NAME, take=True)
    assert denied(made.ask(requests.CommitBranch(XID, one_phase=True), owner=ALICE))
    assert denied(made.ask(requests.RollbackBranch(XID), owner=BOB))
    assert not isinstance(made.ask(requests.RollbackBranch(XID), owner=ALICE), OnceqError)
    assert waiting(made) == 1


def test_another_one_decides_it_with_the_rights_at_the_names_that_were_used() -> None:
    """Also after a restart, and from a checkpoint."""
    made = joined()
    prepared(made)
    again = State(IDENTITY)
    restore(again, b"".join(made.manager.snapshot().encode()))
    (branch,) = again.branches
    assert branch.sends[0]["said"] == [NAME]
    made.manager = made.again()
    come(made)
    grant(made, "send", PUBLIC.direct, who="bob")
    assert denied(made.ask(requests.CommitBranch(XID), owner=BOB))
    grant(made, "send", NAME, who="bob")
    assert not denied(made.ask(requests.CommitBranch(XID), owner=BOB))


def test_a_branch_of_an_older_version_says_only_the_name_in_its_packets() -> None:
    made = joined()
    prepared(made)
    (branch,) = made.manager.state.branches
    del branch.sends[0]["said"]
    (batch,) = batches_of(made.manager._step, branch)
    assert [(str(t.said), str(t.name)) for t in batch.targets] == [(PUBLIC.direct,) * 2]


def test_a_queue_that_is_held_open_for_sending_stays_so_under_the_name_that_was_used() -> None:
    made = joined()
    made.ask(requests.OpenQueue(NAME, Access.SEND), owner=ALICE)
    grant(made, "receive", "private$\\any", who="bob")
    grant(made, "receive", "private$\\any", who="bob", take=True)
    assert len(made.manager._step.readers.handles) == 1, "another's right was taken"
    grant(made, "send", NAME, take=True)
    assert not made.manager._step.readers.handles
