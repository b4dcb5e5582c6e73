"""Prepared branches that this very manager has to decide, and that it is never asked to decide.

Their coordinator prepares branches here and dies, or abandons an attempt, before it asks for the
commit. No other recovery will ever come: the manager to ask is this one, and it has no decision. So
after a while they are undone (presumed abort). A later request for the commit gets the answer that
the branch is not there.

The time is counted while this manager runs, and starts again after a restart: a wall clock that is
set could make promises look old.

Branches that another manager, or any foreign coordinator, decides stay permanently (XTX-4).

Upholds: I20, I21 (only where there is no decision, and none can come), I24.
"""

from __future__ import annotations

from onceq.core.step.step import Step, Timer
from onceq.core.step.units import Transaction
from onceq.core.transaction.branch_phases import PHASES, Verb
from onceq.core.transaction.second_phase import undo_promised
from onceq.errors import RolledBackByTime
from onceq.model.time import SECOND_US
from onceq.model.xid import decider_of

LOOKS = 8
"""Checks of all such branches within the allowed time."""


def watch(step: Step, tx: Transaction) -> None:
    """Limit the wait of a newly prepared branch, if this manager decides it."""
    set_already = Timer.UNDECIDED in step.watching
    if set_already or not step.settings.undecided_s or not _ours(step, tx):
        return
    step.watching.add(Timer.UNDECIDED)
    wait_us = step.settings.undecided_s * SECOND_US // LOOKS
    step.timer(step.now.mono_us + wait_us, Timer.UNDECIDED, None)


def _ours(step: Step, tx: Transaction) -> bool:
    if tx.phase not in PHASES[Verb.TIME_OUT] or tx.xid is None:
        return False
    return decider_of(tx.xid.gtrid) == step.identity.guid


def on_timer(step: Step, nobody: object) -> None:
    """Undo branches that were prepared too long ago and that have no decision."""
    step.watching.discard(Timer.UNDECIDED)
    if not step.settings.undecided_s:
        return  # switched off meanwhile
    for tx in [tx for tx in step.units.branches.values() if _ours(step, tx)]:
        assert tx.xid is not None
        gtrid = tx.xid.gtrid
        decided = gtrid in step.state.branches.decisions
        at_work = gtrid in step.units.deciding or gtrid in step.units.telling
        over_us = tx.used_us + step.settings.undecided_s * SECOND_US
        if decided or at_work or step.now.mono_us < over_us:
            watch(step, tx)
        else:
            _undo(step, tx)


def _undo(step: Step, tx: Transaction) -> None:
    text = (
        f"nobody had asked to commit it within {step.settings.undecided_s} s (setting undecided_s)"
    )
    assert tx.xid is not None
    why = RolledBackByTime(f"branch {tx.xid} was rolled back: {text}")
    step.units.refuse_from_now_on(tx.xid, why)
    undo_promised(step, tx)
    step.notice(
        "a branch that nobody decided was rolled back", "", branch=str(tx.xid), sent=tx.messages
    )
