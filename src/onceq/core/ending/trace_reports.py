"""Message tracing: a report from every manager that a traced message passes (MS-MQQB 1.3.6).

A message sent with ``trace`` carries the trace flag and a DebugHeader. Each manager on its way (the
source when it takes effect, a router, the target when it is stored or refused) puts one REPORT
message into the report queue: the public queue that the DebugHeader names where it can be found,
else its own setting ``report_queue``. The content of a report is not published: ours is described
in ``docs/reference/tracing.md``. Reports are ordinary messages outside transactions, made in the
same record as what they report; no report is ever traced, acknowledged or waited for.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from onceq.core.names.packet_names import address_of
from onceq.core.names.resolve import destinations
from onceq.core.state.queues import Queue
from onceq.core.step.change_builder import ChangeBuilder, take_numbers
from onceq.core.step.routes import CheckedBatch, Target
from onceq.core.step.step import Step, answered
from onceq.errors import OnceqError
from onceq.model.classes import MessageClass, class_name
from onceq.model.identity import MessageId, guid_text
from onceq.model.limits import REPORTS_MAX
from onceq.model.message import PRIORITY_DEFAULT, Properties
from onceq.model.run import LENGTH_TYPE, Run
from onceq.packet import layout
from onceq.packet.arrived import ArrivedRun
from onceq.packet.encode import encode_run
from onceq.packet.templates import template

SENT, FORWARDED, ARRIVED, REFUSED = "SENT", "FORWARDED", "ARRIVED", "REFUSED"


def trace_queue(step: Step) -> bytes:
    """Return the GUID of the public report queue for DebugHeaders; empty if it has none."""
    name = step.settings.report_queue.upper()
    if not name.startswith("PUBLIC="):
        return b""
    (target,) = destinations(step, step.settings.report_queue, transactional=False, by="")
    return target.queue.properties.instance if isinstance(target.queue, Queue) else b""


def trace_arrival(
    build: ChangeBuilder, run: ArrivedRun, places: Sequence[int], *, refusal: int = 0,
    event: str = ARRIVED,
) -> None:  # fmt: skip
    """Report a run's messages at these indexes that this change stores, refuses or passes on."""
    assert run.trace is not None, "nobody asked for reports"
    asked = f"PUBLIC={guid_text(run.trace)}" if run.trace else ""
    lines = [f"queue: {run.destination.direct or run.destination.number}"]
    if refusal:
        event = REFUSED
        lines.append(f"class: {refusal:#06x} {class_name(refusal)}")
    if run.transactional:
        lines.append(f"stream: {run.stream:#018x}")
    ids = [MessageId(run.source, run.message_numbers[place]) for place in places]
    mask, offset, packets = layout.USER_HOPS_MASK, layout.OFF_USER_FLAGS, list(run.packets)
    hops = [packets[place][offset] & mask for place in places]
    report(build, event, ids, hops, lines, asked=asked)


def trace_sent(build: ChangeBuilder, batch: CheckedBatch, first: int) -> None:
    """Report a traced batch that this change sends, from message number ``first`` on."""
    count, guid = len(batch.item.bodies), build.step.identity.guid
    ids = [MessageId(guid, number) for number in range(first, first + count)]
    for target in batch.targets:
        event = ARRIVED if isinstance(target.queue, Queue) else SENT
        report(build, event, ids, [0] * count, [f"queue: {target.text}"])


def report(
    build: ChangeBuilder,
    event: str,
    ids: Sequence[MessageId],
    hops: Sequence[int],
    lines: Sequence[str],
    *,
    asked: str = "",
) -> None:
    """Put one report for each message into the report queue, if there is one.

    Args:
        lines: The lines that are the same for all of them.
        asked: Report queue that the message names.
    """
    step = build.step
    target = _target(step, asked)
    if target is None:
        if asked or step.settings.report_queue:
            step.counts.reports_dropped += len(ids)
        return
    if len(ids) > REPORTS_MAX:
        step.counts.reports_dropped += len(ids) - REPORTS_MAX
        step.notice("traced messages not reported", messages=len(ids) - REPORTS_MAX)
    count = min(len(ids), REPORTS_MAX)
    first = take_numbers(build.step, build.change, count)
    data, lengths = bytearray(), array(LENGTH_TYPE)
    for at in range(count):
        packet = _packet(step, target, event, ids[at], hops[at], lines, first + at)
        data += packet.data
        lengths.extend(packet.lengths)
    queue = target.queue
    if isinstance(queue, Queue) and (
        build.holding(queue) + len(data) > queue.properties.quota_bytes
    ):
        step.notice("report queue full: reports dropped", queue=queue.properties.name)
        step.counts.reports_dropped += count
        return
    build.put_copy(queue.number, Run(bytes(data), lengths), lane=PRIORITY_DEFAULT)


def _target(step: Step, asked: str) -> Target | None:
    """Return where reports go; None if nowhere. A report queue must not be transactional."""
    for name in (asked, step.settings.report_queue):
        if not name:
            continue
        try:
            by = answered(step.identity.guid)
            (target,) = destinations(step, name, transactional=False, by=by)
        except (OnceqError, ValueError) as error:
            step.notice("no report queue: reports dropped", name, queue=name, reason=str(error))
            continue
        queue = target.queue
        if not isinstance(queue, Queue) or not queue.properties.transactional:
            return target
        step.notice("the report queue is transactional: reports dropped", name, queue=name)
    return None


def _packet(
    step: Step, target: Target, event: str, id_: MessageId, hops: int, lines: Sequence[str],
    number: int,
) -> Run:  # fmt: skip
    destination, manager = address_of(step, target)
    body = "\n".join(
        (
            f"event: {event}", f"message: {id_}", f"at: {step.identity.name}",
            f"manager: {guid_text(step.identity.guid)}", f"hops: {hops}",
            f"time: {step.now.wall_s}", *lines, "",
        )
    )  # fmt: skip
    made = template(
        source=step.identity.guid,
        destination=destination,
        destination_manager=manager,
        properties=Properties(
            label=f"{event} {id_} {hops}", correlation_id=id_.pack(), priority=PRIORITY_DEFAULT
        ),
        sent_time=step.now.wall_s,
        transactional=False,
        message_class=MessageClass.REPORT,
    )
    return encode_run(made, Run.of([body.encode()]), first_message=number)
