"""The parts of an audit by Spark find together what one process finds: here without Spark, so
that each planted fault is looked at in parts each time that tests run."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from onceq.audit import files, measure, story, tables
from onceq.audit.copies import ledger
from onceq.audit.events import read
from onceq.audit.rules import MESSAGE, QUEUE
from onceq.audit.sums import Sums, merged, sums_of
from onceq.spark.audit.parts import LEDGER, Part, received
from onceq.spark.audit.rows import ROW, ROWS, files_of
from onceq.spark.audit.survey import merged as merged_surveys
from onceq.spark.audit.survey import surveyed
from tests.audit.corruptions import corrupt
from tests.audit.histories import audited, peopled
from tests.audit.planting import Plants, Row

PARTS = 3
STUCK_S = 100.0


def split(table: pa.Table, *columns: str) -> list[pa.Table]:
    """What has the same values in the columns stands in one part."""
    keys = zip(*(table[name].to_pylist() for name in columns), strict=True)
    part = pa.array([crc32(repr(key).encode()) % PARTS for key in keys])
    return [table.filter(pa.compute.equal(part, at)) for at in range(PARTS)]


def resent(path: Path) -> None:
    """True histories in which some were transmitted more than once, and came again."""
    plants = Plants(peopled(path))
    for number in (1, 2, 2, 7):
        first = plants.a.find("committed", **plants.mine(number))
        for _ in range(3):
            plants.a.again(first, event="transmitted", observed=True)
        plants.b.again(plants.b.find("accepted", **plants.mine(number)), event="duplicate",
                       observed=True)  # fmt: skip
    plants.save()


@pytest.fixture(scope="module", params=[peopled, lambda path: corrupt(peopled(path)), resent])
def place(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    made: Callable[[Path], object] = request.param
    path = tmp_path_factory.mktemp("parts") / getattr(request.param, "__name__", "wrong")
    made(path)
    return path


@dataclass
class Parts:
    """An audit by parts, step by step as Spark does it."""

    place: Path
    settled: bool = False

    def __post_init__(self) -> None:
        self.histories = files.find([str(self.place)])
        of = files_of(self.histories)
        batches = pa.RecordBatch.from_pydict({"id": list(range(len(of)))})
        survey = surveyed([batches], of)
        self.survey = merged_surveys(
            json.loads(row["survey"]) for one in survey for row in one.to_pylist()
        )
        self.survey.tell(self.histories)
        self.part = Part(
            self.histories, self.survey.parties, self.survey.queues, self.settled,
            measure.late_us(self.histories, STUCK_S),
        )  # fmt: skip
        rows = pa.Table.from_batches(self.part.read([batches], of))
        assert rows[ROW].to_pylist() == list(range(len(rows)))
        order = list(range(len(rows)))
        random.Random(1).shuffle(order)
        self.rows = rows.take(pa.array(order))  # Spark keeps no order
        self.lanes = split(self.rows, "source", "stream")
        self.ledger = pa.concat_tables([self.part.ledger(one) for one in self.lanes])
        told = pa.Table.from_batches(self.part.who_received(self.batches()))
        self.part = replace(self.part, receivers=received(zip(*told.to_pydict().values(),
                                                              strict=True)))  # fmt: skip

    def batches(self) -> list[pa.RecordBatch]:
        """The ledger in pieces of any rows."""
        batches: list[pa.RecordBatch] = self.ledger.to_batches(max_chunksize=7)
        return batches

    def judged(self) -> list[Row]:
        """Everything that the parts say."""
        part, ledger = self.part, self.ledger
        said = [part.lanes(one) for one in self.lanes]
        said += [part.within(one, QUEUE) for one in split(ledger, "taken_manager", "taken_place")]
        said += [part.within(one, MESSAGE) for one in split(ledger, "source", "message")]
        events, copies = split(self.rows, "message"), split(ledger, "message")
        said += [part.told(one, other) for one, other in zip(events, copies, strict=True)]
        found: list[Row] = pa.concat_tables(said).to_pylist()
        return found

    def sums(self) -> Sums:
        """What the copies of all parts add up to."""
        batches = self.batches()
        rows = [
            row for at in range(0, len(batches), 3)
            for one in self.part.sums(batches[at : at + 3]) for row in one.to_pylist()
        ]  # fmt: skip
        assert len(rows) > 2
        return merged(sums_of(json.loads(row["sums"])) for row in rows)


def test_the_ledger_has_the_columns_that_spark_is_told(place: Path) -> None:
    parts = Parts(place)
    assert parts.ledger.column_names == list(LEDGER)
    assert parts.rows.column_names == list(ROWS)


def test_the_parts_find_what_the_whole_finds(place: Path) -> None:
    parts, whole = Parts(place), audited(place)
    looked = {rule: [0, 0] for rule in parts.part.rules()}
    for one in parts.judged():
        counts = looked[one["invariant"], one["fault"], one["looksAt"]]
        if one["lookedAt"] is None:
            counts[1] += 1
        else:
            counts[0] += one["lookedAt"]
    assert [(*rule, *counts) for rule, counts in looked.items()] == [
        (one["invariant"], one["fault"], one["looks_at"], one["looked_at"], one["violations"])
        for one in whole["checked"]
    ]


def test_the_parts_add_up_to_what_the_whole_is(place: Path) -> None:
    parts = Parts(place)
    copies = ledger(read(parts.histories), parts.histories)
    whole = measure.sums(
        measure.measured(copies), late_us=measure.late_us(parts.histories, STUCK_S)
    )
    assert parts.sums() == whole
    assert whole.late, "something is stuck"
    assert bool(whole.again) == (place.name == "resent")


def test_a_receiver_is_known_from_other_lanes_of_its_outgoing_queue(tmp_path: Path) -> None:
    """A stream of which nothing arrived, to a name that says no manager: whoever tells of others
    from its outgoing queue is its receiver, also where those stand in other parts."""
    plants = Plants(peopled(tmp_path))
    first = plants.a.find("committed", **plants.mine(3))
    for number in range(1, 9):
        plants.a.again(first, stream=4_700 + number, number=1, message=999_990 + number,
                       queue=r"DIRECT=TCP:192.0.2.7\private$\q")  # fmt: skip
    plants.save()
    parts = Parts(tmp_path)
    copies = ledger(read(parts.histories), parts.histories)
    whole = measure.sums(measure.measured(copies), late_us=parts.part.late_us)
    assert r"A → B\private$\q" in {route for route, stream in whole.late if stream > 4_700}
    assert parts.sums() == whole
    parts.part = replace(parts.part, receivers={})
    assert parts.sums() != whole, "they do stand in other parts"


def test_the_table_of_messages_is_that_of_one_process(place: Path) -> None:
    parts = Parts(place)
    copies = ledger(read(parts.histories), parts.histories)
    whole = tables.messages(measure.measured(copies))
    made = pa.Table.from_batches(parts.part.messages(parts.batches()))
    assert made.schema == tables.schema(tables.MESSAGES)
    assert made.column_names == whole.column_names

    def rows(table: pa.Table) -> list[str]:
        return sorted(map(repr, table.to_pylist()))

    assert rows(made) == rows(whole)


def test_stories_are_made_of_few_rows_and_are_those_of_one_process(place: Path) -> None:
    parts, whole = Parts(place), audited(place)
    part = parts.part
    wrong = [part.wrong(row) for row in parts.judged() if row["lookedAt"] is None]
    rows = pa.concat_tables(pq.read_table(one.path) for one in files_of(parts.histories))
    batches = rows.select(story.SHOWN).to_batches(max_chunksize=50)
    found = list(part.stories(batches, story.keys_of(wrong)))
    table = pa.Table.from_batches(found, rows.select(story.SHOWN).schema)
    assert len(table) < len(rows) / 2

    def told(stories: list[Row]) -> set[tuple[str, frozenset[str], tuple[str, ...]]]:
        return {
            (one["title"], frozenset(fault["fault"] for fault in one["faults"]),
             tuple(one["rows"])) for one in stories
            # Which of several copies is the first depends on the order of their lanes.
            if all(fault["fault"] != "torn-send" for fault in one["faults"])
        }  # fmt: skip

    assert told(story.stories_of(parts.histories, part.parties, wrong, table)) == told(
        whole["stories"]
    )
