"""Columns: the fast way must give what taking each packet apart gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq.model.identity import guid_text
from onceq.spark.access import Access
from onceq.spark.ranges import Range
from onceq.spark.rows import COLUMNS, arrow_schema, columns_of, record_batch

PLAIN = r"private$\plain"
ORDERS = r"private$\orders"


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[onceq.QueueManager]:
    with onceq.open(str(tmp_path / "qm"), name="ALPHA") as made:
        made.create_queue(PLAIN)
        made.create_queue(ORDERS, transactional=True)
        yield made


def expected(message: onceq.Message, queue: str) -> dict[str, Any]:
    """The row of one message, slowly."""
    stream = message.stream or None
    ordered = message.transactional
    return {
        "body": message.body,
        "label": message.label,
        "queue": queue,
        "lookupId": message.lookup_id,
        "messageId": message.id.pack(),
        "correlationId": message.correlation_id,
        "sentTime": message.sent_time * 1_000_000,
        "arrivedTime": message.arrived_time * 1_000_000,
        "priority": message.priority,
        "bodyType": message.body_type,
        "appSpecific": message.app_specific,
        "streamId": str(stream) if stream else None,
        "seqNumber": message.number if stream else None,
        "prevNumber": message.previous if stream else None,
        "xactId": message.transaction_id if ordered else None,
        "firstInXact": message.first_in_transaction if ordered else None,
        "lastInXact": message.last_in_transaction if ordered else None,
        "sourceMachine": guid_text(message.id.source),
        "responseQueue": message.response_queue or None,
        "adminQueue": message.admin_queue or None,
    }


def check(manager: onceq.QueueManager, queue: str, count: int) -> None:
    batch = manager.peek_many(queue, 1_000)
    assert len(batch) == count
    found = columns_of(batch, count, queue, tuple(COLUMNS))
    for index, message in enumerate(batch):
        row = {name: found[name][index] for name in COLUMNS}
        assert row == expected(message, queue)


def test_messages_of_one_form(manager: onceq.QueueManager) -> None:
    with manager.transaction() as tx:
        tx.send_many(ORDERS, [b"", b"one", b"two" * 500, bytes(range(256))], label="orders")
    with manager.transaction() as tx:
        tx.send(ORDERS, b"alone")
    check(manager, ORDERS, 5)


def test_messages_of_every_form(manager: onceq.QueueManager) -> None:
    send = manager.send
    send(PLAIN, b"plain")
    send(PLAIN, b"label", label="short")
    send(PLAIN, b"label", label="longer label")
    send(PLAIN, b"other label", label="other label.")
    send(PLAIN, b"first", priority=7)
    send(PLAIN, b"extended", extension=b"more", label="x")
    send(PLAIN, b"after it", label="x")
    send(PLAIN, b"names", response_queue=r"DIRECT=OS:ALPHA\private$\answers",
         admin_queue=r"DIRECT=OS:ALPHA\private$\acks", acknowledge=3)  # fmt: skip
    send(PLAIN, b"names", response_queue=r"DIRECT=OS:ALPHA\private$\another")
    send(PLAIN, b"numbers", app_specific=0xFFFF_FFFF, body_type=8,
         correlation_id=bytes(range(20)))  # fmt: skip
    send(PLAIN, b"express", delivery="express")
    check(manager, PLAIN, 11)


def test_bodies_alone_take_the_short_way(manager: onceq.QueueManager) -> None:
    with manager.transaction() as tx:
        tx.send_many(ORDERS, [f"{i}".encode() for i in range(50)])
    batch = manager.peek_many(ORDERS, 1_000)
    names = ("lookupId", "body")
    made = record_batch(batch, 20, ORDERS, names, arrow_schema(names))
    assert made.schema == arrow_schema(names)
    assert made.num_rows == 20
    assert made.column(1).to_pylist() == [f"{i}".encode() for i in range(20)]
    assert made.column(0).to_pylist() == list(batch.lookup_ids[:20])


def test_a_range_is_read_and_what_is_missing_is_noticed(daemon: Any) -> None:
    queue = r"private$\holes"
    daemon.manager.create_queue(queue, transactional=True)
    with daemon.manager.transaction() as tx:
        tx.send_many(queue, [f"{i}".encode() for i in range(10)])
    view = daemon.manager.queue(queue)
    whole = Range(queue, view["first_lookup"] - 1, view["last_lookup"])
    with Access(str(daemon.path)) as access:
        bodies = [b for batch, n in access.read(whole, complete=True) for b in batch.bodies()[:n]]
        assert bodies == [f"{i}".encode() for i in range(10)]
        part = Range(queue, whole.after + 3, whole.after + 7)
        bodies = [b for batch, n in access.read(part, complete=True) for b in batch.bodies()[:n]]
        assert bodies == [b"3", b"4", b"5", b"6"]
        daemon.manager.receive(queue, lookup_id=whole.after + 5)
        assert [n for _, n in access.read(whole, complete=False)] == [9]
        with pytest.raises(onceq.errors.MessagesMissing, match="failOnDataLoss"):
            list(access.read(whole, complete=True))
        assert access.unbroken(whole, bytes_max=0, gapless=True) == whole.after + 4
        assert access.unbroken(whole, bytes_max=1, gapless=False) == whole.after + 1
        assert access.unbroken(whole, bytes_max=0, gapless=False) == whole.to
        assert access.remove([whole]) == [9]
        assert access.remove([whole]) == [0]
