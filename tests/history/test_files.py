"""Files of a history: bounded, cut off visibly, and never in the way of the manager."""

from __future__ import annotations

import builtins
import copy
import re
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import onceq
from onceq.core.ending.ending import ENDED_AT_ONCE, UNASKED_FOR_ONE
from onceq.errors import ConfigurationError
from onceq.history.columns import COLUMNS, EVENTS, span_of
from onceq.model.message import Acknowledge, Delivery, Journal
from onceq.model.requests import DeleteQueue
from onceq.model.settings import Settings
from onceq.service import config
from tests.history.worlds import HISTORY, Kept

Q, LOCAL = r"DIRECT=OS:B\private$\q", r"private$\q"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "history.md"


def peopled() -> Kept:
    world = Kept("A", "B")
    world["B"].create("q")
    world["A"].create("adm", transactional=False)
    return world


def test_what_happened_is_told_in_order() -> None:
    world = peopled()
    a, b = world["A"], world["B"]
    a.once(Q, b"1", b"2", journal=Journal.DEADLETTER)
    world.run(5)
    tx = b.begin()
    b.receive(LOCAL, tx=tx)
    b.commit(tx)
    b.purge(LOCAL)
    world.run(5)
    sent, came = world.told("A"), world.told("B")
    assert sent.story("event", "number", "class") == [
        ("committed", 1, None), ("committed", 2, None),
        ("acknowledged", 1, None), ("acknowledged", 2, None),
        ("confirmed", 1, 0x4000), ("not-received", 2, 0xC001), ("dead-lettered", 2, 0xC001),
    ]  # fmt: skip
    rows = [row for row in came.rows() if row["transactional"]]
    assert [(row["event"], row["number"], row["queue"]) for row in rows] == [
        ("accepted", 1, LOCAL), ("accepted", 2, LOCAL), ("received", 1, LOCAL),
        ("purged", 2, LOCAL),
    ]  # fmt: skip
    assert {row["source"] for row in rows} == {sent.rows()[0]["managerId"]}
    assert {row["deadLetter"] for row in sent.rows()[:2]} == {True}


@pytest.mark.parametrize("asked", [Journal.NONE, Journal.DEADLETTER])
@pytest.mark.parametrize("many", [False, True])
def test_messages_of_a_queue_that_is_deleted_are_deleted(asked: Journal, many: bool) -> None:
    """Whether anybody wants to know it or not, held or not, from here or from elsewhere; of very
    many the first go before the queue."""
    world = peopled()
    a, b = world["A"], world["B"]
    a_step = ENDED_AT_ONCE * (1 if asked else UNASKED_FOR_ONE)
    count = a_step + 2 if many else 2
    a.once(Q, *[b"1"] * 2, journal=asked)
    world.run(5)
    b.once(LOCAL, *[b"2"] * count, journal=asked)
    b.receive(LOCAL, tx=b.begin())
    b.ask(DeleteQueue(LOCAL))
    world.run(5)
    ends = [row for row in world.told("B").rows() if row["event"] in ("purged", "deleted")]
    assert {(row["event"], row["class"]) for row in ends} == {("deleted", 0xC000)}
    assert len(ends) == count + 2


def test_observed_are_transmissions_and_repetitions() -> None:
    world = peopled()
    world["A"].once(Q, b"1")
    world.link("A", "B").policy = lambda p: [] if p.kind == 1 else [(0, p)]
    world.run(40)
    world["A"].once(Q, b"2")
    world.run(1)
    sent = [row for row in world.told("A").rows(observed=True) if row["observed"]]
    came = [row for row in world.told("B").rows(observed=True) if row["observed"]]
    assert {(row["event"], row["queue"]) for row in sent} == {("transmitted", Q)}
    assert [row["number"] for row in sent][:2] == [1, 1], "it was sent again"
    assert ("duplicate", 1) in [(row["event"], row["number"]) for row in came]
    assert came[0]["source"] == sent[0]["source"]


def test_acknowledgment_messages_are_told() -> None:
    world = peopled()
    world["A"].once(
        Q, b"1", acknowledge=Acknowledge(15), admin_queue=r"DIRECT=OS:A\private$\adm"
    )  # fmt: skip
    world.run(5)
    world["B"].receive(LOCAL)
    world.run(5)
    told = [row for row in world.told("B").rows() if row["event"] == "told"]
    first = world.told("A").rows()[0]
    assert [row["className"] for row in told] == ["ack-reach-queue", "ack-receive"]
    assert {(row["source"], row["message"]) for row in told} == {
        (first["source"], first["message"])
    }


def test_an_express_message_that_a_restart_forgets_is_lost() -> None:
    world = Kept("A")
    node = world["A"]
    node.create("plain", transactional=False)
    node.send(0, r"private$\plain", b"express", delivery=Delivery.EXPRESS)
    world.run(6)
    node.kill()
    node.start()
    assert world.told("A").story("event") == [("sent",), ("lost",)]


def test_a_file_has_so_many_rows_and_parts_follow_each_other() -> None:
    world = Kept("A")
    node = world["A"]
    node.create("q")
    for _ in range(8):
        node.once(LOCAL, *[b"x"] * 30)
    told = world.told("A")
    assert len(told.spans) >= 4
    assert all(one.end == other.start for one, other in pairwise(told.spans))
    assert max(table.num_rows for table in told.tables()) < 50 + 30
    meta = told.meta(told.spans[-1])
    assert (meta["manager"], meta["version"], meta["to"]) == ("A", 1, told.spans[-1].end)
    assert meta["upTo"] > 1_700_000_000_000_000


def test_the_oldest_go_and_it_shows() -> None:
    world = Kept("A", settings=replace(HISTORY, history_bytes_max=60_000))
    node = world["A"]
    node.create("q")
    for _ in range(20):
        node.once(LOCAL, *[b"x"] * 40)
        world.run(6)
    told = world.told("A")
    assert told.spans[0].start > 0
    assert sum(len(told.data(span.name)) for span in told.spans) <= 60_000
    assert all(one.end == other.start for one, other in pairwise(told.spans))
    again = world["A"]
    again.kill()
    again.start()
    again.once(LOCAL, b"later")
    assert world.told("A").rows()[-1]["message"] > 800


def test_a_log_behind_its_history_begins_another_life() -> None:
    """As after a backup was restored into the same folder."""
    world = Kept("A")
    node = world["A"]
    node.create("q")
    world.run(6)
    node.kill()
    backup = copy.deepcopy(node.files)
    node.start()
    node.once(LOCAL, b"1")
    ahead = world.told("A")
    node.kill()
    for span in ahead.spans:
        if span.name not in backup.names(ahead.folder):
            file = backup.open(f"{ahead.folder}/{span.name}", create=True)
            backup.write(file, 0, [ahead.data(span.name)])
            backup.close(file)
    node.files = backup
    node.start()
    node.once(LOCAL, b"2")
    spans = world.told("A").spans
    assert [span.life for span in spans] == sorted(span.life for span in spans)
    assert {span.life for span in spans} == {1, 2}
    second = [span for span in spans if span.life == 2]
    assert second[0].start <= max(span.end for span in spans if span.life == 1)


def test_without_the_setting_nothing_is_written(tmp_path: Path) -> None:
    with onceq.open(str(tmp_path / "a"), name="A", create=True) as manager:
        manager.create_queue(LOCAL, transactional=True)
    assert not (tmp_path / "a" / "history").exists()


def test_on_a_real_disk(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for life in range(2):
        with onceq.open(
            str(path), name="A", settings=Settings(history=True), create=True
        ) as manager:
            if not life:
                manager.create_queue(LOCAL, transactional=True)
            with manager.transaction() as tx:
                tx.send(LOCAL, b"x" * 100_000)
                tx.send(LOCAL, b"y")
    files = sorted((path / "history").iterdir())
    assert [span_of(file.name) is not None for file in files] == [True] * len(files)
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert [row["event"] for row in rows] == ["committed"] * 4
    assert rows[0]["bytes"] > 100_000 > rows[1]["bytes"]
    assert rows[0]["eventTime"] >= rows[0]["sentTime"]


def test_a_history_that_fails_does_not_stop_its_manager(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("onceq.history.keeper.Projector.take", broken)
    with onceq.open(
        str(tmp_path / "a"), name="A", settings=Settings(history=True), create=True
    ) as manager:
        manager.create_queue(LOCAL, transactional=True)
        with manager.transaction() as tx:
            tx.send(LOCAL, b"1")
        assert manager.receive(LOCAL, timeout=0).body == b"1"
    assert "the history has failed" in caplog.text


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.startswith("onceq.history.k")]:
        monkeypatch.delitem(sys.modules, name)
    real = builtins.__import__

    def without(name: str, *rest: object, **more: object) -> object:
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
        return real(name, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigurationError, match=r"pip install 'onceq\[history\]'"):
        onceq.open(str(tmp_path / "a"), name="A", settings=Settings(history=True), create=True)


def test_the_switch_stands_below_settings() -> None:
    assert config.parse({"settings": {"history": True}}).settings.history
    with pytest.raises(ConfigurationError, match=r"below the line \[settings\]"):
        config.parse({"history": True})


def test_the_page_has_every_column_and_event() -> None:
    joined = PAGE.read_text().replace("\n  ", " ")
    rows = re.findall(r"^\* `([\w-]+)`(?: \((\w+)\))?: (.*)$", joined, re.M)
    columns = {name: (kind, text) for name, kind, text in rows if kind}
    events = {name: text for name, kind, text in rows if not kind}
    assert columns == COLUMNS
    assert events == EVENTS
