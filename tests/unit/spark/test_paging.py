"""Counting page by page says what a queue manager that counts says, but for what it cannot know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import onceq
from onceq.spark import access
from onceq.spark.access import Access
from onceq.spark.ranges import Range

QUEUE = r"private$\orders"


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[onceq.QueueManager]:
    with onceq.open(str(tmp_path / "qm"), name="ALPHA", create=True) as made:
        made.create_queue(QUEUE, transactional=True)
        with made.transaction() as tx:
            tx.send_many(QUEUE, [b"x" * at for at in range(30)])
        yield made


@pytest.mark.parametrize("messages", [0, 1, 5, 26, 27, 40])
@pytest.mark.parametrize("bytes", [0, 1, 1_000, 3_000, 1 << 20])
def test_it_says_the_same(
    manager: onceq.QueueManager, monkeypatch: pytest.MonkeyPatch, messages: int, bytes: int
) -> None:
    monkeypatch.setattr(access, "PEEK_MESSAGES", 4)
    first = manager.queue(QUEUE).first_lookup
    for at in (3, 4, 17):
        manager.receive(QUEUE, lookup_id=first + at)
    one, other = Access("x"), Access("x")
    one._manager = other._manager = manager
    other._counts = False
    for after in (first - 1, first + 2, first + 10):
        part = Range(QUEUE, after, first + 29)
        counted = one.count(QUEUE, part, messages=messages, bytes=bytes)
        paged = other.count(QUEUE, part, messages=messages, bytes=bytes)
        assert (paged.to, paged.messages) == (counted.to, counted.messages)
        assert paged.bytes == counted.bytes


def test_where_anything_is_locked_it_ends_at_the_first_gap(manager: onceq.QueueManager) -> None:
    first = manager.queue(QUEUE).first_lookup
    manager.receive(QUEUE, lookup_id=first + 5)
    one = Access("x")
    one._manager, one._counts = manager, False
    whole = Range(QUEUE, first - 1, first + 29)
    with manager.transaction() as tx:
        tx.receive(QUEUE, lookup_id=first + 20)
        found = one.count(QUEUE, whole)
        assert (found.to, found.messages, found.locked) == (first + 4, 5, first + 5)
        assert one.count(QUEUE, whole, messages=5).locked == 0
        tx.abort()
    assert one.count(QUEUE, whole).messages == 29
