"""The parts of an audit by Spark find together what one process finds: here without Spark, so
that each planted fault is looked at in parts each time that tests run."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from onceq.audit import files, measure, story, tables
from onceq.audit.arrays import NONE
from onceq.audit.copies import ledger
from onceq.audit.events import read
from onceq.audit.rules import MESSAGE, QUEUE
from onceq.audit.sums import Sums, merged, sums_of
from onceq.audit.tables import schema
from onceq.spark.audit.bundles import BUNDLE, opened
from onceq.spark.audit.parts import LEDGER, Part, received
from onceq.spark.audit.rows import ROWS, files_of, shown
from onceq.spark.audit.survey import merged as merged_surveys
from onceq.spark.audit.survey import surveyed
from onceq.spark.audit.tasks import Tasks
from tests.audit.corruptions import corrupt
from tests.audit.histories import audited, peopled
from tests.audit.planting import Plants, Row

PARTS = 3
STUCK_S = 100.0


def brought(batches: Iterable[pa.RecordBatch]) -> dict[int, pa.Table]:
    """Bundles by their part, in any order: Spark keeps none."""
    frame = pa.Table.from_batches(batches, schema(BUNDLE))
    order = list(range(len(frame)))
    random.Random(1).shuffle(order)
    frame = frame.take(pa.array(order))
    return {
        part: frame.filter(pa.compute.equal(frame["part"], part))
        for part in set(frame["part"].to_pylist())
    }


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
        self.numbers = [pa.RecordBatch.from_pydict({"id": [at]}) for at in range(len(of))]
        survey = surveyed(self.numbers, of)
        self.survey = merged_surveys(row for one in survey for row in one.to_pylist())
        self.survey.tell(self.histories)
        part = Part(
            self.histories, self.survey.parties, self.survey.queues, self.settled,
            measure.late_us(self.histories, STUCK_S),
        )  # fmt: skip
        self.tasks = Tasks(part, of, PARTS, self.survey.told)
        self.lanes = brought(self.tasks.lanes(self.numbers))
        self.ledger = [
            batch for one in self.lanes.values() for batch in self.tasks.ledger(one).to_batches()
        ]
        told = pa.Table.from_batches(self.tasks.who_received(self.ledger))
        self.knows(received(zip(*told.to_pydict().values(), strict=True)))

    @property
    def part(self) -> Part:
        """What all parts know."""
        return self.tasks.part

    def knows(self, receivers: Mapping[tuple[int, int], int]) -> None:
        """Who has received what, of all parts."""
        self.tasks = replace(self.tasks, part=replace(self.part, receivers=receivers))

    def pieces(self) -> list[pa.Table]:
        """The ledger in pieces of any rows."""
        ledger = pa.concat_tables(opened(self.ledger))
        return [ledger.slice(at, 7) for at in range(0, len(ledger), 7)]

    def judged(self) -> list[Row]:
        """Everything that the parts say."""
        tasks = self.tasks
        said = [tasks.of_lanes(one) for one in self.lanes.values()]
        queues = brought(tasks.together(self.ledger, QUEUE))
        said += [tasks.of_queues(one) for one in queues.values()]
        spoken = brought(tasks.spoken(self.numbers))
        copies = brought(tasks.together(self.ledger, MESSAGE))
        nothing = pa.Table.from_batches([], schema(BUNDLE))
        said += [
            tasks.of_messages(spoken.get(at, nothing), copies.get(at, nothing))
            for at in {*spoken, *copies}
        ]
        found: list[Row] = pa.concat_tables(said).to_pylist()
        return found

    def sums(self) -> Sums:
        """What the copies of all parts add up to."""
        pieces = self.pieces()
        rows = [
            row for at in range(0, len(pieces), 3)
            for one in self.part.sums(pieces[at : at + 3]) for row in one.to_pylist()
        ]  # fmt: skip
        assert len(rows) > 2
        return merged(sums_of(json.loads(row["sums"])) for row in rows)


def test_bundles_have_the_columns_that_tasks_expect(place: Path) -> None:
    parts = Parts(place)
    for frames, columns in ((parts.ledger, LEDGER), (parts.lanes.values(), ROWS)):
        for one in opened(frames):
            assert one.schema == schema(columns)


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
        if one["invariant"] != "I28"  # acts of administration are looked at by the driver
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
    parts.knows({})
    assert parts.sums() != whole, "they do stand in other parts"


def test_streams_and_transactions_are_counted_in_parts(place: Path) -> None:
    parts = Parts(place)
    copies = ledger(read(parts.histories), parts.histories)
    for names, columns in (
        (("source", "stream"), (copies.source, copies.stream)),
        (("source", "put_transaction"), (copies.source, copies.put.transaction)),
    ):
        rows = pa.Table.from_batches(parts.tasks.different(parts.ledger, names))
        found = set(zip(*rows.to_pydict().values(), strict=True))
        whole = set(zip(*(column.tolist() for column in columns), strict=True))
        assert found == {one for one in whole if one[1] != NONE}
        assert found


def test_of_what_nobody_speaks_little_is_looked_at(place: Path) -> None:
    parts = Parts(place)
    events = read(parts.histories)
    told = set(events.message[events.are("told")].tolist())
    spoken = [
        row for one in opened(brought(parts.tasks.spoken(parts.numbers)).values())
        for row in one.to_pylist()
    ]  # fmt: skip
    of_told = [row for row in spoken if row["message"] in told]
    expected = events.are("told", "accepted", "committed", "sent", "received")
    assert len(of_told) == sum(
        message in told for message in events.message[expected].tolist()
    )  # fmt: skip
    assert len(spoken) - len(of_told) <= len(events) / 50, "a few that share a mark with others"
    assert bool(told) == (len(spoken) > 0)


def test_the_table_of_messages_is_that_of_one_process(place: Path) -> None:
    parts = Parts(place)
    copies = ledger(read(parts.histories), parts.histories)
    whole = tables.messages(measure.measured(copies))
    made = pa.Table.from_batches(parts.part.messages(parts.pieces()))
    assert made.schema == tables.schema(tables.MESSAGES)
    assert made.column_names == whole.column_names

    def rows(table: pa.Table) -> list[str]:
        return sorted(map(repr, table.to_pylist()))

    assert rows(made) == rows(whole)


def test_stories_are_made_of_few_rows_and_are_those_of_one_process(place: Path) -> None:
    parts, whole = Parts(place), audited(place)
    part = parts.part
    wrong = [part.wrong(row) for row in parts.judged() if row["lookedAt"] is None]
    rows = pa.concat_tables(shown(files_of(parts.histories)))
    pieces = [rows.slice(at, 50) for at in range(0, len(rows), 50)]
    table = pa.Table.from_batches(part.stories(pieces, story.keys_of(wrong)), rows.schema)
    assert len(table) < len(rows) / 2

    def told(stories: list[Row]) -> set[tuple[str, frozenset[str], tuple[str, ...]]]:
        return {
            (one["title"], frozenset(fault["fault"] for fault in one["faults"]),
             tuple(one["rows"])) for one in stories
            # Which of several copies is the first depends on the order of their lanes.
            if all(fault["fault"] != "torn-send" for fault in one["faults"])
        }  # fmt: skip

    stories = story.stories_of(parts.histories, part.parties, wrong, table)
    assert told(stories) == told(whole["stories"])
    events = {line.split()[3] for one in stories for line in one["rows"]}
    assert ("told" in events) == bool(stories), "an acknowledgment names a message and no number"
