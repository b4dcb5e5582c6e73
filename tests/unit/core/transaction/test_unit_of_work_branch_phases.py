"""A verb of XA does in each phase of a branch what the table says, and is refused elsewhere."""

from __future__ import annotations

import pytest

from onceq.core import inputs
from onceq.core.transaction.unit_of_work import PHASES, Verb, after
from onceq.errors import (
    BranchState,
    CommittedByHand,
    DuplicateBranch,
    OnceqError,
    RolledBackByHand,
    UnknownBranch,
)
from onceq.model import requests
from onceq.model.branches import Join, Leave, Phase, Xid
from onceq.model.message import Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import Run
from tests.unit.core.alone import Core

XID = Xid(7, b"global", b"branch")
TX = 5

REQUESTS: dict[Verb, requests.Request] = {
    Verb.START: requests.StartBranch(TX + 1, XID, Join.NEW),
    Verb.JOIN: requests.StartBranch(TX + 1, XID, Join.JOIN),
    Verb.RESUME: requests.StartBranch(TX + 1, XID, Join.RESUME),
    Verb.SUSPEND: requests.EndBranch(TX, XID, Leave.SUSPEND),
    Verb.END: requests.EndBranch(TX, XID, Leave.SUCCESS),
    Verb.PREPARE: requests.PrepareBranch(XID, TX),
    Verb.COMMIT_ONE_PHASE: requests.CommitBranch(XID, True),
    Verb.COMMIT: requests.CommitBranch(XID),
    Verb.COMMIT_BY_HAND: requests.CommitBranch(XID, False, True),
    Verb.ROLLBACK: requests.RollbackBranch(XID),
    Verb.ROLLBACK_BY_HAND: requests.RollbackBranch(XID, True),
    Verb.FORGET: requests.ForgetBranch(XID),
}
PATH: dict[Phase, tuple[Verb, ...]] = {
    Phase.ACTIVE: (),
    Phase.SUSPENDED: (Verb.SUSPEND,),
    Phase.ENDED: (Verb.END,),
    Phase.PREPARED: (Verb.END, Verb.PREPARE),
    Phase.COMMITTED: (Verb.END, Verb.PREPARE, Verb.COMMIT_BY_HAND),
    Phase.ROLLED_BACK: (Verb.END, Verb.PREPARE, Verb.ROLLBACK_BY_HAND),
}
"""How a branch that is active comes into each phase."""
BY_HAND: dict[Phase, type[OnceqError]] = {
    Phase.COMMITTED: CommittedByHand,
    Phase.ROLLED_BACK: RolledBackByHand,
}


def branch_in(phase: Phase) -> Core:
    """A manager with a branch in that phase, which sends a message."""
    core = Core()
    core.ask(
        requests.CreateQueue(
            properties=QueueProperties("q", transactional=True), instance=b"I" * 16
        )
    )
    core.ask(requests.StartBranch(TX, XID))
    sent = requests.SendItem("DIRECT=OS:.\\private$\\q", Properties(), Run.of([b"m"]))
    core.ask(requests.Send(TX, (sent,)))
    for verb in PATH[phase]:
        core.ask(REQUESTS[verb])
    assert phase_of(core) is phase
    return core


def phase_of(core: Core) -> Phase | None:
    """The phase that an operator sees; None: there is no such branch."""
    views = core.ask(requests.Look("branches"))
    assert isinstance(views, list)
    found = [view.phase for view in views]
    return Phase(found[0]) if found else None


def refusal(verb: Verb, phase: Phase) -> type[OnceqError]:
    """What a verb is answered in a phase in which it is not allowed."""
    if verb is Verb.START:
        return DuplicateBranch
    if verb is Verb.FORGET and phase is not Phase.PREPARED:
        return UnknownBranch  # of what is not prepared nothing was ever told
    return BY_HAND.get(phase, BranchState)


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("verb", list(REQUESTS))
def test_a_verb_leads_where_the_table_says(verb: Verb, phase: Phase) -> None:
    core, leads = branch_in(phase), PHASES[verb]
    answer = core.ask(REQUESTS[verb])
    if phase in leads:
        assert not isinstance(answer, OnceqError), answer
        assert phase_of(core) is leads[phase]
    else:
        assert type(answer) is refusal(verb, phase)
        assert phase_of(core) is phase


@pytest.mark.parametrize("phase", list(Phase))
def test_a_lost_connection_leads_where_the_table_says(phase: Phase) -> None:
    core, leads = branch_in(phase), PHASES[Verb.ABANDON]
    core.step(inputs.OwnerGone(1))
    assert phase_of(core) is leads.get(phase, phase)


def test_a_refusal_says_what_is_and_what_should_be() -> None:
    with pytest.raises(BranchState) as refused:
        after(Verb.ROLLBACK, XID, Phase.SUSPENDED)
    assert refused.value.text == (
        "branch 7:global:branch is suspended; only one that is ended or prepared can be rolled back"
    )


def test_every_verb_has_a_row_and_every_phase_is_reached() -> None:
    assert set(PHASES) == set(Verb)
    assert {to for row in PHASES.values() for to in row.values()} == {None, *Phase}
