"""What a transaction has sent together, a job sends together again, or says that it does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import onceq
from onceq.errors import ReceiveTimeout
from onceq.model.letters import DEAD_XACT
from onceq.model.limits import JOB_BATCH_MESSAGES, JOB_TRANSACTION_MESSAGES
from onceq.model.message import Journal
from onceq.model.views.looks import JobView
from onceq.testing.managers import Manager

Q, TO, OTHER = r"private$\q", r"private$\to", r"private$\other"


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    with Manager(tmp_path) as made:
        for name in (Q, TO, OTHER):
            made.qm.create_queue(name, transactional=True)
        yield made


def job(manager: Manager, action: str, queue: str, **more: object) -> JobView:
    started = manager.qm.jobs.start(action, queue, **more)  # type: ignore[arg-type]
    return manager.qm.jobs.wait(started.number)


def wholes(manager: Manager, queue: str) -> list[list[bytes]]:
    """The whole transactions of a queue, taken."""
    found: list[list[bytes]] = []
    while True:
        try:
            with manager.qm.transaction() as tx:
                whole = tx.receive_transaction(queue, timeout=0)
                assert whole.complete
                found.append(whole.bodies())
        except ReceiveTimeout:
            return found


def left(manager: Manager, queue: str) -> list[bytes]:
    try:
        return manager.qm.peek_many(queue, 10_000, timeout=0).bodies()
    except ReceiveTimeout:
        return []


def sent(manager: Manager, name: str, count: int, **more: object) -> list[bytes]:
    bodies = [b"%s%d" % (name.encode(), number) for number in range(count)]
    manager.qm.send_many(Q, bodies, transactional=True, **more)  # type: ignore[arg-type]
    return bodies


@pytest.mark.parametrize("size", [1, 3, 7, JOB_BATCH_MESSAGES, JOB_BATCH_MESSAGES + 30])
def test_whole_ones_stay_whole_wherever_a_page_ends(manager: Manager, size: int) -> None:
    """Finding J7."""
    given = [sent(manager, f"{number}.", size) for number in range(130 // size + 2)]
    moved = job(manager, "move", Q, to=TO)
    assert (moved.state, moved.torn) == ("done", 0)
    assert moved.looked == moved.done == moved.total == size * len(given)
    assert wholes(manager, TO) == given
    assert left(manager, TO) == left(manager, Q) == []


def test_what_came_late_goes_with_the_others(manager: Manager) -> None:
    with manager.qm.transaction() as tx:
        for number in range(3):
            tx.send(Q, b"m%d" % number, delay=60 if number == 1 else 0)
    others = [sent(manager, f"{number}.", 1) for number in range(JOB_BATCH_MESSAGES)]
    manager.put_forward(70)
    assert left(manager, Q)[-1] == b"m1"
    moved = job(manager, "move", Q, to=TO)
    assert (moved.done, moved.looked, moved.torn) == (67, 67, 0)
    assert wholes(manager, TO) == [[b"m0", b"m1", b"m2"], *others]


def test_letters_to_several_queues_go_home_as_they_came(manager: Manager) -> None:
    wanted = {"journal": Journal.DEADLETTER, "time_to_be_received": 30}
    with manager.qm.transaction() as tx:
        for number in range(3):
            to = f"DIRECT=OS:.\\{Q},DIRECT=OS:.\\{OTHER}" if number != 1 else Q
            tx.send(to, b"m%d" % number, **wanted)  # type: ignore[arg-type]
    manager.put_forward(60)
    assert len(left(manager, DEAD_XACT)) == 5
    assert job(manager, "return", DEAD_XACT).torn == 0
    assert wholes(manager, Q) == [[b"m0", b"m1", b"m2"]]
    assert wholes(manager, OTHER) == [[b"m0", b"m2"]]


def test_letters_that_are_mixed_go_home_as_they_came(manager: Manager) -> None:
    """Two queues were sent the same in one transaction: only the queue tells letters apart."""
    with manager.qm.transaction() as tx:
        for number in range(3):
            to = f"DIRECT=OS:.\\{Q},DIRECT=OS:.\\{OTHER}"
            tx.send(to, b"m%d" % number, journal=Journal.DEADLETTER)
    for _ in range(3):
        for queue in (Q, OTHER):
            with manager.qm.transaction() as tx:
                tx.reject(tx.receive(queue, timeout=0))
    returned = job(manager, "return", DEAD_XACT)
    assert (returned.done, returned.torn) == (6, 0)
    for queue in (Q, OTHER):
        assert wholes(manager, queue) == [[b"m0", b"m1", b"m2"]]


@pytest.mark.parametrize("how", ["large", "filtered", "taken", "limited"])
def test_what_it_tears_is_told_and_is_never_complete(manager: Manager, how: str) -> None:
    size = JOB_TRANSACTION_MESSAGES + 1 if how == "large" else 3
    more: dict[str, object] = {}
    with manager.qm.transaction() as tx:
        for number in range(size):
            tx.send(Q, b"m%d" % number, label="last" if number == size - 1 else "")
    if how == "filtered":
        more["which"] = onceq.letters.filter_of(label="last")
    elif how == "taken":
        manager.qm.receive(Q, timeout=0)
    elif how == "limited":
        more["limit"] = 2
    one = sent(manager, "n", 1)
    moved = job(manager, "move", Q, to=TO, **more)
    assert moved.torn == {"large": size, "filtered": 1, "taken": 2, "limited": 2}[how]
    assert wholes(manager, TO) == ([one] if how in ("large", "taken") else [])
    assert len(left(manager, TO)) == moved.torn
    told = manager.qm.jobs.get(moved.number)
    manager.crash()
    manager.start()
    assert manager.qm.jobs.get(moved.number).torn == told.torn == moved.torn


def test_a_member_that_cannot_be_sent_makes_the_others_parts(manager: Manager) -> None:
    """The target takes two of three."""
    manager.qm.set_queue(TO, quota_kb=1)
    manager.qm.send_many(Q, [b"m0", b"x" * 2_000, b"m2"], transactional=True)
    moved = job(manager, "move", Q, to=TO)
    assert (moved.done, moved.failed, moved.torn) == (2, 1, 2)
    assert wholes(manager, TO) == []
    assert left(manager, TO) == [b"m0", b"m2"]
