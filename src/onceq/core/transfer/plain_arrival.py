"""Take in messages outside transactions: store or refuse each once, within the history (EOD-27).

Upholds: I4, I6, I24.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from onceq.core.delays import place_for
from onceq.core.ending.ending import AtHand, ack_flags, end_at_hand
from onceq.core.ending.table import Side
from onceq.core.ending.trace_reports import trace_arrival
from onceq.core.names.packet_names import arrival_key
from onceq.core.peers.strangers import unasked_room
from onceq.core.state.peer_table import Peer
from onceq.core.state.queue_tables import DEAD_LETTER
from onceq.core.state.queues import Queue
from onceq.core.state.records import PUT_DEADLETTER, PUT_EXPRESS, PUT_WANTS, Seen
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.step import Step
from onceq.core.transfer.admission import ending_of, expect_answers, fates, heard, refusal_of
from onceq.core.transfer.duplicates import new_places
from onceq.model.run import Run
from onceq.model.time import NEVER_S
from onceq.packet.arrived import ArrivedRun


def plain(step: Step, peer: Peer, run: ArrivedRun) -> bool:
    """Take in messages outside transactions, once within the history (EOD-27); False if there is
    no room for their dead letters."""
    key, queue = arrival_key(step, run.destination, run.sent_to)
    if not peer.actor.free or step.settings.quiet_system_queues:
        run = heard(step, peer, run, queue, again=run.http)
    new = new_places(step, run, key)
    if not new:
        return True
    packets = run.packets
    if len(new) != len(packets):
        every = list(packets)
        packets = Run.of([every[i] for i in new])
    size = len(packets.data)
    refusal = refusal_of(step, peer, run, queue, size)
    if refusal and run.dead_letter and not unasked_room(step, DEAD_LETTER, size):
        return False
    if run.acknowledge or run.receipts:
        expect_answers(step, peer, run, refusal)
    for first, part, why in fates(step, queue, packets, refusal):
        _take_plain(step, run, key, queue, part, new[first : first + len(part.lengths)], why)
    return True


def _take_plain(
    step: Step, run: ArrivedRun, key: str, queue: Queue | None, packets: Run,
    places: Sequence[int], refusal: int,
) -> None:  # fmt: skip
    """Store or refuse the messages of a run at these indexes."""
    build = ChangeBuilder(step)
    numbers = array("I", (run.message_numbers[i] for i in places))
    build.change.seen.append(Seen(run.source, key, numbers, run.sent_time))
    flags = 0 if run.recoverable else PUT_EXPRESS
    if not refusal:
        assert queue is not None
        expires = NEVER_S
        if run.time_to_be_received < NEVER_S - 1:
            expires = min(run.sent_time + run.time_to_be_received, NEVER_S - 1)
        flags |= ack_flags(run.acknowledge, arrived=True)
        if run.dead_letter:
            flags |= PUT_WANTS | PUT_DEADLETTER
        queue, due = place_for(step, queue, run.due) if run.due else (queue, 0)
        build.put_copy(
            queue.number, packets, lane=run.priority, expires=expires, flags=flags,
            source=run.source, due=due,
        )  # fmt: skip
        step.counts.accepted += len(packets.lengths)
    if refusal or run.acknowledge:
        what = AtHand(
            side=Side.TARGET, transactional=False, packets=packets, level=run.acknowledge,
            asked=PUT_DEADLETTER if run.dead_letter else 0, express=not run.recoverable,
            queue=key,
        )  # fmt: skip
        end_at_hand(build, what, ending_of(refusal), refusal)
    if run.trace is not None:
        trace_arrival(build, run, places, refusal=refusal)
    # Express messages do not survive a crash, so no answer waits for the disk because of them.
    step.record(build.change, forced=run.recoverable)
