"""The earlier streams of an outgoing queue: against a table that is walked, and what they cost."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest

from onceq.core import inputs
from onceq.core.state.outgoing_queues import COMPACT_AT, EarlierStreams, Stretch
from onceq.core.state.position_block import AVAILABLE, AWAITING
from onceq.core.transfer import pending_outcomes
from onceq.model import requests
from onceq.model.identity import guid_text
from onceq.model.limits import ENDS_ASKED_S
from onceq.model.message import PLAIN
from onceq.model.run import LENGTH_TYPE, Run
from onceq.packet.acks import EndsAsked, EndsOpen, StillOpen, StreamMemory, parse_settling
from tests.unit.core.alone import Core, turned_away
from tests.unit.core.effort import stays_the_same

PEER = b"P" * 16


class Walked:
    """The same, with every question answered by looking at all of them."""

    def __init__(self) -> None:
        self.bases: dict[int, int] = {}

    def stretches(self, end: int) -> list[Stretch]:
        order = sorted((base, stream) for stream, base in self.bases.items())
        ends = [base for base, _ in order[1:]] + [end]
        return [Stretch(s, b, stop) for (b, s), stop in zip(order, ends, strict=False)]

    def forget(self, head: int, end: int) -> set[int]:
        gone = set()
        for base, stream in sorted(((b, s) for s, b in self.bases.items()), reverse=True):
            if end < head or end <= base:
                del self.bases[stream]
                gone.add(stream)
            end = base
        return gone


@pytest.mark.parametrize("seed", range(20))
def test_against_a_table_that_is_walked(seed: int) -> None:
    draw = random.Random(seed)
    made, walked, present, head = EarlierStreams(), Walked(), 0, 1
    for stream in range(1, 2 * COMPACT_AT if seed == 0 else 200):
        made.add(stream, present)
        walked.bases[stream] = present
        present += draw.choice((0, 1, 1, 3, 10))
        assert set(made.forget(head, present)) == walked.forget(head, present)
        if walked.bases and draw.random() < 0.1:
            gone = draw.choice(list(walked.bases))
            made.drop(gone)
            del walked.bases[gone]
        every = walked.stretches(present)
        assert list(made.behind(0, present)) == every
        assert set(made.items()) == set(walked.bases.items())
        for _ in range(3):
            counter = draw.randrange(present + 1)
            found = made.at(counter, present)
            assert found == next((s for s in every if s.base < counter <= s.end), None)
            later = list(made.behind(counter, present))
            assert later == [s for s in every if s.end >= counter]
        if every:
            one = draw.choice(every)
            assert made.of(one.stream, present) == one
        head = draw.randrange(head, present + 2) if draw.random() < 0.3 else head


def sends(core: Core) -> None:
    tx = core.asked + 1
    core.ask(requests.Begin(tx))
    name = f"PRIVATE={guid_text(PEER)}\\00000001"
    bodies = Run(b"x", array(LENGTH_TYPE, [1]))
    core.ask(requests.Commit(tx, (requests.SendItem(name, PLAIN, bodies=bodies),)))


def with_streams(count: int) -> Core:
    """Each message was acknowledged before the next was sent, and waits for its end."""
    core = Core()
    core.step(inputs.SessionOpened(1, PEER, "10.0.0.9", 0, True, False, b"x" * 16, 100))
    for _ in range(count):
        sends(core)
        core.step(inputs.Room(1, 10, 1 << 20))
        (outgoing,) = core.manager.state.outgoing.values()
        lane = outgoing.ordered_lane
        lane.set_state(lane.next - 1, 1, AVAILABLE, AWAITING)
    return core


def test_a_new_stream_costs_the_same_behind_many() -> None:
    stays_the_same(lambda count: partial(sends, with_streams(count)), small=10, large=500)


def test_what_is_told_of_one_stream_costs_the_same_among_many() -> None:
    def make(count: int) -> Callable[[], None]:
        core = with_streams(count)
        step, (outgoing,) = core.manager._step, core.manager.state.outgoing.values()
        stream = next(iter(outgoing.old))
        said = EndsOpen((StillOpen(1, 1, StreamMemory(stream, 1, 1, closed=True), ((1, 1),)),))
        return partial(pending_outcomes.hear, step, step.sessions.peers[1], said)

    stays_the_same(make, small=10, large=500)


def test_a_question_about_many_streams_goes_on_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_outcomes, "STREAMS_AT_ONCE", 20)
    core = with_streams(50)
    step, (outgoing,) = core.manager._step, core.manager.state.outgoing.values()
    peer = step.sessions.peers[1]
    asked: list[int] = []
    for _ in range(3):
        peer.notes.clear()
        pending_outcomes.ask(step, outgoing)
        asked.append(len(peer.notes))
    assert asked == [2, 2, 1]
    assert not outgoing.ends.goes_on


def test_a_question_about_one_stream_at_a_time_comes_to_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pending_outcomes, "STREAMS_AT_ONCE", 1)
    core = with_streams(3)
    step, (outgoing,) = core.manager._step, core.manager.state.outgoing.values()
    for _ in range(3):
        pending_outcomes.ask(step, outgoing)
    assert len(step.sessions.peers[1].notes) == 3
    assert not outgoing.ends.goes_on


def answered(core: Core, stream: int) -> None:
    """The receiver says that the end of its one message will be told."""
    said = StillOpen(1, 1, StreamMemory(stream, 1, 1, closed=True), ((1, 1),))
    pending_outcomes.hear(
        core.manager._step, core.manager._step.sessions.peers[1], EndsOpen((said,))
    )


def questions(core: Core) -> int:
    """How many parts of questions about ends wait to leave."""
    notes = core.manager._step.sessions.peers[1].notes
    return sum(isinstance(parse_settling(packet), EndsAsked) for packet in notes)


def asked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> tuple[Core, list[int]]:
    """A manager that asks about three streams, one at a time, and has no question about a fourth;
    and the three."""
    monkeypatch.setattr(pending_outcomes, "STREAMS_AT_ONCE", 1)
    core = with_streams(3)
    (outgoing,) = core.manager.state.outgoing.values()
    streams = [s.stream for s in outgoing.stretches_from(0)]
    sends(core)
    pending_outcomes.ask(core.manager._step, outgoing)
    return core, streams


def test_an_answer_to_a_part_of_a_question_does_not_put_off_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core, streams = asked_one_by_one(monkeypatch)
    (outgoing,) = core.manager.state.outgoing.values()
    for at, stream in enumerate(streams, start=1):
        assert questions(core) == at
        answered(core, stream)
        core.pass_time(pending_outcomes.NO_ROOM_S)
    core.pass_time(pending_outcomes.NO_ROOM_S)
    assert not outgoing.ends.goes_on
    core.pass_time(ENDS_ASKED_S - 10)
    assert questions(core) == len(streams), "all of it was answered"
    core.pass_time(10)
    assert questions(core) > len(streams)


def test_a_question_of_which_a_part_was_not_answered_is_asked_again_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core, streams = asked_one_by_one(monkeypatch)
    for stream in streams:
        if stream != streams[1]:
            answered(core, stream)
        core.pass_time(pending_outcomes.NO_ROOM_S)
    core.pass_time(pending_outcomes.AGAIN_S)
    assert questions(core) > len(streams)


def test_who_turns_everybody_away_is_not_asked_for_the_rest_of_a_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pending_outcomes, "STREAMS_AT_ONCE", 1)
    core = with_streams(3)
    (outgoing,) = core.manager.state.outgoing.values()
    pending_outcomes.ask(core.manager._step, outgoing)
    core.step(inputs.SessionClosed(1, "gone"))
    called = turned_away(core, outgoing, PEER, seconds=4 * 3_600)
    pauses = [after - before for before, after in pairwise(called)]
    assert min(pauses) >= pending_outcomes.AGAIN_S
    assert pauses == sorted(pauses)
