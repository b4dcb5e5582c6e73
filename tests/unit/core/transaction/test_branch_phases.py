"""A verb of XA does in each phase of a branch what the table says, and is refused elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceq.core.inputs import inputs
from onceq.core.transaction.branch_phases import PHASES, Verb, after
from onceq.errors import (
    BranchState,
    CommittedByHand,
    DuplicateBranch,
    OnceqError,
    RolledBackByHand,
    UnknownBranch,
)
from onceq.model import requests
from onceq.model.branch import Join, Leave, Phase
from onceq.model.message import Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import Run
from onceq.model.xid import Xid
from tests.unit.core.alone import Core

XID = Xid(7, b"global", b"branch")
TX = 5

Make = Callable[[int, int], inputs.Input]
MAKE: dict[Verb, Make] = {
    Verb.START: lambda o, r: requests.StartBranch(TX + 1, XID, Join.NEW, owner=o, request=r),
    Verb.JOIN: lambda o, r: requests.StartBranch(TX + 1, XID, Join.JOIN, owner=o, request=r),
    Verb.RESUME: lambda o, r: requests.StartBranch(TX + 1, XID, Join.RESUME, owner=o, request=r),
    Verb.SUSPEND: lambda o, r: requests.EndBranch(TX, XID, Leave.SUSPEND, owner=o, request=r),
    Verb.END: lambda o, r: requests.EndBranch(TX, XID, Leave.SUCCESS, owner=o, request=r),
    Verb.PREPARE: lambda o, r: requests.PrepareBranch(XID, TX, owner=o, request=r),
    Verb.COMMIT_ONE_PHASE: lambda o, r: requests.CommitBranch(XID, True, owner=o, request=r),
    Verb.COMMIT: lambda o, r: requests.CommitBranch(XID, owner=o, request=r),
    Verb.COMMIT_BY_HAND: lambda o, r: requests.CommitBranch(XID, False, True, owner=o, request=r),
    Verb.ROLLBACK: lambda o, r: requests.RollbackBranch(XID, owner=o, request=r),
    Verb.ROLLBACK_BY_HAND: lambda o, r: requests.RollbackBranch(XID, True, owner=o, request=r),
    Verb.FORGET: lambda o, r: requests.ForgetBranch(XID, owner=o, request=r),
    Verb.ABANDON: lambda o, r: inputs.OwnerGone(o),
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
        lambda o, r: requests.CreateQueue(
            properties=QueueProperties("q"), instance=b"I" * 16, owner=o, request=r
        )
    )
    core.ask(lambda o, r: requests.StartBranch(TX, XID, owner=o, request=r))
    sent = requests.SendItem("DIRECT=OS:.\\private$\\q", Properties(), Run.of([b"m"]))
    core.ask(lambda o, r: requests.Send(TX, (sent,), owner=o, request=r))
    for verb in PATH[phase]:
        core.ask(MAKE[verb])
    assert phase_of(core) is phase
    return core


def phase_of(core: Core) -> Phase | None:
    """The phase that an operator sees; None: there is no such branch."""
    views = core.ask(lambda o, r: requests.Look("branches", owner=o, request=r))
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
@pytest.mark.parametrize("verb", list(MAKE))
def test_a_verb_leads_where_the_table_says(verb: Verb, phase: Phase) -> None:
    core, leads = branch_in(phase), PHASES[verb]
    answer = core.ask(MAKE[verb])
    if phase in leads:
        assert not isinstance(answer, OnceqError), answer
        assert phase_of(core) is leads[phase]
    else:
        if verb is not Verb.ABANDON:
            assert type(answer) is refusal(verb, phase)
        assert phase_of(core) is phase


def test_a_refusal_says_what_is_and_what_should_be() -> None:
    with pytest.raises(BranchState) as refused:
        after(Verb.ROLLBACK, XID, Phase.SUSPENDED)
    assert refused.value.text == (
        "branch 7:global:branch is suspended; only one that is ended or prepared can be rolled back"
    )


def test_every_verb_has_a_row_and_every_phase_is_reached() -> None:
    assert set(PHASES) == set(Verb)
    assert {to for row in PHASES.values() for to in row.values()} == {None, *Phase}
