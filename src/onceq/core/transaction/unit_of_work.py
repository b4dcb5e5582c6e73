"""The life of a unit of work: begin, commit or abort; and its outcome.

Until its commit a transaction is only memory: nothing of it is visible outside, and a crash undoes
it (SND-2, SND-8). The commit is one record: what it received is removed, what it sent is in its
queues with its numbers, and its outcome can be asked for (I2, I3a). The order of commits is the
order of these records (SND-15).

Also here:

* The phases of a branch by verb of XA: one table, from which the checks and their errors are made.
* Undo transactions in which nothing has happened for a while.

Upholds: I2, I3, I3a, I5, I16, I17, I20, I21.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from typing import Final

from onceq import errors
from onceq.core.ending.ending import end_range, purged_meanwhile
from onceq.core.ending.table import Ending
from onceq.core.inputs import OwnerGone
from onceq.core.receive.entrance import forget_reader
from onceq.core.receive.poison import apply_poison_policy
from onceq.core.send import add_puts, check_all_sends, check_send
from onceq.core.state.branch_table import Marks
from onceq.core.state.position_block import PURGING
from onceq.core.state.queues import Queue
from onceq.core.state.records import PUT_EXPRESS, Op, RangeChange
from onceq.core.state.setups import FailureTold
from onceq.core.step.connections import CheckedBatch
from onceq.core.step.step import AuditEntry, ChangeBuilder, Step, Timer, note_act, rule_for
from onceq.core.step.step import check as check_share
from onceq.core.step.units import CopiedRange, HeldRange, OpenTransaction
from onceq.model.branches import Phase, Xid
from onceq.model.marks import RETURNED_MARK, SECOND_US, undelayed, untraced
from onceq.model.requests import Abort, AskOutcome, Begin, Commit, Promise, Send
from onceq.model.requests.transactions import AS_SET
from onceq.model.resultcodes import MessageClass
from onceq.model.results import Outcome, Sent
from onceq.model.rights import Right
from onceq.model.shares import TABLE, Thing
from onceq.model.wording import plural

# ---- branch phases -------------------------------------------------------------------------------


class Verb(Enum):
    """An XA verb. Its value completes the error text "only one that is ... can be ...".

    A branch is the part of somebody else's transaction that this manager carries out. Its life has
    two halves, and one record between them:

    * *Before prepare* the branch is work like any other: nothing of it is durable, and the loss of
      its application or of this manager ends it (presumed abort). Work is associated with one
      application at a time. It may rest, SUSPENDED, and any application that knows the branch may
      resume it; or it has ENDED, and others may join it. XA wants both: a suspended branch is not
      done, so it cannot be prepared.
    * *Prepare* is the promise of both outcomes (I20). From then on nobody here may decide: not the
      application, not a restart, not idleness. Only the coordinator's verbs lead out of PREPARED,
      and an operator, who then has to answer for it: the operator's decision stays, until the
      coordinator has it forgotten, because the coordinator may have decided otherwise (XTX-8).

    One exception is no loss of a promise: a branch whose coordinator is this very manager, and of
    which it knows that no decision is on record and none can come (``second_phase.py``).

    A branch that is over is in no table. Asked for it afterwards, XA says "no such branch"
    (XAER_NOTA), and a coordinator that has decided to commit reads that as "carried out".

    A verb in a phase that the table does not name for it is ``BranchState`` (XAER_PROTO).
    ``docs/reference/states.md`` shows the table as a picture, drawn from ``PHASES``.
    """

    __hash__ = object.__hash__  # Enum's own is a call of Python, for each table that is read

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
        raise errors.BranchState(
            f"branch {xid} is {phase.value}; only one that is {allowed} can be {verb.value}"
        )
    return leads[phase]


def into(verb: Verb, xid: Xid, phase: Phase) -> Phase:
    """The same for a verb after which the branch is still there."""
    leads = after(verb, xid, phase)
    assert leads is not None, "this verb ends a branch"
    return leads


# ---- unit of work --------------------------------------------------------------------------------


@rule_for(Begin)
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
    except errors.InsufficientResources as error:
        step.units.refuse_from_now_on((owner, number), error)
        raise


def open_unit(
    step: Step, owner: int, number: int, idle_us: int | None = None
) -> OpenTransaction:  # fmt: skip
    """Open a new unit of work; raises UsageError or InsufficientResources."""
    check_free(step, owner, number)
    # Every transaction comes here: the checks of the called functions come first, without a call.
    if step.units.open_by.total >= TABLE[Thing.TRANSACTIONS].plenty:
        check_share(step, step.known_by(owner), Thing.TRANSACTIONS, step.units.open_by)
    now_us = step.now.mono_us
    by = step.who.get(owner, "")
    tx = OpenTransaction(owner, number, step.now.wall_s, used_us=now_us, idle_us=idle_us, by=by)
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
        raise errors.UsageError(f"transaction number {number} is in use; numbers begin at 1")


@rule_for(Send)
def send(step: Step, item: Send) -> None:
    """Send inside a transaction, or at once (SND-26)."""
    if item.transaction:
        tx = step.units.find(item.owner, item.transaction, step.now)
        before = tx.bytes
        tx.sends += check_all_sends(step, item.items, tx, step.who.get(item.owner, ""))
        step.units.open_bytes += tx.bytes - before
        step.answer(item.owner, item.request, None)
        return
    sends = check_all_sends(step, item.items, None, step.who.get(item.owner, ""))
    build = ChangeBuilder(step)
    step.units.reserve(sends, -1)
    first, count = add_puts(build, sends, transaction=0)
    express = all(put.flags & PUT_EXPRESS for put in build.change.puts)
    step.record(build.change, forced=not express)
    if step.actors:
        note_returns(step, item.owner, sends)
    step.answer(item.owner, item.request, Sent(first, count))


@rule_for(Commit)
def commit(step: Step, item: Commit) -> None:
    """Add the last sends and carry out the transaction in one record; begin the next one with it,
    if one is wanted."""
    if item.then:
        check_free(step, item.owner, item.then)
    if item.id is not None and step.units.fences.bars(item.id, step.state.outcomes):
        late = step.units.transactions.get((item.owner, item.transaction))
        if late is not None:
            undo(step, late)
        raise errors.TransactionOver("this commit came after its outcome was told; it was aborted")
    receives: list[HeldRange] = []
    idle_us: int | None = None
    build = ChangeBuilder(step, item.id)
    if item.transaction:
        tx = step.units.find(item.owner, item.transaction, step.now)
        if tx.xid is not None:
            raise errors.BranchState(
                "a branch of an external transaction is committed by who began that"
            )
        before = tx.bytes
        sends = tx.sends + last_sends(step, item, tx)
        # Only what earlier sends have added: what the commit brings along was never counted.
        step.units.open_bytes -= before
        if sends:
            step.units.reserve(sends, -1)
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
        sends = [check_send(step, item.items[0], None, transactional=True, by=by)]
    else:
        tx = OpenTransaction(item.owner, 0, step.now.wall_s)
        sends = check_all_sends(step, item.items, tx, step.who.get(item.owner, ""))
        # Before they take effect: dead letters and acknowledgments of this change ask how full
        # queues are, and would count both the promise and the put.
        step.units.reserve(sends, -1)
    result = take_effect(build, sends, receives)
    step.record(build.change)
    if step.actors:
        note_returns(step, item.owner, sends)
    if item.then:
        with suppress(errors.InsufficientResources):  # The next requests in it get the error.
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
    return untraced(undelayed(extension)[0])[0].endswith(RETURNED_MARK)


def last_sends(step: Step, item: Commit | Promise, tx: OpenTransaction) -> list[CheckedBatch]:
    """Prepare what a commit or a promise brings along. If a send was refused, now or before, and
    was not wrong in itself, undo the transaction instead.

    Raises:
        SendFailed: A send was refused.
    """
    try:
        made = check_all_sends(step, item.items, tx, step.who.get(item.owner, ""))
    except errors.OnceqError:
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


@rule_for(Abort)
def abort(step: Step, item: Abort) -> None:
    """Undo a transaction."""
    # A transaction that was never begun, or that time has undone, has nothing to undo.
    if step.units.refused.pop((item.owner, item.transaction), None) is None:
        tx = step.units.find(item.owner, item.transaction, step.now)
        undo(step, tx, item.why, blameless=item.blameless)
    step.answer(item.owner, item.request, None)


def undo(step: Step, tx: OpenTransaction, why: str = "", *, blameless: bool = False) -> None:
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
    back = unlock_received(build, tx.receives, Op.RETURN if blameless else Op.UNLOCK)
    # If a crash loses this, a restart decides it again: it unlocks what no transaction holds.
    step.record(build.change, forced=False)
    if back:
        apply_poison_policy(step, back)


def release(step: Step, tx: OpenTransaction) -> None:
    """Remove it from the tables, and free its room."""
    if tx.phase is Phase.ACTIVE:
        del step.units.transactions[tx.owner, tx.number]
    step.units.closed(tx)
    if tx.xid is not None:
        del step.units.open_branches[tx.xid]
    if tx.gtrid:
        del step.units.deciding[tx.gtrid]
    step.units.open_bytes -= tx.bytes
    step.units.reserve(tx.sends, -1)
    step.emptied.update(dict.fromkeys(tx.targets))


def unlock_received(
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
    for tx in [tx for tx in step.units.open_branches.values() if tx.owner == owner]:
        if tx.phase in PHASES[Verb.ABANDON]:
            undo(step, tx)
    for gtrid in [gtrid for gtrid, teller in step.units.telling.items() if teller == owner]:
        del step.units.telling[gtrid]
    for key in [key for key in step.units.refused if isinstance(key, tuple) and key[0] == owner]:
        del step.units.refused[key]
    forget_reader(step, owner)


@rule_for(AskOutcome)
def outcome(step: Step, item: AskOutcome) -> None:
    """Answer the outcome of a commit, and make sure that it stays true (``Fences``)."""
    now, age_s = step.now, step.settings.outcome_age_s
    answer = step.state.outcomes.ask(item.id, now.wall_s, age_s)
    if answer is not Outcome.COMMITTED:
        step.units.fences.bar(item.id, step.state.outcomes, now, age_s)
    step.answer(item.owner, item.request, answer)


# ---- idle timeout --------------------------------------------------------------------------------


LOOKS = 8
"""Checks of all transactions, at most, in the span that is allowed."""


def on_timer(step: Step, nobody: object) -> None:
    """Undo transactions in which nothing has happened for too long.

    A broken connection reveals a lost application; one that lives and has forgotten a transaction
    would keep messages locked, and block every reader behind them, as long as it lives. A
    transaction that waits for a message is not forgotten, and a prepared one is never undone here
    (XTX-4). A program that knows how long it works in a transaction says so at its beginning
    (``Begin.idle_s``); loops do.

    One timer serves them all: it is set when the first is begun, and rings a few times in the
    shortest span that is allowed.
    """
    step.units.idle_look_us = 0
    now_us = step.now.mono_us
    waiting = {(item.owner, item.transaction) for item in step.readers.waiting.values()}
    least_us = 0
    for tx in list(step.units.all()):
        limit_us = _limit_us(step, tx)
        if not limit_us or tx.phase not in PHASES[Verb.ABANDON]:
            continue
        if (tx.owner, tx.number) in waiting:
            tx.used_us = now_us
        if tx.used_us + limit_us <= now_us:
            _undo(step, tx, limit_us)
        else:
            least_us = min(least_us or limit_us, limit_us)
    if least_us:
        _look_in(step, least_us // LOOKS)


def watch(step: Step) -> None:
    """Start the timer for open transactions, if that was switched on meanwhile."""
    limits = [limit_us for tx in step.units.all() if (limit_us := _limit_us(step, tx))]
    if limits and not step.units.idle_look_us:
        _look_in(step, min(limits) // LOOKS)


def _look_in(step: Step, after_us: int) -> None:
    step.units.idle_look_us = step.now.mono_us + after_us
    step.timer(step.units.idle_look_us, Timer.IDLE, None)


def _limit_us(step: Step, tx: OpenTransaction) -> int:
    """Return how long a transaction may be idle; 0: without limit."""
    return step.settings.transaction_idle_s * SECOND_US if tx.idle_us is None else tx.idle_us


def _undo(step: Step, tx: OpenTransaction, limit_us: int) -> None:
    """Undo it; its received messages are not at fault, so this abort does not count (SND-21)."""
    whose = "setting transaction_idle_s" if tx.idle_us is None else "the limit of its program"
    text = f"nothing had happened in it for {limit_us // SECOND_US} s ({whose})"
    if tx.phase is Phase.ACTIVE:
        over = errors.RolledBackByTime(f"this transaction was rolled back: {text}")
        step.units.refuse_from_now_on((tx.owner, tx.number), over)
    if tx.xid is not None:
        why = errors.RolledBackByTime(f"branch {tx.xid} was rolled back: {text}")
        step.units.refuse_from_now_on(tx.xid, why)
    undo(step, tx, blameless=True)
    step.notice(
        "a forgotten transaction was rolled back", str(tx.owner), application=tx.owner,
        transaction=str(tx.xid or tx.number), received=sum(h.count for h in tx.receives),
        sent=tx.messages, after_s=limit_us // SECOND_US,
    )  # fmt: skip
