"""Subqueues: parts of a queue into which messages come only by a move (Q-31).

A subqueue is made when an owner that may receive there opens it, or by the first move to it. It is
removed when it is empty and no owner has it open, waits at it or is about to move a message there.
Everything else about it, its quota included, is its parent's. ``core/receive/move_message.py`` has
the moves.

Upholds: I24 (none is kept empty), I28 (an owner that may only peek makes none).
"""

from __future__ import annotations

from dataclasses import replace

from onceq.core.names.resolve import is_local, local_queue, one_name
from onceq.core.rights.demands import to_hold
from onceq.core.rights.judge import may
from onceq.core.rights.places import place_of
from onceq.core.state.queue_tables import is_counted
from onceq.core.state.queues import Queue
from onceq.core.state.setups import MakerKnown, SubqueueDropped, SubqueueMade
from onceq.core.step.step import Step, refusal
from onceq.errors import InsufficientResources, InvalidParameter, QueueNotFound
from onceq.model.names import FormatName
from onceq.model.shares import Thing


def ensure(step: Step, text: str, owner: int) -> Queue | None:
    """Return the subqueue of that name, made now if missing; None if it names no subqueue.

    Raises:
        QueueNotFound: It is missing, and its owner may only peek, which makes nothing.
    """
    if ";" not in text:
        return None
    (name,) = one_name(text)
    if not name.subqueue or not is_local(step, name):
        return None
    parent = parent_of(step, name)
    if name.subqueue.casefold() not in parent.subs and not may(
        step, owner, (to_hold(place_of(parent)),)
    ):
        raise QueueNotFound(
            f"there is no {text}: a subqueue is made when somebody opens it who may receive there"
        )
    return of(step, parent, name.subqueue, owner)


def of(step: Step, parent: Queue, sub: str, owner: int | None = None) -> Queue:
    """Return that subqueue of a queue, made now if missing.

    Args:
        owner: Who wants it; None: this manager itself, for the owner of the queue.
    """
    found = parent.subs.get(sub.casefold())
    return make(step, parent, sub, owner) if found is None else found


def parent_of(step: Step, name: FormatName) -> Queue:
    """Return the queue of a subqueue's name; raises QueueNotFound."""
    return local_queue(step, replace(name, subqueue="", text=""))


def make(step: Step, parent: Queue, name: str, owner: int | None) -> Queue:
    """Make a subqueue; a restart forgets it again if nothing was moved there."""
    if parent.system or parent.parent is not None:
        raise InvalidParameter("only queues of applications have subqueues (Q-29)")
    makers = step.state.makers
    by = makers.of(parent.number) if owner is None else step.known_by(owner)
    own, count = makers.counts[Thing.SUBQUEUES].of(by), makers.subqueues
    full = is_counted(name) and refusal(step, by, Thing.SUBQUEUES, own, count)
    if full:
        raise InsufficientResources(full)
    number = step.state.next_number
    step.setup(SubqueueMade(number=number, parent=parent.number, name=name), forced=False)
    if by and is_counted(name):
        step.setup(MakerKnown(number=number, who=by), forced=False)
    step.emptied[number] = None
    return step.state.subqueues[number]


def tidy(step: Step) -> None:
    """Remove empty subqueues that are not in use."""
    emptied = [step.state.subqueues.get(number) for number in step.emptied]
    step.emptied.clear()
    for queue in emptied:
        if queue is None or len(queue) or queue.handles or queue.waiting:
            continue
        if any(queue.number in tx.targets for tx in step.units.all()):
            continue
        step.names.changed()
        step.setup(SubqueueDropped(number=queue.number), forced=False)
