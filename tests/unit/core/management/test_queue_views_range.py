"""What stands in a range of places: holes are no messages, and the first locked one is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceq.client.plans.queues import count_range
from onceq.core.management import queue_views
from onceq.core.state.position_block import CHUNK
from onceq.core.state.queues import lookup_id
from onceq.core.state.records import Op, RangeChange
from onceq.core.step import units
from onceq.errors import InvalidParameter, QueueNotFound
from onceq.model import requests
from onceq.model.message import Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import Run
from onceq.model.views.queues import RangeAsked, RangeView
from tests.unit.core.alone import Core

QUEUE = r"private$\q"
BASE = lookup_id(0, 0)
"""Before the first place of a transactional queue; the tests count places from there."""


def filled(*bodies: bytes, **properties: Any) -> Core:
    """A manager whose queue has these messages, at the places 1, 2, 3 ..."""
    core = Core()
    made = QueueProperties(name="q", transactional=True)
    core.ask(requests.CreateQueue(properties=made, instance=bytes(16)))
    if bodies:
        send(core, *bodies, **properties)
    return core


def send(core: Core, *bodies: bytes, **properties: Any) -> None:
    item = requests.SendItem(f"DIRECT=OS:.\\{QUEUE}", Properties(**properties), Run.of(bodies))
    core.ask(requests.Commit(0, (item,)))


def view(core: Core, after: int, to: int, messages: int = 0, bytes: int = 0) -> RangeView:
    asked = RangeAsked(QUEUE, BASE + after, BASE + to, messages, bytes)
    told = core.ask(requests.Look("range", asked.text()))
    assert isinstance(told, RangeView), told
    return counted(told)


def counted(told: RangeView) -> RangeView:
    return replace(told, to=told.to - BASE, locked=told.locked and told.locked - BASE)


def whole(core: Core, first: int, last: int, **limits: int) -> RangeView:
    """The same, as the client library asks for it."""
    plan = count_range(None, QUEUE, BASE + first, BASE + last, **limits)  # type: ignore[arg-type]
    return counted(answered(plan, core.ask))


def answered(plan: Any, ask: Callable[[Any], object]) -> RangeView:
    reply: object = None
    try:
        while True:
            reply = ask(plan.send(reply).asked)
            assert isinstance(reply, RangeView), reply
    except StopIteration as over:
        found: RangeView = over.value
        return found


def take(core: Core, *places: int, transaction: int = 0) -> None:
    """Somebody receives messages by their places."""
    if transaction:
        core.ask(requests.Begin(transaction))
    for place in places:
        core.ask(requests.Receive(QUEUE, transaction, lookup=BASE + place))


def test_a_hole_is_no_message() -> None:
    core = filled(*[b"x"] * 10)
    take(core, 3, 4)
    assert view(core, 0, 10) == RangeView(to=10, messages=8)
    assert view(core, 2, 4) == RangeView(to=4)
    assert view(core, 0, 1_000) == RangeView(to=1_000, messages=8)


def test_it_ends_before_the_first_locked_message() -> None:
    core = filled(*[b"x"] * 10)
    take(core, 3)
    take(core, 6, 8, transaction=7)
    assert view(core, 0, 10) == RangeView(to=5, messages=4, locked=6)
    assert view(core, 5, 10) == RangeView(to=5, locked=6)
    assert view(core, 0, 5) == RangeView(to=5, messages=4)
    core.ask(requests.Abort(7))
    assert view(core, 0, 10) == RangeView(to=10, messages=9)


def test_what_an_operator_has_purged_is_no_lock_although_a_transaction_holds_it() -> None:
    """It never comes back to its place, whatever becomes of the transaction."""
    core = filled(*[b"x"] * 5)
    take(core, 2, transaction=7)
    core.ask(requests.PurgeQueue(QUEUE))
    send(core, b"y", b"z")
    told = view(core, 0, 7)
    assert (told.messages, told.locked, told.ended) == (2, 0, {"purged": 4})


def test_it_ends_behind_so_many_messages_or_bytes() -> None:
    core = filled(*[b"x"] * 10)
    take(core, 2)
    assert view(core, 0, 10, messages=3) == RangeView(to=4, messages=3)
    size = view(core, 0, 1, bytes=1 << 30).bytes
    assert size > 1
    assert view(core, 0, 10, bytes=3 * size + 1) == RangeView(to=4, messages=3, bytes=3 * size)
    assert view(core, 0, 10, bytes=1) == RangeView(to=1, messages=1, bytes=size)
    assert view(core, 0, 10, messages=2, bytes=9 * size).messages == 2


def test_a_long_range_is_told_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_views, "TABLES_AT_ONCE", 2)
    monkeypatch.setattr(queue_views, "SIZES_AT_ONCE", 1)
    count = 5 * CHUNK
    core = filled(*[b"x"] * count)
    take(core, 5, CHUNK + 5)
    first = view(core, 0, count)
    assert first.more
    assert first.messages < 2 * CHUNK
    assert whole(core, 1, count) == RangeView(to=count, messages=count - 2)
    size = view(core, 0, 1, bytes=1 << 30).bytes
    sized = whole(core, 1, count, bytes=(count - 10) * size)
    assert (sized.messages, sized.bytes) == (count - 10, (count - 10) * size)
    assert whole(core, 1, count, messages=3 * CHUNK).messages == 3 * CHUNK
    take(core, count, transaction=3)
    assert whole(core, 1, count).locked == count


def test_empty_tables_are_not_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_views, "TABLES_AT_ONCE", 3)
    count = 6 * CHUNK
    core = filled(*[b"x"] * count)
    core.ask(requests.Remove(QUEUE, 0, BASE + 10, BASE + count - 10))
    assert view(core, 0, count) == RangeView(to=count, messages=19)


def test_a_large_message_is_not_added_to_another_portion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_views, "SIZES_AT_ONCE", 1)
    core = filled(*[b"x"] * (CHUNK - 1), b"y" * 50_000)
    small = view(core, 0, 1, bytes=1 << 30).bytes * (CHUNK - 1)
    found = whole(core, 1, CHUNK, bytes=small + 100)
    assert (found.to, found.messages, found.bytes) == (CHUNK - 1, CHUNK - 1, small)


def test_what_became_of_those_that_nobody_received_is_told() -> None:
    core = filled(*[b"x"] * 3)
    send(core, b"y", b"y", time_to_be_received=5)
    send(core, b"z", b"z")
    core.pass_time(10)
    take(core, 1)
    core.ask(requests.MoveMessage(QUEUE, f"{QUEUE};aside", BASE + 2))
    told = view(core, 0, 7)
    assert told.ended == {"expired": 2, "moved": 1}
    assert told.messages == 3
    assert view(core, 2, 4).ended == {"expired": 1}
    core.ask(requests.PurgeQueue(QUEUE))
    assert view(core, 0, 7).ended == {"expired": 2, "moved": 1, "purged": 3}


def test_no_more_is_kept_of_ends_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "QUEUES_KEPT", 2)
    kept = units.RecentEndings()
    for queue in range(5):
        for at in range(1, 1_000, 2):
            kept.note(RangeChange(Op.SHIFT, queue, 0, at, 1))
    assert not kept.count(2, 0, 0, 1_000)
    assert kept.count(4, 0, 0, 1_000) == {"moved": units.RANGES_KEPT}
    kept.forget(4)
    assert not kept.count(4, 0, 0, 1_000)


@pytest.mark.parametrize("text", ["", "1 2 3 4", "1 2 x 4 q", "-1 2 3 4 q", f"1 {1 << 64} 0 0 q"])
def test_what_makes_no_sense_is_refused(text: str) -> None:
    assert isinstance(filled().ask(requests.Look("range", text)), InvalidParameter)


def test_a_queue_that_is_not_there() -> None:
    assert isinstance(filled().ask(requests.Look("range", "0 1 0 0 private$\\no")), QueueNotFound)


@settings(max_examples=60)
@given(
    states=st.lists(st.sampled_from("....xxL"), max_size=30),
    bounds=st.tuples(st.integers(0, 32), st.integers(0, 32)), most=st.integers(0, 12),
)  # fmt: skip
def test_it_is_what_one_finds_by_hand(
    states: list[str], bounds: tuple[int, int], most: int
) -> None:
    core = filled(*[b"x"] * len(states))
    take(core, *[at for at, state in enumerate(states, 1) if state == "x"])
    take(core, *[at for at, state in enumerate(states, 1) if state == "L"], transaction=9)
    after, to = min(bounds), max(bounds)
    found, locked, end = 0, 0, to
    for at in range(after + 1, min(to, len(states)) + 1):
        if states[at - 1] == "L":
            locked, end = at, at - 1
            break
        if most and found == most and states[at - 1] == ".":
            break
        found += states[at - 1] == "."
    told = view(core, after, to, most)
    assert told.messages == found
    if found < most or not most:
        assert (told.locked, told.to) == (locked, end)
