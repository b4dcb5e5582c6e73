"""The filter of the pipeline against the core's own, on the same messages: every verdict, every
order acknowledgment, and what is remembered in the end."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.receiving import Receiver, Row, feed, table_of

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")

import numpy as np
import pyarrow as pa

from onceq.core.transfer.ordered_arrival import Verdict, judge
from onceq.errors import ConfigurationError
from onceq.spark.operators import rules
from onceq.spark.operators.columns import keyed
from onceq.spark.operators.eod import JUDGED, EodFilter, verdicts_of
from onceq.spark.operators.key_buckets import RUN_ROWS, BucketRecords, placed

ORDER_ACK = "order-ack"


def test_the_words_are_those_of_the_core() -> None:
    """But for a number used twice: rows of a feed need have no identifiers to tell it by."""
    words = tuple(verdict.value for verdict in Verdict if verdict is not Verdict.CONFLICT)
    assert rules.VERDICTS[:4] == words


# ---- the rule alone: thousands of small cases, against the core's rule ---------------------

KEYS = 3
messages = st.tuples(
    st.integers(0, KEYS - 1), st.integers(0, 3), st.integers(1, 9), st.integers(0, 9)
)
starts = st.tuples(st.integers(0, 2), st.integers(0, 5))


@given(st.lists(messages, max_size=25), st.lists(starts, min_size=KEYS, max_size=KEYS))
def test_any_rows_at_any_start(
    found: list[tuple[int, int, int, int]], begun: list[tuple[int, int]]
) -> None:
    compare(found, begun)


def test_many_more_drawn_by_a_quicker_die() -> None:
    rng = random.Random(7)
    for _ in range(4_000):
        begun = [(rng.choice((0, 0, 1, 2)), rng.randint(0, 4)) for _ in range(KEYS)]
        found = []
        for _ in range(rng.randint(0, 20)):
            number = rng.randint(1, 9)
            before = rng.choice((0, number - 1, number - 1, number - 1, rng.randint(0, 9)))
            found.append((rng.randrange(KEYS), rng.randint(0, 3), number, before))
        compare(found, begun)


def compare(found: list[tuple[int, int, int, int]], begun: list[tuple[int, int]]) -> None:
    """One list of rows through both rules."""
    table = np.array(found, np.int64).reshape(-1, 4)
    streams = np.array([stream for stream, _ in begun], np.uint64)
    lasts = np.array([last for _, last in begun], np.int64)
    ours = rules.judge(
        table[:, 0], table[:, 1].astype(np.uint64), table[:, 2], table[:, 3], streams, lasts
    )
    state, verdicts = list(begun), []
    for key, stream, number, before in found:
        now, last = state[key]
        judgment = judge(stream=now, last=last, arrived=stream, number=number, previous=before)
        verdicts.append(judgment.verdict.value)
        if judgment.verdict is Verdict.ACCEPT:
            state[key] = (stream, number)
    assert [rules.VERDICTS[code] for code in ours.verdicts] == verdicts
    assert list(zip(ours.streams.tolist(), ours.lasts.tolist(), strict=True)) == state
    assert streams.tolist() == [stream for stream, _ in begun], "what was given is left alone"


@pytest.mark.parametrize("keys", [1 << 16, (1 << 16) + 1])
def test_more_keys_than_sixteen_bits_tell_apart(keys: int) -> None:
    last, first = keys - 1, 0
    compare(
        [(last, 1, 1, 0), (first, 1, 1, 0), (last, 1, 2, 1), (first, 1, 3, 2), (last, 1, 1, 0),
         (first, 1, 2, 1), (keys // 2, 2, 1, 0), (last, 1, 3, 2), (keys // 2, 1, 1, 0)],
        [(0, 0)] * keys,
    )  # fmt: skip


def test_the_largest_numbers_there_are() -> None:
    most, stream = rules.NUMBER_MAX, (1 << 64) - 1
    compare([(0, 1, most - 1, 0), (0, 1, most, most - 1), (0, 1, most, most), (1, 1, 1, 0)],
            [(0, 0)] * 3)  # fmt: skip
    found = rules.judge(
        np.array([0, 0]), np.array([stream, stream - 1], np.uint64), np.array([1, 2]),
        np.array([0, 1]), np.zeros(1, np.uint64), np.zeros(1, np.int64),
    )  # fmt: skip
    assert [rules.VERDICTS[code] for code in found.verdicts] == ["accept", "stale stream"]


# ---- the whole filter, against a queue manager that real packets arrive at -----------------


def run(rows: list[Row], work: EodFilter, memory: BucketRecords) -> tuple[Any, BucketRecords]:
    """One micro-batch; its parcels come in any order."""
    table = table_of(rows, ordered=bool(work._order_by))
    shuffled = table.take(pa.array(random.Random(len(rows)).sample(range(len(rows)), len(rows))))
    out, after = work.done(shuffled, memory, 0)
    again, same = work.done(shuffled, memory, 0)
    assert again.equals(out), "a batch that is run again decides as before"
    assert same.write(8) == after.write(8)
    return out, BucketRecords.read(after.write(8), 8)


@pytest.mark.parametrize("ordered", [True, False], ids=["arrival", "number"])
def test_feeds_of_all_kinds(ordered: bool) -> None:
    rng = random.Random(11)
    work = EodFilter(("lookupId",) if ordered else (), 8, 0)
    words = set()
    for case in range(120):
        receiver, memory = Receiver(), BucketRecords.empty(EodFilter.fields)
        for batch in feed(rng):
            if not batch:
                continue
            rows = batch
            if not ordered:
                rows = sorted(batch, key=lambda row: (row.stream, row.number, row.previous))
            theirs = [receiver.arrive(row) for row in rows]
            words.update(theirs)
            out, memory = run(batch, work, memory)
            check(rows, theirs, out, case)
            acks = out.filter(pa.compute.equal(out["verdict"], ORDER_ACK)).to_pylist()
            ours = {(a["sourceMachine"].encode(), int(a["streamId"]), a["seqNumber"]) for a in acks}
            assert ours == receiver.acknowledged(), case
            assert remembered(memory) == receiver.state(), case
            if rng.random() < 0.3:
                receiver.crash()
    assert words == {"accept", "duplicate", "gap", "stale stream"}, "the feeds have shown all"


def check(rows: list[Row], theirs: list[str], out: Any, case: int) -> None:
    """Verdict by verdict, for each pair in the order in which they were given."""
    ours = [
        (r["sourceMachine"], r["queue"], int(r["streamId"]), r["seqNumber"], r["prevNumber"],
         r["verdict"])
        for r in out.to_pylist() if r["verdict"] != ORDER_ACK
    ]  # fmt: skip
    told = [
        (row.source.decode(), "DIRECT=" + row.direct, row.stream, row.number, row.previous, word)
        for row, word in zip(rows, theirs, strict=True)
    ]
    # Pairs of sender and queue have no order between them.
    assert sorted(ours, key=lambda r: r[:2]) == sorted(told, key=lambda r: r[:2]), case


def remembered(memory: BucketRecords) -> dict[tuple[bytes, str], tuple[int, int]]:
    found = {}
    for key, stream, last in zip(
        memory.keys.to_pylist(),
        memory.fields["stream"].tolist(),
        memory.fields["last"].tolist(),
        strict=True,
    ):
        source, _, queue = key.partition("\n")
        found[source.encode(), queue.removeprefix("direct=")] = (stream, last)
    return found


def test_runs_that_arrive_together() -> None:
    """A core that is handed whole reads comes to the same end as rows judged one by one."""
    rng = random.Random(5)
    for _ in range(40):
        receiver, memory = Receiver(), BucketRecords.empty(EodFilter.fields)
        work = EodFilter(("lookupId",), 8, 0)
        for batch in feed(rng):
            parts = [[r for r in batch if r.sender == sender] for sender in range(3)]
            for part in parts:
                if part:
                    receiver.together(part)
                    _, memory = run(part, work, memory)
        assert remembered(memory) == receiver.state()


# ---- what is no message of a stream, and what is forgotten ----------------------------------


def test_rows_without_numbers_are_said_to_be_malformed() -> None:
    rows = [Row(1, "q", 5, n, n - 1) for n in range(1, 4)]
    table = table_of(rows, ordered=True)
    bad: dict[str, list[object]] = {
        "sourceMachine": [None, "a"], "queue": [None, "q"],
        "streamId": [None, "-1", "x", "18446744073709551616", "1.0"],
        "seqNumber": [None, 0, -1, 1 << 32], "prevNumber": [None, -1, 1 << 32],
    }  # fmt: skip
    work = EodFilter(("lookupId",), 8, 0)
    for name, values in bad.items():
        for value in values:
            column = table[name].to_pylist()
            column[1] = value
            changed = table.set_column(
                table.schema.get_field_index(name), name, pa.array(column, table[name].type)
            )
            words = work.done(changed, BucketRecords.empty(EodFilter.fields), 0)[0][
                "verdict"
            ].to_pylist()
            if value in ("a", "q"):
                assert words[:3] == ["accept", "gap", "gap"]
            else:
                assert words == ["accept", "malformed", "gap", ORDER_ACK], (name, value)


def test_a_stream_is_forgotten_when_nothing_was_seen_of_it_for_long() -> None:
    work = EodFilter(("lookupId",), 8, 100)
    first, other = [Row(1, "q", 5, 1, 0)], [Row(2, "q", 5, 1, 0)]

    def at(rows: list[Row], memory: BucketRecords, now_s: int) -> tuple[list[str], BucketRecords]:
        out, after = work.done(table_of(rows, ordered=True), memory, now_s)
        return out["verdict"].to_pylist(), after

    words, memory = at(first, BucketRecords.empty(EodFilter.fields), 1_000)
    words, memory = at(first, memory, 1_099)
    assert words == ["duplicate", ORDER_ACK], "a repetition counts as a sign of life, too"
    words, memory = at(other, memory, 1_198)
    assert words == ["accept", ORDER_ACK]
    words, _ = at(first, memory, 1_198)
    assert words == ["duplicate", ORDER_ACK]
    words, memory = at(first, memory, 1_199)
    assert words == ["accept", ORDER_ACK], "nothing was seen of it for 100 s: it is new"
    assert len(memory.fields["seen"]) == 2


def test_names_compare_in_any_case_and_with_either_slash() -> None:
    table = pa.table(
        {
            "sourceMachine": ["AB", "ab", "ab", None],
            "queue": ["DIRECT=OS:B\\q", "direct=os:b/q", "DIRECT=OS:C\\q", "x"],
        }
    )
    codes, keys, there = keyed(table, ("sourceMachine", "queue"))
    assert codes[0] == codes[1] != codes[2]
    assert keys[codes[0]].as_py() == "ab\ndirect=os:b\\q"
    assert there.tolist() == [True, True, True, False]
    assert len(keys) == 3


# ---- how rows come to it --------------------------------------------------------------------


def test_rows_are_put_in_order_whether_they_stand_in_runs_or_not() -> None:
    rng = np.random.default_rng(4)
    size = 3 * RUN_ROWS
    table = pa.table({"n": np.arange(size)})
    runs = np.concatenate((np.arange(size // 2, size), np.arange(size // 2)))
    for order in (np.arange(size), runs, rng.permutation(size), np.arange(size)[::-1], runs[:0]):
        assert placed(table, order)["n"].to_pylist() == order.tolist()
    assert placed(table, runs)["n"].num_chunks == 2, "two runs, not copied"


def test_a_bucket_that_is_too_large_to_be_put_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onceq.spark.operators.key_buckets.PARCELS_BYTES_MAX", 8 * 5 - 1)
    table = pa.table({"n": np.arange(5)})
    with pytest.raises(ConfigurationError, match=r"have 40 bytes in a column.*more buckets"):
        placed(table, np.arange(5)[::-1])


def test_every_way_to_find_the_order_finds_the_same() -> None:
    rng = random.Random(8)
    quick, slow = (EodFilter(order, 8, 0) for order in (("lookupId",), ("lookupId", "same")))
    for _ in range(40):
        rows = [row for batch in feed(rng) for row in batch]
        table = table_of(rows, ordered=True).take(pa.array(rng.sample(range(len(rows)), len(rows))))
        if rng.random() < 0.5:  # Places that several rows claim.
            halved = pa.compute.divide(table["lookupId"], 2)
            at = table.schema.get_field_index("lookupId")
            table = table.set_column(at, "lookupId", halved)
        table = table.append_column("same", pa.nulls(len(table), pa.int64()))
        out, after = quick.done(table, BucketRecords.empty(quick.fields), 0)
        other, same = slow.done(table, BucketRecords.empty(slow.fields), 0)
        assert out.equals(other)
        assert after.write(8) == same.write(8)


# ---- the way of a frame that is no stream ----------------------------------------------------


def test_rows_that_come_batch_by_batch_are_judged_as_all_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However they are cut; and all acknowledgments come with the last row."""
    rng = random.Random(9)
    work = EodFilter(("lookupId",), 8, 0)
    for _ in range(60):
        monkeypatch.setattr("onceq.spark.operators.key_buckets.PAGE_ROWS", rng.randint(1, 40))
        table = table_of([row for batch in feed(rng) for row in batch], ordered=True)
        if not table.num_rows:
            continue
        senders = [rng.choice((s, s.upper(), s, None)) for s in table["sourceMachine"].to_pylist()]
        table = table.set_column(0, "sourceMachine", pa.array(senders, pa.string()))
        assert table.column_names[0] == "sourceMachine"
        expected, _ = work.done(table, BucketRecords.empty(EodFilter.fields), 0)
        cuts = sorted(rng.choices(range(table.num_rows + 1), k=rng.randint(0, 6)))
        batches = [
            tuple(table[name].slice(start, end - start).combine_chunks() for name in JUDGED)
            for start, end in pairwise([0, *cuts, table.num_rows])
        ]
        found = pa.concat_arrays(list(verdicts_of(iter(batches)))).to_pylist()
        assert len(found) == table.num_rows
        assert [row["acks"] for row in found[:-1]] == [None] * (len(found) - 1)
        rows = expected.to_pylist()
        words = [rules.VERDICTS[row["verdict"]] for row in found]
        assert words == [row["verdict"] for row in rows[: len(found)]]
        acks = {
            (ack["sourceMachine"].casefold(), ack["queue"], int(ack["streamId"]), ack["seqNumber"])
            for ack in (found[-1]["acks"] or [None])[1:]
        }
        assert acks == {
            (row["sourceMachine"].casefold(), row["queue"], int(row["streamId"]), row["seqNumber"])
            for row in rows[len(found) :]
        }
    assert list(verdicts_of(iter([]))) == []


def test_an_acknowledgment_spells_names_as_the_first_message_did() -> None:
    columns = {
        "sourceMachine": ["AB", "ab", "Ab"], "queue": ["Q/x", "q\\X", "q/x"],
        "streamId": ["1"] * 3, "seqNumber": [2, 1, 2], "prevNumber": [1, 0, 1],
    }  # fmt: skip
    (found,) = verdicts_of(iter([tuple(pa.array(columns[name]) for name in JUDGED)]))
    assert found.to_pylist()[-1] == {
        "verdict": rules.ACCEPT,
        "acks": [
            None,
            {"sourceMachine": "AB", "queue": "Q/x", "streamId": "1", "seqNumber": 2},
        ],
    }
