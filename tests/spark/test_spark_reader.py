"""The stream's driver side without Spark: called as Spark calls it, in the order in which it does.

What is asked for in which order is said in ``spark/source/stream.py``; a crash of a driver is a
reader that is let go of, and another one that is given the offsets that Spark had logged.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq.errors import ConfigurationError, MessagesMissing, SharingViolation
from onceq.spark.source.access import LazyConnection
from onceq.spark.source.offsets import lag

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")
from pyspark.sql.streaming.datasource import ReadMaxBytes, ReadMaxRows

from tests.spark.driver import Driver, send


@contextlib.contextmanager
def refused(match: str) -> Iterator[Any]:
    """Sharing is refused, without waiting for who may be on his way out."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SharingViolation, match=match) as at:
        patch.setattr("onceq.spark.source.access.HOLD_S_MAX", 0.0)
        yield at


# ---- who reads ------------------------------------------------------------------------------


def test_two_readers_of_one_queue(daemon: Any, queue: str, readers: Any) -> None:
    one, two = readers(queue, subscription="orders to lake"), readers(queue)
    one.first()
    with refused("denies receiving") as told:
        two.first()
    text = told.value.text
    assert text.startswith("[sharing-violation] ")
    assert "a Spark stream of subscription 'orders to lake', process" in text
    assert "readMode peek" in text
    assert str(daemon.path) in text
    readers(queue, readMode="peek").first()
    one.reader.stop()
    two.first()


def test_a_zombie_removes_nothing_that_its_successor_has(
    daemon: Any, queue: str, readers: Any
) -> None:
    """It has written its batch; the next driver runs the same batch again when it comes back."""
    send(daemon, queue, "a", "b", "c")
    old, new = readers(queue), readers(queue)
    start = old.first()
    end = old.after(start)
    assert old.bodies(start, end) == ["a", "b", "c"]
    old.lose_connection()
    new.first()
    assert new.bodies(start, end) == ["a", "b", "c"]
    with refused("a Spark stream"):
        old.after(end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("onceq.spark.source.access.HOLD_S_MAX", 0.0)
        old.reader.commit(end)
    assert daemon.manager.queue(queue)["messages"] == 3
    # The successor crashes as well, and nobody holds the queue now: the zombie stays out.
    new.lose_connection()
    old.reader.commit(end)
    with pytest.raises(SharingViolation, match="another reader has held the queue"):
        old.after(end)
    assert daemon.manager.queue(queue)["messages"] == 3
    third = readers(queue)
    third.first()
    assert third.bodies(start, end) == ["a", "b", "c"]
    assert third.after(end) == end
    assert daemon.manager.queue(queue)["messages"] == 0


def test_a_lost_connection_alone_changes_nothing(daemon: Any, queue: str, readers: Any) -> None:
    send(daemon, queue, "a", "b")
    driver = readers(queue)
    start = driver.first()
    end = driver.after(start)
    driver.lose_connection()
    assert driver.bodies(start, end) == ["a", "b"]
    driver.lose_connection()
    send(daemon, queue, "c")
    later = driver.after(end)
    assert driver.bodies(end, later) == ["c"]
    assert daemon.manager.queue(queue)["messages"] == 1


def test_speculative_copies_of_a_task_read_the_same(daemon: Any, queue: str, readers: Any) -> None:
    send(daemon, queue, *"abcdefgh")
    driver = readers(queue, minPartitions=3)
    start = driver.first()
    end = driver.after(start)
    tasks = driver.reader.partitions(start, end)
    twice = [[list(driver.reader.read(task)) for _ in range(2)] for task in tasks]
    assert [one == two for one, two in twice] == [True] * 3
    assert driver.reader.partitions(start, end)[1].parts == tasks[1].parts


# ---- what is there --------------------------------------------------------------------------


def test_purged_below_the_position(
    daemon: Any, queue: str, readers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    send(daemon, queue, *"abcd")
    driver = readers(queue, readMode="peek")
    start = driver.first()
    end = driver.after(start, ReadMaxRows(2))
    daemon.manager.purge(queue)
    send(daemon, queue, "e")
    with pytest.raises(MessagesMissing, match=r"of the 2 messages of .*failOnDataLoss"):
        driver.rows(start, end)
    # The others never belonged to a batch: the operator has taken them from in front of it.
    with caplog.at_level(logging.WARNING, "onceq.spark"):
        assert driver.bodies(end, driver.after(end)) == ["e"]
    assert "2 messages of" in caplog.text
    assert "purged by an operator before they were read" in caplog.text
    careless = readers(queue, readMode="peek", failOnDataLoss="false")
    assert careless.rows(start, end) == []
    assert careless.bodies(end, careless.after(end)) == ["e"]


def test_an_empty_batch(daemon: Any, queue: str, readers: Any) -> None:
    driver = readers(queue)
    start = driver.first()
    assert driver.after(start) == start
    assert driver.reader.partitions(start, start) == []
    send(daemon, queue, "a")
    end = driver.after(start)
    assert driver.bodies(start, end) == ["a"]
    assert driver.after(end) == end
    assert driver.after(end) == end


def test_a_wait_for_news_is_no_missing_answer(daemon: Any, queue: str, readers: Any) -> None:
    driver = readers(queue, timeoutMs=100, numRetries=0)
    start = driver.first()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("onceq.spark.source.stream.IDLE_WAIT_S", 60.0)
        assert driver.after(start) == start


def test_bytes_limit_each_queue(daemon: Any, queue: str, readers: Any) -> None:
    send(daemon, queue, *["x" * 1_000] * 5)
    driver = readers(queue)
    start = driver.first()
    size = daemon.manager.peek_many(queue, 1).run.lengths[0]
    end = driver.after(start, ReadMaxBytes(2 * size))
    assert len(driver.rows(start, end)) == 2
    end = driver.after(end, ReadMaxBytes(1))
    assert list(end["messages"].values()) == [1]


def test_a_batch_is_never_larger_than_a_removal(
    daemon: Any, queue: str, readers: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("onceq.spark.source.stream.BATCH_MESSAGES", 3)
    send(daemon, queue, *"abcde")
    driver = readers(queue)
    start = driver.first()
    end = driver.after(start)
    assert driver.bodies(start, end) == ["a", "b", "c"]
    assert driver.bodies(end, driver.after(end, ReadMaxRows(100))) == ["d", "e"]


def test_offsets_of_before(daemon: Any, queue: str, readers: Any) -> None:
    """The offset of a batch that tree 484d1753 has written goes on."""
    send(daemon, queue, "a", "b", "c")
    view = daemon.manager.queue(queue)
    first, instance = view["first_lookup"], view["instance"]
    old = {
        "from": {instance: first - 1}, "names": {instance: queue}, "messages": {instance: 2},
        "to": {instance: first + 1},
    }  # fmt: skip
    driver = readers(queue)
    query = driver.first().pop("query")
    assert driver.first() == {"names": {instance: queue}, "query": query, "to": {instance: 0}}
    assert driver.bodies(None, old) == ["a", "b"]
    end = driver.after(old)
    assert end == {
        "from": {instance: first + 1}, "messages": {instance: 1}, "names": {instance: queue},
        "query": query, "to": {instance: first + 2},
    }  # fmt: skip
    assert daemon.manager.queue(queue)["messages"] == 1


# ---- journals and dead letters -----------------------------------------------------------------


def test_a_journal_is_a_stream(daemon: Any, queue: str, readers: Any) -> None:
    daemon.manager.set_queue(queue, journal=True)
    send(daemon, queue, "a", "b", "c")
    driver = readers(queue + ";journal")
    start = driver.first()
    assert driver.after(start) == start
    daemon.manager.receive_many(queue, 2)
    end = driver.after(start)
    assert driver.bodies(start, end) == ["a", "b"]
    daemon.manager.receive_many(queue, 2)
    assert driver.bodies(end, driver.after(end)) == ["c"]
    assert daemon.manager.queue(queue + ";journal")["messages"] == 1


def test_the_journal_of_a_plain_queue_too(daemon: Any, readers: Any) -> None:
    """Its messages have priorities; their copies stand in the order in which they came."""
    queue = r"private$\plain-with-journal"
    daemon.manager.create_queue(queue, journal=True)
    for priority in (1, 7, 3):
        daemon.manager.send(queue, f"{priority}", priority=priority)
    journal = queue + ";journal"
    driver = readers(journal)
    start = driver.first()
    daemon.manager.receive_many(queue, 2)
    end = driver.after(start)
    assert driver.bodies(start, end) == ["7", "3"]
    daemon.manager.send(queue, "urgent", priority=7)
    daemon.manager.receive_many(queue, 2)
    later = driver.after(end)
    assert driver.bodies(end, later) == ["urgent", "1"]
    assert daemon.manager.queue(journal)["messages"] == 2
    assert driver.after(later) == later
    assert daemon.manager.queue(journal)["messages"] == 0


@pytest.mark.parametrize(
    ("name", "transactional"), [("SYSTEM$;DEADXACT", True), ("SYSTEM$;DEADLETTER", False)]
)
def test_dead_letters_are_a_stream(
    daemon: Any, readers: Any, name: str, transactional: bool
) -> None:
    daemon.manager.purge(name)
    queue = f"private$\\dying-{transactional}"
    daemon.manager.create_queue(queue, transactional=transactional)
    driver = readers(name)
    start = driver.first()
    for body in ("one", "two"):
        daemon.manager.send_many(
            queue, [body], transactional=transactional, journal=onceq.Journal.DEADLETTER
        )
        daemon.manager.purge(queue)
    end = driver.after(start)
    rows = driver.rows(start, end)
    assert [(row["body"], row["class"]) for row in rows] == [(b"one", 0xC001), (b"two", 0xC001)]
    assert driver.after(end) == end
    assert daemon.manager.queue(name)["messages"] == 0


def test_a_dead_letter_queue_belongs_to_its_queue_manager(daemon: Any, readers: Any) -> None:
    name = "SYSTEM$;JOURNAL"
    driver = readers(name)
    start = driver.first()
    assert start["names"] == {f"{daemon.manager.id}/system$;journal": name}
    driver.after(start)
    other = f"{'f' * 32}/system$;journal"
    with pytest.raises(MessagesMissing, match="another queue manager answers"):
        driver.after({"names": {other: name}, "to": {other: 0}})


def test_what_cannot_be_a_stream(daemon: Any, queue: str, readers: Any) -> None:
    daemon.manager.create_queue(r"private$\with-priorities")
    with pytest.raises(ConfigurationError, match="a batch read takes any"):
        readers(r"private$\with-priorities").first()
    send(daemon, queue, "aside")
    daemon.manager.move(queue, daemon.manager.peek(queue), ";aside")
    with pytest.raises(ConfigurationError, match="is a subqueue: it ends when it is empty"):
        readers(queue + ";aside").first()


# ---- lag ----------------------------------------------------------------------------------------


def progress(start: Any, end: Any, latest: Any) -> dict[str, Any]:
    """As Spark reports it."""
    source = {"startOffset": start, "endOffset": end, "latestOffset": latest}
    return {"sources": [source, {"description": "rate", "endOffset": 5, "latestOffset": 7}]}


def test_lag(daemon: Any, queue: str, readers: Any) -> None:
    send(daemon, queue, *"abcde")
    driver = readers(queue)
    start = driver.first()
    latest = driver.reader.reportLatestOffset()
    assert lag(progress(None, start, latest)) == {queue: 5}
    end = driver.after(start, ReadMaxRows(2))
    assert lag(progress(start, end, latest)) == {queue: 3}
    assert lag(json.dumps(progress(start, end, latest))) == {queue: 3}
    end = driver.after(end)
    assert lag(progress(start, end, driver.reader.reportLatestOffset())) == {queue: 0}
    driver.after(end)
    assert lag(progress(start, end, driver.reader.reportLatestOffset())) == {queue: 0}
    assert lag(None) == {}


def test_lag_of_a_queue_manager_that_is_away(tmp_path: Path) -> None:
    driver = Driver("127.0.0.1:9", "q", numRetries=0)
    assert driver.reader.reportLatestOffset() is None
    assert lag(progress(None, {"names": {"i": "q"}, "to": {"i": 1}}, None)) == {}


# ---- when nobody answers ------------------------------------------------------------------------


def test_who_does_not_answer_is_named() -> None:
    with pytest.raises(onceq.errors.ServiceNotAvailable) as failed:
        Driver("127.0.0.1:9", r"private$\q", numRetries=2).first()
    text = failed.value.text
    assert text.startswith("[service-not-available] ")
    assert r"(queue private$\q, queue manager at 127.0.0.1:9, tried 3 times in 0 s)" in text
    # Spark prints what an error was raised from before it, and not the last line of all that.
    assert failed.value.__suppress_context__


def test_a_pickled_access_has_no_connection(daemon: Any, queue: str) -> None:
    from pyspark import cloudpickle

    with LazyConnection(str(daemon.path)) as access:
        access.sample(queue)
        copy = cloudpickle.loads(cloudpickle.dumps(access))
        assert (copy.where, copy.patience) == (access.where, access.patience)
        assert copy._manager is None
