"""The phases of a branch by verb of XA: one table, from which the checks and their errors are made.

A branch is the part of somebody else's transaction that this manager carries out. Its life has two
halves, and one record between them:

* *Before prepare* the branch is work like any other: nothing of it is durable, and whoever is lost
  takes it along (presumed abort). Work is associated with one application at a time. It may rest,
  SUSPENDED, and be resumed by whoever knows the branch; or it has ENDED, and others may join it.
  XA wants both: a suspended branch is not done, so it cannot be prepared.
* *Prepare* is the promise of both outcomes (I20). From then on nobody here may decide: not the
  application, not a restart, not idleness. Only the coordinator's verbs lead out of PREPARED,
  and an operator, who then has to answer for it: his decision stays, until the coordinator
  has it forgotten, because that may have decided otherwise (XTX-8).

One exception is no loss of a promise: a branch whose coordinator is this very manager, and of which
it knows that no decision is on record and none can come (``abandoned_branches.py``).

A branch that is over is in no table. Asked for it afterwards, XA says "no such branch" (XAER_NOTA),
and a coordinator that has decided to commit reads that as "carried out".

A verb in a phase that the table does not name for it is ``BranchState`` (XAER_PROTO).
``docs/reference/states.md`` shows the table as a picture, drawn from ``PHASES``.

Upholds: I20, I21.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from onceq.errors import BranchState
from onceq.model.branch import Phase
from onceq.model.xid import Xid


class Verb(Enum):
    """What happens to a branch; the value goes on with "can be"."""

    __hash__ = object.__hash__  # that of Enum is a call of Python, for each table that is read

    START = "started"
    """xa_start: work begins."""
    JOIN = "joined"
    """xa_start, TMJOIN: more work is associated with it."""
    RESUME = "resumed"
    """xa_start, TMRESUME: its work goes on."""
    SUSPEND = "suspended"
    """xa_end, TMSUSPEND: its work rests."""
    END = "ended"
    """xa_end: its work is done, or has failed."""
    PREPARE = "prepared"
    """xa_prepare: both outcomes are promised, unless it has nothing to decide or cannot be."""
    COMMIT_ONE_PHASE = "committed in one phase"
    """xa_commit, TMONEPHASE."""
    COMMIT = "committed"
    """xa_commit."""
    COMMIT_BY_HAND = "committed by an operator"
    """In place of its coordinator (XTX-8)."""
    ROLLBACK = "rolled back"
    """xa_rollback."""
    ROLLBACK_BY_HAND = "rolled back by an operator"
    """In place of its coordinator; what is not prepared it decides as everybody may."""
    FORGET = "forgotten"
    """xa_forget: its coordinator knows what an operator has decided."""
    ABANDON = "given up with its application"
    """Its application is lost or idle, or this manager is started again (XTX-4)."""
    TIME_OUT = "given up by this manager"
    """This manager is its coordinator, has no decision, and nobody asks for one."""


OVER: Final = None
"""It is in no table any more."""

PHASES: Final[Mapping[Verb, Mapping[Phase, Phase | None]]] = {
    Verb.START: {},
    Verb.JOIN: {Phase.ENDED: Phase.ACTIVE},
    Verb.RESUME: {Phase.SUSPENDED: Phase.ACTIVE},
    Verb.SUSPEND: {Phase.ACTIVE: Phase.SUSPENDED},
    Verb.END: {Phase.ACTIVE: Phase.ENDED, Phase.SUSPENDED: Phase.ENDED},
    Verb.PREPARE: {Phase.ACTIVE: Phase.PREPARED, Phase.ENDED: Phase.PREPARED},
    Verb.COMMIT_ONE_PHASE: {Phase.ENDED: OVER},
    Verb.COMMIT: {Phase.PREPARED: OVER},
    Verb.COMMIT_BY_HAND: {Phase.PREPARED: Phase.COMMITTED},
    Verb.ROLLBACK: {Phase.ENDED: OVER, Phase.PREPARED: OVER},
    Verb.ROLLBACK_BY_HAND: {Phase.ENDED: OVER, Phase.PREPARED: Phase.ROLLED_BACK},
    Verb.FORGET: {Phase.COMMITTED: OVER, Phase.ROLLED_BACK: OVER},
    Verb.ABANDON: {Phase.ACTIVE: OVER, Phase.SUSPENDED: OVER, Phase.ENDED: OVER},
    Verb.TIME_OUT: {Phase.PREPARED: OVER},
}
"""By verb: the phases in which it is allowed, and to which phase it leads from each. START makes a
branch, which is ACTIVE. An ACTIVE branch that is prepared ends on the way."""


def after(verb: Verb, xid: Xid, phase: Phase) -> Phase | None:
    """The phase to which a verb leads; OVER: to none.

    Raises:
        BranchState: It is not allowed in this phase.
    """
    leads = PHASES[verb]
    if phase not in leads:
        allowed = " or ".join(one.value for one in leads)
        raise BranchState(
            f"branch {xid} is {phase.value}; only one that is {allowed} can be {verb.value}"
        )
    return leads[phase]


def into(verb: Verb, xid: Xid, phase: Phase) -> Phase:
    """The same for a verb after which the branch is still there."""
    leads = after(verb, xid, phase)
    assert leads is not None, "this verb ends a branch"
    return leads
