"""Queue properties and their change rules (Q-42, PRP-7), case 35."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from onceq.errors import (
    AuthenticationNotSupported,
    EncryptionNotSupported,
    IllegalPropertyId,
    IllegalPropertyValue,
    InsufficientResources,
    MulticastNotSupported,
    OnceqError,
    PropertyNotAllowed,
    QueueNotFound,
    UnsupportedFormatName,
    WrongQueueKind,
)
from onceq.model import requests
from tests.conformance.world import Node, World, Worlds

Q = "private$\\q"


def set_queue(node: Node, name: str, /, **values: Any) -> Any:
    return node.ask(requests.SetQueue(name, values))


@pytest.fixture
def a() -> Node:
    node = World("A")["A"]
    node.create("q")
    return node


def test_case_035_transactional_never_changes(worlds: Worlds) -> None:
    a = worlds("A")["A"]
    a.create("q")
    a.create("n", transactional=False)
    plain = "private$\\n"
    for name, now in ((Q, True), (plain, False)):
        before = a.look("queue", name)
        assert before.transactional is now
        changes: list[dict[str, Any]] = [{}, {"label": "x"}]
        for to, more in product((not now, now), changes):
            with pytest.raises(PropertyNotAllowed) as caught:
                set_queue(a, name, transactional=to, **more)
            assert caught.value.hresult == 0xC00E003E
        assert a.look("queue", name) == before
        a.crash()
        a.start()
        assert a.look("queue", name) == before
    a.once(Q, b"still transactional")
    a.send(0, plain, b"still plain")
    with pytest.raises(WrongQueueKind) as wrong:
        a.once(plain, b"not for it")
    assert wrong.value.hresult == 0xC00E0050
    with pytest.raises(WrongQueueKind, match="takes only what is sent in a transaction"):
        a.send(0, Q, b"not for it")
    assert a.bodies(Q) == [b"still transactional"]
    assert a.bodies(plain) == [b"still plain"]


def test_what_may_change_does_and_stays_so_over_a_crash_and_a_checkpoint(a: Node) -> None:
    values: dict[str, Any] = {
        "label": "Orders", "quota_kb": 100, "journal": True, "journal_quota_kb": 7,
        "type": b"T" * 16, "priv_level": 0, "authenticate": False,
    }  # fmt: skip
    a.world.run(5)
    after = set_queue(a, Q, **values)
    assert {name: getattr(after, name) for name in values} == values
    assert after.modified == after.created + 5
    seen = a.look("queue", Q)
    a.power_cut()
    a.start()
    assert a.look("queue", Q) == seen
    assert a.engine is not None
    a.engine.checkpoint()
    a.kill()
    a.start()
    assert a.look("queue", Q) == seen
    assert (seen.label, seen.quota_kb, seen.journal, seen.journal_quota_kb) == (
        "Orders", 100, True, 7,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"priv_level": 2}, EncryptionNotSupported),
        ({"authenticate": True}, AuthenticationNotSupported),
        ({"multicast_address": "224.0.0.1:80"}, MulticastNotSupported),
        ({"name": "r"}, PropertyNotAllowed),
        ({"instance": b"I" * 16}, PropertyNotAllowed),
        ({"created": 1}, PropertyNotAllowed),
        ({"colour": "red"}, IllegalPropertyId),
        ({"quota_kb": -1}, IllegalPropertyValue),
        ({"label": "x" * 125}, IllegalPropertyValue),
        ({"base_priority": 5}, IllegalPropertyValue),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    a: Node, values: dict[str, Any], error: type[OnceqError]
) -> None:
    before = a.look("queue", Q)
    with pytest.raises(error):
        set_queue(a, Q, **{"label": "new", **values})
    assert a.look("queue", Q) == before


def test_a_queue_is_not_made_with_what_could_not_be_kept() -> None:
    a = World("A")["A"]
    with pytest.raises(EncryptionNotSupported):
        a.create("q", priv_level=2)
    with pytest.raises(AuthenticationNotSupported):
        a.create("q", authenticate=True)
    with pytest.raises(QueueNotFound):
        a.look("queue", Q)


def test_system_queues_keep_their_properties(a: Node) -> None:
    with pytest.raises(UnsupportedFormatName):
        set_queue(a, "SYSTEM$;DEADXACT", label="x")


def test_a_smaller_quota_ends_nothing_and_refuses_what_comes_next(a: Node) -> None:
    a.once(Q, bytes(2000))
    set_queue(a, Q, quota_kb=1)
    assert a.bodies(Q) == [bytes(2000)]
    with pytest.raises(InsufficientResources):
        a.once(Q, b"more")
    set_queue(a, Q, quota_kb=0xFFFFFFFF)
    a.once(Q, b"more")
    assert len(a.bodies(Q)) == 2


def test_locked_messages_count_and_a_commit_never_fails_for_the_quota(a: Node) -> None:
    # the quota is looked at when sending; an open receive frees nothing.
    set_queue(a, Q, quota_kb=2)
    a.once(Q, bytes(1000))
    tx = a.begin()
    a.receive(Q, tx=tx)
    with pytest.raises(InsufficientResources):
        a.once(Q, bytes(1000))
    other = a.begin()
    a.send(other, Q, bytes(600))
    with pytest.raises(InsufficientResources):
        a.once(Q, bytes(300))
    set_queue(a, Q, quota_kb=1)
    a.commit(other)
    a.commit(tx)
    assert a.bodies(Q) == [bytes(600)]


def test_order_is_priority_then_arrival_whatever_the_base_priority(a: Node) -> None:
    # transactional messages have priority 0, whatever was asked.
    a.create("n", transactional=False)
    for priority, body in ((3, b"1"), (7, b"2"), (None, b"3"), (0, b"4"), (7, b"5")):
        a.send(0, "private$\\n", body, priority=priority)
    assert a.bodies("private$\\n") == [b"2", b"5", b"1", b"3", b"4"]
    a.once(Q, b"low", priority=0)
    a.once(Q, b"high", priority=7)
    assert [m.priority for m in a.messages(Q)] == [0, 0]
    assert a.bodies(Q) == [b"low", b"high"]
