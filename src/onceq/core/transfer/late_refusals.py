"""Refusals that come after their message was released, and refusals that come again.

A receiver reports a refusal before the acknowledgment that covers it
(``core/transfer/transmit.py``). Where the two take different ways, where an operator holds answers
back, and where the receiver is not onceq, the refusal may come later. Its sender has released the
message by then, unless it waits for a report of the end: there is nothing left to keep, and the
application has asked for nothing. So the outgoing queue counts the refusal durably, with the
identifier of the message, and the log reports it (finding U1).

A released message looks like an ended one: both are gone. So the record that a refusal makes also
remembers that it was taken (``State.refused``). A new session after a loss brings it once more, and
then it has no effect. The table is separate: neither many refusals nor many messages outside
transactions push the other out (finding R2).

Upholds: I11, I13, I24 (bounded memories).
"""

from __future__ import annotations

from typing import Final

from onceq.core.peers.lives import gave
from onceq.core.peers.strangers import known
from onceq.core.peers.trust import FORGED, disbelieve, serves
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Peer
from onceq.core.state.setups import RefusedLate
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.recent_endings import REFUSED_THERE
from onceq.core.step.step import Step
from onceq.model.classes import REFUSALS, class_name
from onceq.model.identity import MessageId, guid_text
from onceq.packet.acks import FinalAck

TOO_LATE: Final = "a message was refused after it was acknowledged: it is in no dead-letter queue"


def taken_before(step: Step, ack: FinalAck) -> bool:
    """Return whether a final acknowledgment is a refusal that was taken before."""
    return ack.message_class in REFUSALS and (ack.stream, ack.number) in step.state.refused


def note_taken(build: ChangeBuilder, ack: FinalAck) -> None:
    """Add a refusal to the record under construction; ignore any other acknowledgment."""
    if ack.message_class in REFUSALS:
        build.change.refused.append((ack.stream, ack.number))


def refused_late(step: Step, peer: Peer, ack: FinalAck) -> None:
    """Count a final acknowledgment of a message that is gone, if it is a refusal."""
    if ack.message_class not in REFUSALS or ack.source != step.identity.guid:
        return
    id = str(MessageId(ack.source, ack.message))
    told = {"id": id, "class": class_name(ack.message_class), "told_by": guid_text(ack.acker)}
    outgoing = _outgoing(step, ack.stream)
    if outgoing is None:
        # An operator has removed the queue, or very many streams were begun since. If a stream is
        # in no table, it is not known who may report on it: no stranger may.
        if gave(step, ack.stream) and known(step, peer.peer):
            step.notice(TOO_LATE, **told)
        return
    if not serves(step, peer, outgoing, ack.acker):
        disbelieve(step, peer, FORGED, claims=guid_text(ack.acker), queue=str(outgoing.name))
        return
    step.setup(
        RefusedLate(
            number=outgoing.number,
            message_class=ack.message_class,
            id=id,
            stream=ack.stream,
            place=ack.number,
            at_s=step.now.wall_s,
        )
    )
    step.counts.ended[ack.message_class] += 1
    step.counts.note(REFUSED_THERE, ack.message_class, 1, str(outgoing.name))
    step.notice(TOO_LATE, str(outgoing.name), queue=str(outgoing.name), **told)


def _outgoing(step: Step, stream: int) -> OutgoingQueue | None:
    """Return the outgoing queue in which a stream was begun."""
    state = step.state
    found = state.streams.get(stream) or state.all_queues.get(state.drained.get(stream, 0))
    return found if isinstance(found, OutgoingQueue) else None
