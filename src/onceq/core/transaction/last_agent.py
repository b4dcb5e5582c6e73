"""A transaction whose outcome is a row in a database, which commits after this manager.

The database is the *last agent* (``partners/last_agent.py``): it keeps the decision, so it needs
no promise, and commits once. This manager promises before that: the open transaction becomes a
prepared branch like any other, in one record, under an identifier that says whose row decides it.
This manager does not decide identifiers of that form, so neither time nor a recovery of decisions
ends the branch: only the verbs commit and rollback do, from the application, or from a recovery
that has asked the database.

While the application is connected it is at work, and its branch belongs to it alone (``telling``).

Where others take part in two phases, their branches follow this one: it is open while it is
prepared, and its commit is the decision for them, on record like any other. So the row decides the
branch, and the branch decides for the others.

Upholds: I20 (what is promised is a branch like any other), I21; XTX-16.
"""

from __future__ import annotations

from onceq.core.state.setups import RowsForgotten, RowsFound, RowsMarked, RowsMissing
from onceq.core.step.step import Step
from onceq.core.step.units import Transaction
from onceq.core.transaction.unit_of_work import last_sends, release
from onceq.core.transaction.xa_branch import admitted, put_on_record
from onceq.errors import BranchState, DatabaseRestored, DuplicateBranch
from onceq.model.branches import Phase, agent_of
from onceq.model.requests import AskRows, Promise
from onceq.model.requests.xa import ROWS_ACCEPTED, ROWS_MISSING
from onceq.model.results import Promised
from onceq.model.views.looks import RowsView


def promise(step: Step, item: Promise) -> None:
    """Promise both outcomes of an open transaction, which a row decides."""
    admitted(step)
    if item.xid in step.units.branches or step.state.branches.get(item.xid) is not None:
        raise DuplicateBranch(f"there is a branch {item.xid} already")
    set_back = step.state.branches.rows.set_back
    if set_back and agent_of(item.xid) in set_back:
        raise DatabaseRestored(
            f"{agent_of(item.xid)} was found to be set back to an earlier state: compare it with "
            "this queue manager, and accept it (onceq tx accept-database)"
        )
    tx = _unit_of(step, item)
    before = tx.bytes
    tx.sends += last_sends(step, item, tx)
    step.units.open_bytes += tx.bytes - before
    if not (tx.sends or tx.receives or tx.gtrid):
        release(step, tx)
        step.answer(item.owner, item.request, None)
        return
    if item.transaction:
        del step.units.transactions[tx.owner, tx.number]
    tx.phase, tx.xid = Phase.ENDED, item.xid
    step.units.branches[item.xid] = tx
    branch = put_on_record(step, tx, step.known_by(item.owner))
    step.units.telling[item.xid.gtrid] = item.owner
    if tx.gtrid:
        step.units.telling[tx.gtrid] = item.owner
    count, first, transaction = 0, 0, 0
    for batch in tx.sends:
        count += len(batch.item.bodies.lengths)
    if branch.laid:
        first, transaction = branch.next_message - count, branch.next_transaction - 1
    answer = Promised(branch.number, first, count, transaction)
    step.answer(item.owner, item.request, answer)


def _unit_of(step: Step, item: Promise) -> Transaction:
    """Return the unit of work that is to be promised; raise why it cannot be."""
    if not item.transaction:
        return Transaction(item.owner, 0, step.now.wall_s, phase=Phase.ENDED)
    tx = step.units.find(item.owner, item.transaction, step.now)
    if tx.xid is not None:
        raise BranchState("a branch of an external transaction is prepared by who began that")
    if tx.reads:
        raise BranchState("what a reader has read is not removed by a promise")
    return tx


def rows(step: Step, item: AskRows) -> None:
    """Answer which rows should be in a database, and record which were found."""
    name, seen = item.agent, step.state.branches.rows.get(item.agent)
    if item.found == ROWS_ACCEPTED:
        step.setup(RowsForgotten(agent=name))
    elif item.found == ROWS_MISSING:
        # Durable before the answer, so that no application of another process enlists further.
        if seen.last and not seen.missing:
            step.setup(RowsMissing(agent=name, missing=True))
    elif not item.found:
        # Also after an incomplete search: what was committed since may be just what is missing.
        if seen.last > max(seen.mark, seen.kept):
            step.setup(RowsMarked(agent=name), forced=False)
    elif item.found == seen.mark:
        # Durable before the answer: rows are removed then, and only the note is left of them.
        step.setup(RowsFound(agent=name, noted=True))
    elif not seen.mark and item.found == seen.kept and seen.missing:
        step.setup(RowsMissing(agent=name, missing=False))
    seen = step.state.branches.rows.get(name)
    open_ = sorted(
        tx.branch for xid, tx in step.units.branches.items() if tx.branch and agent_of(xid) == name
    )
    late = tuple(sorted(seen.looked + seen.late))
    note = seen.kept if seen.noted else 0
    answer = RowsView(
        name, seen.kept, seen.mark, seen.before, tuple(open_), late, note, seen.missing
    )
    step.answer(item.owner, item.request, answer)
