"""A commit with which the next transaction begins: it begins if the commit happens, and only then.

What is asked behind such a commit comes in the same write: it is in the inbox before anybody knows
how the commit ends.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onceq.core.transaction import unit_of_work
from onceq.errors import (
    IllegalFormatName,
    InsufficientResources,
    OnceqError,
    SendFailed,
    TransactionOver,
    UsageError,
)
from onceq.model import requests
from onceq.model.identity import TransactionId
from onceq.model.requests import Request
from onceq.model.results import Outcome, Sent
from onceq.model.shares import Thing
from onceq.packet.arrived import Batch
from tests.conformance.applications import item
from tests.conformance.world import Node, World
from tests.few import few

Q = "private$\\q"


@pytest.fixture
def a() -> Iterator[Node]:
    world = World("A")
    node = world["A"]
    node.create("q")
    node.once(Q, b"1", b"2", b"3")
    yield node
    world.close()


def together(node: Node, *asked: Request) -> list[object]:
    """Ask in one write; the answers."""
    numbers = [next(node.numbers) for _ in asked]
    for number, request in zip(numbers, asked, strict=True):
        request.owner, request.request = node.owner, number
        node.running.submit(request)
    node.pump()
    return [node.answers.pop(number) for number in numbers]


def held(node: Node, number: int) -> requests.Receive:
    return requests.Receive(Q, number, hold=True)


def taken(node: Node) -> int:
    tx = node.begin()
    assert node.receive(Q, tx=tx).run is not None
    return tx


def there(node: Node) -> list[tuple[bytes, int]]:
    return [(message.body, message.abort_count) for message in node.messages(Q)]


def test_the_next_begins_with_the_commit_and_takes_what_comes_next(a: Node) -> None:
    first, second = taken(a), next(a.numbers)
    sent, batch = together(a, requests.Commit(first, then=second), held(a, second))
    assert isinstance(sent, Sent)
    assert isinstance(batch, Batch)
    assert batch.bodies() == [b"2"]
    assert there(a) == [(b"3", 0)]
    a.commit(second)
    assert there(a) == [(b"3", 0)]
    assert not a.look("transactions")


def test_it_is_a_transaction_like_any_other(a: Node) -> None:
    first, second = taken(a), next(a.numbers)
    together(a, requests.Commit(first, then=second), held(a, second))
    a.abort(second)
    assert there(a) == [(b"2", 1), (b"3", 0)]


def test_it_is_lost_in_a_crash_and_the_commit_is_not(a: Node) -> None:
    first, second = taken(a), next(a.numbers)
    together(a, requests.Commit(first, then=second), held(a, second))
    a.kill()
    a.start()
    assert there(a) == [(b"2", 1), (b"3", 0)]


def test_after_a_send_that_is_wrong_in_itself_nothing_begins(a: Node) -> None:
    first, second = taken(a), next(a.numbers)
    wrong = item("DIRECT=nonsense", b"x")
    answers = together(a, requests.Commit(first, (wrong,), then=second), held(a, second))
    assert [type(one) for one in answers] == [IllegalFormatName, TransactionOver]
    a.commit(first)
    assert there(a) == [(b"2", 0), (b"3", 0)], "what comes next was not touched"


def test_after_a_send_that_dooms_nothing_begins(a: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*asked: object) -> None:
        raise InsufficientResources("full")

    first, second = taken(a), next(a.numbers)
    monkeypatch.setattr(unit_of_work, "check_all_sends", full)
    doomed = SendFailed(Q)
    a.running.manager._step.units.transactions[a.owner, first].doomed = doomed
    answers = together(a, requests.Commit(first, then=second), held(a, second))
    assert answers[0] is doomed
    assert isinstance(answers[1], TransactionOver)
    assert there(a) == [(b"1", 1), (b"2", 0), (b"3", 0)]


def test_after_a_commit_that_comes_too_late_nothing_begins(a: Node) -> None:
    first, second = taken(a), next(a.numbers)
    id = TransactionId(a.world["A"].clock.read().wall_s.to_bytes(4, "little") + bytes(12), 1)
    assert a.outcome(id) is Outcome.ABORTED
    answers = together(a, requests.Commit(first, (), id, second), held(a, second))
    assert [type(one) for one in answers] == [TransactionOver, TransactionOver]
    assert there(a) == [(b"1", 1), (b"2", 0), (b"3", 0)]


def test_under_a_number_in_use_nothing_begins_and_nothing_is_committed(a: Node) -> None:
    first, other = taken(a), a.begin()
    for number in (other, first):
        with pytest.raises(UsageError):
            a.commit(first, then=number)
    assert len(a.look("transactions")) == 2
    a.abort(first)
    assert there(a) == [(b"1", 1), (b"2", 0), (b"3", 0)]


def test_where_no_more_can_begin_whatever_is_asked_of_it_says_so(
    a: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    few(monkeypatch, Thing.TRANSACTIONS, 1)
    a.begin()
    number = next(a.numbers)
    sent, refused = together(a, requests.Commit(0, (item(Q, b"4"),), then=number), held(a, number))
    assert isinstance(sent, Sent), "the commit itself needs no room"
    assert isinstance(refused, InsufficientResources)


def test_a_number_below_zero_is_none() -> None:
    with pytest.raises(OnceqError):
        requests.Commit(1, then=-1).check()
