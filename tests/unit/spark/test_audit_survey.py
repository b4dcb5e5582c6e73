"""What an audit by Spark finds out before it follows any message, here without Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from onceq.audit import files
from onceq.audit.events import NOBODY, READ, read, read_file
from onceq.errors import ConfigurationError

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")

from onceq.spark.audit import command, survey
from onceq.spark.audit.rows import ROWS, File, coded, decoded, files_of
from onceq.spark.audit.rows import read as read_rows
from onceq.spark.audit.survey import Survey, merged, surveyed
from onceq.spark.error_codes import original
from tests.audit.histories import MESSAGES, peopled
from tests.audit.planting import Plants

GIB = 1 << 30


def of(histories: list[files.Coverage], *some: int) -> Survey:
    """The survey of all files, or of some, in any order."""
    listed = files_of(histories)
    numbers = pa.RecordBatch.from_pydict({"id": list(some or range(len(listed)))})
    rows = [row for one in surveyed([numbers], listed) for row in one.to_pylist()]
    return merged(rows)


def test_it_is_what_the_events_say(tmp_path: Path) -> None:
    histories = files.find([str(peopled(tmp_path))])
    events = read(histories)
    found = of(histories)
    assert found.parties == events.parties
    assert found.queues == sorted(events.queues)
    for at, party in enumerate(events.parties):
        there = events.time[events.manager == at]
        assert found.first_s[party] == there.min() // 1_000_000
    assert found == of(histories, *reversed(range(len(files_of(histories)))))
    assert not found.unread


def test_rows_that_say_no_message_are_counted_as_in_one_process(tmp_path: Path) -> None:
    plants = Plants(peopled(tmp_path))
    for number, observed in ((5, False), (9, False), (11, True)):
        row = plants.b.find("accepted", **plants.mine(number))
        row.update(source=NOBODY, message=0, stream=None, number=None, observed=observed)
    plants.b.split(plants.b.find("received", **plants.mine(3))["position"])
    plants.save()
    here, by_spark = (files.find([str(tmp_path)]) for _ in range(2))
    read(here)
    of(by_spark).tell(by_spark)
    assert [(one.unread, one.unread_to) for one in by_spark] == [
        (one.unread, one.unread_to) for one in here
    ]
    assert max(one.unread for one in here) == 2


def test_large_streams_and_queues_are_counted_over_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plants = Plants(peopled(tmp_path))
    plants.b.split(plants.b.find("received", **plants.mine(3))["position"])
    plants.save()
    histories = files.find([str(tmp_path)])
    found = of(histories)
    rows = [row for one in (plants.a, plants.b, plants.c) for row in one.rows]
    mine = (plants.source, plants.stream)
    assert found.lanes[mine] == sum((row["source"], row["stream"]) == mine for row in rows)
    queue = plants.b.find("accepted", **plants.mine(3))
    assert found.arrivals[queue["managerId"], queue["place"]] == MESSAGES
    assert all(number is not None for _, number in found.lanes)
    monkeypatch.setattr(survey, "SHARE", 2)
    assert set(of(histories).lanes) < set(found.lanes), "little ones are forgotten"


# ---- rows ----------------------------------------------------------------------------------------


def test_rows_come_back_in_their_order(tmp_path: Path) -> None:
    histories = files.find([str(peopled(tmp_path))])
    events = read(histories)
    table = pa.concat_tables(
        read_file(one.path).select(list(READ)) for one in files_of(histories)
    ).unify_dictionaries()
    rows = coded(table, events.parties, events.queues, before=1 << 33)
    assert rows.column_names == list(ROWS)
    assert rows.nbytes < 200 * len(rows)
    for order in (slice(None), slice(None, None, -1)):
        some = rows.take(pa.array(list(range(len(rows)))[order]))
        assert decoded(some, events.parties, events.queues).to_pylist() == table.cast(
            pa.schema([(one.name, pa.int64() if one.name == "eventTime" else one.type)
                       for one in table.schema])
        ).to_pylist()  # fmt: skip


@pytest.mark.parametrize("how", ["survey", "read"])
def test_damage_is_told_in_our_words_through_spark(tmp_path: Path, how: str) -> None:
    histories = files.find([str(peopled(tmp_path))])
    one = files_of(histories)[0]
    table = pq.read_table(one.path)
    pq.write_table(table, one.path, write_page_checksum=True)  # as managers write them
    data = bytearray(Path(one.path).read_bytes())
    data[len(data) // 3] ^= 0x55
    Path(one.path).write_bytes(data)
    with pytest.raises(ConfigurationError) as told:
        if how == "survey":
            of(histories, 0)
        else:
            list(read_rows([one], [], []))
    error = original(ValueError(f"Job aborted: Traceback\nonceq.errors.X: {told.value}\n at x"))
    assert isinstance(error, ConfigurationError)
    assert error.text.startswith(f"{one.path} is damaged inside")


# ---- what must fit -------------------------------------------------------------------------------


@dataclass
class Context:
    """In place of Spark's."""

    master: str


@dataclass
class Session:
    """In place of Spark's."""

    sparkContext: Context


def fits(found: Survey, histories: list[files.Coverage], master: str) -> None:
    command._fits(cast("Any", Session(Context(master))), histories, found)


def test_a_stream_that_no_task_can_hold_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    histories = files.find([str(peopled(tmp_path))])
    a = next(one for one in histories if one.manager == "A")
    monkeypatch.setattr(command, "_memory", lambda: 16 * GIB)
    found = Survey(lanes={(a.id, 7): 30_000_000, (a.id, 8): 9}, arrivals={(a.id, 18): 1_000_000})
    with pytest.raises(ConfigurationError) as told:
        fits(found, histories, "local[*]")
    words = "stream 7 of A has 30,000,000 events, for which one task takes some 26.5 GiB, and this"
    assert told.value.text.startswith(words)
    assert "--master" in told.value.text
    fits(found, histories, "spark://elsewhere:7077")
    found = replace(found, lanes={(a.id, 7): 15_000_000})
    fits(found, histories, "local[*]")
    found.arrivals["unknown", 18] = 10_000_000
    with pytest.raises(ConfigurationError, match="queue 18 of unknown has 10,000,000 messages"):
        fits(found, histories, "local[2]")
    fits(Survey(), histories, "local[2]")


def test_files_are_numbered_over_all_histories(tmp_path: Path) -> None:
    listed = files_of(files.find([str(peopled(tmp_path))]))
    assert listed[0].before == 0
    assert [one.before + one.rows for one in listed[:-1]] == [one.before for one in listed[1:]]
    assert isinstance(listed[0], File)
