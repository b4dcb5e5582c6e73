"""What was to be tried once ends with the attempt, a portion in each step."""

from __future__ import annotations

from array import array
from functools import partial
from itertools import pairwise

import pytest

from onceq.core.ending.ending import ENDED_AT_ONCE
from onceq.core.inputs import ConnectFailed, Room, SessionClosed, SessionOpened, Tick
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.positions import Link
from onceq.core.transfer import sessions
from onceq.model import requests
from onceq.model.message import Properties
from onceq.model.run import LENGTH_TYPE, Run
from tests.unit.core.alone import WAITS, Core
from tests.unit.core.effort import lines

ELSEWHERE = r"PRIVATE=5a5a5a5a-0000-0000-0000-000000000001\00000001"
ONCE = Properties(time_to_reach_queue=0)
OFTEN = Properties(time_to_reach_queue=1_000)
MANY = 3 * ENDED_AT_ONCE


def send(core: Core, count: int, properties: Properties = ONCE) -> None:
    bodies = Run(bytes(count), array(LENGTH_TYPE, [1] * count))
    core.ask(requests.Commit(0, (requests.SendItem(ELSEWHERE, properties, bodies=bodies),)))


def outgoing_of(core: Core) -> OutgoingQueue:
    (outgoing,) = core.manager.state.outgoing.values()
    return outgoing


def failed(core: Core) -> None:
    """The attempt that is under way is over."""
    core.step(ConnectFailed(outgoing_of(core).number, "nobody there"))


@pytest.fixture
def core() -> Core:
    made = Core()
    send(made, MANY)
    return made


def test_many_end_in_several_steps_and_the_rest_is_tried_again(core: Core) -> None:
    send(core, 2, OFTEN)
    outgoing = outgoing_of(core)
    failed(core)
    left = [len(outgoing)]
    while core.manager.at_work:
        assert outgoing.link is Link.NONE, "nothing is tried while some are still to end"
        core.step(Tick())
        left.append(len(outgoing))
    assert left[0] == MANY + 2 - ENDED_AT_ONCE
    assert left[-1] == 2
    assert all(before - after <= ENDED_AT_ONCE for before, after in pairwise(left))
    assert outgoing.link is Link.PUT_OFF


def test_what_is_sent_meanwhile_is_for_the_next_attempt(core: Core) -> None:
    outgoing = outgoing_of(core)
    failed(core)
    send(core, 5)
    core.pass_time(0)
    assert len(outgoing) == 5
    core.pass_time(3_600)
    failed(core)
    assert not len(outgoing)


def test_portions_of_one_come_to_an_end_while_more_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent meanwhile makes the range longer that was looked at last."""
    monkeypatch.setattr(sessions, "ENDED_AT_ONCE", 1)
    core = Core()
    send(core, 2)
    failed(core)
    send(core, 5)
    for _ in range(10):
        core.step(Tick())
    assert not core.manager.at_work
    assert len(outgoing_of(core)) == 5


def test_nothing_that_is_to_end_leaves_on_a_session_that_comes_meanwhile(core: Core) -> None:
    outgoing = outgoing_of(core)
    failed(core)
    core.step(SessionOpened(1, outgoing.name.guid, "x", outgoing.number))
    core.step(Room(1, 1_000, 1 << 20))
    assert not outgoing.ever_sent
    send(core, 1)
    core.pass_time(0)
    core.step(Room(1, 1_000, 1 << 20))
    assert outgoing.ever_sent == MANY + 1
    assert len(outgoing) == 1


def test_a_session_that_is_lost_meanwhile_ends_what_came_before(core: Core) -> None:
    outgoing = outgoing_of(core)
    failed(core)
    core.step(SessionOpened(1, outgoing.name.guid, "x", outgoing.number))
    send(core, 3)
    core.step(SessionClosed(1, "gone"))
    core.pass_time(0)
    assert (len(outgoing), outgoing.purging) == (0, 0)


def test_a_purge_and_an_end_of_an_attempt_at_once(core: Core) -> None:
    outgoing = outgoing_of(core)
    assert core.ask(requests.PurgeQueue(ELSEWHERE)) is WAITS
    purge = core.asked
    failed(core)
    while purge not in core.answers:
        core.step(Tick())
        core.step(SessionOpened(1, outgoing.name.guid, "x", outgoing.number))
        core.step(Room(1, 1_000, 1 << 20))
        assert not outgoing.ever_sent or not len(outgoing)
    core.pass_time(0)
    assert (len(outgoing), outgoing.purging) == (0, 0)


def test_a_crash_leaves_the_rest_to_be_tried_once_more(core: Core) -> None:
    failed(core)
    other = core.again()
    (outgoing,) = other.state.outgoing.values()
    assert len(outgoing) == MANY - ENDED_AT_ONCE


def test_an_attempt_costs_by_what_came_since_the_last_one() -> None:
    cost = []
    for count in (10, 200):
        core = Core()
        for at in range(count):
            send(core, 1, Properties(time_to_reach_queue=1_000 + at))
        failed(core)
        core.pass_time(3_600)
        cost.append(lines(partial(failed, core)))
    assert cost[1] < cost[0] + 20
