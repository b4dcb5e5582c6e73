"""Messages for another manager that pass through this one (a routing server).

They are stored and forwarded like other recoverable messages, packet by packet as they came: the
hop count is the only field that changes. Streams are a matter of the first and the last manager
only; here no stream state exists, and an order acknowledgment is one more message (EOD-1).
"""

from __future__ import annotations

from onceq.core.desk import Desk
from onceq.core.records import PUT_EXPRESS, Change, Put
from onceq.core.resolve import outgoing_for
from onceq.core.tracing import FORWARDED, trace_arrival
from onceq.model.identity import guid_text
from onceq.model.limits import HOPS_MAX
from onceq.model.names import parse_format_name
from onceq.model.run import Run
from onceq.model.time import NEVER_S
from onceq.packet import layout
from onceq.packet.arrived import ArrivedRun

FORWARD_LANE = 6
"""Behind final acknowledgments, before what is sent here."""


def forward(desk: Desk, run: ArrivedRun) -> bool:
    """Keep a run for its manager; False if this manager passes nothing on, or has no room."""
    if not desk.settings.forward_messages or desk.space_low or run.destination.kind != 3:
        return False
    packets = hopped(run.packets)
    if packets is None:
        return True
    guid = guid_text(run.destination_manager)
    (name,) = parse_format_name(f"PRIVATE={guid}\\{run.destination.number:08x}")
    outgoing = outgoing_for(desk, name)
    expires = NEVER_S
    if run.time_to_reach_queue < NEVER_S - 1:
        expires = min(run.sent_time + run.time_to_reach_queue, NEVER_S - 1)
    flags = 0 if run.recoverable else PUT_EXPRESS
    change = Change(desk.now.wall_s)
    change.puts.append(
        Put(
            outgoing.number, FORWARD_LANE, outgoing.lane(FORWARD_LANE).next, packets,
            expires=expires, flags=flags,
        )
    )  # fmt: skip
    trace_arrival(desk, change, run, event=FORWARDED)
    desk.record(change, forced=run.recoverable)
    return True


def hopped(packets: Run) -> Run | None:
    """The packets with one hop more; None if they have made too many (section 1.11)."""
    data = bytearray(packets.data)
    at = 0
    for length in packets.lengths:
        (flags,) = layout.U32.unpack_from(data, at + layout.OFF_USER_FLAGS)
        if flags & layout.USER_HOPS_MASK >= HOPS_MAX:
            return None
        layout.U32.pack_into(data, at + layout.OFF_USER_FLAGS, flags + 1)
        at += length
    return Run(bytes(data), packets.lengths)
