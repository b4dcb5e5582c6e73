"""What a step costs that is not about one queue: time passes, and somebody looks at what is due."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import partial
from typing import get_args

import pytest

from onceq.core import inputs
from onceq.core.decision import Handed
from onceq.core.ending.ending import ENDED_AT_ONCE, UNASKED_FOR_ONE
from onceq.core.state.queue_tables import DEAD_XACT
from onceq.core.state.queues import lookup_id
from onceq.core.state.state import State
from onceq.core.step.step import RULES
from onceq.errors import MessageNotFound, ReceiveTimeout
from onceq.model import requests
from onceq.model.marks import FOR_EVER_US
from onceq.model.message import Journal, Properties
from onceq.model.queue import QueueProperties
from onceq.model.requests import KINDS, Request, Seek
from onceq.model.run import LENGTH_TYPE, Run
from tests.unit.core.alone import IDENTITY, WAITS, Core
from tests.unit.core.effort import stays_the_same


def test_each_request_and_each_input_has_a_rule() -> None:
    """A module with rules that ``core/manager.py`` does not import would leave some without."""
    wanted = {*KINDS.values(), *get_args(inputs.Input)} - {Request}
    assert wanted <= RULES.keys(), wanted - RULES.keys()


def made(core: Core, name: str) -> None:
    properties = QueueProperties(name=name, transactional=True)
    core.ask(requests.CreateQueue(properties=properties, instance=name.encode().zfill(16)))


def send(core: Core, queue: str, seconds: int, count: int = 1) -> None:
    """Messages that must be received within so many seconds."""
    properties = Properties(time_to_be_received=seconds)
    bodies = Run(bytes(count), array(LENGTH_TYPE, [1] * count))
    core.ask(requests.Commit(0, (requests.SendItem(queue, properties, bodies=bodies),)))


def test_an_expiry_costs_the_same_where_there_are_many_queues() -> None:
    def make(count: int) -> Callable[[], None]:
        core = Core()
        for at in range(count):
            made(core, f"q{at}")
            send(core, rf"private$\q{at}", 1_000 + at)
        send(core, r"private$\q1", 10)
        core.now_us += 10_000_000
        return partial(core.step, inputs.Tick())

    stays_the_same(make, small=10, large=500)


def test_an_expiry_costs_the_same_in_a_long_queue() -> None:
    def make(runs: int) -> Callable[[], object]:
        state = State(IDENTITY)
        state.space.begin(0)
        lane = state.all_queues[DEAD_XACT].lanes[0]
        for at in range(runs):
            lane.append(at << 12, array("I", [1] * 4_096), arrived=1, expires=1_000 + at)
        return partial(lane.expired, 1_000, (0,))

    stays_the_same(make, small=2, large=50)


def test_what_expires_later_is_found_when_its_time_comes() -> None:
    core = Core()
    made(core, "q")
    for seconds in (50, 20, 40, 30):
        send(core, r"private$\q", seconds, 3)
    for left in (12, 9, 6, 3, 0):
        assert sum(core.present().values()) == left
        core.pass_time(10 if left != 12 else 20)


def test_many_that_expire_at_once_end_in_several_steps_and_hold_up_nobody() -> None:
    core = Core()
    for name in ("a", "b"):
        made(core, name)
    many = 20 * ENDED_AT_ONCE
    send(core, r"private$\a", 10, many)
    send(core, r"private$\b", 10)
    core.now_us += 10_000_000
    steps = 0
    while sum(core.present().values()):
        assert core.manager.next_timer() == core.now_us, "nobody comes back for the rest"
        before = sum(core.present().values())
        core.step(inputs.Tick())
        assert 0 < before - sum(core.present().values()) <= ENDED_AT_ONCE * UNASKED_FOR_ONE
        steps += 1
    assert steps == 3
    core.step(inputs.Tick())
    assert core.manager.next_timer() is None


def test_what_has_expired_is_not_received_although_it_has_not_ended() -> None:
    core = Core()
    made(core, "q")
    send(core, r"private$\q", 10, 20 * ENDED_AT_ONCE)
    send(core, r"private$\q", 1_000)
    core.now_us += 10_000_000
    core.step(inputs.Tick())
    assert sum(core.present().values()) > 1
    before = sum(core.present().values())
    waits = core.ask(requests.Receive(r"private$\q"))
    assert waits is WAITS
    assert 0 < before - sum(core.present().values()) <= ENDED_AT_ONCE * UNASKED_FOR_ONE
    core.pass_time(0)
    found = core.answers[core.asked]
    assert isinstance(found, Handed)
    assert list(found.lookups) == [lookup_id(0, 20 * ENDED_AT_ONCE + 1)]


def test_a_receive_that_was_put_off_is_told_that_there_is_nothing() -> None:
    core = Core()
    made(core, "q")
    send(core, r"private$\q", 10, 20 * ENDED_AT_ONCE)
    core.now_us += 10_000_000
    assert core.ask(requests.Receive(r"private$\q")) is WAITS
    core.pass_time(1)
    core.pass_time(1)
    assert isinstance(core.answers[core.asked], ReceiveTimeout)
    assert not core.manager._step.readers.waiting


LATE = 20 * ENDED_AT_ONCE


def much_is_over(left: int) -> Core:
    """A queue in which very much is over, and so many messages are not."""
    core = Core()
    made(core, "q")
    send(core, r"private$\q", 10, LATE)
    if left:
        send(core, r"private$\q", 1_000, left)
    core.now_us += 10_000_000
    return core


@pytest.mark.parametrize(
    ("seek", "found"), [(Seek.FIRST, 1), (Seek.NEXT, 1), (Seek.LAST, 3), (Seek.PREV, 3)]
)
@pytest.mark.parametrize("wait_until_us", [0, FOR_EVER_US])
def test_what_is_looked_for_by_its_place_is_found_when_nothing_is_over_any_more(
    seek: Seek, found: int, wait_until_us: int
) -> None:
    core = much_is_over(left=3)
    lookup = {Seek.NEXT: lookup_id(0, 1), Seek.PREV: lookup_id(0, LATE + 9)}.get(seek, 0)
    before = sum(core.present().values())
    item = requests.Receive(
        r"private$\q", lookup=lookup, seek=seek, peek=True, wait_until_us=wait_until_us
    )
    assert core.ask(item) is WAITS
    assert before - sum(core.present().values()) <= ENDED_AT_ONCE * UNASKED_FOR_ONE
    core.pass_time(0)
    core.pass_time(1)
    answer = core.answers[core.asked]
    assert isinstance(answer, Handed)
    assert list(answer.lookups) == [lookup_id(0, LATE + found)]
    assert not core.manager._step.readers.waiting


def test_where_all_is_over_nothing_is_found_by_its_place() -> None:
    core = much_is_over(left=0)
    assert core.ask(requests.Receive(r"private$\q", seek=Seek.LAST)) is WAITS
    core.pass_time(0)
    core.pass_time(1)
    assert isinstance(core.answers[core.asked], MessageNotFound)


def test_who_goes_away_before_he_is_answered_has_received_nothing() -> None:
    core = much_is_over(left=3)
    assert core.ask(requests.Receive(r"private$\q", seek=Seek.LAST)) is WAITS
    core.step(inputs.OwnerGone(1))
    core.pass_time(0)
    core.pass_time(1)
    assert sum(core.present().values()) == 3


def test_receives_that_were_put_off_are_served_in_their_order() -> None:
    core = Core()
    made(core, "q")
    send(core, r"private$\q", 10, 80 * ENDED_AT_ONCE)
    send(core, r"private$\q", 1_000, 2)
    core.now_us += 10_000_000
    for _ in range(3):
        assert core.ask(requests.Receive(r"private$\q")) is WAITS
    # Who has left, or does not wait any more, is given nothing.
    core.step(inputs.OwnerGone(1))
    assert core.ask(requests.Receive(r"private$\q")) is WAITS
    core.ask(requests.CancelReceive(core.asked))
    asked = core.asked
    for _ in range(3):
        core.ask(requests.Receive(r"private$\q"))
    core.pass_time(1)
    core.pass_time(1)
    first, second, third = (core.answers[asked + at] for at in (1, 2, 3))
    assert isinstance(first, Handed)
    assert isinstance(second, Handed)
    assert list(first.lookups + second.lookups) == [
        lookup_id(0, 80 * ENDED_AT_ONCE + at) for at in (1, 2)
    ]
    assert isinstance(third, ReceiveTimeout)


def test_a_message_that_is_over_is_not_found_by_its_identifier() -> None:
    core = Core()
    made(core, "q")
    send(core, r"private$\q", 10, 20 * ENDED_AT_ONCE)
    send(core, r"private$\q", 1_000)
    core.now_us += 10_000_000
    last = 20 * ENDED_AT_ONCE
    found = core.ask(requests.Receive(r"private$\q", lookup=lookup_id(0, last)))
    assert isinstance(found, MessageNotFound)
    assert sum(core.present().values()) == last, "one message was asked for, and others ended"
    found = core.ask(requests.Receive(r"private$\q", lookup=lookup_id(0, last + 1)))
    assert isinstance(found, Handed)


def test_many_whose_senders_ask_end_a_few_at_a_time() -> None:
    core = Core()
    made(core, "q")
    properties = Properties(time_to_be_received=10, journal=Journal.DEADLETTER)
    bodies = Run(bytes(3 * ENDED_AT_ONCE), array(LENGTH_TYPE, [1] * 3 * ENDED_AT_ONCE))
    core.ask(requests.Commit(0, (requests.SendItem(r"private$\q", properties, bodies=bodies),)))
    core.now_us += 10_000_000
    ended = []
    while left := len(core.manager.state.queues[r"private$\q"]):
        core.step(inputs.Tick())
        ended.append(left - len(core.manager.state.queues[r"private$\q"]))
    assert max(ended) <= ENDED_AT_ONCE
    assert len(core.manager.state.all_queues[DEAD_XACT]) == 3 * ENDED_AT_ONCE


def test_it_answers_to_names_that_it_has() -> None:
    """Who connects says the computer that it looks for (finding K13)."""
    manager = Core().manager
    assert manager.answers_to(IDENTITY.name) == IDENTITY.name
    assert manager.answers_to(f"{IDENTITY.name}.example") == f"{IDENTITY.name}.example"
    assert manager.answers_to("another") == IDENTITY.name
