"""What is decided page by page is what is decided row by row: numbers, and quotas."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")

import numpy as np
import pyarrow as pa

from onceq.spark.operators import numbering
from onceq.spark.operators.arrivals import UNLIMITED, QueueSetup, Settler
from onceq.spark.operators.key_buckets import CLOCK, PAGE_ROWS, BucketRecords, RowPages, deciding
from onceq.spark.operators.numbering import ACK_NUMBER, ACK_STREAM, KEY, Numbering
from onceq.spark.operators.quotas import Limited
from tests.property import plain_operators as plain
from tests.property.plain_operators import KINDS, TIMES, Rows, outcome, table_of, told

SEEDS = range(30)
NOW_S = plain.BASE_US // plain.SECOND_US + 40


def by_page(work: Any, table: Any, rng: random.Random) -> list[Any]:
    """Answers about a table in batches of any size."""
    table = table.append_column(CLOCK, pa.array([NOW_S] * len(table), pa.int64()))
    cuts = sorted(rng.choices(range(table.num_rows + 1), k=rng.randint(0, 6)))
    batches = [
        tuple(column.combine_chunks() for column in table.slice(start, end - start).columns)
        for start, end in pairwise([0, *cuts, table.num_rows])
    ]
    answers = list(deciding(work, table.column_names)(iter(batches)))
    found: list[Any] = [row for answer in answers for row in answer.to_pylist()]
    assert len(found) == table.num_rows
    return found


def test_numbers_are_the_same_by_page_and_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        monkeypatch.setattr("onceq.spark.operators.key_buckets.PAGE_ROWS", rng.randint(1, 30))
        compare_numbers(rng, seed)


def compare_numbers(rng: random.Random, seed: int) -> None:
    rows = plain.commits(rng, str(seed))
    half = [row for row in rows if (row["commitOrder"] or 0) < 5]
    before = [r for r in plain.numbered(half, [], [], 76) if r["seqNumber"] is not None]
    before = before if rng.random() < 0.6 else []
    acks = plain.heard(rng, before)
    theirs = plain.numbered(rows, acks, before, 77)
    work = Numbering(77, 4, numbering.by_bucket(memory_of(before), 4) if before else None)
    messages = [dict(row) for row in rows]
    others = [
        {**ack, ACK_STREAM: ack["streamId"], ACK_NUMBER: ack["seqNumber"]} for ack in acks
    ]  # fmt: skip
    place = ("commitOrder", "sendOrder")
    messages.sort(key=lambda row: tuple((row[name] is None, row[name] or 0) for name in place))
    names = [*KEY, *place, *([ACK_STREAM, ACK_NUMBER] if acks or rng.random() < 0.5 else [])]
    table = table_of([*others, *messages], names)
    found = by_page(work, table, rng)
    assert all(set(answer.values()) == {None} for answer in found[: len(others)])
    ours = [{**row, **answer} for row, answer in zip(messages, found[len(others) :], strict=True)]
    assert told(ours) == told(theirs)
    out, _ = work.done(table.take(pa.array(rng.sample(range(len(table)), len(table)), pa.int64())),
                       BucketRecords.empty(work.fields), NOW_S)  # fmt: skip
    assert told(out.to_pylist()) == told(theirs)


def memory_of(before: Rows) -> BucketRecords:
    names = {"stream": "streamId", "last": "seqNumber", "commit": "commitOrder",
             "send": "sendOrder"}  # fmt: skip
    rows = [{**row, **{name: row[column] for name, column in names.items()}} for row in before]
    table = table_of(rows, KEY).append_column("stream", pa.array([r["streamId"] for r in rows]))
    for name in ("last", "commit", "send"):
        table = table.append_column(name, pa.array([row[name] for row in rows], pa.int64()))
    return numbering.memory_of(table, "number: after", KEY)


def test_quotas_are_the_same_by_page_and_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in SEEDS:
        for lookups in (True, False):
            rng = random.Random(seed)
            monkeypatch.setattr("onceq.spark.operators.key_buckets.PAGE_ROWS", rng.randint(1, 30))
            compare_quotas(rng, seed, lookups=lookups)


def compare_quotas(rng: random.Random, seed: int, *, lookups: bool) -> None:
    rows = plain.arrivals(rng, seed, lookups=lookups)
    queues = plain.queues(rng, str(seed))
    theirs = plain.settled(rows, queues, NOW_S)
    work = Limited(settler(queues), (), 4)
    names = list(plain.arrivals(random.Random(1), 0, lookups=lookups)[0])
    out, _ = work.done(table_of(rows, names), BucketRecords.empty(work.fields), NOW_S)
    assert outcome(out.to_pylist()) == theirs
    rows.sort(key=lambda row: plain.arrival(row, NOW_S))
    table = table_of(rows, names)
    found = by_page(work, table.select([n for n in names if n not in ("id", "lookupId")]), rng)
    assert outcome([row | end for row, end in zip(rows, found, strict=True)]) == theirs
    for end in found:
        if end["result"] == "malformed":
            said = {name: value for name, value in end.items() if name != "result"}
            assert said == {
                "messageClass": None, "acknowledgments": [], "finalAck": None, "deadLetter": None,
                "deadLetterAtSource": False, "journalCopy": False, "journalCopyAtSource": False,
            }  # fmt: skip


def settler(queues: list[plain.Queue]) -> Settler:
    return Settler({
        plain.folded(queue.name): QueueSetup(
            queue.transactional, quota_bytes=UNLIMITED if queue.quota is None else queue.quota,
            used_bytes=queue.used,
        ) for queue in queues
    })  # fmt: skip


def test_the_reference_meets_every_end() -> None:
    """A comparison of rows that all wait would say nothing."""
    ends = set()
    for seed in SEEDS:
        rng = random.Random(seed)
        rows = plain.arrivals(rng, seed, lookups=True)
        ends |= set(plain.settled(rows, plain.queues(rng, str(seed)), NOW_S).values())
    assert {code for _, code in ends} == {
        None, 0x0002, 0x4000, 0x8000, 0x8002, 0x8003, 0x8007, 0x8009, 0x800A, 0xC002,
    }  # fmt: skip


def test_a_page_grows_with_what_is_remembered() -> None:
    """Each decision goes through all of that: with short pages, many records cost their square."""
    sizes = []
    pages = RowPages(((pa.nulls(10_000),) for _ in range(100)), ["x"])
    for page in pages:
        sizes.append(page.num_rows)
        pages.remembered = 800_000 if len(sizes) == 2 else 0
    assert sizes[:4] == [70_000, 70_000, 200_000, 70_000]
    assert PAGE_ROWS == 65_536


def test_memory_of_a_queue_is_what_lies_in_it() -> None:
    """Not what went through it: 50,000 messages that leave at once need a handful of records."""
    work, memory = Limited(Settler({"q": QueueSetup(True, quota_bytes=1 << 20)}), (), 4), None
    for page in range(5):
        at = plain.BASE_US + np.arange(page * 10_000, (page + 1) * 10_000) * 10
        table = pa.table({
            "queue": ["q"] * 10_000, "transactional": [True] * 10_000,
            **{name: pa.array(at + (25 if name == "receivedTime" else 0), KINDS[name])
               for name in TIMES},
            "packetBytes": [100] * 10_000,
        })  # fmt: skip
        found, memory = work.beside(table, memory or BucketRecords.empty(work.fields), NOW_S)
        assert set(found.field("result").to_pylist()) == {"received"}
        assert len(memory.keys) <= 4
