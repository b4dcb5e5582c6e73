"""Divert messages whose receive is undone again and again (Q-36, case 123).

MSMQ never diverts a message by itself, and neither does a queue here unless its owner asks for it
(``poison_attempts``). Then a message that was given back that often moves to ``;retry`` for a
while, as often as ``poison_retries`` says, and after that to where ``poison_then`` says. The others
keep their order. The count of moves, which a message keeps permanently, shows how often it has been
there and back.

What the policy has set aside (``move:``) is for people, and its time to be received does not count
any more. A message whose time ends in ``;retry`` does not end there: ``poison_then`` happens to it
at once, unless that is ``reject``.

In a queue with a policy, a message that was given back before is handed out alone, so that the
others of a batch do not fail with it.

Upholds: I11 (a diverted message ends once, or not at all), I17.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from onceq.core.ending.ending import ENDED_AT_ONCE, end_range
from onceq.core.ending.table import Ending
from onceq.core.receive.lookup import Place, of
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.positions import Positions
from onceq.core.state.queues import Queue
from onceq.core.state.records import SET_ASIDE, Change, Op, RangeChange
from onceq.core.step.step import ChangeBuilder, Step, Timer
from onceq.errors import InsufficientResources
from onceq.model.letters import POISON
from onceq.model.marks import NEVER_S
from onceq.model.queue import POISON_DEAD_LETTER, POISON_MOVE, POISON_REJECT
from onceq.model.resultcodes import MessageClass

RETRY = "retry"
"""Subqueue in which messages wait for their next attempts."""
SEEN: Final = 16
"""Messages of each lane among which the one that is due first is searched."""
AT_WORK: Final = -1
"""Replaces a time: messages are being moved back."""


def apply_poison_policy(step: Step, back: Sequence[RangeChange]) -> None:
    """Apply the policy to messages that an aborted transaction has put back in their places."""
    found: dict[int, list[Place]] = {}
    for held in back:
        queue = step.state.all_queues.get(held.queue)
        if isinstance(queue, Queue) and queue.properties.poison_attempts and not queue.sub:
            found.setdefault(queue.number, []).append((held.lane, held.first, held.count))
    for number, places in found.items():
        queue = step.state.all_queues[number]
        assert isinstance(queue, Queue)
        _sift(step, queue, places)


def sift_all(step: Step) -> None:
    """Apply the policy after a restart: a crash counts as an abort (SND-24), and waits continue."""
    for queue in list(step.state.queues.values()):
        if queue.properties.poison_attempts:
            step.begin(_sift_queue(step, queue))
        _set_timer(step, queue)


def policy_set(step: Step, queue: Queue, *, waited: bool) -> None:
    """Apply a queue's policy to what is in it: it may be new.

    Args:
        waited: Whether messages have waited for their next attempts by the policy before.
    """
    step.begin(_policy_set(step, queue, waited))


def _policy_set(step: Step, queue: Queue, waited: bool) -> Iterator[None]:
    if waited and not waits(queue):
        yield from _bring_back(step, queue, before_s=NEVER_S)
    yield from _sift_queue(step, queue)
    _set_timer(step, queue)


def _sift_queue(step: Step, queue: Queue) -> Iterator[None]:
    """Check everything in a queue that was given back before, a portion in each step."""
    if not queue.properties.poison_attempts:
        return
    given = [(index, at, 1) for index, lane in queue.lanes.items() for at in lane.aborts]
    for start in range(0, len(given), ENDED_AT_ONCE):
        if start:
            yield
            if not _there(step, queue) or not queue.properties.poison_attempts:
                return
        _sift(step, queue, given[start : start + ENDED_AT_ONCE])


def _there(step: Step, queue: Queue) -> bool:
    """Return whether a queue has not been deleted meanwhile."""
    return step.state.all_queues.get(queue.number) is queue


def _sift(step: Step, queue: Queue, places: Sequence[Place]) -> None:
    """Divert the messages at these places that have failed too often."""
    attempts = queue.properties.poison_attempts
    worn = [
        (index, counter)
        for index, first, count in places
        for counter in range(first, first + count)
        if queue.lanes[index].aborts.get(counter, 0) >= attempts
        and queue.lanes[index].state(counter) == AVAILABLE
    ]
    build, rule, moved = ChangeBuilder(step), queue.properties, 0
    for index, counter in worn:
        # Each round is two moves: there and back.
        rounds = queue.lanes[index].moved.get(counter, (0, 0))[0] // 2
        if rule.poison_retry_after and rounds < rule.poison_retries:
            moved += _shift(build, queue, index, counter, RETRY, reason=0)
        elif rule.poison_then.startswith(POISON_MOVE):
            sub = rule.poison_then.removeprefix(POISON_MOVE)
            moved += _shift(build, queue, index, counter, sub, reason=SET_ASIDE)
        else:
            _end(build, queue, index, counter, kept=rule.poison_then == POISON_DEAD_LETTER)
            moved += 1
    if not moved:
        return
    step.record(build.change)
    step.notice(
        "messages moved aside: their delivery attempts are used up", queue.title, queue=queue.title,
        messages=moved,
    )  # fmt: skip
    _set_timer(step, queue)


def _end(build: ChangeBuilder, queue: Queue, index: int, counter: int, *, kept: bool) -> None:
    reason = MessageClass.NACK_RECEIVE_REJECTED
    move = RangeChange(Op.END, queue.number, index, counter, 1, reason)
    end_range(build, move, Ending.REJECTED_AND_KEPT if kept else Ending.NOT_RECEIVED, reason)


def set_aside(build: ChangeBuilder, sub: Queue, index: int, first: int, count: int) -> bool:
    """Set aside expired messages that wait for their next attempts, by the policy of their queue,
    instead of ending them; return whether these are such."""
    queue = sub.parent
    if queue is None or queue.subs.get(RETRY) is not sub or not waits(queue):
        return False
    then = queue.properties.poison_then
    if then == POISON_REJECT or then.casefold() == POISON_MOVE + RETRY:
        return False
    for counter in range(first, first + count):
        to = then.removeprefix(POISON_MOVE)
        if then == POISON_DEAD_LETTER or not _shift(
            build, sub, index, counter, to, reason=SET_ASIDE
        ):
            _end(build, sub, index, counter, kept=True)
    build.step.notice(
        "messages moved aside: their time was over while they waited for their next attempts",
        queue.title, queue=queue.title, messages=count,
    )  # fmt: skip
    return True


def _shift(
    build: ChangeBuilder, queue: Queue, index: int, counter: int, sub: str, *, reason: int
) -> bool:
    try:
        to = of(build.step, queue.parent or queue, sub).number
    except InsufficientResources as error:
        # It does not move. An abort, or a restart, does not fail because a subqueue is missing.
        build.step.notice(
            "messages stay, though their delivery attempts are used up", queue.title,
            queue=queue.title, reason=error.text,
        )  # fmt: skip
        return False
    build.move(RangeChange(Op.SHIFT, queue.number, index, counter, 1, reason, to))
    return True


def alone(queue: Queue, places: list[Place]) -> list[Place]:
    """Return what a transaction gets from a queue with a policy: a message that was given back
    before comes alone."""
    found: list[Place] = []
    for index, first, count in places:
        lane = queue.lanes[index]
        # Those that were given back before, in order. Either of the two may be far larger.
        given_back: Iterable[int] = (
            (at for at in range(first, first + count) if at in lane.aborts)
            if count < len(lane.aborts)
            else sorted(at for at in lane.aborts if first <= at < first + count)
        )
        for counter in given_back:
            if counter > first:
                found.append((index, first, counter - first))
            return found or [(index, counter, 1)]
        found.append((index, first, count))
    return found


def holds_poison(sub: Queue) -> bool:
    """Return whether a subqueue is one that takes messages whose receives failed too often.

    The default subqueue counts under any policy.
    """
    name = sub.sub.casefold()
    return bool(sub.sub) and name in (
        POISON, sub.properties.poison_then.removeprefix(POISON_MOVE).casefold()
    )  # fmt: skip


# ---- waiting for the next attempts -------------------------------------------------------


def _due(lane: Positions, counter: int, after_s: int) -> int:
    return lane.moved.get(counter, (0, 0))[1] + after_s


def waits(queue: Queue) -> bool:
    """Return whether the messages in ``;retry`` come back by themselves."""
    return bool(queue.properties.poison_attempts and queue.properties.poison_retry_after)


def _set_timer(step: Step, queue: Queue) -> None:
    sub = queue.subs.get(RETRY)
    if sub is None or not len(sub) or not waits(queue):
        return
    after_s = queue.properties.poison_retry_after
    # No more than one step moves: the first one due must be among these.
    seen = _longest(sub, min(SEEN, ENDED_AT_ONCE))
    soonest = min((_due(lane, counter, after_s) for lane, _, counter in seen), default=None)
    if soonest is not None:
        at_us = step.now.mono_us + max(soonest * 1_000_000 - step.now.wall_us, 0)
        running = step.readers.retries.get(queue.number)
        if running is None or at_us < running:
            step.readers.retries[queue.number] = at_us
            step.timer(at_us, Timer.RETRY, queue.number)


def _longest(sub: Queue, count_max: int) -> Iterator[tuple[Positions, int, int]]:
    """Yield what has waited longest in a subqueue, at most a number of each lane: lane, its index,
    counter.

    New messages come last, so the first ones are due first. Where the clock was set back, those
    behind wait for them.
    """
    for index, lane in sub.lanes.items():
        for first, count in lane.ranges(AVAILABLE, 0, count_max=count_max):
            for counter in range(first, first + count):
                yield lane, index, counter


def on_timer(step: Step, whom: object) -> None:
    """Move messages that have waited long enough back, behind what is in the queue."""
    assert isinstance(whom, int)
    at_us = step.readers.retries.get(whom, 0)
    if at_us == AT_WORK or at_us > step.now.mono_us:
        return
    queue = step.state.all_queues.get(whom)
    if isinstance(queue, Queue) and waits(queue):
        step.begin(_retry(step, queue))
    else:
        step.readers.retries.pop(whom, None)


def _retry(step: Step, queue: Queue) -> Iterator[None]:
    step.readers.retries[queue.number] = AT_WORK
    yield from _bring_back(step, queue, before_s=step.now.wall_s)
    step.readers.retries.pop(queue.number, None)
    if _there(step, queue):
        _set_timer(step, queue)


def _bring_back(step: Step, queue: Queue, *, before_s: int) -> Iterator[None]:
    """Move back what waits for its next attempts, and has waited long enough by that second; a
    portion in each step."""
    after_s = queue.properties.poison_retry_after
    while _there(step, queue) and (sub := queue.subs.get(RETRY)) is not None:
        change = Change(step.now.wall_s)
        for lane, index, counter in _longest(sub, ENDED_AT_ONCE):
            if _due(lane, counter, after_s) <= before_s:
                move = RangeChange(Op.SHIFT, sub.number, index, counter, 1, to=queue.number)
                change.moves.append(move)
                if len(change.moves) == ENDED_AT_ONCE:
                    break
        step.record(change)
        if len(change.moves) < ENDED_AT_ONCE:
            return
        yield
