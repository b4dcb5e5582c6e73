"""Numbers of the pipeline against those that the core gives to the same commits."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")

import numpy as np
import pyarrow as pa

from onceq.spark.operators import numbering, rules
from onceq.spark.operators.key_buckets import BucketRecords
from onceq.spark.operators.numbering import ACK_NUMBER, ACK_STREAM, KEY, Numbering
from tests.property.numbering import FIRST, Sender, numbers_in, table_of


def acknowledgments_of(told: list[tuple[str, int, int]]) -> Any:
    """Rows as the operator adds them to the messages."""
    return pa.table(
        {
            "sourceMachine": pa.array(["A"] * len(told), pa.string()),
            "queue": pa.array([queue for queue, _, _ in told], pa.string()),
            ACK_STREAM: pa.array([str(FIRST + rank) for _, rank, _ in told], pa.string()),
            ACK_NUMBER: pa.array([number for _, _, number in told], pa.int64()),
        }
    )


def lasts_of(rows: list[dict[str, Any]]) -> Any:
    """All that was numbered, as it is read for ``after``."""
    known = [row for row in rows if row["seqNumber"] is not None]
    names = {"stream": "streamId", "last": "seqNumber", "commit": "commitOrder",
             "send": "sendOrder"}  # fmt: skip
    kinds = {"stream": pa.string()}
    return pa.table(
        {name: pa.array([row[name] for row in known], pa.string()) for name in KEY}
        | {
            name: pa.array([row[column] for row in known], kinds.get(name, pa.int64()))
            for name, column in names.items()
        }
    )


def test_commits_as_the_core_numbers_them() -> None:
    """Interleaved transactions to several queues, in micro-batches that may cut transactions, with
    rows of each in any order and repeated, across batches that are run again."""
    rng = random.Random(17)
    messages = 0
    for _ in range(50):
        sender = Sender(rng)
        for _ in range(rng.randint(5, 60)):
            sender.something()
        work, memory = Numbering(77, 4), BucketRecords.empty(Numbering.fields)
        cuts = sorted(rng.randint(0, len(sender.rows)) for _ in range(3))
        ours: list[dict[str, Any]] = []
        for a, b in zip([0, *cuts], [*cuts, len(sender.rows)], strict=True):
            batch = sender.rows[a:b] + rng.choices(sender.rows[:b] or [], k=3 if b else 0)
            rng.shuffle(batch)
            out, after = work.done(table_of(batch), memory, 5)
            again, _ = work.done(table_of(batch), memory, 5)
            assert out.equals(again)
            ours += out.to_pylist()
            memory = BucketRecords.read(after.write(4), 4)
        theirs = sender.numbered()
        assert numbers_in(ours) == theirs
        messages += sum(map(len, theirs.values()))
    assert messages > 1_000


def test_streams_are_left_as_the_core_leaves_them() -> None:
    """Acknowledgments come between micro-batches: late, twice, of streams left and of numbers not
    given. Now and then numbering begins anew, after what it has numbered before."""
    rng = random.Random(43)
    left = anew = 0
    for _ in range(50):
        sender = Sender(rng)
        work, memory = Numbering(77, 1), BucketRecords.empty(Numbering.fields)
        ours: list[dict[str, Any]] = []
        told: list[tuple[str, int, int]] = []
        heard = done = 0
        for _ in range(rng.randint(2, 7)):
            for _ in range(rng.randint(0, 12)):
                sender.something()
            messages = table_of(sender.rows[done:] + rng.choices(sender.rows or [], k=min(done, 3)))
            acks = acknowledgments_of(told[heard:])
            batch = pa.concat_tables([messages, acks], promote_options="default")
            batch = batch.take(pa.array(rng.sample(range(len(batch)), len(batch)), pa.int64()))
            out, after = work.done(batch, memory, 5)
            assert out.num_rows == len(messages)
            ours += out.to_pylist()
            memory = BucketRecords.read(after.write(1), 1)
            heard, done = len(told), len(sender.rows)
            told += sender.acknowledge()
            if rng.random() < 0.25:
                before = numbering.by_bucket(numbering.memory_of(lasts_of(ours), "number", KEY), 1)
                work, memory = Numbering(77, 1, before), BucketRecords.empty(Numbering.fields)
                heard, anew = 0, anew + 1
        theirs = sender.numbered()
        for queue, found in numbers_in(ours).items():
            assert found == theirs[queue]
        assert sum(map(len, numbers_in(ours).values())) == done
        left += sum(rank > 0 for found in theirs.values() for _, rank, _, _ in found)
    assert left > 200
    assert anew > 30


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 6), st.integers(0, 3)), max_size=30),
    st.integers(0, 30),
)
def test_a_number_is_given_once_and_in_order(rows: list[tuple[int, int, int]], cut: int) -> None:
    """Whatever comes in whatever pieces: numbers are 1, 2, ... in the order of places, each place
    has one, and only what comes behind a later place has none."""
    lasts = commits = sends = np.zeros(3, np.int64)
    given_to: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for part in (rows[:cut], rows[cut:]):
        table = np.array(part, np.int64).reshape(-1, 3)
        found = rules.number(
            table[:, 0], table[:, 1], table[:, 2], lasts, commits, sends, lasts > 0
        )
        reached = {key: places[-1] for key, places in given_to.items()}
        new: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
        for (key, commit, send), number in zip(part, found.numbers.tolist(), strict=True):
            if number:
                assert number not in new[key]
                new[key][number] = (commit, send)
        for key, numbers in new.items():
            assert sorted(numbers) == list(
                range(len(given_to[key]) + 1, len(given_to[key]) + len(numbers) + 1)
            )
            given_to[key] += [numbers[n] for n in sorted(numbers)]
        for key, commit, send in part:
            assert (commit, send) in given_to[key] or (commit, send) < reached[key]
        lasts, commits, sends = found.lasts, found.commits, found.sends
    for key, places in given_to.items():
        assert places == sorted(set(places))
        assert (lasts[key], commits[key], sends[key]) == (len(places), *places[-1])


def test_a_stream_keeps_the_time_that_it_began() -> None:
    work, memory = Numbering(None, 4), BucketRecords.empty(Numbering.fields)
    out, memory = work.done(table_of([("q", 1, 0, b"a")]), memory, 1_000)
    assert out["streamId"].to_pylist() == [str(1_000 << 32 | 1)]
    out, memory = work.done(table_of([("q", 2, 0, b"b"), ("r", 2, 1, b"c")]), memory, 2_000)
    assert out["streamId"].to_pylist() == [str(1_000 << 32 | 1), str(2_000 << 32 | 1)]


def test_rows_without_a_place_get_no_number() -> None:
    rows = [("q", 1, 0, b"a"), ("q", 1, 1, b"b"), ("q", 1, 2, b"c")]
    for column in ("sourceMachine", "queue", "commitOrder", "sendOrder"):
        table = table_of(rows)
        values = table[column].to_pylist()
        values[1] = None
        changed = table.set_column(
            table.column_names.index(column), column, pa.array(values, table[column].type)
        )
        out, _ = Numbering(1, 4).done(changed, BucketRecords.empty(Numbering.fields), 0)
        found = {row["body"]: row["seqNumber"] for row in out.to_pylist()}
        assert found == {b"a": 1, b"b": None, b"c": 2}, column


def held(last: int, acknowledged: int, stream: int = 5) -> BucketRecords:
    return BucketRecords(
        pa.array(["a\nq"]),
        {"stream": np.array([stream], np.uint64), "last": np.array([last]),
         "commit": np.array([1]), "send": np.array([0]),
         "acknowledged": np.array([acknowledged])},
    )  # fmt: skip


def test_used_up_numbers_are_told_and_a_new_stream_begins_when_it_may() -> None:
    work, table = Numbering(1, 4), table_of([("q", 2, 0, b"")])
    with pytest.raises(Exception, match=r"\[configuration\].*used up.*acknowledgments="):
        work.done(table, held(rules.NUMBER_MAX, rules.NUMBER_MAX - 1), 0)
    out, _ = work.done(table, held(rules.NUMBER_MAX, rules.NUMBER_MAX), 0)
    assert out.select(["streamId", "seqNumber", "prevNumber"]).to_pylist() == [
        {"streamId": "6", "seqNumber": 1, "prevNumber": 0}
    ]


def test_repetitions_begin_no_stream() -> None:
    work, table = Numbering(1, 4), table_of([("q", 1, 0, b"again")])
    out, after = work.done(table, held(3, 3), 0)
    assert out["seqNumber"].to_pylist() == [None]
    found = {name: values.tolist() for name, values in after.fields.items()}
    assert found == {
        "stream": [5], "last": [3], "commit": [1], "send": [0], "acknowledged": [3],
    }  # fmt: skip


def test_what_cannot_have_been_numbered_is_refused() -> None:
    good = {"stream": "5", "last": 3}
    for bad in ({"stream": None}, {"stream": "0"}, {"stream": str((1 << 64) - 1)}, {"last": 0},
                {"last": rules.NUMBER_MAX + 1}):  # fmt: skip
        row = {"sourceMachine": "A", "queue": "q", **good, "commit": 1, "send": 0, **bad}
        with pytest.raises(Exception, match=r"\[configuration\] number: after has a row"):
            numbering.memory_of(pa.Table.from_pylist([row]), "number: after", KEY)
