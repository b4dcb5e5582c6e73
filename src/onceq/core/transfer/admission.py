"""Decide whether arriving messages may enter: whether there is room, and why a queue refuses them.

``admit`` is the list of all reasons to distrust or refuse what is next in its stream, in the order
in which they count. It is asked once for each run and gives one verdict. It is here and not in
``core/peers``, because rights, quotas and answers are above that room.

Upholds: I9, I19 (quotas), I24 (strangers have a share).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from onceq.core.ending.acknowledgments import INSECURE, order_queue_of
from onceq.core.ending.ending import quiet
from onceq.core.ending.table import Ending
from onceq.core.names import arrival_name, is_local
from onceq.core.peers.answer_addresses import expect_answer, goes_home
from onceq.core.peers.strangers import answer_room, known, quota_for, unasked_room
from onceq.core.peers.trust import disbelieve, refused_as_future
from onceq.core.rights import PlaceKind, may_deliver, may_deliver_somewhere, place_of, places
from onceq.core.send import computer_full, over_quota, queue_full
from onceq.core.state.peer_table import Peer, Progress
from onceq.core.state.queue_tables import DEAD_XACT
from onceq.core.state.queues import Queue
from onceq.core.step.step import Step, answered, refusal
from onceq.errors import InsufficientResources, OnceqError
from onceq.model.identity import guid_text
from onceq.model.limits import ANSWER_QUEUES_MAX, STRANGERS_SHARE, STREAMS_MAX
from onceq.model.marks import NEVER_S
from onceq.model.names import FormatName, parse_any
from onceq.model.patterns import QueueName
from onceq.model.queue import QUOTA_UNLIMITED_KB
from onceq.model.record import Record
from onceq.model.resultcodes import MessageClass
from onceq.model.run import Run
from onceq.model.shares import Thing
from onceq.packet.acks import FUTURE, NO_ROOM
from onceq.packet.arrived import ArrivedRun
from onceq.packet.decode import message_of
from onceq.packet.headers import headers


class ArrivalVerdict(Record, frozen=True):
    """The verdict on a run of a stream.

    Attributes:
        refusal: Class of the negative acknowledgment for the messages that its queue refuses
            (``split_by_quota`` says which, if it is the quota); 0: it refuses none.
        turned_away: Why none is stored or refused now, and the sender is told (``TurnedAway``);
            0: it is not turned away.
        later: There is no room, and the sender is not told why: the session is closed.
    """

    refusal: int = 0
    turned_away: int = 0
    later: bool = False


ENTERS: Final = ArrivalVerdict()


def admit(
    step: Step, peer: Peer, run: ArrivedRun, queue: Queue | None, progress: Progress | None,
    *, duplicates: int | None,
) -> ArrivalVerdict:  # fmt: skip
    """Judge a run of a stream, after the receiver filter.

    Args:
        progress: How far its stream is here; None: there is no entry.
        duplicates: How many of its messages are repetitions, if all others are next in order; None:
            none of them is next, and only the stream is judged.
    """
    stream = progress.stream if progress is not None else 0
    if run.stream > stream and refused_as_future(step, peer, run.source, run.stream):
        return ArrivalVerdict(turned_away=FUTURE)
    if duplicates is None:
        return ENTERS
    # A sender that has an entry continues, even if the table is full.
    if progress is None and not stream_room(step, run.source):
        return ArrivalVerdict(later=True)
    size = len(run.packets.data)
    if duplicates:
        size -= sum(run.packets.lengths[:duplicates])
    refusal = refusal_of(step, peer, run, queue, size)
    # Over HTTP ``_http_takes`` has declined all refusals but those that are only too late.
    if refusal and not run.http and not refusal_room(step, run, refusal):
        return ArrivalVerdict(turned_away=NO_ROOM)
    return ArrivalVerdict(refusal=refusal) if refusal else ENTERS


def room_for(step: Step, run: ArrivedRun) -> bool:
    """Return whether this computer has room for a run; without room the sender repeats it
    (Q-19)."""
    if step.space_low:
        return False
    held = step.state.space.total
    held += len(run.packets.data)
    # Strangers may use this much, too: so most runs need no lookup of who the sender is.
    if held <= step.settings.computer_quota_bytes // STRANGERS_SHARE:
        return True
    if held <= quota_for(step, run.source):
        return True
    computer_full(step)
    return False


def stream_room(step: Step, source: bytes) -> bool:
    """Return whether the table has room for one more stream of a sender; strangers have a share."""
    senders = step.state.makers.streams
    if not known(step, source) and senders.total >= STREAMS_MAX // STRANGERS_SHARE:
        return False
    own, by = senders.of(source.hex()), answered(source)
    return not refusal(step, by, Thing.STREAMS, own, senders.total)


def refusal_room(step: Step, run: ArrivedRun, refusal: int) -> bool:
    """Return whether there is room for what refusing these messages leaves here: an answer to a
    stranger, and a dead letter that no application here has asked for. Without room they are not
    refused permanently; the sender repeats them."""
    if refusal == MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE and not unasked_room(
        step, DEAD_XACT, len(run.packets.data)
    ):
        return False
    return known(step, run.source) or answer_room(step, order_queue_of(run.source).key())


def split_by_quota(
    step: Step, queue: Queue | None, packets: Run, refusal: int
) -> list[tuple[int, Run, int]]:
    """Return the parts of a run that share a fate: the index of the first message, the messages,
    and the reason to refuse them (0: accepted). Only a quota splits a run: each message that fits
    enters (Q-19).

    Args:
        refusal: Why all of them together cannot enter; 0 if they can.
    """
    if refusal != MessageClass.NACK_QUEUE_EXCEED_QUOTA or len(packets) == 1:
        return [(0, packets, refusal)]
    assert queue is not None
    room = queue.properties.quota_bytes - step.holding(queue)
    parts: list[tuple[int, int, int]] = []
    for index, size in enumerate(packets.lengths):
        fate = refusal if size > room else 0
        room -= 0 if fate else size
        if parts and parts[-1][2] == fate:
            first, count, _ = parts[-1]
            parts[-1] = (first, count + 1, fate)
        else:
            parts.append((index, 1, fate))
    return [(first, packets.part(first, count), fate) for first, count, fate in parts]


def refusal_of(step: Step, peer: Peer, run: ArrivedRun, queue: Queue | None, size: int) -> int:
    """Return the reason to refuse messages that are next in order (if transactional); 0: accepted.

    A sender without the right to a name gets the same answer whether or not the queue exists. The
    number of a missing queue reveals no name: a sender that may send anywhere here learns that the
    queue is gone."""
    if not peer.actor.free:
        key = (
            place_of(queue).queue if queue is not None else QueueName(arrival_name(run.destination))
        )
        may = (
            may_deliver(step, peer, run.source, key)
            if key
            else may_deliver_somewhere(step, peer, run.source)
        )
        if not may or run.barred:
            # For some messages no sender is informed: acknowledgments, and those that ask for no
            # answer.
            sender = guid_text(run.source)
            step.notice("messages refused: their sender has no right here", f"{key} {sender}",
                        queue=key or "(one that is not here, by its number)", sender=sender,
                        came_as=str(peer.actor),
                        acknowledgments_asked_elsewhere=run.barred)  # fmt: skip
            return MessageClass.NACK_ACCESS_DENIED
    if queue is None:
        return MessageClass.NACK_BAD_DESTINATION_QUEUE
    if queue.properties.transactional != run.transactional:
        if run.transactional:
            return MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE
        return MessageClass.NACK_NOT_TRANSACTIONAL_MESSAGE
    if run.encrypted:
        return MessageClass.NACK_BAD_ENCRYPTION
    if _too_late(step, run):
        return MessageClass.NACK_REACH_QUEUE_TIMEOUT
    # The last check: ``split_by_quota`` splits a run only if nothing but the quota refuses it.
    if queue.properties.quota_kb != QUOTA_UNLIMITED_KB and over_quota(step, queue, size):
        queue_full(step, queue)
        return MessageClass.NACK_QUEUE_EXCEED_QUOTA
    return 0


def _too_late(step: Step, run: ArrivedRun) -> bool:
    """Return whether a lifetime is over on arrival; a fast clock of the sender costs nothing.

    A time to reach the queue of 0 means one attempt, and this is it (CNF-4).
    """
    age = max(step.now.wall_s - run.sent_time, 0)
    lifetime = min(run.time_to_reach_queue or NEVER_S, run.time_to_be_received)
    return lifetime < NEVER_S - 1 and age > lifetime


def trim_run(
    step: Step, peer: Peer, run: ArrivedRun, queue: Queue | None, *, again: bool = False
) -> ArrivedRun:
    """Return the run without the reports that its destination does not make (Q-17) or that its
    sender may not cause: acknowledgments carry the bodies of refused messages.

    Args:
        again: What is left out was logged before.
    """
    silent = step.settings.quiet_system_queues
    if queue is not None and silent and quiet(step, queue.properties.name):
        run = replace(run, acknowledge=0, wants=0, dead_letter=False)
    if peer.actor.free:
        return run
    asked = _asked_at(run)
    if not all(_may_write(step, peer, run, name) for name in asked):
        run = replace(run, acknowledge=0, barred=True)
    elif asked and not _all_home(step, peer, run, asked):
        run = replace(run, acknowledge=0)
        if not again:
            disbelieve(step, peer, ASTRAY, queue=",".join(asked)[:TEXT_CHARS_MAX])
    # Where a stream's receipts went before they still go.
    if (
        run.receipts and step.state.receipts.of_source(run.source) != run.receipts
        and not _all_home(step, peer, run, (f"DIRECT={run.receipts}",))
    ):  # fmt: skip
        if not again:
            disbelieve(step, peer, ASTRAY, queue=run.receipts[:TEXT_CHARS_MAX])
        run = replace(run, receipts="", barred=True)
    if run.trace:
        name = f"PUBLIC={guid_text(run.trace)}"
        if not (_may_write(step, peer, run, name) and _all_home(step, peer, run, (name,))):
            run = replace(run, trace=b"")
    return run


def expect_answers(step: Step, peer: Peer, run: ArrivedRun, refusal: int) -> None:
    """Record where the answers go that a run asks for, before it is stored or refused.

    Args:
        refusal: The reason of the refusal; 0: the run is stored.
    """
    if peer.actor.free and not step.state.homes_kept:
        return
    if refusal in INSECURE and not step.settings.permit_insecure_nacks:
        return  # there is no answer
    names = [*_asked_at(run), *((f"DIRECT={run.receipts}",) if run.receipts else ())]
    try:
        for name in _elsewhere(step, names):
            expect_answer(step, peer, run.source, name)
    except InsufficientResources as error:
        step.notice("no outgoing queue for answers", ",".join(names), reason=error.text)


def _asked_at(run: ArrivedRun) -> Sequence[str]:
    """Return the administration queues of a run's messages, if they ask for acknowledgments."""
    if not run.acknowledge:
        return ()
    asked = message_of(headers(next(iter(run.packets)))).admin_queue
    return asked.split(",")[:ANSWER_QUEUES_MAX]


def _may_write(step: Step, peer: Peer, run: ArrivedRun, name: str) -> bool:
    """Return whether the sender may send to a queue, if the queue is here."""
    try:
        found = [p.queue for p in places(step, name, sending=True) if p.kind is PlaceKind.QUEUE]
    except OnceqError:
        return True  # the name leads nowhere, so nothing is written
    return all(may_deliver(step, peer, run.source, queue) for queue in found)


def _elsewhere(step: Step, names: Iterable[str]) -> Iterator[FormatName]:
    """Yield those of these names whose queues are on other computers; skip invalid names."""
    for text in names:
        try:
            yield from (name for name in parse_any(text) if not is_local(step, name))
        except OnceqError:
            continue


def _all_home(step: Step, peer: Peer, run: ArrivedRun, names: Iterable[str]) -> bool:
    """Return whether answers to all these queues go home (``core/peers/answer_addresses.py``)."""
    # Over HTTP any sender can claim to be this manager, whose own names are judged when it sends.
    if run.source == step.identity.guid:
        return not any(_elsewhere(step, names))
    return all(goes_home(step, peer, run.source, name) for name in _elsewhere(step, names))


ASTRAY: Final = "answers are not sent: they were asked for at a place that is not their sender's"
TEXT_CHARS_MAX: Final = 200


def ending_of(refusal: int) -> Ending:
    """Return the ending of messages that are refused for this reason, or accepted (0)."""
    if refusal == MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE:
        return Ending.REFUSED_BY_KIND
    return Ending.REFUSED if refusal else Ending.ARRIVED
