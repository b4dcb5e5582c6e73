"""Columns that Spark's own functions make of messages: decoded bodies, and headers of carried ones.

The source gives bodies as bytes. ``decoded`` makes columns of JSON and Avro by functions that run
in the JVM and are known to Spark's optimiser, so it is a step behind the source and works with any
column.

``carried`` reads what one message says of another. Where the operators do the work of two queue
managers, ``number`` gives a message its place in a stream and ``eod_filter`` judges it elsewhere.
The queue between them is filled by a queue manager that sends it as a message of its own, with a
stream and numbers of its own. So the place in the stream travels in a header before the extension
(``sink/rows.py`` writes it; the layout is here). A header is the word of the sender of the carrying
message, and no queue manager has checked it: ``carrier`` says who that was
(docs/decisions/0019-carried-messages.md).

Upholds: I24 (a damaged header, or none, gives nulls, and never half of one).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from onceq.model.marks import NEVER_S
from onceq.spark.argument_checks import require_frame, wrong

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


FORMATS: Final = ("json", "avro")
WIDE_TEXT: Final = 8
"""Type of bodies that MSMQ applications send as text: UTF-16 (VT_BSTR)."""


def decoded(
    frame: DataFrame,
    schema: Any,
    *,
    format: str = "json",
    column: str = "body",
    into: str = "value",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Add a column with what the bodies say.

    JSON is taken as UTF-8; where the frame has the column ``bodyType``, bodies of type 8, the text
    of MSMQ applications, as UTF-16. A body that does not fit gives null (mode PERMISSIVE), or
    ends the query with ``options={"mode": "FAILFAST"}``.

    Args:
        frame: As the source gives it.
        schema: JSON: a DDL string such as ``"id bigint, price double"`` or a StructType. Avro: the
            schema as JSON text.
        format: "json" or "avro". Avro needs Spark's own package ``spark-avro`` in the session;
            without it Spark says AVRO_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE.
        column: Where the bodies are.
        into: Name of the new column.
        options: Of Spark's ``from_json`` or ``from_avro``.

    Raises:
        ConfigurationError: It is no frame, the format is unknown, or the column missing.
    """
    require_frame(frame, "decoded")
    if format not in FORMATS:
        raise wrong(f"bodies are {' or '.join(FORMATS)}, not {format!r}")
    if column not in frame.columns:
        raise wrong(f"there is no column {column!r} to decode; there are {frame.columns}")
    given = dict(options or {})
    if format == "avro":
        from pyspark.sql.avro.functions import from_avro

        return frame.withColumn(into, from_avro(frame[column], schema, given))
    from pyspark.sql import functions as sql

    return frame.withColumn(into, sql.from_json(text_of(frame, column), schema, given))


def text_of(frame: DataFrame, column: str) -> Column:
    """Bodies as text: UTF-8, or UTF-16 where the column ``bodyType`` says so."""
    from pyspark.sql import functions as sql

    plain = sql.col(column).cast("string")
    if "bodyType" not in frame.columns:
        return plain
    wide = sql.decode(sql.col(column), "UTF-16LE")
    return sql.when(sql.col("bodyType") == WIDE_TEXT, wide).otherwise(plain)


MAGIC: Final = b"OQcarry"
VERSION: Final = 1
MESSAGE, ORDER_ACK = 1, 2
KINDS: Final = {MESSAGE: "message", ORDER_ACK: "order-ack"}
HEADER: Final = np.dtype(
    [
        ("magic", f"S{len(MAGIC)}"), ("version", "u1"), ("size", ">u2"), ("kind", "u1"),
        ("flags", "u1"),
        ("stream", ">u8"), ("number", ">u4"), ("previous", ">u4"), ("sent", ">u8"),
        ("reach", ">u4"), ("receive", ">u4"), ("bytes", ">u4"), ("acknowledge", "u1"),
        ("journal", "u1"), ("source_bytes", ">u2"), ("queue_bytes", ">u2"), ("admin_bytes", ">u2"),
        ("xact", "u1", (20,)), ("message", "u1", (20,)),
    ]
)  # fmt: skip
"""The fixed part; behind it stand three names in UTF-8, and then the extension of the message. Its
numbers have the most significant byte first, because Spark's ``hex`` and ``conv`` read them so."""
FIRST, LAST, FIRST_KNOWN, LAST_KNOWN, XACT, MESSAGE_ID, ENCRYPTED, SENT = (
    1 << bit for bit in range(8)
)
"""Bits of ``flags``: what is true, and what is known."""
NAME_BYTES_MAX: Final = 4_096
"""UTF-8 bytes of a sender or of a queue: with three of them the size fits into its field."""
CARRIER, CARRIES, EXTENSION = "carrier", "carries", "extension"
ADDED: Final = {
    CARRIES: "string",
    "sourceMachine": "string",
    "queue": "string",
    "streamId": "string",
    "seqNumber": "bigint",
    "prevNumber": "bigint",
    "xactId": "binary",
    "firstInXact": "boolean",
    "lastInXact": "boolean",
    "messageId": "binary",
    "sentTime": "timestamp",
    "transactional": "boolean",
    "timeToReachQueue": "bigint",
    "timeToBeReceived": "bigint",
    "acknowledge": "int",
    "adminQueue": "string",
    "journal": "int",
    "encrypted": "boolean",
    "packetBytes": "bigint",
}
"""What ``carried`` says of the message that is carried, by SQL type."""


def carried(frame: DataFrame) -> DataFrame:
    """The messages and order acknowledgments that others carry, as the operators want them.

    Args:
        frame: As the source gives it, or a table that was landed from it, with ``extension``.
            Columns that speak of the carrying message give way to those of the carried one:
            ``sourceMachine``, ``queue``, streams and numbers, times and wishes. Others, as
            ``lookupId``, ``arrivedTime``, ``label`` and ``body``, are the carrying one's.

    Returns:
        The other columns; ``carries``: ``message``, ``order-ack``, or null for a message that
        carries nothing, and then all that follows is null; ``carrier``: the ``sourceMachine`` of
        the carrying message, where the frame has it; what is carried (``ADDED``); and
        ``extension`` without what we put there.

    Raises:
        ConfigurationError: There is no column ``extension``, or it is not binary.
    """
    kinds = {name.lower(): kind for name, kind in frame.dtypes}
    if kinds.get(EXTENSION) != "binary":
        raise wrong(
            f"carried reads the column {EXTENSION} (binary) of the source, where what is carried "
            f"stands; there are {', '.join(frame.columns)}"
        )
    from pyspark.sql import functions as sql

    gone = {name.lower() for name in (*ADDED, EXTENSION, "destination", CARRIER)}
    kept = [sql.col(f"`{name}`") for name in frame.columns if name.lower() not in gone]
    if "sourcemachine" in kinds:
        kept.append(sql.col("sourceMachine").alias(CARRIER))
    # A struct that is null where there is no header: one condition decides about all columns.
    whole = sql.expr(f"IF({_there()}, {_read()}, NULL)")
    step = frame.select(*kept, sql.col(EXTENSION), whole.alias("_carried"))
    extension = sql.expr(
        f"IF(_carried IS NULL, {EXTENSION}, substring({EXTENSION}, _carried._size + 1))"
    )
    names = [column for column in step.columns if column not in (EXTENSION, "_carried")]
    return step.select(
        *(sql.col(f"`{name}`") for name in names),
        *(sql.col(f"_carried.{name}").alias(name) for name in ADDED),
        extension.alias(EXTENSION),
    )


def _whole(field: str) -> str:
    """SQL of a number in the header, as text of decimal digits."""
    kind, at, *_ = HEADER.fields[field]  # type: ignore[index]
    return f"conv(hex(substring({EXTENSION}, {at + 1}, {kind.itemsize})), 16, 10)"


def _number(field: str) -> str:
    return f"CAST({_whole(field)} AS BIGINT)"


def _bit(bit: int) -> str:
    return f"({_number('flags')} & {bit}) != 0"


def _where(condition: str, value: str) -> str:
    return f"IF({condition}, {value}, NULL)"


def _bytes(field: str) -> str:
    kind, at, *_ = HEADER.fields[field]  # type: ignore[index]
    return f"substring({EXTENSION}, {at + 1}, {kind.itemsize})"


def _there() -> str:
    """Whether an extension begins with a header that is whole."""
    names = " + ".join(_number(f"{name}_bytes") for name in ("source", "queue", "admin"))
    head = (MAGIC + bytes([VERSION])).hex().upper()
    return (
        f"length({EXTENSION}) >= {HEADER.itemsize} AND "
        f"substring({EXTENSION}, 1, {len(MAGIC) + 1}) = X'{head}' AND "
        f"{_number('size')} = {HEADER.itemsize} + {names} AND "
        f"{_number('size')} <= length({EXTENSION}) AND "
        f"{_number('kind')} IN ({MESSAGE}, {ORDER_ACK})"
    )


def _read() -> str:
    """SQL of a struct of all that a header says."""
    message = f"{_number('kind')} = {MESSAGE}"
    ends = [f"{HEADER.itemsize + 1}"]
    for one in ("source", "queue", "admin"):
        ends.append(f"{ends[-1]} + {_number(f'{one}_bytes')}")

    def name(which: int, field: str) -> str:
        first = f"CAST({ends[which]} AS INT)"
        size = f"CAST({_number(f'{field}_bytes')} AS INT)"
        return f"try_validate_utf8(CAST(substring({EXTENSION}, {first}, {size}) AS STRING))"

    def limited(field: str) -> str:
        return _where(f"{message} AND {_number(field)} < {NEVER_S}", _number(field))

    values: dict[str, Any] = {
        CARRIES: f"IF({message}, '{KINDS[MESSAGE]}', '{KINDS[ORDER_ACK]}')",
        "sourceMachine": name(0, "source"),
        "queue": name(1, "queue"),
        "streamId": _whole("stream"),
        "seqNumber": _number("number"),
        "prevNumber": _where(message, _number("previous")),
        "xactId": _where(_bit(XACT), _bytes("xact")),
        "firstInXact": _where(_bit(FIRST_KNOWN), _bit(FIRST)),
        "lastInXact": _where(_bit(LAST_KNOWN), _bit(LAST)),
        "messageId": _where(_bit(MESSAGE_ID), _bytes("message")),
        "sentTime": _where(_bit(SENT), f"timestamp_micros(try_cast({_whole('sent')} AS BIGINT))"),
        "transactional": _where(message, "TRUE"),
        "timeToReachQueue": limited("reach"),
        "timeToBeReceived": limited("receive"),
        "acknowledge": _where(message, f"CAST({_whole('acknowledge')} AS INT)"),
        "adminQueue": f"nullif({name(2, 'admin')}, '')",
        "journal": _where(message, f"CAST({_whole('journal')} AS INT)"),
        "encrypted": _where(message, _bit(ENCRYPTED)),
        "packetBytes": limited("bytes"),
    }
    assert list(values) == list(ADDED), "one value for each column"
    fields = ", ".join(f"'{column}', {value}" for column, value in values.items())
    return f"named_struct({fields}, '_size', CAST({_number('size')} AS INT))"
