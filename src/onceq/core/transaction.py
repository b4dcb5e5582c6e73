"""The life of a unit of work: begin, commit or abort; and what became of it.

Until its commit a transaction is only memory: nothing of it is visible to anybody, and a crash
undoes it (SND-2, SND-8). The commit is one record: what it received is removed, what it sent
stands in its queues with its numbers, and its outcome can be asked for (I2, I3a). The order of
commits is the order of these records (SND-15).

Upholds: I2, I3, I3a, I5, I16, I17.
"""

from __future__ import annotations

from onceq.core.decision import Outcome, Sent
from onceq.core.desk import Desk, Transaction
from onceq.core.ending import ended, purged_meanwhile
from onceq.core.inputs import Abort, AskOutcome, Begin, Commit, OwnerGone, Send
from onceq.core.records import Change, Move, Op
from onceq.core.send import add_puts, prepared_all
from onceq.core.tracing import trace_sent
from onceq.errors import InsufficientResources, OperationCancelled, TransactionOver, UsageError
from onceq.model.classes import MessageClass
from onceq.model.limits import OPEN_TRANSACTIONS_MAX


def find(desk: Desk, owner: int, number: int) -> Transaction:
    """An open transaction; raises TransactionOver."""
    tx = desk.transactions.get((owner, number))
    if tx is None:
        raise TransactionOver("this transaction is over, or was never begun")
    return tx


def begin(desk: Desk, item: Begin) -> None:
    """Open a transaction."""
    _open(desk, item.owner, item.transaction)
    desk.answer(item.owner, item.request, None)


def _open(desk: Desk, owner: int, number: int) -> Transaction:
    if number <= 0 or (owner, number) in desk.transactions:
        raise UsageError(f"transaction number {number} is in use; numbers begin at 1")
    if len(desk.transactions) >= OPEN_TRANSACTIONS_MAX:
        raise InsufficientResources(f"{OPEN_TRANSACTIONS_MAX} transactions are open already")
    tx = Transaction(owner, number, desk.now.wall_s)
    desk.transactions[owner, number] = tx
    return tx


def send(desk: Desk, item: Send) -> None:
    """Send inside a transaction, or at once (section 3.3)."""
    if item.transaction:
        tx = find(desk, item.owner, item.transaction)
        before = tx.bytes
        tx.sends += prepared_all(desk, item.items, tx)
        desk.open_bytes += tx.bytes - before
        desk.answer(item.owner, item.request, None)
        return
    sends = prepared_all(desk, item.items, None)
    change = Change(desk.now.wall_s)
    desk.promise(sends, -1)
    first = add_puts(desk, change, sends, transaction=0)
    trace_sent(desk, change, sends, first)
    express = all(put.flags & 1 for put in change.puts)
    desk.record(change, forced=not express)
    count = sum(len(p.item.bodies) for p in sends)
    desk.answer(item.owner, item.request, Sent(first, count))


def commit(desk: Desk, item: Commit) -> None:
    """Add the last sends and make the whole of it happen, in one record."""
    if item.id is not None and item.id.number <= desk.fences.get(item.id.session, 0):
        late = desk.transactions.get((item.owner, item.transaction))
        if late is not None:
            undo(desk, late)
        raise TransactionOver("this commit came after its outcome was told; it was aborted")
    single = item.transaction == 0
    if single:
        tx = Transaction(item.owner, 0, desk.now.wall_s)
    else:
        tx = find(desk, item.owner, item.transaction)
    before = tx.bytes
    sends = tx.sends + prepared_all(desk, item.items, tx)
    desk.open_bytes -= before
    desk.promise(sends, -1)
    if not single:
        del desk.transactions[item.owner, item.transaction]
    result = Sent()
    change = Change(desk.now.wall_s, outcome=item.id)
    if sends:
        number = desk.state.next_transaction
        change.next_transaction = number + 1
        first = add_puts(desk, change, sends, transaction=number)
        trace_sent(desk, change, sends, first)
        result = Sent(first, sum(len(p.item.bodies) for p in sends), number)
    for lock in tx.receives:
        move = Move(Op.REMOVE, lock.holder, lock.lane, lock.first, lock.count)
        if lock.holder in desk.state.holders:
            ended(desk, change, move, MessageClass.ACK_RECEIVE)
    if change.puts or change.moves or item.id is not None:
        desk.record(change)
    desk.answer(item.owner, item.request, result)


def abort(desk: Desk, item: Abort) -> None:
    """Undo a transaction."""
    undo(desk, find(desk, item.owner, item.transaction))
    desk.answer(item.owner, item.request, None)


def undo(desk: Desk, tx: Transaction) -> None:
    """Nothing was sent; what was received goes back to its place (SND-4, RCV-12)."""
    del desk.transactions[tx.owner, tx.number]
    desk.open_bytes -= tx.bytes
    desk.promise(tx.sends, -1)
    change = Change(desk.now.wall_s)
    for lock in tx.receives:
        if lock.holder in desk.state.holders:
            purged_meanwhile(desk, change, lock)
            change.moves.append(Move(Op.UNLOCK, lock.holder, lock.lane, lock.first, lock.count))
    if change.moves:
        desk.record(change, forced=False)


def owner_gone(desk: Desk, item: OwnerGone) -> None:
    """A client is lost: its open transactions abort, its waits and handles end."""
    owner = item.owner
    for key in [key for key in desk.transactions if key[0] == owner]:
        undo(desk, desk.transactions[key])
    for key in [key for key in desk.waiting if key[0] == owner]:
        del desk.waiting[key]
    for number in [n for n, handle in desk.handles.items() if handle.owner == owner]:
        close_handle(desk, number)


def close_handle(desk: Desk, number: int) -> None:
    """Give up a handle; receives that wait through it end (RCV-4)."""
    handle = desk.handles.pop(number)
    holder = desk.state.holders.get(handle.queue)
    for_this = getattr(holder, "handles", {})
    for_this.pop(number, None)
    for key in [k for k, receive in desk.waiting.items() if receive.handle == number]:
        desk.answer(*key, OperationCancelled("the queue was closed while the receive waited"))
        del desk.waiting[key]


def outcome(desk: Desk, item: AskOutcome) -> None:
    """Tell what became of a commit, and see to it that this stays true.

    The commit may still be on its way in a broken connection's buffers; once somebody was told
    "aborted" it must not happen any more, so it is fenced off. The fence need not be durable: a
    restart breaks every connection.
    """
    answer = desk.state.outcomes.ask(item.id, desk.now.wall_s, desk.settings.outcome_age_s)
    if answer is Outcome.ABORTED:
        fences = desk.fences
        fences[item.id.session] = max(fences.get(item.id.session, 0), item.id.number)
    desk.answer(item.owner, item.request, answer)
