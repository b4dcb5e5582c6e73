"""Very many messages in doubt: asked about, and settled, a portion in each step."""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import pairwise

import pytest

from onceq.core.ending.ending import ENDED_AT_ONCE
from onceq.core.inputs import Arrived, Room, SessionClosed, SessionOpened, Tick
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Peer
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queue_tables import ACKS_OWED, DEAD_XACT, DOUBTS_KEPT
from onceq.core.state.state import IN_DOUBT
from onceq.core.step.step import Step
from onceq.core.transfer import in_doubt
from onceq.core.transfer.in_doubt import inquire
from onceq.core.transfer.pending_outcomes import NO_ROOM_S
from onceq.model import requests
from onceq.model.message import Acknowledge, Journal, Properties
from onceq.model.resultcodes import MessageClass
from onceq.model.run import LENGTH_TYPE, Run
from onceq.packet.acks import StreamMemory, settlement
from onceq.packet.arrived import cut
from tests.unit.core.alone import IDENTITY, WALL_S, Core, turned_away

ELSEWHERE = r"PRIVATE=5a5a5a5a-0000-0000-0000-000000000001\00000001"
DEAD = Properties(journal=Journal.DEADLETTER)
TOLD = Properties(admin_queue=r"DIRECT=OS:X\private$\a", acknowledge=Acknowledge.NEGATIVE_ARRIVAL)
MANY = 3 * ENDED_AT_ONCE


def outgoing_of(core: Core) -> OutgoingQueue:
    return next(q for q in core.manager.state.outgoing.values() if q.name.guid[:1] == b"\x5a")


def opened(core: Core, session: int, *, extended: bool) -> None:
    outgoing = outgoing_of(core)
    core.step(SessionOpened(session, outgoing.name.guid, "x", outgoing.number, extended=extended))


def doubtful(properties: Properties = DEAD, count: int = MANY, streams: int = 1) -> Core:
    """So many messages have been transmitted and are purged; there is no session any more."""
    core = Core()
    for at in range(streams):
        bodies = Run(bytes(count), array(LENGTH_TYPE, [1] * count))
        item = requests.SendItem(ELSEWHERE, properties, bodies=bodies)
        core.ask(requests.Commit(0, (item,)))
        opened(core, at + 1, extended=True)
        core.step(Room(at + 1, 1 << 20, 1 << 30))
        core.ask(requests.PurgeQueue(ELSEWHERE))
        core.pass_time(0)
        core.step(SessionClosed(at + 1, "gone"))
    assert core.manager.state.doubts.unsettled(outgoing_of(core).number) == count * streams
    return core


def says(core: Core, *told: StreamMemory) -> None:
    """The receiver says what it knows, on session 99."""
    outgoing = outgoing_of(core)
    packet = settlement(
        list(told), own=outgoing.name.guid, own_message=1, sent_time=WALL_S,
        destination_manager=IDENTITY.guid,
    )  # fmt: skip
    for run in cut(packet, array("I", [len(packet)])):
        core.step(Arrived(99, run))


def asking(patch: pytest.MonkeyPatch, room: list[int]) -> list[int]:
    """The streams that are asked about; for so many packets there is room."""
    asked: list[int] = []

    def post(
        step: Step, peer: Peer, outgoing: OutgoingQueue, streams: tuple[tuple[int, int], ...]
    ) -> bool:
        if not room[0]:
            return False
        room[0] -= 1
        asked.extend(stream for stream, _ in streams)
        return True

    patch.setattr(in_doubt, "post", post)
    return asked


def classes(core: Core) -> Counter[int]:
    lane = core.manager.state.all_queues[DEAD_XACT].lanes[0]
    return Counter(
        lane.classes.get(counter, 0)
        for first, count in lane.ranges(AVAILABLE, 0)
        for counter in range(first, first + count)
    )


def test_very_many_are_settled_in_several_steps() -> None:
    core = doubtful()
    opened(core, 99, extended=True)
    stream = outgoing_of(core).stream
    says(core, StreamMemory(stream, 1, 10, closed=True))
    doubts, number = core.manager.state.doubts, outgoing_of(core).number
    left = [doubts.unsettled(number)]
    while core.manager.at_work:
        core.step(Tick())
        left.append(doubts.unsettled(number))
    assert (left[0], left[-1]) == (MANY - ENDED_AT_ONCE, 0)
    assert all(before - after <= ENDED_AT_ONCE for before, after in pairwise(left))
    assert classes(core) == {IN_DOUBT: 10, MessageClass.NACK_DELETED: MANY - 10}
    assert not outgoing_of(core).inquiries.due_us


def test_dead_letters_that_are_received_meanwhile_are_none_any_more() -> None:
    core = doubtful()
    opened(core, 99, extended=True)
    says(core, StreamMemory(outgoing_of(core).stream, 1, 0, closed=True))
    core.ask(requests.PurgeQueue(r"SYSTEM$;DEADXACT"))
    core.pass_time(0)
    state = core.manager.state
    assert (len(state.doubts), len(state.all_queues[DEAD_XACT])) == (0, 0)


def test_what_is_said_again_meanwhile_begins_no_second_work() -> None:
    core = doubtful()
    opened(core, 99, extended=True)
    stream = outgoing_of(core).stream
    for _ in range(5):
        says(core, StreamMemory(stream, 1, 0, closed=True))
    assert len(core.manager._step.works) == 1
    core.pass_time(0)
    assert (len(core.manager.state.doubts), core.manager._step.sessions.settling) == (0, set())


def test_after_a_crash_the_rest_is_asked_about_again() -> None:
    core = doubtful()
    opened(core, 99, extended=True)
    says(core, StreamMemory(outgoing_of(core).stream, 1, 0, closed=True))
    other = core.again()
    (outgoing,) = (q for q in other.state.outgoing.values() if q.name.guid[:1] == b"\x5a")
    assert other.state.doubts.unsettled(outgoing.number) == MANY - ENDED_AT_ONCE
    assert outgoing.inquiries.due_us


def test_who_cannot_be_asked_leaves_very_many_in_doubt_in_several_steps() -> None:
    core = doubtful(TOLD)
    state = core.manager.state
    opened(core, 99, extended=False)
    assert len(state.all_queues[DOUBTS_KEPT]) == MANY - ENDED_AT_ONCE
    core.pass_time(0)
    assert len(state.all_queues[DOUBTS_KEPT]) == 0
    assert len(state.all_queues[ACKS_OWED]) == MANY


def test_who_can_be_asked_after_all_is_asked() -> None:
    core = doubtful(TOLD)
    state = core.manager.state
    opened(core, 98, extended=False)
    core.step(SessionClosed(98, "gone"))
    opened(core, 99, extended=True)
    core.pass_time(0)
    left = len(state.all_queues[DOUBTS_KEPT])
    assert 0 < left < MANY
    says(core, StreamMemory(outgoing_of(core).stream, 1, MANY, closed=True))
    core.pass_time(0)
    assert len(state.all_queues[ACKS_OWED]) == MANY - left


def test_of_very_many_streams_a_step_asks_about_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_doubt, "STREAMS_AT_ONCE", 5)
    monkeypatch.setattr(in_doubt, "INQUIRY_STREAMS_MAX", 2)
    core = doubtful(count=1, streams=12)
    asked = asking(monkeypatch, [99])
    opened(core, 99, extended=True)
    assert len(asked) == 5
    for _ in range(3):
        core.pass_time(NO_ROOM_S)
    doubts, number = core.manager.state.doubts, outgoing_of(core).number
    streams = doubts.streams_of(number, doubts.managers_of(number), 0, 99)
    everything = [stream for stream, _ in streams]
    assert asked[:12] == everything
    assert outgoing_of(core).inquiries.goes_on == 0


def test_a_question_that_finds_no_room_goes_on_where_it_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_doubt, "INQUIRY_STREAMS_MAX", 2)
    core = doubtful(count=1, streams=6)
    room = [2]
    asked = asking(monkeypatch, room)
    opened(core, 99, extended=True)
    assert len(asked) == 4
    room[0] = 1
    inquire(core.manager._step, outgoing_of(core))
    assert len(set(asked)) == 6


def test_who_turns_everybody_away_is_not_asked_for_the_rest_of_a_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_doubt, "STREAMS_AT_ONCE", 1)
    core = doubtful(count=1, streams=3)
    outgoing = outgoing_of(core)
    called = turned_away(core, outgoing, outgoing.name.guid, seconds=3_600)
    pauses = [after - before for before, after in pairwise(called)]
    assert min(pauses) >= core.manager._step.settings.resend_first_s
    assert pauses == sorted(pauses)
