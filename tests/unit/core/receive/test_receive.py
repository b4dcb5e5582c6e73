"""Who gets a message, and when: several readers, waits, closed handles (RCV-1 to RCV-4)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from onceq.core import inputs
from onceq.core.decision import Handed
from onceq.core.receive.receive import TIMERS_LOOKED_AT
from onceq.errors import (
    InvalidHandle,
    InvalidParameter,
    OperationCancelled,
    QueueDeleted,
    ReceiveTimeout,
    SharingViolation,
)
from onceq.model import requests
from onceq.model.marks import FOR_EVER_US
from onceq.model.message import Properties
from onceq.model.queue import QueueProperties
from onceq.model.results import Opened
from onceq.model.run import Run
from tests.unit.core.alone import WAITS, Core
from tests.unit.core.effort import stays_the_same

Q = r"private$\q"
LONG_US = 1 << 50


def made() -> Core:
    core = Core()
    properties = QueueProperties("q", transactional=True)
    core.ask(requests.CreateQueue(properties=properties, instance=b"Q" * 16))
    return core


@pytest.fixture
def core() -> Core:
    return made()


def send(core: Core, *bodies: bytes) -> None:
    item = requests.SendItem(r"DIRECT=OS:.\private$\q", Properties(), Run.of(bodies))
    core.ask(requests.Commit(0, (item,)), owner=99)


def waiting(core: Core, owner: int, *, peek: bool = False, tx: int = 0) -> int:
    """A receive that waits; its request number."""
    asked = core.ask(
        requests.Receive(Q, tx, wait_until_us=LONG_US, peek=peek),
        owner=owner,
    )
    assert asked is WAITS
    return core.asked


def got(core: Core, request: int) -> int:
    """Which message a receive was given, counted from 1; 0: none yet."""
    answer = core.answers.get(request)
    if answer is None:
        return 0
    assert isinstance(answer, Handed), answer
    return int(answer.lookups[0]) & 0xFFFF


def test_readers_are_served_in_the_order_in_which_they_came(core: Core) -> None:
    readers = [waiting(core, owner) for owner in (2, 3, 4)]
    send(core, b"a", b"b")
    assert [got(core, reader) for reader in readers] == [1, 2, 0]
    send(core, b"c")
    assert got(core, readers[2]) == 3


def test_a_message_goes_to_those_that_look_and_then_to_the_first_that_takes_it(core: Core) -> None:
    reader, looker, later = (
        waiting(core, 2),
        waiting(core, 3, peek=True),
        waiting(core, 4),
    )
    send(core, b"a")
    assert (got(core, reader), got(core, looker), got(core, later)) == (1, 1, 0)


def test_an_abort_wakes_who_waits(core: Core) -> None:
    send(core, b"a")
    core.ask(requests.Begin(1))
    assert isinstance(core.ask(requests.Receive(Q, 1)), Handed)
    reader = waiting(core, 2)
    core.ask(requests.Abort(1))
    assert got(core, reader) == 1


def steer(core: Core, action: requests.Steer) -> None:
    assert core.ask(requests.SteerOutgoing(Q, action)) is None


def test_while_it_is_paused_who_looks_is_served_and_the_others_in_their_turn_when_it_ends(
    core: Core,
) -> None:
    readers = [waiting(core, owner) for owner in (2, 3)]
    looker = waiting(core, 4, peek=True)
    steer(core, requests.Steer.PAUSE)
    send(core, b"a")
    assert (*(got(core, reader) for reader in readers), got(core, looker)) == (0, 0, 1)
    readers.append(waiting(core, 5))
    send(core, b"b")
    steer(core, requests.Steer.RESUME)
    assert [got(core, reader) for reader in readers] == [1, 2, 0]


def test_a_wait_at_a_paused_queue_ends_in_time_and_says_why(core: Core) -> None:
    steer(core, requests.Steer.PAUSE)
    send(core, b"a")
    assert core.ask(requests.Receive(Q, wait_until_us=core.now_us + 5_000_000)) is WAITS
    reader = core.asked
    core.pass_time(5)
    told = core.answers[reader]
    assert isinstance(told, ReceiveTimeout)
    assert "paused" in told.text


def test_many_who_wait_at_a_paused_queue_are_not_looked_through_for_each_message() -> None:
    def work(size: int) -> Callable[[], None]:
        core = made()
        for owner in range(2, 2 + size):
            waiting(core, owner)
        steer(core, requests.Steer.PAUSE)
        return lambda: send(core, b"a")

    stays_the_same(work, small=5, large=50)


def test_a_wait_ends_in_time(core: Core) -> None:
    until = core.now_us + 5_000_000
    assert core.ask(requests.Receive(Q, wait_until_us=until)) is WAITS
    reader = core.asked
    core.pass_time(4)
    assert reader not in core.answers
    core.pass_time(1)
    assert isinstance(core.answers[reader], ReceiveTimeout)
    send(core, b"a")
    assert isinstance(core.ask(requests.Receive(Q)), Handed)


def test_who_has_it_for_himself_keeps_others_out(core: Core) -> None:
    send(core, b"a", b"b")
    opened = core.ask(requests.OpenQueue(Q, requests.Access.RECEIVE, requests.Share.DENY_RECEIVE))
    assert isinstance(opened, Opened)
    ranges = ((1 + (7 << 56), 1 + (7 << 56)),)
    core.ask(requests.Begin(1), owner=2)
    for refused in (
        core.ask(requests.Receive(Q), owner=2),
        core.ask(requests.Claim(Q, 1, ranges), owner=2),
        core.ask(
            requests.MoveMessage(Q, Q + ";x", ranges[0][0]),
            owner=2,
        ),
        core.ask(requests.PurgeQueue(Q), owner=2),
    ):
        assert isinstance(refused, SharingViolation)
    assert isinstance(core.ask(requests.Receive(Q, peek=True), owner=2), Handed)
    handle = opened.handle
    assert isinstance(core.ask(requests.Receive(Q, handle=handle)), Handed)


def test_who_is_kept_out_is_told_by_whom(core: Core) -> None:
    deny = (requests.Access.RECEIVE, requests.Share.DENY_RECEIVE)
    core.ask(requests.OpenQueue(Q, *deny, "reader one"))
    for refused in (
        core.ask(requests.OpenQueue(Q, *deny), owner=2),
        core.ask(requests.Receive(Q), owner=2),
        core.ask(requests.Remove(Q, 0, 1, 2), owner=2),
    ):
        assert isinstance(refused, SharingViolation)
        assert re.search(r"\(held by reader one since \d\d:\d\d:\d\d UTC\)", refused.text)


def test_turns_tell_whether_somebody_was_there_meanwhile(core: Core) -> None:
    def turn(owner: int, share: requests.Share) -> int:
        opened = core.ask(
            requests.OpenQueue(Q, requests.Access.RECEIVE, share),
            owner=owner,
        )
        assert isinstance(opened, Opened)
        core.ask(requests.CloseQueue(opened.handle), owner=owner)
        return opened.turn

    assert turn(1, requests.Share.DENY_RECEIVE) == 1
    assert turn(1, requests.Share.DENY_RECEIVE) == 2
    assert turn(2, requests.Share.DENY_NONE) == 0
    assert turn(1, requests.Share.DENY_RECEIVE) == 3
    assert turn(2, requests.Share.DENY_RECEIVE) == 4
    assert turn(1, requests.Share.DENY_RECEIVE) == 5


def test_a_closed_handle_ends_waits_and_cursors(core: Core) -> None:
    opened = core.ask(requests.OpenQueue(Q, requests.Access.RECEIVE))
    assert isinstance(opened, Opened)
    cursor = core.ask(requests.OpenCursor(opened.handle))
    assert isinstance(cursor, int)
    stands = core.ask(
        requests.Receive(
            Q,
            wait_until_us=LONG_US,
            handle=opened.handle,
            cursor=cursor,
            peek=True,
        )
    )
    assert stands is WAITS
    reader = core.asked
    core.ask(requests.CloseQueue(opened.handle))
    error = core.answers[reader]
    assert isinstance(error, OperationCancelled)
    assert error.hresult == 0xC00E0008
    gone = core.ask(requests.Receive(Q, cursor=cursor, peek=True))
    assert isinstance(gone, InvalidHandle)
    assert not core.manager._step.readers.cursors


def test_a_cursor_waits_for_the_next_message(core: Core) -> None:
    send(core, b"a")
    opened = core.ask(requests.OpenQueue(Q, requests.Access.PEEK))
    assert isinstance(opened, Opened)
    cursor = core.ask(requests.OpenCursor(opened.handle))
    assert isinstance(cursor, int)

    def look(seek: requests.Seek) -> object:
        return core.ask(
            requests.Receive(Q, peek=True, seek=seek, cursor=cursor, wait_until_us=LONG_US)
        )

    assert isinstance(look(requests.Seek.CURRENT), Handed)
    assert look(requests.Seek.NEXT) is WAITS
    reader = core.asked
    send(core, b"b")
    assert got(core, reader) == 2
    taken = core.ask(requests.Receive(Q, cursor=cursor, handle=opened.handle))
    assert isinstance(taken, InvalidHandle), "it was opened to look only"


def test_cursors_belong_to_their_owners_and_queues(core: Core) -> None:
    opened = core.ask(requests.OpenQueue(Q, requests.Access.RECEIVE))
    assert isinstance(opened, Opened)
    cursor = core.ask(requests.OpenCursor(opened.handle))
    assert isinstance(cursor, int)
    for make in (
        requests.OpenCursor(opened.handle),
        requests.CloseCursor(cursor),
        requests.Receive(Q, cursor=cursor, peek=True),
    ):
        assert isinstance(core.ask(make, owner=2), InvalidHandle)
    core.step(inputs.OwnerGone(1))
    assert not core.manager._step.readers.cursors
    assert not core.manager._step.readers.handles


def test_a_wait_at_a_subqueue_keeps_it(core: Core) -> None:
    send(core, b"a")
    asked = core.ask(requests.Receive(Q + ";x", wait_until_us=LONG_US))
    assert asked is WAITS
    reader = core.asked
    assert len(core.manager.state.subqueues) == 1
    place = 1 + (7 << 56)
    core.ask(requests.MoveMessage(Q, Q + ";x", place))
    assert got(core, reader) == 1
    assert not core.manager.state.subqueues
    assert core.ask(requests.Receive(Q + ";x", wait_until_us=LONG_US)) is WAITS
    core.step(inputs.OwnerGone(1))
    assert not core.manager.state.subqueues


def test_a_wait_at_a_subqueue_ends_with_its_queue(core: Core) -> None:
    assert core.ask(requests.Receive(Q + ";x", wait_until_us=LONG_US)) is WAITS
    reader = core.asked
    core.ask(requests.DeleteQueue(Q))
    assert isinstance(core.answers[reader], QueueDeleted)
    assert not core.manager.state.subqueues


@pytest.mark.parametrize("ranges", [((5, 4),), ((1, 2), (2, 3)), ((1, 1 << 60),), ((0, 1 << 33),)])
def test_claims_of_nonsense(core: Core, ranges: tuple[tuple[int, int], ...]) -> None:
    core.ask(requests.Begin(1))
    send(core, b"a", b"b", b"c")
    base = 7 << 56
    made = tuple((base + a, base + b) for a, b in ranges)
    refused = core.ask(requests.Claim(Q, 1, made))
    assert isinstance(refused, InvalidParameter)


def test_allow_peek_is_for_transactions(core: Core) -> None:
    send(core, b"a")
    place = 1 + (7 << 56)
    refused = core.ask(requests.Receive(Q, lookup=place, allow_peek=True))
    assert isinstance(refused, InvalidParameter)


def places(core: Core, *values: Any, **more: Any) -> list[int]:
    handed = core.ask(requests.Receive(Q, *values, **more))
    assert isinstance(handed, Handed)
    return list(handed.lookups)


def test_allow_peek_shows_all_that_was_taken(core: Core) -> None:
    """Finding K12: of several it noted the first only."""
    send(core, b"a", b"b", b"c", b"d")
    everything = places(core, count_max=9, peek=True)
    core.ask(requests.Begin(1))
    assert places(core, 1, 3, allow_peek=True) == everything[:3]
    assert places(core, count_max=9, peek=True) == everything
    core.ask(requests.Abort(1))
    assert not any(queue.shown for queue in core.manager.state.queues.values())
    core.ask(requests.Begin(2))
    core.ask(requests.Receive(Q, 2, 3))
    assert places(core, count_max=9, peek=True) == everything[3:]


def test_the_time_that_ran_out_under_a_lock_counts_at_once_at_the_abort(core: Core) -> None:
    item = requests.SendItem(
        r"DIRECT=OS:.\private$\q", Properties(time_to_be_received=5), Run.of([b"a"])
    )
    core.ask(requests.Commit(0, (item,)))
    core.ask(requests.Begin(1))
    assert isinstance(core.ask(requests.Receive(Q, 1)), Handed)
    core.pass_time(100)
    reader = waiting(core, 2)
    core.ask(requests.Abort(1))
    assert got(core, reader) == 0
    assert len(core.manager.state.queues[Q]) == 0


@pytest.mark.parametrize("large_first", [True, False])
def test_what_does_not_fit_is_not_passed_over(core: Core, large_first: bool) -> None:
    """A small message of low priority stands behind a large one of high priority, also where only
    the small one would fit into the answer; whoever walks on behind the last misses nothing."""
    properties = QueueProperties("p", transactional=False)
    core.ask(requests.CreateQueue(properties=properties, instance=b"P" * 16))
    sizes = (3_000, 10) if large_first else (10, 3_000)
    for priority, size in ((6, 10), (5, sizes[0]), (5, sizes[1]), (1, 10)):
        wish = Properties(priority=priority)
        item = requests.SendItem(r"DIRECT=OS:.\private$\p", wish, Run.of([b"x" * size]))
        core.step(requests.Send(0, (item,), owner=1, request=0))

    def page(after: int, bytes_max: int) -> list[int]:
        found = core.ask(
            requests.Receive(
                r"private$\p",
                count_max=9,
                bytes_max=bytes_max,
                peek=True,
                after=after,
            )
        )
        assert isinstance(found, Handed | ReceiveTimeout)
        return list(found.lookups) if isinstance(found, Handed) else []

    whole, found = page(0, 1 << 20), page(0, 1_500)
    assert len(whole) == 4
    while more := page(found[-1], 1_500):
        found += more
    assert found == whole


def receiving(core: Core, until_us: int) -> int:
    """A receive that may wait until then; its request number."""
    core.ask(requests.Receive(Q, wait_until_us=until_us))
    return core.asked


def test_a_queue_forgets_receives_whose_time_is_over(core: Core) -> None:
    queue = core.manager.state.queues[Q]
    for _ in range(3):
        receiving(core, core.now_us + 1_000_000)
        core.pass_time(2)
        waits = receiving(core, LONG_US)
        assert len(queue.waiting) == 1
        core.ask(requests.CancelReceive(waits))
        assert not queue.waiting


def test_a_message_costs_the_same_where_many_wait_for_it() -> None:
    def make(count: int) -> Callable[[], None]:
        core = made()
        for owner in range(count):
            waiting(core, owner + 1)
        return partial(send, core, b"x")

    stays_the_same(make, small=10, large=500)


def opened(core: Core, owner: int, access: requests.Access = requests.Access.RECEIVE) -> int:
    answer = core.ask(requests.OpenQueue(Q, access), owner=owner)
    assert isinstance(answer, Opened)
    return answer.handle


def test_a_receive_costs_the_same_where_many_have_the_queue_open() -> None:
    def make(count: int) -> Callable[[], object]:
        core = made()
        for owner in range(count):
            opened(core, owner + 1)
        send(core, b"x")
        return partial(core.ask, requests.Receive(Q), owner=count + 1)

    stays_the_same(make, small=10, large=500)


def test_to_close_a_handle_costs_the_same_where_there_are_many_readers() -> None:
    def make(count: int) -> Callable[[], object]:
        core = made()
        for owner in range(count):
            handle = opened(core, owner + 1)
            core.ask(requests.OpenCursor(handle), owner=owner + 1)
            core.ask(requests.Receive(Q, wait_until_us=LONG_US, handle=handle), owner=owner + 1)
        return partial(core.step, inputs.OwnerGone(1))

    stays_the_same(make, small=10, large=500)


def test_those_that_only_look_go_first_and_who_looks_elsewhere_stays(core: Core) -> None:
    send(core, b"a")
    (lookup,) = core.ask(requests.Receive(Q, peek=True)).lookups  # type: ignore[attr-defined]
    core.ask(requests.Receive(Q))
    core.ask(requests.Receive(Q, wait_until_us=LONG_US, peek=True, after=lookup + 5), owner=1)
    elsewhere = core.asked
    taker, looker, later = waiting(core, 2), waiting(core, 3, peek=True), waiting(core, 4)
    send(core, b"b")
    assert [got(core, one) for one in (elsewhere, taker, looker, later)] == [0, 2, 2, 0]
    send(core, b"c", b"d")
    assert [got(core, one) for one in (elsewhere, later)] == [0, 3]


def test_timers_of_receives_that_were_answered_do_not_pile_up(core: Core) -> None:
    kept = receiving(core, core.now_us + 7_200_000_000)
    for until_us in (FOR_EVER_US, core.now_us + 3_600_000_000):
        for _ in range(2 * TIMERS_LOOKED_AT):
            core.ask(requests.CancelReceive(receiving(core, until_us)))
    assert len(core.manager._step.timers) <= TIMERS_LOOKED_AT
    core.pass_time(7_200)
    core.pass_time(1)
    assert isinstance(core.answers[kept], ReceiveTimeout)


def test_what_was_held_past_its_time_expires_where_it_is_moved_to(core: Core) -> None:
    item = requests.SendItem(
        r"DIRECT=OS:.\private$\q", Properties(time_to_be_received=10), Run.of((b"a",))
    )
    core.ask(requests.Commit(0, (item,)))
    core.ask(requests.Begin(1))
    core.ask(requests.MoveMessage(Q, Q + ";x", 1 + (7 << 56), 1))
    core.pass_time(20)
    assert core.present() == {"q held": 1}
    core.ask(requests.Commit(1))
    core.pass_time(1)
    assert not core.present()


@pytest.mark.parametrize("peek", [False, True])
def test_a_receive_that_waits_for_copies_gets_them_as_they_are_made(core: Core, peek: bool) -> None:
    core.ask(requests.SetQueue(Q, {"journal": True}))
    asked = requests.Receive(f"{Q};journal", wait_until_us=LONG_US, peek=peek)
    assert core.ask(asked, owner=1) is WAITS
    request = core.asked
    send(core, b"1")
    assert got(core, request) == 0
    core.ask(requests.Receive(Q))
    assert got(core, request) == 1
