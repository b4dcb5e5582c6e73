"""Well-formed packets that say what is not so: for a peer that lies, in tests and in ``make liar``.

Nothing here is malformed; what is wrong is who says it. Used by the simulator, by the foreign peer
of the conformance tests, and by ``make liar``.
"""

from __future__ import annotations

from collections.abc import Sequence

from onceq.model.identity import NO_GUID
from onceq.model.message import Acknowledge, Delivery, Journal, Properties
from onceq.model.resultcodes import MessageClass
from onceq.model.run import Run
from onceq.packet.acks import (
    Inquiry,
    StreamMemory,
    TurnedAway,
    TwoLives,
    final_ack,
    inquiry,
    order_ack,
    settlement,
    turned_away,
    two_lives,
)
from onceq.packet.address import DIRECT, NOWHERE, ON_DESTINATION, Address
from onceq.packet.encode import encode_run, template

MESSAGE = 0x4000_0000
"""Message numbers of what is made here begin at this."""


def messages(
    source: bytes, to: str, bodies: Sequence[bytes], *, stream: int = 0, number: int = 1,
    sent_s: int, admin: str = "", manager: bytes = NO_GUID, queue_number: int = 0,
    dead_letter: bool = False, message_class: int = 0,
) -> bytes:  # fmt: skip
    """User messages of a manager, one run; of a stream if there is one.

    Args:
        message_class: Of acknowledgment messages; 0: they are messages.
        to: Direct name without "DIRECT="; "" for the queue ``queue_number`` of ``manager``.
        admin: Direct name of an administration queue that shall hear everything.
    """
    destination = Address(DIRECT, direct=to) if to else Address(ON_DESTINATION, number=queue_number)
    made = template(
        source=source,
        destination=destination,
        destination_manager=manager,
        admin=Address(DIRECT, direct=admin) if admin else NOWHERE,
        properties=Properties(
            delivery=Delivery.RECOVERABLE,
            acknowledge=Acknowledge(15) if admin else Acknowledge.NONE,
            journal=Journal.DEADLETTER if dead_letter else Journal.NONE,
        ),
        sent_time=sent_s,
        transactional=bool(stream),
        message_class=message_class,
    )
    packets = encode_run(
        made, Run.of(list(bodies)), first_message=MESSAGE + number, stream=stream,
        first_number=number if stream else 0, transaction=1 if stream else 0, first=True, last=True,
    )  # fmt: skip
    return bytes(packets.data)


def acknowledged(acker: bytes, to: bytes, stream: int, number: int, *, sent_s: int) -> bytes:
    """An order acknowledgment."""
    return order_ack(
        own=acker, own_message=MESSAGE, sent_time=sent_s, address="", destination_manager=to,
        stream=stream, number=number,
    )  # fmt: skip


def ended(
    acker: bytes, to: bytes, stream: int, number: int, *, sent_s: int,
    reason: int = MessageClass.ACK_RECEIVE, message: int = 1,
) -> bytes:  # fmt: skip
    """A final acknowledgment."""
    return final_ack(
        own=acker, own_message=MESSAGE, sent_time=sent_s, destination_manager=to,
        message_class=reason, stream=stream, number=number, previous=number - 1, source=to,
        message=message,
    )  # fmt: skip


def asked(asker: bytes, to: bytes, queue: str, stream: int, live: int, *, sent_s: int) -> bytes:
    """An inquiry: nothing before ``live`` will ever come in that stream."""
    said = Inquiry(Address(DIRECT, direct=queue), ((stream, live),))
    return inquiry(said, own=asker, own_message=MESSAGE, sent_time=sent_s, destination_manager=to)


def settled(acker: bytes, to: bytes, stream: int, last: int, *, sent_s: int) -> bytes:
    """A settlement: nothing up to ``last`` has arrived in that stream."""
    told = [StreamMemory(stream, 1, last, True, ((1, last),))]
    return settlement(told, own=acker, own_message=MESSAGE, sent_time=sent_s,
                      destination_manager=to)  # fmt: skip


def arrived(acker: bytes, to: bytes, stream: int, last: int, *, sent_s: int) -> bytes:
    """A settlement: everything up to ``last`` has arrived in that stream."""
    return settlement([StreamMemory(stream, 1, last, True)], own=acker, own_message=MESSAGE,
                      sent_time=sent_s, destination_manager=to)  # fmt: skip


def fenced(
    asker: bytes, to: bytes, queue: str, fence: int, streams: Sequence[int], *, sent_s: int
) -> bytes:
    """An inquiry that announces a stream, which shall have what was not accepted of others."""
    said = Inquiry(Address(DIRECT, direct=queue), (*((s, 0) for s in streams), (fence, 1)))
    return inquiry(said, own=asker, own_message=MESSAGE, sent_time=sent_s, destination_manager=to)


def refused(
    turner: bytes, to: bytes, stream: int, there: int, reason: int, *, sent_s: int
) -> bytes:
    """Messages of a stream are turned away."""
    return turned_away(TurnedAway(stream, there, reason), own=turner, own_message=MESSAGE,
                       sent_time=sent_s, destination_manager=to)  # fmt: skip


def doubled(teller: bytes, to: bytes, life: bytes, stamp: int, *, sent_s: int) -> bytes:
    """Another process with your identity was met."""
    return two_lives(TwoLives(life, stamp), own=teller, own_message=MESSAGE, sent_time=sent_s,
                     destination_manager=to)  # fmt: skip
