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
from onceq.core.step.step import Step
from onceq.core.step.units import Transaction
from onceq.core.transaction.unit_of_work import put_back, release, take_effect
from onceq.model.branch import Phase
from onceq.model.results import Sent
from onceq.model.xid import agent_of


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
