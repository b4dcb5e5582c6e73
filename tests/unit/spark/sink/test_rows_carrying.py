"""What rows carry as bytes: taken apart here by the page that documents them."""

from __future__ import annotations

import re
import struct
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from onceq.errors import ConfigurationError
from onceq.model.limits import EXTENSION_BYTES_MAX
from onceq.spark import message_columns as layout
from onceq.spark.sink.options import CARRIED, columns_of, parse_sink
from onceq.spark.sink.rows import (
    CARRYING_TROUBLES,
    NO_MESSAGE,
    NO_PLACE,
    OUT_OF_RANGE,
    Carrying,
    Pieces,
)

HEADER = struct.Struct(">7sBHBBQIIQIIIBBHHH20s20s")
"""As the page has it."""
PAGE = Path(__file__).parents[4] / "docs" / "reference" / "formats" / "carried.md"
MACHINE = "0b5ca1b5-5f10-4d4e-8b0d-4a53e8d4ac39"
QUEUE = r"DIRECT=OS:B\private$\größe"
TIMES = pa.timestamp("us", "Europe/Berlin")
SENT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
KINDS = {
    "body": pa.binary(), "queue": pa.string(), "sourceMachine": pa.string(),
    "streamId": pa.string(), "seqNumber": pa.int64(), "prevNumber": pa.int64(),
    "destination": pa.string(), "messageId": pa.binary(), "xactId": pa.binary(),
    "firstInXact": pa.bool_(), "lastInXact": pa.bool_(), "sentTime": TIMES,
    "timeToReachQueue": pa.int64(), "timeToBeReceived": pa.int64(), "acknowledge": pa.int32(),
    "adminQueue": pa.string(), "journal": pa.int32(), "encrypted": pa.bool_(),
    "packetBytes": pa.int64(), "extension": pa.binary(), "label": pa.string(),
}  # fmt: skip
PLACE = {"sourceMachine": MACHINE, "streamId": "7", "seqNumber": 2, "queue": QUEUE}
MESSAGE = {**PLACE, "prevNumber": 1, "body": b"b"}
ACK = {**PLACE, "prevNumber": None, "body": None}


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    names = list(dict.fromkeys(name for row in rows for name in row))
    arrays = [pa.array([row.get(name) for row in rows], KINDS[name]) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def packed(*rows: dict[str, Any], queue: bool = True) -> tuple[list[dict[str, Any]], list[int]]:
    made = batch(*rows)
    found, troubles = Carrying(made.schema.names, queue=queue).packed(made)
    found.validate(full=True)
    return found.to_pylist(), troubles.tolist()


def header(extension: bytes) -> tuple[tuple[Any, ...], list[str], bytes]:
    """The fixed part, the three names and the rest."""
    fixed = HEADER.unpack_from(extension)
    at, names = HEADER.size, []
    for size in fixed[14:17]:
        names.append(extension[at : at + size].decode())
        at += size
    assert fixed[2] == at, "it says its size"
    return fixed, names, extension[at:]


def test_the_page_has_every_field() -> None:
    rows = re.findall(r"^\* (\d+), (\d+): ", PAGE.read_text(), re.M)
    known: Any = layout.HEADER.fields
    fields = [known[name] for name in layout.HEADER.names or ()]
    assert rows == [(str(field[1]), str(field[0].itemsize)) for field in fields]
    assert layout.HEADER.itemsize == HEADER.size == 96


def test_a_message_with_everything() -> None:
    row = {
        **MESSAGE, "streamId": str((1 << 64) - 1), "seqNumber": (1 << 32) - 1,
        "prevNumber": (1 << 32) - 2, "xactId": b"x" * 19 + b"\0", "messageId": b"\0" + b"m" * 19,
        "firstInXact": True, "lastInXact": False, "sentTime": SENT, "timeToReachQueue": 0,
        "timeToBeReceived": 86_400, "acknowledge": 15, "adminQueue": "DIRECT=OS:A\\acks",
        "journal": 3, "encrypted": True, "packetBytes": 300, "extension": b"own", "label": "l",
    }  # fmt: skip
    (found,), troubles = packed(row)
    assert troubles == [0]
    assert list(found) == ["body", "queue", "label", "extension"]
    assert (found["body"], found["label"], found["queue"]) == (b"b", "l", QUEUE)
    fixed, names, rest = header(found["extension"])
    flags = 1 | 4 | 8 | 16 | 32 | 64 | 128
    sent = int(SENT.timestamp()) * 1_000_000 + 678_901
    assert fixed[:2] == (b"OQcarry", 1)
    assert fixed[3:14] == (
        1, flags, (1 << 64) - 1, (1 << 32) - 1, (1 << 32) - 2, sent, 0, 86_400, 300, 15, 3,
    )  # fmt: skip
    assert fixed[17:] == (b"x" * 19 + b"\0", b"\0" + b"m" * 19)
    assert names == [MACHINE, QUEUE, "DIRECT=OS:A\\acks"]
    assert rest == b"own"


def test_a_message_with_nothing_but_its_place() -> None:
    """The queue of the stream is the column destination, where there is one."""
    none = dict.fromkeys((c.name for c in CARRIED if c.name not in MESSAGE), None)
    found, troubles = packed(
        {**MESSAGE, **none, "destination": "D"}, {**MESSAGE, "destination": "D"}
    )
    assert troubles == [0, 0]
    for row in found:
        fixed, names, rest = header(row["extension"])
        none_s = 0xFFFF_FFFF
        assert fixed[3:14] == (1, 0, 7, 2, 1, 0, none_s, none_s, none_s, 0, 0)
        assert (names, rest, row["queue"]) == ([MACHINE, "D", ""], b"", QUEUE)


def test_order_acknowledgments() -> None:
    plain, troubles = packed(PLACE)
    mixed, more = packed(ACK, MESSAGE, {**ACK, "seqNumber": 9})
    assert troubles + more == [0] * 4
    assert [row["body"] for row in plain + mixed] == [b"", b"", b"b", b""]
    heads = [header(row["extension"])[0] for row in plain + mixed]
    assert [head[3] for head in heads] == [2, 2, 1, 2]
    assert [head[6] for head in heads] == [2, 2, 2, 9]


@pytest.mark.parametrize(
    ("changed", "trouble"),
    [
        ({"streamId": None}, NO_PLACE), ({"streamId": "seven"}, NO_PLACE),
        ({"streamId": str(1 << 64)}, NO_PLACE), ({"seqNumber": None}, NO_PLACE),
        ({"seqNumber": 0}, NO_PLACE), ({"seqNumber": 1 << 32}, NO_PLACE),
        ({"seqNumber": None, "streamId": None, "prevNumber": None}, NO_PLACE),
        ({"sourceMachine": None}, NO_PLACE), ({"sourceMachine": ""}, NO_PLACE),
        ({"queue": None}, NO_PLACE), ({"prevNumber": -1}, NO_PLACE),
        ({"prevNumber": None}, NO_MESSAGE), ({"body": None}, NO_MESSAGE),
        ({"xactId": b"x" * 19}, OUT_OF_RANGE), ({"messageId": b""}, OUT_OF_RANGE),
        ({"sentTime": datetime(1969, 1, 1, tzinfo=UTC)}, OUT_OF_RANGE),
        ({"timeToReachQueue": -1}, OUT_OF_RANGE), ({"timeToBeReceived": 1 << 32}, OUT_OF_RANGE),
        ({"packetBytes": 1 << 32}, OUT_OF_RANGE), ({"acknowledge": 256}, OUT_OF_RANGE),
        ({"journal": -1}, OUT_OF_RANGE), ({"sourceMachine": "x" * 4_097}, OUT_OF_RANGE),
        ({"queue": "q" * 70_000}, OUT_OF_RANGE), ({"adminQueue": "ä" * 2_049}, OUT_OF_RANGE),
    ],
)  # fmt: skip
def test_what_is_no_row_that_carries(changed: dict[str, Any], trouble: int) -> None:
    """It is refused alone: its neighbours are well."""
    _, troubles = packed(MESSAGE, {**MESSAGE, **changed}, {**MESSAGE, "seqNumber": 3})
    assert troubles == [0, trouble, 0]


def test_an_acknowledgment_does_not_go_where_its_messages_went() -> None:
    assert packed(ACK, queue=False)[1] == [NO_MESSAGE]
    assert packed({**ACK, "destination": QUEUE, "queue": "acks"}, queue=False)[1] == [0]


def test_pieces_carry_and_refuse() -> None:
    """Whatever order the rows are sent in, a trouble stays with its row."""
    rows = [
        {**MESSAGE, "queue": "a"}, {**MESSAGE, "queue": "b", "seqNumber": None},
        {**MESSAGE, "queue": "a", "seqNumber": 3}, {**MESSAGE, "queue": "b", "seqNumber": 4},
        {**MESSAGE, "queue": "a", "body": None}, {**MESSAGE, "queue": "b", "seqNumber": 5},
    ]  # fmt: skip
    made = batch(*rows)
    pieces = Pieces(made.schema.names, {}, lambda names: list(range(len(names)))).of(made)
    found = []
    for piece in pieces:
        for at, row in enumerate(piece.rows):
            extension = piece.value("extension", at, b"")
            found.append((row, piece.queue, header(extension)[0][6], piece.trouble))
    assert [(row, queue) for row, queue, *_ in found] == [
        (0, "a"), (2, "a"), (4, "a"), (1, "b"), (3, "b"), (5, "b"),
    ]  # fmt: skip
    assert {row: trouble for row, _, _, trouble in found if trouble} == {
        1: CARRYING_TROUBLES[NO_PLACE - 1], 4: CARRYING_TROUBLES[NO_MESSAGE - 1],
    }  # fmt: skip
    assert [number for *_, number, trouble in found if not trouble] == [2, 3, 4, 5]


def test_an_extension_that_leaves_no_room() -> None:
    own = b"x" * (EXTENSION_BYTES_MAX - HEADER.size - len(MACHINE) - len(QUEUE.encode()))
    for extra, fits in ((b"", True), (b"x", False)):
        made = batch({**MESSAGE, "extension": own + extra}, MESSAGE)
        (first, *_) = Pieces(made.schema.names, {}).of(made)
        assert (len(first.value("extension", 0, b"")) <= EXTENSION_BYTES_MAX) is fits
        if not fits:
            assert len(first.rows) == 1, "it is refused alone"


ENOUGH = {"queueManager": "h:1", "queue": r"private$\feed"}


def named(*names: str, queue: bool = True, **kinds: str) -> tuple[str, ...]:
    types = {"binary": pa.binary(), "string": pa.string(), "bigint": pa.int64()}
    words = {kind: word for word, kind in types.items()}
    shown = {name: kinds.get(name, words.get(KINDS[name], "boolean")) for name in names}
    shown.update(kinds)
    fields = [
        SimpleNamespace(name=n, dataType=SimpleNamespace(simpleString=lambda k=k: k))
        for n, k in shown.items()
    ]
    given = ENOUGH if queue else {"queueManager": "h:1"}
    return columns_of(SimpleNamespace(fields=fields), parse_sink(given, stream=False))


def test_columns_of_rows_that_carry() -> None:
    place = ("sourceMachine", "queue", "streamId", "seqNumber")
    assert named(*place) == place, "order acknowledgments, as eod_filter gives them"
    assert named(*place, "prevNumber", "body") == (*place, "prevNumber", "body")
    any_case: dict[str, Any] = {
        "SEQNUMBER": "int",
        "streamid": "int",
        "SourceMachine": "string",
        "Queue": "string",
    }
    assert named(**any_case) == ("seqNumber", "streamId", "sourceMachine", "queue")


@pytest.mark.parametrize(
    ("names", "queue", "words"),
    [
        (("body", "streamId"), True, "sourceMachine, seqNumber is not there"),
        (("body", "prevNumber"), True, "prevNumber is set by queue managers"),
        (("body", "sourceMachine", "streamId", "seqNumber", "prevNumber"), True,
         "column queue, or destination"),
        (("body", *PLACE), True, "have a column prevNumber"),
        ((*PLACE, "prevNumber"), True, "there is no column body"),
        (tuple(PLACE), False, "do not go to the queue that they are about"),
    ],
)  # fmt: skip
def test_columns_that_carry_half_of_it(names: tuple[str, ...], queue: bool, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        named(*names, queue=queue)
