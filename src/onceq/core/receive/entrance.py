"""The one entrance through which messages are taken out of queues, with its checks.

However a message is named, and no matter what takes it (a receive, a search, a whole transaction, a
range that was read, a move, a job, a purge), the same checks come first: whether an application has
the queue alone (Q-41), whether a transaction may take from it (RCV-11), and whether an operator has
paused it. Then ``take`` locks it for a transaction, or removes it permanently.

Two checks are made elsewhere, for all alike. Rights are judged for every request before its rule
sees it, and for a job batch by batch (``core/rights.py``). And callers find only
places where no transaction holds a message.

A pause stops requests that process messages, not those that name one: operators maintain a queue
meanwhile, and a reader removes what it has written elsewhere. Subqueues, journals and the queues of
the system are never paused. The pause is a property of the queue, so it outlives a restart.

Also here:

* Open queues: what a name may be opened for, and which handles exclude each other (Q-41).

Upholds: I16 (no other request takes what is held; nothing is handed out of a paused queue).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from onceq import errors
from onceq.core.ending.ending import end_range
from onceq.core.ending.table import Ending
from onceq.core.names import destinations, find_queue, find_source, kind_of, one_name
from onceq.core.receive.lookup import Place, ensure
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queues import AnyQueue, Queue, QueueHandle
from onceq.core.state.records import Change, Op, RangeChange
from onceq.core.step.step import ChangeBuilder, Step, rule_for
from onceq.core.step.step import check as check_share
from onceq.core.step.units import HeldRange, OpenTransaction
from onceq.model.limits import TRANSACTION_MESSAGES_MAX
from onceq.model.names import check_send, may_receive, parse_any
from onceq.model.requests import Access, CloseQueue, OpenQueue, Receive, RenewHold, Seek, Share
from onceq.model.resultcodes import MessageClass
from onceq.model.results import Opened
from onceq.model.shares import Thing

# ---- handles -------------------------------------------------------------------------------------


_CLOSED: Final = "the queue is not open, or was closed"


@rule_for(OpenQueue)
def open_queue(step: Step, item: OpenQueue) -> None:
    """Check that a queue may be opened in this way, and hold it."""
    by = step.known_by(item.owner)
    check_share(step, by, Thing.HANDLES, step.readers.handles_by)
    if item.access is Access.SEND:
        handle, result = _open_to_send(step, item)
    else:
        handle, result = _open_to_receive(step, item)
    handle.by = by
    step.readers.opened(handle)
    step.answer(item.owner, item.request, result)


def _open_to_send(step: Step, item: OpenQueue) -> tuple[QueueHandle, Opened]:
    if item.share is not Share.DENY_NONE:
        raise errors.UnsupportedAccessMode(
            "a queue opened for sending cannot deny others to receive"
        )
    elements = parse_any(item.name)
    if len(elements) == 1 and elements[0].subqueue:
        raise errors.UnsupportedAccessMode(
            f"{item.name}: a subqueue is opened for receive, peek or move; messages enter it only "
            "by a move (Q-31)"
        )
    for element in elements:
        check_send(element, transactional=False)
    targets = destinations(step, item.name, transactional=False, by=step.known_by(item.owner))
    number = targets[0].queue.number if len(targets) == 1 else 0
    handle = QueueHandle(item.owner, number, item.access, item.share, said=targets[0].said)
    local = all(isinstance(target.queue, Queue) for target in targets)
    places = tuple(target.queue.number for target in targets)
    return handle, Opened(step.readers.next_handle, local, kind_of(targets), places=places)


def _open_to_receive(step: Step, item: OpenQueue) -> tuple[QueueHandle, Opened]:
    (element,) = one_name(item.name)
    may_receive(element)
    if item.access is Access.MOVE and item.share is not Share.DENY_NONE:
        raise errors.UnsupportedAccessMode("a queue opened for move cannot deny others to receive")
    sub = ensure(step, item.name, item.owner)
    queue = find_source(step, item.name) if sub is None else sub
    if isinstance(queue, OutgoingQueue):
        if item.access is not Access.PEEK:
            raise errors.UnsupportedAccessMode("an outgoing queue can only be opened for peek")
        handle = QueueHandle(item.owner, queue.number, item.access, item.share)
        return handle, Opened(step.readers.next_handle, False, None)
    end_overdue(step, queue)
    # The table of Q-41 applies to the handle that comes later. If it denies nothing, it is excluded
    # only by those that do.
    denies = item.share is Share.DENY_RECEIVE
    for held in (queue.handles if denies else queue.denying).values():
        if held.access in (Access.SEND, Access.MOVE):
            continue
        if held.share is Share.DENY_RECEIVE and (
            item.access is Access.RECEIVE or (denies and held.access is Access.RECEIVE)
        ):
            raise _denied(step, queue, held)
        if held.access is Access.RECEIVE and denies:
            raise errors.SharingViolation(
                f"queue {queue.properties.name} is open for receiving elsewhere"
                f"{_holder(step, held)}"
            )
    handle = QueueHandle(
        item.owner, queue.number, item.access, item.share, who=item.note, since_s=step.now.wall_s
    )
    queue.handles[step.readers.next_handle] = handle
    turn = 0
    if item.share is Share.DENY_RECEIVE:
        queue.denying[step.readers.next_handle] = handle
        turn = queue.turns = queue.turns + 1
    return handle, Opened(step.readers.next_handle, True, queue.properties.transactional, turn)


def _denied(step: Step, queue: Queue, held: QueueHandle) -> errors.SharingViolation:
    """Return the error that a queue is held alone; only callers with a right there get it."""
    return errors.SharingViolation(
        f"queue {queue.properties.name} is open elsewhere, which denies receiving"
        f"{_holder(step, held)}"
    )


def _holder(step: Step, held: QueueHandle) -> str:
    """Return the holder as the queue manager knows it, and the note that it gave."""
    actor = step.actors.get(held.owner)
    names = [str(actor)] if actor is not None else []
    names += [held.who] if held.who else []
    clock = f"{held.since_s // 3600 % 24:02}:{held.since_s // 60 % 60:02}:{held.since_s % 60:02}"
    who = ", ".join(names) or "the process that runs the queue manager"
    return f" (held by {who} since {clock} UTC)"


def check_receive(step: Step, queue: Queue, item: Receive) -> None:
    """Check that other owners' handles allow this receive."""
    if item.handle:
        held = step.readers.handles.get(item.handle)
        if held is None or held.owner != item.owner or held.queue != queue.number:
            raise errors.InvalidHandle(_CLOSED)
        if item.peek and held.access not in (Access.RECEIVE, Access.PEEK):
            raise errors.InvalidHandle("the queue is not open for receive or peek")
        if not item.peek and held.access is not Access.RECEIVE:
            raise errors.InvalidHandle("the queue is not open for receiving")
        return
    if not item.peek and queue.denying:
        end_overdue(step, queue)
        for held in queue.denying.values():
            raise _denied(step, queue, held)


def check_alive(step: Step, item: Receive) -> None:
    """Refuse a handle to a deleted queue, which can only be closed (Q-37)."""
    held = step.readers.handles.get(item.handle)
    if held is not None and held.owner == item.owner and held.deleted:
        raise errors.QueueDeleted(
            f"{item.queue} was deleted; close it, and open it again if it is there"
        )


@rule_for(CloseQueue)
def close_queue(step: Step, item: CloseQueue) -> None:
    """Close a handle."""
    handle_of(step, item.owner, item.handle)
    close_handle(step, item.handle)
    step.answer(item.owner, item.request, None)


def handle_of(step: Step, owner: int, number: int) -> QueueHandle:
    """Return a handle of an owner; raises InvalidHandle if it has none of that number now."""
    held = step.readers.handles.get(number)
    if held is None or held.owner != owner:
        raise errors.InvalidHandle(_CLOSED)
    return held


@rule_for(RenewHold)
def renew(step: Step, item: RenewHold) -> None:
    """Extend the hold of an owner that is still there."""
    held = handle_of(step, item.owner, item.handle)
    if held.share is not Share.DENY_RECEIVE:
        raise errors.UnsupportedAccessMode("a handle that keeps nobody from receiving has no lease")
    held.until_us = step.now.mono_us + item.lease_ms * 1_000 if item.lease_ms else 0
    step.answer(item.owner, item.request, None)


def end_overdue(step: Step, queue: Queue) -> None:
    """End a hold that its owner has not renewed in time, when another one wants the queue.

    It ends only when it is in the way: a slow owner whose queue no other one wants continues with
    it.
    """
    now_us = step.now.mono_us
    for number, held in list(queue.denying.items()):
        if held.until_us and held.until_us <= now_us:
            close_handle(step, number)
            step.notice(
                "a hold was not renewed, and ended", queue.properties.name,
                queue=queue.properties.name, holder=held.who, since=held.since_s,
            )  # fmt: skip


def release(step: Step, name: str) -> int:
    """End all holds of a queue, which their owners learn at their next receive; return how many
    there were. Raises QueueNotFound."""
    queue = find_queue(step, name)
    held = list(queue.denying.items())
    for number, handle in held:
        step.act_notice(
            "a hold was ended by an operator", queue=queue.properties.name,
            holder=_holder(step, handle).strip(" ()"),
        )  # fmt: skip
        close_handle(step, number)
    return len(held)


def check_sharing(step: Step, queue: Queue, owner: int) -> None:
    """Check that an owner may take messages without a handle: no other owner denies it."""
    if queue.denying:
        end_overdue(step, queue)
    for held in queue.denying.values():
        if held.owner != owner:
            raise _denied(step, queue, held)


def close_handle(step: Step, number: int) -> None:
    """Close a handle, and end receives that wait through it (RCV-4)."""
    handle = step.readers.closed(number)
    queue = step.state.all_queues.get(handle.queue)
    if isinstance(queue, Queue):
        queue.handles.pop(number, None)
        queue.denying.pop(number, None)
        if queue.parent is not None:
            step.emptied[queue.number] = None
    for key in list(step.readers.through.get(number, ())):
        step.answer(
            *key, errors.OperationCancelled("the queue was closed while the receive waited")
        )
        step.readers.leave(key)


def forget_reader(step: Step, owner: int) -> None:
    """End the waits of a lost client, and close its handles."""
    waits = list(step.readers.of.get(owner, ()))
    for key in waits:
        step.readers.leave(key)
    if waits:
        step.emptied.update(dict.fromkeys(step.state.subqueues))
    for number in list(step.readers.handles_of.get(owner, ())):
        close_handle(step, number)


def end_waits(step: Step, queue: Queue) -> None:
    """End receives that wait at a deleted queue, and mark its handles (Q-37)."""
    for handle in queue.handles.values():
        handle.deleted = True
    for key, receive in list(queue.waiting.items()):
        step.readers.leave(key)
        step.answer(*key, errors.QueueDeleted(f"{receive.queue} was deleted meanwhile"))


# ---- entrance ------------------------------------------------------------------------------------


class Why(Enum):
    """The purpose for which messages are taken."""

    WORK = 1
    """To process what comes, no matter how the message was found: a pause stops it."""
    NAMED = 2
    """An application names messages, by their lookup identifiers or as all that are there: to
    maintain a queue, or because it has written them elsewhere."""


def why(item: Receive) -> Why:
    """Return the purpose of a receive. A lookup identifier that a loop or a search has found names
    no message: it is the position of what comes next."""
    named = item.lookup and item.seek is Seek.CURRENT and not (item.hold or item.pick)
    return Why.NAMED if named else Why.WORK


def check_receive_from(step: Step, item: Receive, queue: Queue) -> None:
    """Refuse an impossible receive or peek. Whether a pause stops it is checked when there is a
    message (``paused``), because it waits then."""
    if item.transaction:
        tx = step.units.find(item.owner, item.transaction, step.now)
        # A branch may be prepared, and a promise about express messages could not be kept.
        if not queue.properties.transactional and not (item.hold and tx.xid is None):
            raise errors.TransactionUsage(
                f"{item.queue} is not transactional: it cannot be received from in a transaction; "
                "receive outside of transactions, or make another queue with transactional=True"
            )
    if item.handle or queue.handles:
        check_receive(step, queue, item)


def check_taking(
    step: Step,
    queue: Queue,
    reason: Why,
    *,
    owner: int,
    name: str,
    tx: OpenTransaction | None = None,
) -> None:
    """Refuse to take messages that were found before.

    Args:
        name: The name that the caller used for the queue.

    Raises:
        TransactionUsage: It is not transactional, and ``tx`` takes.
        SharingViolation: Another application has it alone.
        ReceiveTimeout: It is paused.
    """
    if tx is not None and not queue.properties.transactional:
        raise errors.TransactionUsage(f"{name} is not transactional")
    check_sharing(step, queue, owner)
    if reason is Why.WORK and is_paused(queue):
        raise kept_by_pause(name)


def is_paused(queue: AnyQueue) -> bool:
    """Return whether an operator has paused a queue; a subqueue never is."""
    return isinstance(queue, Queue) and queue.properties.paused_since > 0 and not queue.sub


def paused(item: Receive, queue: AnyQueue) -> bool:
    """Return whether a pause keeps a receive from getting anything."""
    return is_paused(queue) and not item.peek and why(item) is Why.WORK


def kept_by_pause(name: str) -> errors.ReceiveTimeout:
    """Return the answer to a receive that gets nothing from a paused queue."""
    return errors.ReceiveTimeout(
        f"an operator has paused {name}: nothing is received from it until 'onceq queue resume'"
    )


def nothing(item: Receive, queue: AnyQueue) -> errors.ReceiveTimeout:
    """Return the answer if there is nothing to receive, at all or until the end of the time."""
    if paused(item, queue):
        return kept_by_pause(item.queue)
    return errors.ReceiveTimeout(f"no message in {item.queue}")


def take(
    step: Step, queue: AnyQueue, places: list[Place], tx: OpenTransaction | None, *,
    kind: type[HeldRange] = HeldRange,
) -> None:  # fmt: skip
    """Take what is at some places: in a transaction, or permanently."""
    if tx is None:
        build = ChangeBuilder(step)
        remove(build, queue, places)
        step.record(build.change)
        return
    change = Change(step.now.wall_s)
    count = sum(place[2] for place in places)
    if tx.messages + count > TRANSACTION_MESSAGES_MAX:
        raise errors.InsufficientResources(
            f"one transaction may hold {TRANSACTION_MESSAGES_MAX} messages; commit in smaller steps"
        )
    tx.messages += count
    for index, first, size in places:
        move = kind(Op.LOCK, queue.number, index, first, size)
        change.moves.append(move)
        tx.receives.append(move)
    step.record(change, forced=False)


def remove(
    build: ChangeBuilder, queue: AnyQueue, places: Iterable[Place], *, copied: bool = False
) -> None:
    """Add to a change that messages are received permanently."""
    for index, first, count in places:
        move = RangeChange(Op.REMOVE, queue.number, index, first, count)
        end_range(build, move, Ending.RECEIVED, MessageClass.ACK_RECEIVE, copied=copied)
