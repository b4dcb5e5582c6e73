"""What the policy of a queue does where it cannot do what it says."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from onceq.core.decision import Handed
from onceq.core.ending.ending import ENDED_AT_ONCE
from onceq.core.inputs import Tick
from onceq.model import requests
from onceq.model.message import Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import Run
from onceq.model.shares import Thing
from tests.few import few
from tests.unit.core.alone import Core
from tests.unit.core.effort import stays_the_same

Q = r"private$\q"


def test_a_message_stays_where_there_can_be_no_subqueue_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = Core()
    rule = QueueProperties("q", transactional=True, poison_attempts=1, poison_then="move:poison")
    core.ask(requests.CreateQueue(properties=rule, instance=b"Q" * 16))
    few(monkeypatch, Thing.SUBQUEUES, 0)
    item = requests.SendItem(r"DIRECT=OS:.\private$\q", Properties(), Run.of((b"a",)))
    core.ask(requests.Commit(0, (item,)))
    core.ask(requests.Begin(1))
    core.ask(requests.Receive(Q, 1))
    assert core.ask(requests.Abort(1)) is None
    assert core.present() == {"q": 1}
    core.again()
    monkeypatch.undo()
    core.manager = core.again()
    assert core.present() == {"q;poison": 1}, "this start finds room"


def given_back(count: int, **rule: int) -> Core:
    """A queue with a policy; so many messages were received in one transaction, and given back."""
    core = Core()
    made = QueueProperties("q", transactional=True, poison_then="move:poison", **rule)  # type: ignore[arg-type]
    core.ask(requests.CreateQueue(properties=made, instance=b"Q" * 16))
    send(core, [b"number %d;" % number for number in range(count)])
    undo(core, 1, count)
    return core


def send(core: Core, bodies: list[bytes]) -> None:
    item = requests.SendItem(r"DIRECT=OS:.\private$\q", Properties(), Run.of(bodies))
    core.ask(requests.Commit(0, (item,)))


def undo(core: Core, number: int, count: int) -> None:
    core.ask(requests.Begin(number))
    core.ask(requests.Receive(Q, number, count))
    assert core.ask(requests.Abort(number)) is None


def in_steps(core: Core) -> list[dict[str, int]]:
    """What is where after each step that goes on."""
    seen: list[dict[str, int]] = [core.present()]
    while core.manager.at_work:
        core.step(Tick())
        seen.append(core.present())
    return seen


def test_many_messages_come_back_in_several_steps_and_in_order() -> None:
    count = 2 * ENDED_AT_ONCE + 100
    core = given_back(count, poison_attempts=1, poison_retry_after=60, poison_retries=1)
    assert core.present() == {"q;retry": count}
    core.now_us += 61_000_000
    core.step(Tick())
    # A tick does a portion for its timer, and one of what is at work.
    assert in_steps(core) == [{"q": 2 * ENDED_AT_ONCE, "q;retry": 100}, {"q": count}]
    first = core.ask(requests.Receive(Q))
    assert isinstance(first, Handed)
    assert b"number 0;" in core.bytes_of(first.pieces)
    timer = core.manager.next_timer()
    assert timer is None or timer > core.now_us


def test_a_message_given_back_costs_the_same_where_many_wait_for_another_attempt() -> None:
    def make(count: int) -> Callable[[], object]:
        core = given_back(count, poison_attempts=1, poison_retry_after=60, poison_retries=1)
        send(core, [b"one more"])
        core.ask(requests.Begin(2))
        core.ask(requests.Receive(Q, 2))
        return partial(core.ask, requests.Abort(2))

    stays_the_same(make, small=20, large=2_000)


def test_a_new_policy_looks_at_what_was_given_back_before_in_several_steps() -> None:
    count = ENDED_AT_ONCE + 100
    core = given_back(count)
    core.ask(requests.SetQueue(name=Q, values={"poison_attempts": 1}))
    first = {"q;poison": ENDED_AT_ONCE, "q": 100}
    assert in_steps(core) == [first, {"q;poison": count}]


def test_a_policy_that_ends_brings_all_back_in_several_steps() -> None:
    count = ENDED_AT_ONCE + 100
    core = given_back(count, poison_attempts=1, poison_retry_after=60, poison_retries=1)
    core.ask(requests.SetQueue(name=Q, values={"poison_attempts": 0}))
    assert in_steps(core) == [{"q": ENDED_AT_ONCE, "q;retry": 100}, {"q": count}]


def test_a_queue_that_is_deleted_meanwhile_ends_the_work() -> None:
    core = given_back(2 * ENDED_AT_ONCE, poison_attempts=1, poison_retry_after=60)
    core.ask(requests.SetQueue(name=Q, values={"poison_attempts": 0}))
    core.ask(requests.DeleteQueue(Q))
    in_steps(core)
    assert core.present() == {}
