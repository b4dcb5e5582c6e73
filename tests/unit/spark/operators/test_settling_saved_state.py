"""What operators remember: states that an older version wrote go on, and are told as rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")

import pyarrow as pa

from onceq.errors import ConfigurationError
from onceq.spark.operators.arrivals import QueueSetup, Settler
from onceq.spark.operators.eod import EodFilter
from onceq.spark.operators.key_buckets import BucketRecords, pack
from onceq.spark.operators.numbering import Numbering
from onceq.spark.operators.quotas import Limited
from onceq.spark.operators.settling import KINDS
from tests.unit.spark.operators.recorded_states import EOD_FILTER, NUMBER, SETTLE

QUEUE = r"DIRECT=OS:HUB\private$\orders"
FOLDED = QUEUE.lower()
STREAM = str(1_700_000_000 << 32 | 1)
FILTERED = "7301444403312558081"
BEGAN = 1_700_000_000


def at(second: int) -> datetime:
    return datetime.fromtimestamp(BEGAN + second, UTC)


def rows_of(operator: str, blob: bytes) -> list[dict[str, Any]]:
    return list(KINDS[operator].rows(BucketRecords.opened(blob, "cp")).to_pylist())


def test_what_the_filter_remembers() -> None:
    assert rows_of("eod_filter", EOD_FILTER) == [
        {"sourceMachine": "shop1", "queue": FOLDED, "streamId": FILTERED, "lastNumber": 2,
         "lastSeen": at(0)},
        {"sourceMachine": "strasse", "queue": FOLDED, "streamId": FILTERED, "lastNumber": 1,
         "lastSeen": at(0)},
    ]  # fmt: skip
    table = pa.table({
        "sourceMachine": ["SHOP1", "shop1"], "queue": [QUEUE] * 2, "streamId": [FILTERED] * 2,
        "seqNumber": [2, 3], "prevNumber": [1, 2],
    })  # fmt: skip
    out, _ = EodFilter((), 8, 0).done(table, BucketRecords.read(EOD_FILTER, 8), BEGAN + 9)
    assert out["verdict"].to_pylist() == ["duplicate", "accept", "order-ack"]


def test_what_numbering_remembers() -> None:
    assert rows_of("number", NUMBER) == [
        {"sourceMachine": "shop1", "queue": FOLDED, "streamId": STREAM, "lastNumber": 2,
         "acknowledged": 0, "commitOrder": 9, "sendOrder": 1},
        {"sourceMachine": "strasse", "queue": FOLDED, "streamId": STREAM, "lastNumber": 1,
         "acknowledged": 0, "commitOrder": 4, "sendOrder": 2},
    ]  # fmt: skip
    table = pa.table({
        "sourceMachine": ["SHOP1", "shop1"], "queue": [QUEUE] * 2, "commitOrder": [9, 10],
        "sendOrder": pa.array([1, 0], pa.int32()),
    })  # fmt: skip
    out, _ = Numbering(5, 8).done(table, BucketRecords.read(NUMBER, 8), BEGAN + 9)
    found = out.select(["streamId", "seqNumber"]).to_pylist()
    assert found == [{"streamId": None, "seqNumber": None}, {"streamId": STREAM, "seqNumber": 3}]


def test_what_quotas_remember() -> None:
    assert rows_of("settle", SETTLE) == [
        {"queue": FOLDED, "usedBytes": 800, "staysBytes": 500, "nextLeaves": at(30),
         "lastArrived": at(3)},
    ]  # fmt: skip
    work = Limited(Settler({FOLDED: QueueSetup(True, quota_bytes=1024, used_bytes=100)}), (), 8)
    table = pa.table({
        "queue": [QUEUE] * 3, "transactional": [True] * 3,
        **{name: pa.array([at(20), at(21), at(30)], pa.timestamp("us", "UTC"))
           for name in ("sentTime", "arrivedTime")},
        "packetBytes": [200, 300, 300],
    })  # fmt: skip
    out, _ = work.done(table, BucketRecords.read(SETTLE, 8), BEGAN + 99)
    assert out["result"].to_pylist() == ["waiting", "refused", "waiting"]


def test_nothing_lies_in_a_queue_that_only_had_rows_that_are_no_messages() -> None:
    """It has no time at which the last message came."""
    work = Limited(Settler({"q": QueueSetup(True, quota_bytes=1024)}), (), 8)
    table = pa.table({
        "queue": ["q"], "transactional": pa.array([None], pa.bool_()),
        "sentTime": pa.array([at(0)], pa.timestamp("us", "UTC")), "packetBytes": [200],
    })  # fmt: skip
    _, memory = work.done(table, BucketRecords.empty(work.fields), BEGAN)
    assert rows_of("settle", memory.write(8)) == [
        {"queue": "q", "usedBytes": 0, "staysBytes": 0, "nextLeaves": None, "lastArrived": None},
    ]


def test_nothing_is_remembered() -> None:
    fields = {
        "eod_filter": EodFilter.fields, "number": Numbering.fields, "settle": Limited.fields,
    }  # fmt: skip
    for name, kind in KINDS.items():
        assert frozenset(fields[name]) == kind.fields
        assert rows_of(name, BucketRecords.empty(fields[name]).write(8)) == []


def test_what_is_no_state_of_this_version_is_refused() -> None:
    other = pa.table({"key": ["a\nq"]}).replace_schema_metadata({"version": "2", "buckets": "8"})
    for blob, text in (
        (pack(other), "cp has a state of format 2, .* reads format 1"),
        (pack(pa.table({"x": [1]})), r"cp has a state of format \?"),
        (EOD_FILTER[:100], "cp has a state that is none of an operator of onceq"),
        (b"not a table", "cp has a state that is none of an operator of onceq"),
        (b"", "cp has a state that is none of an operator of onceq"),
    ):
        with pytest.raises(ConfigurationError, match=rf"^\[configuration\] {text}"):
            BucketRecords.opened(blob, "cp")
