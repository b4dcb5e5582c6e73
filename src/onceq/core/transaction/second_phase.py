"""How a promise ends: a prepared branch takes effect, or is undone; one record each.

Whoever decides comes here: a coordinator through the verbs of XA, an operator, a group, time. By
then nothing may be refused any more, so nothing is asked anew: names, quotas and properties are
what they were at the prepare (I20). What has changed since (its queue was deleted, say) is not a
refusal but an end of the message, with a dead letter where one was asked for
(``core/ending/table.py``). The mark that the branch is over stands in the same record as what it
does, so a crash leaves the branch prepared, or done, and a repeated verb finds which.

Where a row in a database decides, nobody waits for the commit, and what a crash takes of it is
learned again from that row. So its record is not synced for its own sake, but before the next thing
that is said to anybody (``held``, in ``core/decision.py``).

Upholds: I2, I20 (nothing is asked anew: what was promised stands in the record).
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
    """Make all of a branch happen, in one record with its end.

    Args:
        by_hand: The phase in which it stays, decided by an operator; None: it is over.
    """
    release(step, tx)
    build = ChangeBuilder(step)
    # Whoever tells it: the decision for others is of who has promised it.
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
    """Whether its messages have their numbers since the promise."""
    for batch in tx.sends:  # noqa: SIM110 - a generator costs more calls
        if batch.written is None:
            return False
    return True


def _stays_here(step: Step, change: Change) -> bool:
    """Whether nothing of it leaves this manager, by a number that it gets now."""
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
    """Nothing of a prepared branch happens, on record; ``by_hand`` as in ``carry_out``."""
    assert tx.branch, "only what is prepared is undone by a record of its own"
    release(step, tx)
    build = ChangeBuilder(step)
    back = put_back(build, tx.receives)
    build.change.marks = Marks(tx.branch, by_hand)
    step.record(build.change)
    given_back(step, back)
