"""Messages for another manager that pass through this one (a routing server).

They are stored and forwarded like other recoverable messages, packet by packet as they came: the
hop count is the only field that changes. Only the first and the last manager handle streams; this
one keeps no stream state, and an order acknowledgment is one more message (EOD-1).

Lifetimes count from the sent time in the packet, so nothing is subtracted on the way (CNF-2). A
message that is too late here, or has made too many hops, ends here: the sender of a
non-transactional message gets a report, if it asked, and its dead letter stays here (Q-16). The
sender of a transactional message keeps it until the order acknowledgment, and so notices the end of
its lifetime itself; a final acknowledgment reports too many hops.

Also here:

* Forward messages that come over HTTP for a queue of another host: store, then pass on (HTTP-8).

Upholds: I4 (by the last host's filter), I24 (one small entry a stream, in a bounded table).
"""

from __future__ import annotations

import math
from array import array

from onceq.core.decision import Declined
from onceq.core.ending.acknowledgments import FORWARDED, trace_arrival
from onceq.core.ending.ending import AtHand, ack_flags, end_at_hand
from onceq.core.ending.table import Ending, Side
from onceq.core.names import outgoing_for
from onceq.core.peers.strangers import known
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.records import (
    PUT_DEADLETTER,
    PUT_EXPRESS,
    PUT_ONCE,
    PUT_WANTS,
    SeenIdentifiers,
)
from onceq.core.state.setups import ReceiptsTo
from onceq.core.step.step import ChangeBuilder, Step, answered
from onceq.errors import InsufficientResources, OnceqError
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.limits import HOPS_MAX, PASSED_ON_MAX
from onceq.model.marks import NEVER_S
from onceq.model.message import Acknowledge
from onceq.model.names import parse_format_name
from onceq.model.resultcodes import MessageClass
from onceq.model.run import Run
from onceq.packet import address
from onceq.packet.arrived import USER, ArrivedRun

# ---- forward -------------------------------------------------------------------------------------


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
    build.change.seen.append(SeenIdentifiers(source, _HOPS, new_numbers, sent))
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
        (flags,) = address.U32.unpack_from(data, at + address.OFF_USER_FLAGS)
        if flags & address.USER_HOPS_MASK >= HOPS_MAX:
            return None
        address.U32.pack_into(data, at + address.OFF_USER_FLAGS, flags + 1)
        at += length
    return Run(bytes(data), packets.lengths)


# ---- http forward --------------------------------------------------------------------------------


def pass_on(step: Step, session: int, run: ArrivedRun, *, room: bool) -> bool:
    """Keep a run for another host; False if it was declined, and is answered.

    A border server does that between an inner and an outer network: a redirection maps an outer URL
    to an inner queue, or the configuration passes everything on. Stream, numbers and identifiers
    remain those of the sender, and the last host judges them; this host keeps no stream state. It
    remembers one thing for a stream: where its receipts go, because only some of its messages say
    it and any one may be the first that the last host sees.

    A sender that gets no receipt repeats itself. A message that still waits here is not kept twice.

    Args:
        room: Whether this computer has room for more messages.
    """
    if not room:
        step.act(Declined(session, 500, "no room for more messages now"))
        return False
    packets = hopped(run.packets)
    if packets is None:
        step.notice("a message over HTTP was passed on too often", run.onward, to=run.onward)
        text = f"it was passed on {HOPS_MAX} times: managers send it to and fro"
        step.act(Declined(session, 400, text))
        return False
    try:
        outgoing = outgoing_for(
            step, parse_format_name(f"DIRECT={run.onward}")[0], by=answered(run.source)
        )
    except OnceqError as error:
        step.act(Declined(session, 500, error.text))
        return False
    # Before the message, whose forced record also makes this one durable. The last host must know
    # where the receipts of a stream go.
    receipts = step.state.receipts
    if run.receipts and receipts.of_stream(run.source, run.stream) != run.receipts:
        step.setup(
            ReceiptsTo(
                source=run.source,
                stream=run.stream,
                name=run.receipts,
                left=receipts.stream_to(run.source, run.onward),
                queue=run.onward,
            ),
            forced=False,
        )
    if not _waits(step, run, outgoing):
        counter = outgoing.lanes[FORWARD_LANE].next
        keep(step, run, packets, outgoing)
        _remember(step, run, outgoing, counter)
    return True


def _waits(step: Step, run: ArrivedRun, outgoing: OutgoingQueue) -> bool:
    """Return whether this very message still waits here."""
    known = step.sessions.passed_on.get((run.source, run.first_message, run.sent_time))
    if known is None:
        return False
    number, counter = known
    return number == outgoing.number and outgoing.lanes[FORWARD_LANE].state(counter) == AVAILABLE


def _remember(step: Step, run: ArrivedRun, outgoing: OutgoingQueue, counter: int) -> None:
    # Without an identifier a repetition looks like any other message.
    if run.source == NO_GUID:
        return
    known = step.sessions.passed_on
    known[run.source, run.first_message, run.sent_time] = (outgoing.number, counter)
    while len(known) > PASSED_ON_MAX:
        del known[next(iter(known))]
