"""The parts of an audit by Spark find together what one process finds: here without Spark, so
that each planted fault is looked at in parts each time that tests run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pytest

from onceq.audit import files
from onceq.audit.events import read_file
from onceq.audit.rules import MESSAGE, QUEUE
from onceq.spark.audit.parts import LEDGER, Part
from tests.audit.corruptions import corrupt
from tests.audit.histories import audited, peopled
from tests.audit.planting import Row

PARTS = 3


def plain(table: pa.Table) -> pa.Table:
    """Texts as Spark gives them."""
    columns = {
        name: table[name].cast(pa.string()) if pa.types.is_dictionary(table[name].type)
        else table[name]
        for name in table.column_names
    }  # fmt: skip
    return pa.table(columns)


def split(table: pa.Table, *columns: str) -> list[pa.Table]:
    """What has the same values in the columns stands in one part."""
    keys = zip(*(table[name].to_pylist() for name in columns), strict=True)
    part = pa.array([crc32(repr(key).encode()) % PARTS for key in keys])
    return [table.filter(pa.compute.equal(part, at)) for at in range(PARTS)]


@pytest.fixture(scope="module", params=[peopled, lambda path: corrupt(peopled(path))])
def place(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    made: Callable[[Path], object] = request.param
    path = tmp_path_factory.mktemp("parts") / "all"
    made(path)
    return path


def judged(place: Path) -> list[Row]:
    """Everything that the parts say."""
    histories = files.find([str(place)])
    rows = plain(pa.concat_tables(read_file(path) for one in histories for path in one.files))
    parties = sorted({*rows["managerId"].to_pylist(), *rows["source"].to_pylist()} - {None})
    queues = sorted(set(rows["queue"].to_pylist()) - {None})
    part = Part(histories, parties, queues, settled=False)
    lanes = split(rows, "source", "stream")
    ledger = pa.concat_tables([part.ledger(one) for one in lanes])
    assert ledger.column_names == [one.split()[0] for one in LEDGER.split(", ")]
    said = [part.lanes(one) for one in lanes]
    said += [part.within(one, QUEUE) for one in split(ledger, "taken_manager", "taken_place")]
    said += [part.within(one, MESSAGE) for one in split(ledger, "source", "message")]
    events = split(rows, "source", "message")
    copies = split(ledger, "messageSource", "messageId")
    said += [part.told(one, other) for one, other in zip(events, copies, strict=True)]
    found: list[Row] = pa.concat_tables(said).to_pylist()
    return found


def test_the_parts_find_what_the_whole_finds(place: Path) -> None:
    said, whole = judged(place), audited(place)
    wrong = sorted((one["invariant"], one["fault"]) for one in said if one["lookedAt"] is None)
    assert wrong == sorted(
        (one["invariant"], one["fault"])
        for one in whole["checked"] for _ in range(one["violations"])
    )  # fmt: skip
    looked: dict[tuple[str, str], int] = {}
    for one in said:
        if one["lookedAt"] is not None:
            rule = one["fault"], one["looksAt"]
            looked[rule] = looked.get(rule, 0) + one["lookedAt"]
    assert looked == {(one["fault"], one["looks_at"]): one["looked_at"] for one in whole["checked"]}
