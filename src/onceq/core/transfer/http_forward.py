"""Forward messages that come over HTTP for a queue of another host: store, then pass on (HTTP-8).

A border server does that between an inner and an outer network: a redirection maps an outer URL to
an inner queue, or the configuration passes everything on. Stream, numbers and identifiers remain
those of the sender, and the last host judges them; this host keeps no stream state. It remembers
one thing for a stream: where its receipts go, because only some of its messages say it and any one
may be the first that the last host sees.

A sender that gets no receipt repeats itself. A message that still waits here is not kept twice.

Upholds: I4 (by the last host's filter), I24 (one small entry a stream, in a bounded table).
"""

from __future__ import annotations

from onceq.core.decision import Declined
from onceq.core.names.resolve import outgoing_for
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.setups import ReceiptsTo
from onceq.core.step.step import Step, answered
from onceq.core.transfer.forward import FORWARD_LANE, hopped, keep
from onceq.errors import OnceqError
from onceq.model.identity import NO_GUID
from onceq.model.limits import HOPS_MAX, PASSED_ON_MAX
from onceq.model.names import parse_format_name
from onceq.packet.arrived import ArrivedRun


def pass_on(step: Step, session: int, run: ArrivedRun, *, room: bool) -> bool:
    """Keep a run for another host; False if it was declined, and is answered.

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
    # Before the message, whose forced record also makes this one durable.
    if run.receipts:
        _learn(step, run)
    if not _waits(step, run, outgoing):
        counter = outgoing.lanes[FORWARD_LANE].next
        keep(step, run, packets, outgoing)
        _remember(step, run, outgoing, counter)
    return True


def _learn(step: Step, run: ArrivedRun) -> None:
    """Remember where the receipts of a stream go: the last host must know it."""
    receipts = step.state.receipts
    if receipts.of_stream(run.source, run.stream) == run.receipts:
        return
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
