"""Messages for another manager that pass through this one (a routing server).

They are stored and forwarded like other recoverable messages, packet by packet as they came: the
hop count is the only field that changes. Streams are a matter of the first and the last manager
only; here no stream state exists, and an order acknowledgment is one more message (EOD-1).

Lifetimes count from the time of sending that stands in the packet, so nothing is subtracted on the
way (CNF-2). What is too late here, or has made too many hops, ends here: the sender of a message
that is not transactional is told, if it asked, and has its dead letter here (Q-16). The sender of
a transactional one keeps it until it is acknowledged in order, and so learns of its lifetime by
itself; of the hops it is told by a final acknowledgment.
"""

from __future__ import annotations

import math
from array import array

from onceq.core.ending.ending import AtHand, ack_flags, end_at_hand
from onceq.core.ending.table import Ending, Side
from onceq.core.ending.trace_reports import FORWARDED, trace_arrival
from onceq.core.names.resolve import outgoing_for
from onceq.core.peers.strangers import known
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.records import (
    PUT_DEADLETTER,
    PUT_EXPRESS,
    PUT_ONCE,
    PUT_WANTS,
    Seen,
)
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.step import Step, answered
from onceq.errors import InsufficientResources
from onceq.model.classes import MessageClass
from onceq.model.identity import guid_text
from onceq.model.limits import HOPS_MAX
from onceq.model.message import Acknowledge
from onceq.model.names import parse_format_name
from onceq.model.run import Run
from onceq.model.time import NEVER_S
from onceq.packet import layout
from onceq.packet.arrived import USER, ArrivedRun

FORWARD_LANE = 6
"""Behind final acknowledgments, before what is sent here."""
_HOPS = "hops"
"""In the history of what was seen: the messages that had made too many hops here."""


def forward(step: Step, run: ArrivedRun, *, room: bool) -> bool:
    """Keep a run for its manager; False if this manager passes nothing on, or has no room.

    Args:
        room: Whether this computer has room for more messages.
    """
    # Kind 3, a private queue by its number, is the only one that makes a name of its own together
    # with the GUID of the manager; direct names are connected to as they are.
    if not step.settings.forward_messages or not room or run.destination.kind != 3:
        return False
    packets = hopped(run.packets)
    if packets is None:
        _refuse(step, run)
        return True
    guid = guid_text(run.destination_manager)
    (name,) = parse_format_name(f"PRIVATE={guid}\\{run.destination.number:08x}")
    try:
        outgoing = outgoing_for(
            step, name, by=answered(run.source), stranger=not known(step, run.source)
        )
    except InsufficientResources:
        return False
    keep(step, run, packets, outgoing)
    return True


def keep(step: Step, run: ArrivedRun, packets: Run, outgoing: OutgoingQueue) -> None:
    """Put a run, whose packets have been given one more hop, into an outgoing queue."""
    flags = 0 if run.recoverable else PUT_EXPRESS
    if not run.transactional:
        flags |= ack_flags(run.acknowledge & Acknowledge.NEGATIVE_ARRIVAL, arrived=False)
        if run.dead_letter:
            flags |= PUT_WANTS | PUT_DEADLETTER
    lifetime = min(run.time_to_reach_queue or NEVER_S, run.time_to_be_received)
    expires = NEVER_S if lifetime >= NEVER_S - 1 else min(run.sent_time + lifetime, NEVER_S - 1)
    if not run.time_to_reach_queue:
        flags |= PUT_WANTS | PUT_ONCE
        # One attempt (CNF-4), over when a stream would be sent again.
        expires = min(expires, step.now.wall_s + math.ceil(step.settings.resend_first_s))
    build = ChangeBuilder(step)
    due = run.due if run.due > step.now.wall_s else 0
    build.put_copy(
        outgoing.number, packets, lane=FORWARD_LANE, expires=expires, flags=flags, due=due
    )
    if run.trace is not None:
        trace_arrival(build, run, range(len(run.packets)), event=FORWARDED)
    step.record(build.change, forced=run.recoverable)


def _refuse(step: Step, run: ArrivedRun) -> None:
    """Too many hops: most likely two managers send it to and fro. Told once, however often the
    sender comes again before it has heard of it."""
    refusal = MessageClass.NACK_HOP_COUNT_EXCEEDED
    step.notice("a message has made too many hops", guid_text(run.source),
                source=guid_text(run.source), number=run.destination.number)  # fmt: skip
    if run.kind != USER:
        return
    build = ChangeBuilder(step)
    seen, source = step.state.seen, run.source
    numbers = run.message_numbers
    sent = run.sent_time
    new = [at for at, n in enumerate(numbers) if (source, _HOPS, n, sent) not in seen]
    if not new:
        return
    new_numbers = array("I", (numbers[at] for at in new))
    build.change.seen.append(Seen(source, _HOPS, new_numbers, sent))
    every = list(run.packets)
    # A final acknowledgment tells of neighbours: of one that was told of and lies between others
    # it is told once more, which changes nothing at its sender.
    first, end = new[0], new[-1] + 1
    what = AtHand(
        side=Side.ROUTER, transactional=run.transactional, level=run.acknowledge,
        packets=Run.of([every[at] for at in new]), asked=PUT_DEADLETTER if run.dead_letter else 0,
        express=not run.recoverable, source=source, stream=run.stream,
        number=run.first_number + first, messages=numbers[first:end],
    )  # fmt: skip
    end_at_hand(build, what, Ending.REFUSED, refusal)
    step.record(build.change)


def hopped(packets: Run) -> Run | None:
    """The packets with one hop more; None if they have made too many (Q-44)."""
    data = bytearray(packets.data)
    at = 0
    for length in packets.lengths:
        (flags,) = layout.U32.unpack_from(data, at + layout.OFF_USER_FLAGS)
        if flags & layout.USER_HOPS_MASK >= HOPS_MAX:
            return None
        layout.U32.pack_into(data, at + layout.OFF_USER_FLAGS, flags + 1)
        at += length
    return Run(bytes(data), packets.lengths)
