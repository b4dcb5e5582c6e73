"""What it costs to tell of which messages the end will be told."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import partial

import pytest

from onceq.core.inputs import Arrived, SessionClosed, SessionOpened, Tick
from onceq.core.state.peer_table import Peer, Progress
from onceq.core.state.queues import lookup_id
from onceq.core.transfer import pending_outcomes
from onceq.core.transfer.pending_outcomes import tell
from onceq.model import requests
from onceq.model.message import Journal, Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import Run
from onceq.packet.acks import EndsAsked, EndsOpen, ends_asked, parse_settling
from onceq.packet.address import Address
from onceq.packet.arrived import cut
from onceq.packet.encode import encode_run, template
from tests.unit.core.alone import IDENTITY, WALL_S, Core
from tests.unit.core.effort import lines

PEER = b"P" * 16


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as made:
        yield made


def test_a_question_about_many_streams_walks_the_tables_once() -> None:
    cost = []
    for streams in (1, 30):
        core = Core()
        step = core.manager._step
        for at in range(1000):
            source = at.to_bytes(16, "big")
            step.state.progress[source, "q"] = Progress(source, "q", stream=7, last=10)
        asked = EndsAsked(tuple((stream, 1, 10) for stream in range(1, streams + 1)))
        peer = step.sessions.peers[1] = Peer(1, PEER, "10.0.0.9")
        cost.append(lines(partial(tell, step, peer, asked)))
    assert cost[1] < 3 * cost[0]


class Asked(Core):
    """A manager that is asked of which messages of one stream the end will be told."""

    STREAM = 1 << 40

    def __init__(self, patch: pytest.MonkeyPatch, *, count: int) -> None:
        super().__init__()
        self.told: list[EndsOpen] = []
        patch.setattr(pending_outcomes, "note", self._note)
        patch.setattr(pending_outcomes, "LOOKED_AT_ONCE", 1)
        properties = QueueProperties(name="q", transactional=True)
        self.ask(requests.CreateQueue(properties=properties, instance=b"I" * 16))
        self.step(SessionOpened(1, PEER, "10.0.0.2", outgoing=0, extended=True))
        for number in range(1, count + 1):
            self._arrive(number)

    def _note(self, step: object, peer: Peer, packet: bytes) -> bool:
        said = parse_settling(packet)
        assert isinstance(said, EndsOpen)
        self.told.append(said)
        return True

    def _arrive(self, number: int) -> None:
        made = template(
            source=PEER, destination=Address(7, direct="OS:A\\private$\\q"),
            destination_manager=bytes(16), admin=Address(0),
            properties=Properties(journal=Journal.DEADLETTER), sent_time=WALL_S,
            transactional=True,
        )  # fmt: skip
        # A message number is left out between two: each is a wish of its own.
        (packet,) = encode_run(
            made, Run.of([b"x"]), first_message=2 * number, first=True, last=True,
            stream=self.STREAM, first_number=number,
            transaction=number,
        )  # fmt: skip
        for run in cut(bytes(packet), array("I", [len(packet)])):
            self.step(Arrived(1, run))

    def asked_of(self, last: int) -> None:
        """The sender asks."""
        packet = ends_asked(
            EndsAsked(((self.STREAM, 1, last),)), own=PEER, own_message=1, sent_time=WALL_S,
            destination_manager=IDENTITY.guid,
        )  # fmt: skip
        for run in cut(packet, array("I", [len(packet)])):
            self.step(Arrived(1, run))

    def open(self) -> set[int]:
        """The numbers of which the end will be told."""
        (said,) = self.told
        (one,) = said.streams
        return {number for first, last in one.open for number in range(first, last + 1)}


def test_very_many_wishes_are_looked_at_in_several_steps(patch: pytest.MonkeyPatch) -> None:
    core = Asked(patch, count=5)
    core.asked_of(5)
    steps = 0
    while core.manager.at_work:
        core.step(Tick())
        steps += 1
    assert steps >= 4
    assert core.open() == {1, 2, 3, 4, 5}


def test_what_moves_to_where_was_looked_already_is_not_left_out(patch: pytest.MonkeyPatch) -> None:
    """Whichever step it is between."""
    for steps in range(20):
        core = Asked(patch, count=4)
        for counter in (3, 4):
            core.ask(requests.MoveMessage(r"private$\q", r"private$\q;s", lookup_id(0, counter)))
        core.asked_of(4)
        for _ in range(steps):
            core.step(Tick())
        if not core.manager.at_work:
            break
        for counter in (1, 2):
            core.ask(requests.MoveMessage(r"private$\q;s", r"private$\q", lookup_id(0, counter)))
        core.pass_time(0)
        assert core.open() == {1, 2, 3, 4}, f"moved after {steps} steps"
    assert 4 <= steps < 19, "the last ones are between the two queues"


def test_what_ends_meanwhile_is_told_before_the_answer(patch: pytest.MonkeyPatch) -> None:
    core = Asked(patch, count=4)
    core.asked_of(4)
    core.ask(requests.PurgeQueue(r"private$\q"))
    core.pass_time(0)
    assert core.told == [], "ends are on their way: it is asked again"


def test_who_asks_again_meanwhile_is_answered_once(patch: pytest.MonkeyPatch) -> None:
    core = Asked(patch, count=4)
    for _ in range(3):
        core.asked_of(4)
        core.now_us += 2_000_000
    assert len(core.manager._step.works) == 1
    core.pass_time(0)
    assert core.open() == {1, 2, 3, 4}


def test_a_session_that_is_over_gets_no_answer(patch: pytest.MonkeyPatch) -> None:
    core = Asked(patch, count=4)
    core.asked_of(4)
    core.step(SessionClosed(1, "gone"))
    core.pass_time(0)
    assert core.told == []
