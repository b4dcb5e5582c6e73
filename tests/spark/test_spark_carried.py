"""What the sink lets messages carry, and ``carried`` finds in them: the whole way, and damage."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from onceq.spark.message_columns import ADDED, HEADER, MAGIC
from onceq.spark.sink.rows import Carrying

pytestmark = pytest.mark.spark

MACHINE = "0B5CA1B5-5F10-4D4E-8B0D-4A53E8D4AC39"
QUEUE = r"DIRECT=OS:B\private$\größe"
SENT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
SCHEMA = (
    "body string, sourceMachine string, queue string, streamId string, seqNumber bigint, "
    "prevNumber bigint, xactId binary, firstInXact boolean, lastInXact boolean, messageId binary, "
    "sentTime timestamp, timeToReachQueue int, timeToBeReceived bigint, acknowledge int, "
    "adminQueue string, journal int, encrypted boolean, packetBytes bigint, extension binary"
)
FULL = (
    "full", MACHINE, QUEUE, str((1 << 64) - 1), (1 << 32) - 1, (1 << 32) - 2, b"x" * 19 + b"\0",
    True, False, bytes(20), SENT, 0, 7, 15, "DIRECT=OS:A\\acks", 3, True, 300, b"own \xff",
)  # fmt: skip
PLAIN = ("plain", MACHINE, QUEUE, "1", 1, 0, *[None] * 13)
ACK = (None, MACHINE, QUEUE, "1", 12, None, *[None] * 13)
NAMES = [field.split()[0] for field in SCHEMA.split(", ")]


def rows_of(frame: Any, *names: str) -> list[tuple[Any, ...]]:
    return [
        tuple(bytes(v) if isinstance(v, bytearray) else v for v in row)
        for row in frame.select(*names).collect()
    ]


def told(row: tuple[Any, ...], carries: str) -> tuple[Any, ...]:
    """What ``carried`` says of a row: a message has wishes, and knows whether it is encrypted."""
    given = dict(zip(NAMES, row, strict=True))
    if carries == "message":
        given["transactional"] = True
        for name, none in (("acknowledge", 0), ("journal", 0), ("encrypted", False)):
            given[name] = given[name] or none
    given["carries"] = carries
    return tuple(given.get(name) for name in ADDED)


def test_from_rows_to_a_queue_and_back(spark: Any, daemon: Any) -> None:
    """By a queue manager, which keeps what it does not know of; and beside a plain message."""
    from onceq.spark import carried

    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        queue = r"private$\feed"
        daemon.manager.create_queue(queue, transactional=True)
        daemon.manager.send(queue, b"not ours", extension=b"OQcarry", transactional=True)
        frame = spark.createDataFrame([FULL, PLAIN, ACK], SCHEMA).coalesce(1)
        frame.write.format("onceq").mode("append").option("queueManager", str(daemon.path)).save(
            queue
        )
        read = spark.read.format("onceq").option("queueManager", str(daemon.path))
        source = read.option("columns", "all").load(queue)
        found = carried(source).orderBy("lookupId")
        assert set(source.columns) - {"destination"} < set(found.columns)
        assert rows_of(found, "body", "extension", "carrier") == [
            (b"not ours", b"OQcarry", daemon.manager.id), (b"full", b"own \xff", daemon.manager.id),
            (b"plain", b"", daemon.manager.id), (b"", b"", daemon.manager.id),
        ]  # fmt: skip
        expected = [(None,) * len(ADDED), told(FULL, "message"), told(PLAIN, "message"),
                    told(ACK, "order-ack")]  # fmt: skip
        micros = "unix_micros(sentTime) sentTime"
        names = [name if name != "sentTime" else micros for name in ADDED]
        at = list(ADDED).index("sentTime")
        sent = int(SENT.timestamp()) * 1_000_000 + 678_901
        expected[1] = (*expected[1][:at], sent, *expected[1][at + 1 :])
        assert rows_of(found.selectExpr(*names), *ADDED) == expected
        assert dict(found.dtypes) | ADDED == dict(found.dtypes), "types are those of the page"
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


def test_operators_take_what_was_carried(rocks: Any, daemon: Any, tmp_path: Path) -> None:
    """``eod_filter`` judges it in the order in which it came to the queue, and what the filter says
    goes back and is taken by ``number``; a message that carries nothing is malformed."""
    from onceq.spark import carried
    from onceq.spark.operators import eod_filter, number, order_acknowledgments

    spark = rocks
    for name in ("carrying", "acks"):
        daemon.manager.create_queue(f"private$\\{name}", transactional=True)
    committed = spark.createDataFrame(
        [(MACHINE, QUEUE, at, 0, f"{at}") for at in range(5)],
        "sourceMachine string, queue string, commitOrder bigint, sendOrder bigint, body string",
    )
    placed = number(committed, stamp=77).coalesce(1)
    numbered = placed.drop("commitOrder", "sendOrder")

    def write(frame: Any, queue: str) -> None:
        frame.write.format("onceq").mode("append").option("queueManager", str(daemon.path)).save(
            f"private$\\{queue}"
        )

    def read(queue: str) -> Any:
        found = spark.read.format("onceq").option("queueManager", str(daemon.path))
        return carried(found.load(f"private$\\{queue}"))

    write(numbered.where("seqNumber <= 3").orderBy("seqNumber"), "carrying")
    write(numbered.where("seqNumber in (2, 5)").orderBy("seqNumber"), "carrying")
    daemon.manager.send(r"private$\carrying", b"plain", transactional=True)
    judged = eod_filter(read("carrying"))
    verdicts = judged.where("verdict != 'order-ack'").orderBy("lookupId")
    assert rows_of(verdicts, "body", "verdict") == [
        (b"0", "accept"), (b"1", "accept"), (b"2", "accept"), (b"1", "duplicate"), (b"4", "gap"),
        (b"plain", "malformed"),
    ]  # fmt: skip
    write(order_acknowledgments(judged), "acks")
    acks = read("acks").where("carries = 'order-ack'")
    assert rows_of(acks, "sourceMachine", "queue", "streamId", "seqNumber") == [
        (MACHINE, QUEUE, str(77 << 32 | 1), 3)
    ]
    more = spark.createDataFrame([(MACHINE, QUEUE, 9, 0, "9")], committed.schema)
    renewed = number(more, after=placed.where("seqNumber <= 3"), acknowledgments=acks)
    assert rows_of(renewed, "streamId", "seqNumber", "prevNumber") == [(str(77 << 32 | 2), 1, 0)]


def test_damage_gives_nulls_and_never_half_of_it(spark: Any) -> None:
    """Every cut, and many changed bytes: a header that is not whole is none."""
    from onceq.spark import carried

    given = spark.createDataFrame([FULL], SCHEMA).toArrow().to_batches()[0]
    made = Carrying(given.schema.names, queue=True).packed(given)[0]
    whole = made["extension"][0].as_py()
    own = FULL[-1]
    rng = random.Random(3)
    damaged: list[bytes | None] = [None, *(whole[:at] for at in range(len(whole) - len(own)))]
    sizes = (0, 7, 8, 9, 10, *range(50, 56))
    damaged += [whole[:at] + bytes([whole[at] ^ 0x81]) + whole[at + 1 :] for at in sizes]
    damaged += [MAGIC + rng.randbytes(rng.randint(0, 200)) for _ in range(300)]
    schema = "extension binary"
    found = carried(spark.createDataFrame([(value,) for value in damaged], schema).coalesce(1))
    assert found.where("carries is not null").count() == 0
    assert rows_of(found, "extension") == [(value,) for value in damaged]
    # Any other byte changes a value, and still no row fails.
    other = [whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]
             for at in range(11, HEADER.itemsize + 60) if at not in sizes]  # fmt: skip
    frame = carried(spark.createDataFrame([(value,) for value in other], schema))
    assert pa.table(frame.toArrow()).num_rows == len(other)
    assert frame.where("carries = 'message' and extension = X'6F776E20FF'").count() == len(other)


def test_mistakes_are_told(spark: Any, daemon: Any) -> None:
    from onceq.spark import carried

    with pytest.raises(Exception, match=r"^\[configuration\] carried reads the column extension"):
        carried(spark.createDataFrame([PLAIN], SCHEMA).drop("extension"))
    with pytest.raises(Exception, match=r"^\[configuration\] carried reads the column extension"):
        carried(spark.range(1).selectExpr("'x' extension"))
    daemon.manager.create_queue(r"private$\wrong", transactional=True, exist_ok=True)
    unnumbered = (*PLAIN[:3], None, None, None, *PLAIN[6:])
    writer = spark.createDataFrame([PLAIN, unnumbered], SCHEMA).coalesce(1).write.format("onceq")
    writer = writer.mode("append").option("queueManager", str(daemon.path))
    with pytest.raises(Exception, match=r"row 1 of partition 0 .*it has no place in a stream"):
        writer.save(r"private$\wrong")
    daemon.manager.create_queue(r"private$\faults", transactional=True, exist_ok=True)
    writer.option("errorQueue", r"private$\faults").save(r"private$\wrong")
    assert daemon.manager.queue(r"private$\wrong")["messages"] == 1
    assert daemon.manager.receive(r"private$\faults", timeout=0).body == b"plain"
