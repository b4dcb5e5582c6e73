"""The life of a unit of work: begin, commit or abort; and its outcome.

Until its commit a transaction is only memory: nothing of it is visible outside, and a crash undoes
it (SND-2, SND-8). The commit is one record: what it received is removed, what it sent is in its
queues with its numbers, and its outcome can be asked for (I2, I3a). The order of commits is the
order of these records (SND-15).

Upholds: I2, I3, I3a, I5, I16, I17.
"""

from __future__ import annotations

from contextlib import suppress

from onceq.core.ending.ending import end_range, purged_meanwhile
from onceq.core.ending.table import Ending
from onceq.core.inputs.inputs import OwnerGone
from onceq.core.receive.handles import forget_reader
from onceq.core.receive.poison import given_back
from onceq.core.send.send import add_puts, prepare, prepared_all
from onceq.core.state.branch_table import Marks
from onceq.core.state.position_block import PURGING
from onceq.core.state.queues import Queue
from onceq.core.state.records import PUT_EXPRESS, Op, RangeChange
from onceq.core.state.setups import FailureTold
from onceq.core.step.audit_entries import AuditEntry, note_act
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.routes import CheckedBatch
from onceq.core.step.step import Step, Timer
from onceq.core.step.step import check as check_share
from onceq.core.step.units import CopiedRange, HeldRange, Transaction
from onceq.core.transaction.branch_phases import PHASES, Verb
from onceq.errors import (
    BranchState,
    InsufficientResources,
    OnceqError,
    TransactionOver,
    UsageError,
)
from onceq.model.branch import Phase
from onceq.model.classes import MessageClass
from onceq.model.delayed import undelayed
from onceq.model.requests import Abort, AskOutcome, Begin, Commit, Promise, Send
from onceq.model.requests.transactions import AS_SET
from onceq.model.results import Outcome, Sent
from onceq.model.returned import MARK
from onceq.model.rights import Right
from onceq.model.shares import TABLE, Thing
from onceq.model.time import SECOND_US
from onceq.model.traced import untraced
from onceq.model.wording import plural


def begin(step: Step, item: Begin) -> None:
    """Open a transaction.

    Clients do not wait for the answer; so the next requests in the transaction repeat the reason of
    a refusal.
    """
    idle_us = None if item.idle_s == AS_SET else item.idle_s * SECOND_US
    _open_or_refuse(step, item.owner, item.transaction, idle_us)
    step.answer(item.owner, item.request, None)


def _open_or_refuse(step: Step, owner: int, number: int, idle_us: int | None) -> None:
    try:
        open_unit(step, owner, number, idle_us)
    except InsufficientResources as error:
        step.units.refuse_from_now_on((owner, number), error)
        raise


def open_unit(
    step: Step, owner: int, number: int, idle_us: int | None = None
) -> Transaction:  # fmt: skip
    """Open a new unit of work; raises UsageError or InsufficientResources."""
    check_free(step, owner, number)
    # Every transaction comes here: the checks of the called functions come first, without a call.
    if step.units.open_by.total >= TABLE[Thing.TRANSACTIONS].plenty:
        check_share(step, step.known_by(owner), Thing.TRANSACTIONS, step.units.open_by)
    now_us = step.now.mono_us
    by = step.who.get(owner, "")
    tx = Transaction(owner, number, step.now.wall_s, used_us=now_us, idle_us=idle_us, by=by)
    step.units.transactions[owner, number] = tx
    step.units.open_by.add(by)
    limit_us = step.settings.transaction_idle_s * SECOND_US if idle_us is None else idle_us
    if limit_us and not 0 < step.units.idle_look_us <= now_us + limit_us:
        step.units.idle_look_us = now_us + limit_us
        step.timer(now_us + limit_us, Timer.IDLE, None)
    return tx


def check_free(step: Step, owner: int, number: int) -> None:
    """Raise UsageError if no transaction can begin under that number."""
    if number <= 0 or (owner, number) in step.units.transactions:
        raise UsageError(f"transaction number {number} is in use; numbers begin at 1")


def send(step: Step, item: Send) -> None:
    """Send inside a transaction, or at once (SND-26)."""
    if item.transaction:
        tx = step.units.find(item.owner, item.transaction, step.now)
        before = tx.bytes
        tx.sends += prepared_all(step, item.items, tx, step.who.get(item.owner, ""))
        step.units.open_bytes += tx.bytes - before
        step.answer(item.owner, item.request, None)
        return
    sends = prepared_all(step, item.items, None, step.who.get(item.owner, ""))
    build = ChangeBuilder(step)
    step.units.promise(sends, -1)
    first, count = add_puts(build, sends, transaction=0)
    express = all(put.flags & PUT_EXPRESS for put in build.change.puts)
    step.record(build.change, forced=not express)
    if step.actors:
        note_returns(step, item.owner, sends)
    step.answer(item.owner, item.request, Sent(first, count))


def commit(step: Step, item: Commit) -> None:
    """Add the last sends and carry out the transaction in one record; begin the next one with it,
    if one is wanted."""
    if item.then:
        check_free(step, item.owner, item.then)
    if item.id is not None and step.units.fences.bars(item.id, step.state.outcomes):
        late = step.units.transactions.get((item.owner, item.transaction))
        if late is not None:
            undo(step, late)
        raise TransactionOver("this commit came after its outcome was told; it was aborted")
    receives: list[HeldRange] = []
    idle_us: int | None = None
    build = ChangeBuilder(step, item.id)
    if item.transaction:
        tx = step.units.find(item.owner, item.transaction, step.now)
        if tx.xid is not None:
            raise BranchState("a branch of an external transaction is committed by who began that")
        before = tx.bytes
        sends = tx.sends + last_sends(step, item, tx)
        # Only what earlier sends have added: what the commit brings along was never counted.
        step.units.open_bytes -= before
        if sends:
            step.units.promise(sends, -1)
        del step.units.transactions[item.owner, item.transaction]
        if tx.by is not None:  # as ``closed`` does it, without a call
            step.units.open_by.drop(tx.by)
        receives, idle_us = tx.receives, tx.idle_us
        step.emptied.update(dict.fromkeys(tx.targets))
        if tx.gtrid:
            del step.units.deciding[tx.gtrid]
            step.units.telling[tx.gtrid] = item.owner
        if tx.gtrid or tx.reads:
            reads = tuple(tx.reads)
            by = step.known_by(item.owner) if tx.gtrid else ""
            build.change.marks = Marks(gtrid=tx.gtrid, partners=tx.partners, reads=reads, by=by)
    elif len(item.items) == 1:
        # Nothing is promised for what takes effect here and now, completely.
        by = step.who.get(item.owner, "")
        sends = [prepare(step, item.items[0], None, transactional=True, by=by)]
    else:
        tx = Transaction(item.owner, 0, step.now.wall_s)
        sends = prepared_all(step, item.items, tx, step.who.get(item.owner, ""))
        # Before they take effect: dead letters and acknowledgments of this change ask how full
        # queues are, and would count both the promise and the put.
        step.units.promise(sends, -1)
    result = take_effect(build, sends, receives)
    step.record(build.change)
    if step.actors:
        note_returns(step, item.owner, sends)
    if item.then:
        with suppress(InsufficientResources):  # The next requests in it get the error.
            _open_or_refuse(step, item.owner, item.then, idle_us)
    step.answer(item.owner, item.request, result)


def note_returns(step: Step, owner: int, sends: list[CheckedBatch]) -> None:
    """Audit dead letters that are returned, by their mark, as an act of the sender. Only operators
    can return dead letters; other senders of that mark must not fill the trail."""
    actor = step.actors.get(owner)
    if actor is None or not step.state.policy.allows(actor, Right.OPERATE):
        return
    back = [one for one in sends if _returned(one.item.properties.extension)]
    if back:
        count = sum(len(one.item.bodies) for one in back)
        names = dict.fromkeys(target.text for one in back for target in one.targets)
        note_act(
            step,
            owner,
            AuditEntry("return", f"{plural(count, 'dead letter')} to {', '.join(names)}"),
        )


def _returned(extension: bytes) -> bool:
    return untraced(undelayed(extension)[0])[0].endswith(MARK)


def last_sends(step: Step, item: Commit | Promise, tx: Transaction) -> list[CheckedBatch]:
    """Prepare what a commit or a promise brings along. If a send was refused, now or before, and
    was not wrong in itself, undo the transaction instead.

    Raises:
        SendFailed: A send was refused.
    """
    try:
        made = prepared_all(step, item.items, tx, step.who.get(item.owner, ""))
    except OnceqError:
        if tx.doomed is None:
            raise
        undo(step, tx)
        raise tx.doomed from None
    return made


def take_effect(build: ChangeBuilder, sends: list[CheckedBatch], receives: list[HeldRange]) -> Sent:
    """Put into a change all that a unit of work does: its sends, then its receives."""
    result, state = Sent(), build.step.state
    if sends:
        written = sends[0].written
        if written is None:
            number = state.next_transaction
            build.change.next_transaction = number + 1
        else:
            number = written.transaction
        first, count = add_puts(build, sends, transaction=number)
        result = Sent(first, count, number)
    for held in receives:
        # The queue may have been deleted since, together with its messages.
        if held.queue in state.all_queues:
            _done(build, held)
    return result


def _done(build: ChangeBuilder, held: HeldRange) -> None:
    """Receive, move or refuse what a transaction held (RCV-15)."""
    number, index, first, count = held.queue, held.lane, held.first, held.count
    queue = build.step.state.all_queues[number]
    if held.to:
        move = RangeChange(Op.SHIFT, number, index, first, count, to=held.to)
        if queue.lanes[index].state(first) == PURGING:
            move = RangeChange(Op.END, number, index, first, count)
            end_range(build, move, Ending.NOT_RECEIVED, MessageClass.NACK_QUEUE_PURGED)
        else:
            build.move(move)
    elif held.reason:
        reason = MessageClass(held.reason)
        move = RangeChange(Op.END, number, index, first, count, reason)
        ending = Ending.REJECTED_AND_KEPT if held.keep else Ending.NOT_RECEIVED
        end_range(build, move, ending, reason)
    else:
        move = RangeChange(Op.REMOVE, number, index, first, count)
        copied = isinstance(held, CopiedRange)
        end_range(build, move, Ending.RECEIVED, MessageClass.ACK_RECEIVE, copied=copied)
    if isinstance(queue, Queue) and queue.shown:
        queue.shown.difference_update((index, at) for at in range(first, first + count))


def abort(step: Step, item: Abort) -> None:
    """Undo a transaction."""
    # A transaction that was never begun, or that time has undone, has nothing to undo.
    if step.units.refused.pop((item.owner, item.transaction), None) is None:
        tx = step.units.find(item.owner, item.transaction, step.now)
        undo(step, tx, item.why, blameless=item.blameless)
    step.answer(item.owner, item.request, None)


def undo(step: Step, tx: Transaction, why: str = "", *, blameless: bool = False) -> None:
    """Undo a unit of work: nothing was sent; what was received goes back to its place (SND-4,
    RCV-12).

    Args:
        why: The reason that its application gives.
        blameless: The received messages are not at fault: it does not count as an abort.
    """
    release(step, tx)
    if why and tx.receives:
        places = [[held.queue, held.lane, held.first, held.count] for held in tx.receives]
        step.setup(FailureTold(places, why), forced=False)
    build = ChangeBuilder(step)
    back = put_back(build, tx.receives, Op.RETURN if blameless else Op.UNLOCK)
    # If a crash loses this, a restart decides it again: it unlocks what no transaction holds.
    step.record(build.change, forced=False)
    if back:
        given_back(step, back)


def release(step: Step, tx: Transaction) -> None:
    """Remove it from the tables, and free its room."""
    if tx.phase is Phase.ACTIVE:
        del step.units.transactions[tx.owner, tx.number]
    step.units.closed(tx)
    if tx.xid is not None:
        del step.units.branches[tx.xid]
    if tx.gtrid:
        del step.units.deciding[tx.gtrid]
    step.units.open_bytes -= tx.bytes
    step.units.promise(tx.sends, -1)
    step.emptied.update(dict.fromkeys(tx.targets))


def put_back(
    build: ChangeBuilder, receives: list[HeldRange], op: Op = Op.UNLOCK
) -> list[HeldRange]:  # fmt: skip
    """Unlock in a change what was received; return what is in its place again."""
    back: list[HeldRange] = []
    for held in receives:
        queue = build.step.state.all_queues.get(held.queue)
        if isinstance(queue, Queue):
            purged_meanwhile(build, held)
            build.step.counts.returned += held.count
            build.move(RangeChange(op, held.queue, held.lane, held.first, held.count))
            back.append(held)
            if queue.shown:
                places = range(held.first, held.first + held.count)
                queue.shown.difference_update((held.lane, at) for at in places)
    return back


def owner_gone(step: Step, item: OwnerGone) -> None:
    """Clean up after a lost client: abort its open transactions, end its waits and handles."""
    owner = item.owner
    for key in [key for key in step.units.transactions if key[0] == owner]:
        undo(step, step.units.transactions[key])
    for tx in [tx for tx in step.units.branches.values() if tx.owner == owner]:
        if tx.phase in PHASES[Verb.ABANDON]:
            undo(step, tx)
    for gtrid in [gtrid for gtrid, teller in step.units.telling.items() if teller == owner]:
        del step.units.telling[gtrid]
    for key in [key for key in step.units.refused if isinstance(key, tuple) and key[0] == owner]:
        del step.units.refused[key]
    forget_reader(step, owner)


def outcome(step: Step, item: AskOutcome) -> None:
    """Answer the outcome of a commit, and make sure that it stays true (``Fences``)."""
    now, age_s = step.now, step.settings.outcome_age_s
    answer = step.state.outcomes.ask(item.id, now.wall_s, age_s)
    if answer is not Outcome.COMMITTED:
        step.units.fences.told(item.id, step.state.outcomes, now, age_s)
    step.answer(item.owner, item.request, answer)
