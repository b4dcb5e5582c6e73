"""Subqueues: parts of a queue into which messages come only by a move (Q-31).

A subqueue is made when it is opened by somebody who may receive there, or first moved to. It goes
when it is empty and nobody has it open, waits at it or is about to move something there. Everything
else about it, its quota included, is its parent's. Moves are in ``core/receive/move_message.py``.

Upholds: I24 (none is kept empty), I28 (who may only look makes none).
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
    """The subqueue of that name, made now if there is none; None if it names no subqueue.

    Raises:
        QueueNotFound: It is not there, and its owner may only look: who looks makes nothing.
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
    """That subqueue of a queue, made now if there is none.

    Args:
        owner: Who wants it; None: this manager itself, for whoever has made the queue.
    """
    found = parent.subs.get(sub.casefold())
    return make(step, parent, sub, owner) if found is None else found


def parent_of(step: Step, name: FormatName) -> Queue:
    """The queue of a subqueue's name; raises QueueNotFound."""
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
    """Let empty subqueues go that nobody uses."""
    emptied = [step.state.subqueues.get(number) for number in step.emptied]
    step.emptied.clear()
    for queue in emptied:
        if queue is None or len(queue) or queue.handles or queue.waiting:
            continue
        if any(queue.number in tx.targets for tx in step.units.all()):
            continue
        step.names.changed()
        step.setup(SubqueueDropped(number=queue.number), forced=False)
