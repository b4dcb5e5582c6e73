"""The end of a promise: a prepared branch takes effect, or is undone, in one record.

Every decision is carried out here: a coordinator's through the verbs of XA, an operator's, a
group's, or one by time. By then nothing may be refused any more, so nothing is checked again:
names, quotas and properties are those of the prepare (I20). What has changed since (its queue was
deleted, for example) is not a refusal but an end of the message, with a dead letter where one was
asked for (``core/ending/table.py``). One record holds the mark that the branch is over and its
effects, so a crash leaves the branch prepared, or done, and a repeated verb finds which.

Where a row in a database decides, no caller waits for the commit, and that row restores what a
crash loses of it. So its record is not synced by itself, but before the next answer to anyone
(``held``, in ``core/decision.py``).

Upholds: I2, I20 (nothing is checked again: the record holds what was promised).
"""

from __future__ import annotations

from onceq.core.receive.poison import given_back
from onceq.core.state.branch_table import Marks
from onceq.core.state.queues import Queue
from onceq.core.state.records import Change
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.step import Step, Timer
from onceq.core.step.units import Transaction
from onceq.core.transaction.unit_of_work import PHASES, Verb, put_back, release, take_effect
from onceq.errors import RolledBackByTime
from onceq.model.branches import Phase, agent_of, decider_of
from onceq.model.marks import SECOND_US
from onceq.model.results import Sent

# ---- second phase --------------------------------------------------------------------------------


def carry_out(step: Step, tx: Transaction, *, by_hand: Phase | None = None) -> Sent:
    """Carry out all of a branch, in one record with its end.

    Args:
        by_hand: The phase in which it stays, decided by an operator; None: it is over.
    """
    release(step, tx)
    build = ChangeBuilder(step)
    # No matter who reports it: the decision for others belongs to the owner that has promised it.
    by = step.state.branches.numbered(tx.branch).by if tx.gtrid and tx.branch else ""
    result = take_effect(build, tx.sends, tx.receives)
    agent = agent_of(tx.xid) if tx.xid is not None else ""
    if tx.branch:
        by_row = (agent,) if agent else ()
        partners = tx.partners or by_row
        build.change.marks = Marks(tx.branch, by_hand, tx.gtrid, partners, by=by)
    decided = bool(agent) and by_hand is None and _numbered(tx)
    held = decided and _stays_here(step, build.change)
    step.record(build.change, forced=not held, held=held)
    return result


def _numbered(tx: Transaction) -> bool:
    """Return whether its messages have their numbers since the promise."""
    for batch in tx.sends:  # noqa: SIM110 - a generator costs more calls
        if batch.written is None:
            return False
    return True


def _stays_here(step: Step, change: Change) -> bool:
    """Return whether nothing in a change leaves this manager under a number that it gets now."""
    queues = step.state.all_queues
    for put in change.puts:
        if not isinstance(queues[put.queue], Queue):
            return False
    for move in change.moves:
        for number in (move.to, *(copy[0] for copy in move.copies_to)):
            if number and not isinstance(queues[number], Queue):
                return False
    return True


def undo_promised(step: Step, tx: Transaction, *, by_hand: Phase | None = None) -> None:
    """Undo a prepared branch, on record; ``by_hand`` as in ``carry_out``."""
    assert tx.branch, "only what is prepared is undone by a record of its own"
    release(step, tx)
    build = ChangeBuilder(step)
    back = put_back(build, tx.receives)
    build.change.marks = Marks(tx.branch, by_hand)
    step.record(build.change)
    given_back(step, back)


# ---- abandoned branches --------------------------------------------------------------------------
#
# Prepared branches that this very manager has to decide, and that it is never asked to decide.
#
# Their coordinator prepares branches here and dies, or abandons an attempt, before it asks for
# the commit. No other recovery will ever come: the manager to ask is this one, and it has no
# decision. So after a while they are undone (presumed abort). A later request for the commit gets
# the answer that the branch is not there.
#
# The time is counted while this manager runs, and starts again after a restart: a wall clock that
# is set could make promises look old.
#
# Branches that another manager, or any foreign coordinator, decides stay permanently (XTX-4).
#
# Upholds: I20, I21 (only where there is no decision, and none can come), I24.


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
