"""A directory changes: what waits for its queues goes on, or nowhere, in several steps."""

from __future__ import annotations

from array import array
from functools import partial

import pytest

from onceq.core.ending import ending
from onceq.core.ending.ending import ENDED_AT_ONCE
from onceq.core.inputs import DirectoryChanged, Room, SessionOpened, Tick
from onceq.core.peers.trust import rebind
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queue_tables import DEAD_XACT
from onceq.model import requests
from onceq.model.directory import Computer, PublicQueue, Snapshot
from onceq.model.identity import guid_text
from onceq.model.message import Journal, Properties
from onceq.model.run import LENGTH_TYPE, Run
from onceq.model.settings import Settings
from tests.unit.core.alone import Core
from tests.unit.core.effort import lines

BETA = b"B" * 16
MANY = 3 * ENDED_AT_ONCE
ASKED = Properties(journal=Journal.DEADLETTER)


def queue(number: int) -> PublicQueue:
    return PublicQueue(bytes([number]) * 16, "BETA", f"q{number}", True)


def reads(core: Core, *numbers: int) -> None:
    """The directory names these queues now."""
    core.step(DirectoryChanged(Snapshot([Computer("BETA", BETA)], map(queue, numbers))))


def send(core: Core, number: int, count: int, wishes: Properties = ASKED) -> None:
    bodies = Run(bytes(count), array(LENGTH_TYPE, [1] * count))
    item = requests.SendItem(f"PUBLIC={guid_text(queue(number).guid)}", wishes, bodies=bodies)
    core.ask(requests.Commit(0, (item,)))


def outgoing(core: Core) -> list[OutgoingQueue]:
    return list(core.manager.state.outgoing.values())


@pytest.fixture
def core() -> Core:
    made = Core()
    reads(made, 1, 2)
    for number in (1, 2):
        send(made, number, MANY)
    return made


def test_what_waits_for_queues_that_are_gone_ends_in_several_steps(core: Core) -> None:
    reads(core, 2)
    gone, there = outgoing(core)
    steps = 0
    while core.manager.at_work:
        before = len(gone)
        core.step(Tick())
        assert before - len(gone) <= ENDED_AT_ONCE
        steps += 1
    assert steps >= 2
    assert (len(gone), len(there), gone.purging) == (0, MANY, 0)
    assert len(core.manager.state.all_queues[DEAD_XACT]) == MANY


@pytest.mark.parametrize(("keep", "letters"), [("refused", 3), ("asked", 0)])
def test_what_ends_so_is_kept_though_nobody_has_asked(keep: str, letters: int) -> None:
    """Finding U1: else it would be lost in silence."""
    core = Core(settings=Settings(xact_dead_letter=keep))
    reads(core, 1)
    send(core, 1, 3, Properties())
    reads(core)
    while core.manager.at_work:
        core.step(Tick())
    assert [len(one) for one in outgoing(core)] == [0]
    assert len(core.manager.state.all_queues[DEAD_XACT]) == letters


def test_nothing_leaves_a_queue_that_is_gone(core: Core) -> None:
    gone, _ = outgoing(core)
    core.step(SessionOpened(1, BETA, "x", gone.number))
    reads(core, 2)
    core.step(Room(1, 1 << 20, 1 << 30))
    assert not gone.ever_sent
    core.pass_time(0)
    assert not len(gone)


def test_what_the_directory_names_again_goes_on(core: Core) -> None:
    reads(core, 2)
    gone, _ = outgoing(core)
    reads(core, 1, 2)
    left = len(gone)
    core.pass_time(0)
    assert 0 < left == len(gone) < MANY
    core.step(SessionOpened(1, BETA, "x", gone.number))
    core.step(Room(1, 1 << 20, 1 << 30))
    assert gone.ever_sent


def test_a_crash_leaves_the_rest_for_the_next_reading(core: Core) -> None:
    reads(core, 2)
    other = core.again()
    left = next(iter(other.state.outgoing.values()))
    assert 0 < len(left) < MANY


def test_a_step_looks_at_a_bounded_number_of_outgoing_queues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ending, "QUEUES_AT_ONCE", 2)
    core = Core()
    reads(core, *range(1, 8))
    for number in range(1, 8):
        send(core, number, 1)
    reads(core)
    assert core.manager.at_work
    core.pass_time(0)
    assert [len(one) for one in outgoing(core)] == [0] * 7


def test_who_answers_under_a_name_costs_by_none_of_the_other_names() -> None:
    cost = []
    for count in (5, 100):
        core = Core()
        for at in range(count):
            bodies = Run.of([b"x"])
            item = requests.SendItem(rf"DIRECT=OS:C{at}\private$\q", ASKED, bodies=bodies)
            core.ask(requests.Commit(0, (item,)))
        step = core.manager._step
        core.step(SessionOpened(1, BETA, "x", outgoing(core)[0].number))
        name = outgoing(core)[0].bound_name
        assert step.state.bindings.guid_of(name) == BETA
        cost.append(lines(partial(rebind, step, name, b"C" * 16)))
        assert outgoing(core)[0].served_before
        assert not outgoing(core)[1].served_before
    assert cost[1] < cost[0] + 10
