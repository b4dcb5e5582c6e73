"""Messages for another manager that pass through this one (a routing server).

They are stored and forwarded like other recoverable messages, packet by packet as they came: the
hop count is the only field that changes. Only the first and the last manager handle streams; this
one keeps no stream state, and an order acknowledgment is one more message (EOD-1).

Lifetimes count from the sent time in the packet, so nothing is subtracted on the way (CNF-2). A
message that is too late here, or has made too many hops, ends here: the sender of a
non-transactional message gets a report, if it asked, and its dead letter stays here (Q-16). The
sender of a transactional message keeps it until the order acknowledgment, and so notices the end of
its lifetime itself; a final acknowledgment reports too many hops.
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
"""Key in the history of seen messages: those that had made too many hops here."""


def forward(step: Step, run: ArrivedRun, *, room: bool) -> bool:
    """Keep a run for its manager; False if this manager forwards nothing, or has no room.

    Args:
        room: Whether this computer has room for more messages.
    """
    # Kind 3, a private queue by its number, is the only one that forms a name together with the
    # GUID of the manager; managers connect to direct names unchanged.
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
    """Put a run, whose packets have one more hop, into an outgoing queue."""
    flags = 0 if run.recoverable else PUT_EXPRESS
    if not run.transactional:
        flags |= ack_flags(run.acknowledge & Acknowledge.NEGATIVE_ARRIVAL, arrived=False)
        if run.dead_letter:
            flags |= PUT_WANTS | PUT_DEADLETTER
    lifetime = min(run.time_to_reach_queue or NEVER_S, run.time_to_be_received)
    expires = NEVER_S if lifetime >= NEVER_S - 1 else min(run.sent_time + lifetime, NEVER_S - 1)
    if not run.time_to_reach_queue:
        flags |= PUT_WANTS | PUT_ONCE
        # One attempt (CNF-4); it is over when a stream would be sent again.
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
    """Refuse a run with too many hops: probably two managers forward it to each other. Report it
    once, even if the sender repeats it before it gets the report."""
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
    # A final acknowledgment covers neighbours: it reports a message between others a second time,
    # which changes nothing at its sender.
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
    """Return the packets with one more hop; None if they have made too many (Q-44)."""
    data = bytearray(packets.data)
    at = 0
    for length in packets.lengths:
        (flags,) = layout.U32.unpack_from(data, at + layout.OFF_USER_FLAGS)
        if flags & layout.USER_HOPS_MASK >= HOPS_MAX:
            return None
        layout.U32.pack_into(data, at + layout.OFF_USER_FLAGS, flags + 1)
        at += length
    return Run(bytes(data), packets.lengths)
