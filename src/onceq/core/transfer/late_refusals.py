"""Refusals that come when their message has been let go of, and refusals that come again.

A receiver tells a refusal before the acknowledgment that covers it (``core/transfer/transmit.py``).
Where the two go different ways, where an operator holds answers back, and where the receiver is not
onceq, the refusal may be the later one. Its sender has released the message by then, unless it
waits to be told the end: there is nothing to keep, and its sender has asked for nothing.
So the refusal is counted for its outgoing queue, durably, with the identifier of the message, and
the log tells of it (finding U1).

What was released and what has ended look alike: both are gone. So each refusal that was taken is
remembered (``State.refused``), in the record that it makes. A session that is lost brings it once
more, and then it says nothing new. The table is its own: neither many refusals nor many messages
outside transactions make the other be forgotten (finding R2).

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
    """Whether a final acknowledgment is a refusal that was taken already."""
    return ack.message_class in REFUSALS and (ack.stream, ack.number) in step.state.refused


def note_taken(build: ChangeBuilder, ack: FinalAck) -> None:
    """If it is a refusal, the record under construction takes it."""
    if ack.message_class in REFUSALS:
        build.change.refused.append((ack.stream, ack.number))


def refused_late(step: Step, peer: Peer, ack: FinalAck) -> None:
    """A final acknowledgment is of a message that is not here any more: count it if it is a
    refusal."""
    if ack.message_class not in REFUSALS or ack.source != step.identity.guid:
        return
    id = str(MessageId(ack.source, ack.message))
    told = {"id": id, "class": class_name(ack.message_class), "told_by": guid_text(ack.acker)}
    outgoing = _outgoing(step, ack.stream)
    if outgoing is None:
        # An operator has tidied the queue away, or very many streams were begun since.
        # Of a stream that is in no table it is not known who may speak of it: no stranger may.
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
    """The outgoing queue that a stream was begun in."""
    state = step.state
    found = state.streams.get(stream) or state.all_queues.get(state.drained.get(stream, 0))
    return found if isinstance(found, OutgoingQueue) else None
