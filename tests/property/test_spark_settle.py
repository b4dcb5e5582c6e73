"""Arrivals and ends of the pipeline against those of the core: each message, every outcome."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")

import numpy as np
import pyarrow as pa

from onceq.core.ending.acknowledgments import INSECURE
from onceq.core.ending.ending import SYSTEM_NAMES
from onceq.model.marks import NEVER_S
from onceq.model.queue import QUOTA_UNLIMITED_KB
from onceq.model.settings import Settings
from onceq.spark.operators import arrivals, quotas, rules
from onceq.spark.operators.arrivals import QueueSetup, Settler, with_answers
from onceq.spark.operators.key_buckets import CLOCK, BucketRecords
from onceq.spark.operators.quotas import Arrivals, Held, Limited
from onceq.spark.operators.rules import FOREVER
from onceq.spark.operators.settling import each
from tests.property.settle_core import QUEUES, SECOND_US, Case, World, at_source, drawn, happen
from tests.unit.core.alone import WALL_S

BEGAN = datetime.fromtimestamp(WALL_S, UTC)
ENDS = 165
NAME = r"DIRECT=OS:A\private$" + "\\"


def table_of(cases: list[Case]) -> Any:
    def times(values: list[int | None]) -> Any:
        return pa.array(
            [None if v is None else BEGAN + timedelta(microseconds=v) for v in values],
            pa.timestamp("us", "UTC"),
        )

    return pa.table(
        {
            "message": pa.array([id(case) for case in cases], pa.int64()),
            "queue": pa.array([NAME + case.queue for case in cases], pa.string()),
            "transactional": pa.array([case.transactional for case in cases], pa.bool_()),
            "sentTime": times([case.sent_s * SECOND_US for case in cases]),
            "arrivedTime": times([case.arrives for case in cases]),
            "receivedTime": times([case.claimed for case in cases]),
            "timeToReachQueue": pa.array([case.reach for case in cases], pa.int64()),
            "timeToBeReceived": pa.array([case.lifetime for case in cases], pa.int64()),
            "acknowledge": pa.array([case.level for case in cases], pa.int32()),
            "adminQueue": pa.array(["a" if case.admin else None for case in cases], pa.string()),
            "journal": pa.array([case.journal for case in cases], pa.int32()),
            "encrypted": pa.array([case.encrypted for case in cases], pa.bool_()),
            "packetBytes": pa.array([case.size for case in cases], pa.int64()),
        }
    )


def settler(settings: Settings, quotas_kb: dict[str, int] | None = None) -> Settler:
    places = {
        (NAME + name).lower(): QueueSetup(
            ordered, journal, quotas_kb[name] << 10 if quotas_kb else arrivals.UNLIMITED
        )
        for name, (ordered, journal) in QUEUES.items()
    }
    return Settler(places, settings.permit_insecure_nacks, settings.quiet_system_queues)


def said(row: dict[str, Any]) -> tuple[list[int], list[int], set[str], bool]:
    """What the pipeline says of a message: told, final, where, received."""
    where = {
        "waiting": row["result"] == "waiting",
        "dead here": row["deadLetter"] == "DEADLETTER",
        "dead ordered here": row["deadLetter"] == "DEADXACT",
        "dead at source": row["deadLetterAtSource"],
        "journal here": row["journalCopy"],
        "journal at source": row["journalCopyAtSource"],
    }
    final = [row["finalAck"]] if row["finalAck"] is not None else []
    received = row["result"] == "received"
    return sorted(row["acknowledgments"]), final, {w for w in where if where[w]}, received


def compare(cases: list[Case], rows: list[dict[str, Any]], settings: Settings) -> Counter[int]:
    """Hold every outcome against the core's; returns how often each class was told."""
    found = {row["message"]: row for row in rows}
    assert len(found) == len(rows) == len(cases)
    classes: Counter[int] = Counter()
    for case in cases:
        where = case.where | at_source(case, settings)
        received = case.received is not None
        assert said(found[id(case)]) == (sorted(case.told), case.final, where, received), case
        classes.update(case.told)
        classes.update(case.final)
    return classes


def lived(
    rng: random.Random, settings: Settings, quotas_kb: dict[str, int] | None = None
) -> list[Case]:
    """Messages of all kinds in the order of arrival, and what the core made of them until ENDS."""
    times = sorted(rng.sample(range(100_000, 160_000), 75))
    cases = [drawn(rng, at * 1_000) for at in times]
    receives = [
        (at * 1_000 + 500, rng.choice(list(QUEUES)))
        for at in rng.sample(range(100_000, 165_000), 50)
    ]
    happen(World(settings, quotas_kb), cases, receives, ENDS * SECOND_US)
    for case in cases:
        case.claimed = case.received
        over = case.sent_s + case.lifetime
        if case.received is None and over <= ENDS and rng.random() < 0.3:
            # Nobody can have received it any more; the core would not have let him.
            case.claimed = over * SECOND_US + rng.choice((0, 500_000))
    return cases


def test_arrivals_and_ends_of_all_kinds() -> None:
    """Where no queue has a quota: row by row."""
    rng = random.Random(31)
    classes: Counter[int] = Counter()
    for _ in range(20):
        settings = Settings(
            permit_insecure_nacks=rng.random() < 0.8, quiet_system_queues=rng.random() < 0.5
        )
        cases = lived(rng, settings)
        clock = pa.array([WALL_S + ENDS] * len(cases))
        table = table_of(cases).append_column(CLOCK, clock)
        (batch,) = table.to_batches()
        (found,) = each(settler(settings), table.column_names)(iter([tuple(batch.columns)]))
        rows = with_answers(table, found).to_pylist()
        classes += compare(cases, rows, settings)
    assert set(classes) >= {0x0002, 0x4000, 0x8000, 0x8002, 0x8007, 0x8009, 0x800A, 0xC002}


def test_quotas() -> None:
    """Messages to several queues that are nearly full, some of which leave in between: received,
    or expired; in micro-batches whose rows come in any order, and which are run again."""
    rng = random.Random(37)
    classes: Counter[int] = Counter()
    room_again = 0
    for _ in range(20):
        settings, quotas_kb = Settings(), {name: rng.choice((1, 1, 2)) for name in QUEUES}
        cases = lived(rng, settings, quotas_kb)
        work = Limited(settler(settings, quotas_kb), (), 4)
        memory = BucketRecords.empty(Limited.fields)
        cuts = sorted(rng.randint(0, len(cases)) for _ in range(2))
        rows: list[dict[str, Any]] = []
        for a, b in zip([0, *cuts], [*cuts, len(cases)], strict=True):
            part = rng.sample(cases[a:b], b - a)
            out, after = work.done(table_of(part), memory, WALL_S + ENDS)
            again, _ = work.done(table_of(part), memory, WALL_S + ENDS)
            assert out.equals(again)
            rows += out.to_pylist()
            memory = BucketRecords.read(after.write(4), 4)
        classes += compare(cases, rows, settings)
        by_id = {row["message"]: row for row in rows}
        ends = [(case, by_id[id(case)]) for case in cases]
        room_again += sum(
            row["messageClass"] == 0x8003
            and any(
                later.queue == case.queue and later.size >= case.size and end["result"] != "refused"
                for later, end in ends[n:]
            )
            for n, (case, row) in enumerate(ends)
        )
    assert classes[0x8003] > 100, "quotas bite"
    assert room_again > 50, "and what leaves gives its room back"


Row = tuple[int, int, int, int, bool]


def counted(rows: list[Row], limits: list[int], held: list[tuple[int, int, int]]) -> list[bool]:
    """Which rows find no room, counted in the plainest way."""
    found = []
    lies = {q: [(leaves, size) for k, leaves, size in held if k == q] for q in range(3)}
    now = dict.fromkeys(range(3), -1)
    for queue, at, size, stays, enters in rows:
        now[queue] = max(now[queue], at)
        lies[queue] = [entry for entry in lies[queue] if entry[0] > now[queue]]
        full = enters and sum(s for _, s in lies[queue]) + size > limits[queue]
        found.append(full)
        if enters and not full:
            lies[queue].append((at + stays if stays >= 0 else FOREVER, size))
    return found


def test_what_queues_hold() -> None:
    """Where much happens at one moment, times go back, and rows come in two pieces."""
    rng = random.Random(41)
    formula = 0
    for _ in range(1_200):
        # Times so far apart that they do not fit beside the queue become ranks.
        unit = rng.choice((1, 1 << 59))
        rows: list[Row] = [
            (
                rng.randrange(3), rng.randint(0, 9), rng.randint(0, 3), rng.randint(-1, 4),
                rng.random() < 0.9,
            )
            for _ in range(rng.randint(0, 24))
        ]  # fmt: skip
        limits = [rng.randint(0, 9) for _ in range(3)]
        held = [
            (rng.randrange(3), rng.randint(0, 9), rng.randint(0, 4))
            for _ in range(rng.randint(0, 4))
        ]
        there = np.array(held, np.int64).reshape(-1, 3)
        memory = Held(there[:, 0], there[:, 1] * unit, there[:, 2])
        since = np.full(3, -1)
        found: list[bool] = []
        cut = rng.randint(0, 2 * len(rows))
        for part in (rows[:cut], rows[cut:]):
            values = np.array(part, np.int64).reshape(-1, 5)
            order = np.argsort(values[:, 0], kind="stable")
            queues, at, sizes, stays, enters = values[order].T
            leaves = np.where(stays >= 0, (at + stays) * unit, FOREVER)
            at = np.maximum(at * unit, since[queues])
            arrivals = Arrivals(queues, at, sizes, leaves, enters == 1)
            full = quotas.without_room(arrivals, np.array(limits), memory)
            formula += len(set(queues[~np.isin(queues, queues[full])].tolist()))
            answers = np.empty(len(order), np.bool_)
            answers[order] = full
            found += answers.tolist()
            memory, since = quotas.after(arrivals, (enters == 1) & ~full, memory, since)
            entries = list(zip(memory.queues.tolist(), memory.leaves.tolist(), strict=True))
            assert len(set(entries)) == len(entries), "one for each time"
        assert found == counted(rows, limits, held)
    assert formula > 1_200, "many queues had room for everything"


def message(queue: str, size: int, arrives_s: int = 0, received_s: int | None = None) -> Any:
    """A row that nothing but a quota keeps out."""
    case = drawn(random.Random(1), arrives_s * SECOND_US)
    case.encrypted, case.transactional, case.reach, case.size = False, True, 0, size
    case.lifetime, case.claimed = NEVER_S, None if received_s is None else received_s * SECOND_US
    return table_of([case]).set_column(1, "queue", pa.array([queue]))


def test_what_lay_there_before_counts_once() -> None:
    """Also over micro-batches; a queue without a quota takes everything, and is not remembered."""
    places = {"q": QueueSetup(True, quota_bytes=1024, used_bytes=600), "free": QueueSetup(True)}
    work, memory = Limited(Settler(places), (), 4), BucketRecords.empty(Limited.fields)
    results = []
    for queue, size in (("Q", 424), ("q", 1), ("free", 1 << 40), ("q", 0), ("none", 5)):
        out, memory = work.done(message(queue, size), memory, WALL_S)
        results += [(row["result"], row["messageClass"]) for row in out.to_pylist()]
    assert results == [
        ("waiting", 0x0002), ("refused", 0x8003), ("waiting", 0x0002), ("waiting", 0x0002),
        ("refused", 0x8000),
    ]  # fmt: skip
    assert memory.keys.to_pylist() == ["q"]
    assert memory.fields["bytes"].tolist() == [1024]


def test_what_comes_late_counts_as_come_when_the_last_came() -> None:
    """The second leaves before the third arrives: not by what they say, but by what is known."""
    places = {"q": QueueSetup(True, quota_bytes=1024)}
    work, memory = Limited(Settler(places), (), 4), BucketRecords.empty(Limited.fields)
    results = []
    late = pa.concat_tables([message("q", 600, 2, 4), message("q", 600, 3)])
    for table in (message("q", 424, 9), late):
        out, memory = work.done(table, memory, WALL_S + 20)
        results += out["result"].to_pylist()
    assert results == ["waiting", "received", "waiting"]


def test_sizes_beyond_all_bounds_find_no_room() -> None:
    largest = (QUOTA_UNLIMITED_KB - 1) << 10
    work = Limited(Settler({"q": QueueSetup(True, quota_bytes=largest)}), (), 4)
    rows = pa.concat_tables([message("q", size) for size in ((1 << 63) - 1,) * 2])
    out, memory = work.done(rows, BucketRecords.empty(Limited.fields), WALL_S)
    assert out["messageClass"].to_pylist() == [0x8003] * 2
    out, _ = work.done(message("q", largest), memory, WALL_S)
    assert out["result"].to_pylist() == ["waiting"]


def test_names_and_classes_that_stand_twice_are_those_of_the_core() -> None:
    assert frozenset(rules.INSECURE) == INSECURE
    assert frozenset(arrivals.SYSTEM_NAMES) == SYSTEM_NAMES
