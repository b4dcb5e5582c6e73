"""Columns: made from all packets at once, they must be what taking each packet apart gives."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

import onceq
from onceq.model.identity import guid_text
from onceq.model.marks import NEVER_S
from onceq.model.resultcodes import class_name
from onceq.model.run import LENGTH_TYPE, Run
from onceq.packet import address as at
from onceq.packet.arrived import Batch
from onceq.packet.headers import encode_headers, headers
from onceq.spark.source.options import COLUMNS
from onceq.spark.source.reader import longer
from onceq.spark.source.rows import CutShort, arrow_schema, prefix, record_batch
from tests.unit.packet import samples

PLAIN = r"private$\plain"
ORDERS = r"private$\orders"


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[onceq.QueueManager]:
    with onceq.open(str(tmp_path / "qm"), name="ALPHA", create=True) as made:
        made.create_queue(PLAIN)
        made.create_queue(ORDERS, transactional=True)
        yield made


def expected(message: onceq.Message, queue: str, packet: Any) -> dict[str, Any]:
    """The row of one message, slowly."""
    stream = message.stream or None
    ordered = message.transactional
    return {
        "body": message.body,
        "label": message.label,
        "queueManager": "ALPHA",
        "queue": queue,
        "lookupId": message.lookup_id,
        "messageId": message.id.pack(),
        "correlationId": message.correlation_id,
        "sentTime": message.sent_time * 1_000_000,
        "arrivedTime": message.arrived_time * 1_000_000,
        "class": message.message_class,
        "className": class_name(message.message_class),
        "priority": message.priority,
        "bodyType": message.body_type,
        "appSpecific": message.app_specific,
        "extension": message.extension,
        "streamId": str(stream) if stream else None,
        "seqNumber": message.number if stream else None,
        "prevNumber": message.previous if stream else None,
        "xactId": message.transaction_id if ordered else None,
        "firstInXact": message.first_in_transaction if ordered else None,
        "lastInXact": message.last_in_transaction if ordered else None,
        "sourceMachine": guid_text(message.id.source),
        "destination": message.destination,
        "responseQueue": message.response_queue or None,
        "adminQueue": message.admin_queue or None,
        "abortCount": message.abort_count,
        "moveCount": message.move_count,
        "transactional": ordered,
        "timeToReachQueue": limited(message.time_to_reach_queue),
        "timeToBeReceived": limited(message.time_to_be_received),
        "acknowledge": int(message.acknowledge),
        "journal": int(message.journal),
        "encrypted": headers(packet).encrypted,
        "packetBytes": len(packet),
        "bodyCrc": crc32(message.body),
    }


def limited(seconds: int) -> int | None:
    """A lifetime as a row has it."""
    return None if seconds == NEVER_S else seconds


def expected_rows(batch: Batch, queue: str) -> list[dict[str, Any]]:
    """The rows of whole packets, slowly."""
    pairs = zip(batch, batch.run, strict=True)
    return [expected(message, queue, packet) for message, packet in pairs]


def rows_of(batch: Batch, queue: str, names: tuple[str, ...] = tuple(COLUMNS)) -> list[Any]:
    """The rows as Spark would have them; times as microseconds."""
    import pyarrow as pa

    made = record_batch(
        batch, manager="ALPHA", queue=queue, names=names, schema=arrow_schema(names)
    )
    made.validate(full=True)
    assert made.schema == arrow_schema(names)
    times: dict[str, Any] = {
        name: pa.int64() for name in ("sentTime", "arrivedTime") if name in names
    }
    columns = [made[name].cast(times.get(name, made[name].type)) for name in names]
    found: list[Any] = pa.RecordBatch.from_arrays(columns, names=list(names)).to_pylist()
    return found


def check(manager: onceq.QueueManager, queue: str, count: int) -> None:
    """Every row of a queue, also in part, by itself, and of packets that were cut."""
    batch = manager.peek_many(queue, 1_000)
    assert len(batch) == count
    rows = expected_rows(batch, queue)
    assert rows_of(batch, queue) == rows
    assert rows_of(batch.part(1, count - 1), queue) == rows[1:]
    for index, row in enumerate(rows):
        assert rows_of(batch.part(index, 1), queue) == [row]
    names = tuple(name for name in COLUMNS if name not in ("body", "extension"))
    tops = manager.peek_tops(queue, 1_000, size=8_192)
    assert rows_of(tops, queue, names) == [{name: row[name] for name in names} for row in rows]


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
    send(PLAIN, b"letters", label="größer 漢字 \U0001f600")
    send(PLAIN, b"first", priority=7)
    send(PLAIN, b"extended", extension=b"more", label="x")
    send(PLAIN, b"after it", label="x")
    send(PLAIN, b"names", response_queue=r"DIRECT=OS:ALPHA\private$\answers",
         admin_queue=r"DIRECT=OS:ALPHA\private$\acks", acknowledge=3)  # fmt: skip
    send(PLAIN, b"names", response_queue=r"DIRECT=OS:ALPHA\private$\another")
    send(PLAIN, b"numbers", app_specific=0xFFFF_FFFF, body_type=8,
         correlation_id=bytes(range(20)))  # fmt: skip
    send(PLAIN, b"express", delivery="express")
    for journal in (1, 2, 3):
        send(PLAIN, b"kept", journal=journal, time_to_reach_queue=10 * journal)
    send(PLAIN, b"soon over", time_to_be_received=86_400)
    check(manager, PLAIN, 16)


def test_messages_to_several_queues(manager: onceq.QueueManager) -> None:
    """Their lists of names stand behind the body: cut packets do not have them."""
    other = r"private$\other"
    manager.create_queue(other)
    manager.send(PLAIN, b"to one")
    manager.send(f"DIRECT=OS:ALPHA\\{PLAIN},DIRECT=OS:ALPHA\\{other}", b"to two" * 100,
                 response_queue=rf"DIRECT=OS:ALPHA\{PLAIN},DIRECT=OS:ALPHA\{other}")  # fmt: skip
    batch = manager.peek_many(PLAIN, 10)
    assert rows_of(batch, PLAIN) == expected_rows(batch, PLAIN)
    with pytest.raises(CutShort):
        rows_of(manager.peek_tops(PLAIN, 10, size=512), PLAIN, ("responseQueue",))


def test_counts_beside_the_packets(manager: onceq.QueueManager) -> None:
    with manager.transaction() as tx:
        tx.send_many(ORDERS, [b"0", b"1", b"2"])
    tx = manager.transaction()
    tx.receive(ORDERS, timeout=0)
    tx.abort()
    moved = manager.move(ORDERS, manager.peek(ORDERS, seek="last"), ";aside")
    manager.move(ORDERS + ";aside", moved, "")
    batch = manager.peek_many(ORDERS, 10)
    assert [row["abortCount"] for row in rows_of(batch, ORDERS)] == [1, 0, 0]
    assert [row["moveCount"] for row in rows_of(batch, ORDERS)] == [0, 0, 2]


def test_the_class_of_a_dead_letter(manager: onceq.QueueManager) -> None:
    with manager.transaction() as tx:
        tx.send_many(ORDERS, [b"gone"] * 3, journal=onceq.Journal.DEADLETTER)
    manager.purge(ORDERS)
    rows = rows_of(manager.peek_many("SYSTEM$;DEADXACT", 10), "SYSTEM$;DEADXACT")
    assert [(row["class"], row["className"]) for row in rows] == [(0xC001, "nack-queue-purged")] * 3
    assert all(row["destination"].endswith(ORDERS) for row in rows)
    places = manager.peek_tops("SYSTEM$;DEADXACT", 10, size=0)
    assert [row["lookupId"] for row in rows] == list(places.lookup_ids)


def test_packets_at_odd_places(manager: onceq.QueueManager) -> None:
    """Other queue managers may put bytes behind a packet's last header."""
    with manager.transaction() as tx:
        tx.send_many(ORDERS, [b"one", b"two", b"three"], label="odd")
    batch = manager.peek_many(ORDERS, 10)
    longer_ones = []
    for packet in batch.run:
        odd = bytearray(packet) + b"?"
        odd[8:12] = len(odd).to_bytes(4, "little")
        longer_ones.append(bytes(odd))
    run = Run(b"".join(longer_ones), array(LENGTH_TYPE, map(len, longer_ones)))
    odd_ones = Batch(run, batch.lookup_ids, batch.arrived_times, batch.abort_counts)
    assert rows_of(odd_ones, ORDERS) == expected_rows(odd_ones, ORDERS)


def test_whether_bodies_are_encrypted(manager: onceq.QueueManager) -> None:
    """Of packets with a SecurityHeader, which signed ones have, too."""
    parts = samples.every_header()
    assert parts.security is not None
    packets = [encode_headers(headers(samples.packet()))]
    for flags in (0, at.SECURITY_ENCRYPTED, 0xFFFF, 0xFFFF & ~at.SECURITY_ENCRYPTED):
        security = replace(parts.security, flags=flags)
        packets.append(encode_headers(replace(parts, security=security)))
    none = array("I", bytes(4 * len(packets)))
    places = array("Q", range(1, len(packets) + 1))
    batch = Batch(Run.of(packets), places, none, none)
    rows = rows_of(batch, ORDERS)
    assert rows == expected_rows(batch, ORDERS)
    assert [row["encrypted"] for row in rows] == [False, False, True, True, False]


@pytest.mark.tier("rest")
def test_every_cut_is_noticed_or_does_no_harm(manager: onceq.QueueManager) -> None:
    manager.send(PLAIN, b"body" * 10, label="label", extension=b"extension",
                 response_queue=r"DIRECT=OS:ALPHA\private$\answers")  # fmt: skip
    with manager.transaction() as tx:
        tx.send(ORDERS, b"body" * 10, label="label")
    for queue in (PLAIN, ORDERS):
        whole = manager.peek_many(queue, 1)
        rows = expected_rows(whole, queue)
        size = whole.run.lengths[0]
        for top in range(size + 1):
            cut = manager.peek_tops(queue, 1, size=top)
            assert len(cut.run.data) == top
            for name in COLUMNS:
                try:
                    made = rows_of(cut, queue, (name,))
                except CutShort:
                    assert top < size
                else:
                    assert made == [{name: rows[0][name]}]


def test_the_beginnings_of_packets(manager: onceq.QueueManager) -> None:
    with manager.transaction() as tx:
        tx.send_many(ORDERS, [b"", b"x" * 5_000, b"y" * 300])
    whole = manager.peek_many(ORDERS, 10)
    for size in (0, 1, 400, 10_000):
        tops = manager.peek_tops(ORDERS, 10, size=size)
        assert [bytes(p) for p in tops.run] == [bytes(p)[:size] for p in whole.run]
        assert (tops.lookup_ids, tops.arrived_times) == (whole.lookup_ids, whole.arrived_times)
    after = manager.peek_tops(ORDERS, 1, after=whole.lookup_ids[0], size=4)
    assert after.lookup_ids[0] == whole.lookup_ids[1]
    with pytest.raises(onceq.errors.ReceiveTimeout):
        manager.peek_tops(PLAIN, 1)
    with pytest.raises(onceq.errors.InvalidParameter):
        manager.peek_tops(ORDERS, 1, size=-1)


def test_a_range_is_removed_at_once(manager: onceq.QueueManager) -> None:
    manager.send_many(PLAIN, [b"0", b"1", b"2", b"3"])
    ids = manager.peek_many(PLAIN, 10).lookup_ids
    assert manager.remove(PLAIN, ids[1], ids[2]) == 2
    assert manager.remove(PLAIN, ids[1], ids[2]) == 0
    assert [m.body for m in manager.peek_many(PLAIN, 10)] == [b"0", b"3"]


def test_how_much_is_asked_for() -> None:
    assert prefix(("lookupId", "queue", "arrivedTime")) == 0
    assert prefix(("lookupId", "label")) == 512
    assert prefix(("lookupId", "body")) is None
    assert [longer(0), longer(512), longer(2048), longer(8192)] == [512, 2048, 8192, None]


def test_the_mark_of_a_trace_is_not_a_part_of_the_extension(manager: onceq.QueueManager) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for extension in (b"x", b""):
        manager.send(ORDERS, "1", transactional=True, extension=extension, traceparent=trace)
    manager.send(ORDERS, "1", transactional=True, extension=b"y", delay=0)
    check(manager, ORDERS, 3)
    found = rows_of(manager.peek_many(ORDERS), ORDERS, ("extension",))
    assert [row["extension"] for row in found] == [b"x", b"", b"y"]
