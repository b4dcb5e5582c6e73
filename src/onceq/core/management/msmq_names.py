"""The management view by MSMQ's own names: states, EodGetSendInfo, EodGetReceiveInfo, properties.

Scripts for MSMQ find here each item of EOD-48 and each PROPID_MGMT_* of PRP-8 under its name;
``docs/reference/management.md`` says where each is. Everything is read from the state and changes
nothing.
"""

from __future__ import annotations

from dataclasses import fields

from onceq.core.names import PUBLIC_KEY, find_source, lead_of, public_key
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Progress
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queue_tables import queue_key_of, stream_key_of_number
from onceq.core.state.queues import Queue
from onceq.core.step.step import Step
from onceq.core.transfer.outgoing_queue import LOCAL_CONNECTION, state_of
from onceq.errors import NoInterface, UninitializedObject
from onceq.model.identity import guid_text
from onceq.model.names import Kind
from onceq.model.views.queues import Management, ReceiveInfo, SendInfo, SequenceInfo


def next_hops(step: Step, outgoing: OutgoingQueue) -> tuple[str, ...]:
    """Return where its messages go next: an address while connected, or the name to connect to."""
    peer = step.sessions.peers.get(outgoing.session)
    if peer is not None:
        return (peer.address,)
    name = outgoing.name
    if name.kind is Kind.DIRECT:
        return (f"{name.protocol}:{name.host}",)
    if name.kind is Kind.PUBLIC:
        lead = lead_of(step, outgoing)
        if lead is None:
            return ()
        return (f"{lead[0]}:{lead[1]}" if lead[1] else guid_text(lead[2]),)
    return (step.names.routes_to.get(name.guid) or step.name_of(name.guid) or guid_text(name.guid),)


# ---- EodGetSendInfo and EodGetReceiveInfo (EOD-48) ------------------------------------------


def _named(name: str) -> str:
    if not name:
        raise UninitializedObject("name the queue that the management view is about")
    return name


def send_info(step: Step, name: str) -> SendInfo:
    """Return EodGetSendInfo of an outgoing queue; NoInterface for a local one (EOD-44)."""
    outgoing = find_source(step, _named(name))
    if not isinstance(outgoing, OutgoingQueue):
        raise NoInterface(f"{name} is a local queue: it has no outgoing view; see eod_receive_info")
    return send_info_of(step, outgoing)


def send_info_of(step: Step, outgoing: OutgoingQueue) -> SendInfo:
    """Return the same for an outgoing queue in hand."""
    lane, pace = outgoing.ordered_lane, outgoing.pace
    end = min(outgoing.ever_sent, lane.next - 1) + 1
    sent = list(lane.ranges(AVAILABLE, lane.head, end=end))
    first = last = SequenceInfo()
    if sent:
        first = SequenceInfo(*outgoing.place_of(sent[0][0]), 0)
        last = _sequence(outgoing, sum(sent[-1]) - 1)
    stream, number = outgoing.last_ack
    resend_us = pace.due_us - step.now.mono_us if pace.due_us else 0
    return SendInfo(
        eod_last_ack=SequenceInfo(stream, number, max(number - 1, 0)),
        eod_last_ack_time=outgoing.last_ack_s,
        eod_last_ack_count=outgoing.last_ack_count,
        eod_first_non_ack=first,
        eod_last_non_ack=last,
        eod_next_seq=_next(step, outgoing),
        eod_no_ack_count=sum(count for _, count in sent),
        eod_no_read_count=lane.awaiting,
        eod_resend_time=step.now.wall_s + round(resend_us / 1e6) if pace.due_us else 0,
        eod_resend_interval=round(step.settings.resend_wait_s(pace.timeouts)),
        eod_resend_count=pace.timeouts,
    )


def _sequence(outgoing: OutgoingQueue, counter: int) -> SequenceInfo:
    return SequenceInfo(*outgoing.place_of(counter), outgoing.previous_of(counter))


def _next(step: Step, outgoing: OutgoingQueue) -> SequenceInfo:
    """Return what the next message will get: if all is acknowledged, or the stream is one of an
    earlier life, its own new stream (EOD-12, EOD-14)."""
    if not outgoing.numbers_given(step.state.stamp):
        return SequenceInfo(step.state.stamp << 32 | step.state.next_ordinal, 1, 0)
    return _sequence(outgoing, outgoing.ordered_lane.next)


def receive_info(step: Step, name: str) -> list[ReceiveInfo]:
    """Return EodGetReceiveInfo of a local queue; NoInterface for an outgoing one (EOD-44)."""
    queue = find_source(step, _named(name))
    if not isinstance(queue, Queue):
        raise NoInterface(f"{name} is an outgoing queue: see eod_send_info")
    return [
        ReceiveInfo(
            queue_format_name=format_name_of(step, progress),
            sender_id=guid_text(progress.source),
            sender_name=step.name_of(progress.source),
            seq_id=progress.stream,
            seq_no=progress.last,
            last_access_time=progress.last_access_s,
            reject_count=progress.rejects,
        )
        for progress in step.state.progress.values()
        if leads_to(progress, queue)
    ]


def leads_to(progress: Progress, queue: Queue) -> bool:
    """Return whether an incoming stream leads to a queue, by any name that its sender uses."""
    if progress.leads_to == queue.number:
        return True
    key = progress.key
    path = key.partition("\\")[2]
    if key.startswith(("http:", "https:")):
        path = key.partition("/msmq/")[2].replace("/", "\\")
    by_number = stream_key_of_number(queue.number)
    by_path = path == queue_key_of(queue.properties)
    return by_path or key in (by_number, public_key(queue.properties.instance))


def format_name_of(step: Step, progress: Progress) -> str:
    """Return the name that the sender of a stream uses, as a format name."""
    kind, mark, number = progress.key.partition("#")
    if kind == "private" and mark:
        return f"PRIVATE={guid_text(step.identity.guid)}\\{number}"
    if progress.key.startswith(PUBLIC_KEY):
        return f"PUBLIC={guid_text(bytes.fromhex(progress.key.removeprefix(PUBLIC_KEY)))}"
    return progress.key if mark and not kind else f"DIRECT={progress.key}"


def format_name(step: Step, queue: Queue) -> str:
    """Return the name of a queue that stays valid if its computer's name changes."""
    properties = queue.properties
    if not properties.private and not queue.system:
        return f"PUBLIC={guid_text(properties.instance)}"
    if queue.system or queue.sub:
        return f"DIRECT=OS:{step.identity.name}\\{queue_key_of(properties)}" if queue.system else ""
    return f"PRIVATE={guid_text(step.identity.guid)}\\{queue.number:08x}"


# ---- PROPID_MGMT_* (PRP-8) -----------------------------------------------------------------


def properties(step: Step, name: str) -> Management:
    """Return management properties of a queue, an outgoing queue, or (no name) of this manager.

    The keys are the names of PRP-8 in small letters, without PROPID_MGMT_QUEUE_ or
    PROPID_MGMT_MSMQ_.
    """
    if not name:
        return _machine(step)
    queue = find_source(step, name)
    return _outgoing(step, queue) if isinstance(queue, OutgoingQueue) else _queue(step, queue)


def _machine(step: Step) -> Management:
    state = step.state
    return {
        "activequeues": [str(o.name) for o in state.outgoing.values() if len(o) or o.session],
        "privateq": [q.properties.name for q in state.queues.values() if not q.system],
        "dsserver": "",
        "connected": "DISCONNECTED" if state.offline_s else "CONNECTED",
        "type": f"onceq queue manager {step.identity.name}",
        "bytes_in_all_queues": state.space.total,
    }


def _queue(step: Step, queue: Queue) -> Management:
    properties = queue.properties
    path = queue_key_of(properties)
    if properties.private:
        path = f"private$\\{properties.name}"
    elif not queue.system:
        path = properties.name
    return {
        "pathname": f"{step.identity.name}\\{path}",
        "formatname": f"DIRECT=OS:{step.identity.name}\\{path}",
        "type": "MACHINE" if queue.system else "PRIVATE" if properties.private else "PUBLIC",
        "location": "LOCAL",
        "xact": "YES" if properties.transactional else "NO",
        "foreign": "NO",
        "message_count": len(queue),
        "bytes_in_queue": queue.bytes,
        "state": LOCAL_CONNECTION,
        "eod_source_info": [*receive_info(step, f"DIRECT=OS:.\\{path}")],
    }


def _outgoing(step: Step, outgoing: OutgoingQueue) -> Management:
    info = send_info_of(step, outgoing)
    types: dict[Kind, str] = {Kind.PUBLIC: "PUBLIC", Kind.MACHINE: "MACHINE"}
    types |= {Kind.CONNECTOR: "CONNECTOR", Kind.MULTICAST: "MULTICAST"}
    found: Management = {
        "pathname": "",
        "formatname": str(outgoing.name),
        "type": types.get(outgoing.name.kind, "PRIVATE" if _private(outgoing) else "PUBLIC"),
        "location": "REMOTE",
        "xact": "UNKNOWN",
        "foreign": "NO",
        "message_count": len(outgoing),
        "bytes_in_queue": outgoing.bytes,
        "state": state_of(step, outgoing),
        "nexthops": list(next_hops(step, outgoing)),
    }
    found |= {item.name: getattr(info, item.name) for item in fields(SendInfo)}
    found["connection_history"] = [
        [int(a.status), a.at_s, a.status.hresult, a.address] for a in outgoing.history
    ]
    return found


def _private(outgoing: OutgoingQueue) -> bool:
    return outgoing.name.kind is Kind.PRIVATE or outgoing.name.private
