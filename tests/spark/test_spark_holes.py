"""Holes are normal: places that were empty when a batch was made are no loss.

The stream's driver side, called as Spark calls it, on a real queue manager and without Spark.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from onceq.errors import MessagesMissing

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from onceq.client.threads.manager import QueueManager
from onceq.spark import lag, lag_bytes
from tests.spark.driver import send

EVERY_OTHER = tuple(range(1, 20, 2))


def fill(daemon: Any, queue: str, count: int = 20) -> list[int]:
    """Messages "0", "1", ...; returns their places."""
    send(daemon, queue, *range(count))
    return list(daemon.manager.peek_many(queue, count).lookup_ids)


def take(daemon: Any, queue: str, places: list[int], *which: int) -> None:
    """Somebody receives some, by their places."""
    for at in which:
        daemon.manager.receive(queue, lookup_id=places[at])


def texts(*numbers: int) -> list[str]:
    return [f"{number}" for number in numbers]


def counts(end: dict[str, Any]) -> list[int]:
    return list(end["messages"].values())


# ---- what had gone before ---------------------------------------------------------------------


def test_a_stream_reads_and_removes_around_holes(daemon: Any, queue: str, readers: Any) -> None:
    places = fill(daemon, queue)
    take(daemon, queue, places, *EVERY_OTHER)
    one = readers(queue)
    end = one.after(one.first(), ReadMaxRows(7))
    assert one.bodies(one.first(), end) == texts(0, 2, 4, 6, 8, 10, 12)
    last = one.after(end)
    assert one.bodies(end, last) == texts(14, 16, 18)
    assert one.after(last) == last
    assert daemon.manager.queue(queue).messages == 0


def test_it_says_how_many_messages_there_are(daemon: Any, queue: str, readers: Any) -> None:
    places = fill(daemon, queue)
    take(daemon, queue, places, 3, 4)
    one = readers(queue)
    end = one.after(one.first())
    assert counts(end) == [18]


def test_bytes_are_those_of_the_messages_that_are_there(
    daemon: Any, queue: str, readers: Any
) -> None:
    places = fill(daemon, queue)
    take(daemon, queue, places, *EVERY_OTHER)
    size = sum(daemon.manager.peek_many(queue, 3).run.lengths)
    one = readers(queue)
    start = one.first()
    assert one.bodies(start, one.after(start, ReadMaxBytes(size))) == texts(0, 2, 4)
    assert one.bodies(start, one.after(start, ReadMaxBytes(1))) == texts(0)


def test_tasks_of_a_range_with_holes_have_all_of_it(daemon: Any, queue: str, readers: Any) -> None:
    places = fill(daemon, queue)
    take(daemon, queue, places, 2, 3, 4, 5, 6, 7, 15)
    one = readers(queue, minPartitions=4, readMode="peek")
    start = one.first()
    end = one.after(start)
    parts = one.reader.partitions(start, end)
    assert len(parts) == 4
    assert sum(part.messages for task in parts for part in task.parts) == 13
    left = [at for at in range(20) if at not in {2, 3, 4, 5, 6, 7, 15}]
    assert one.bodies(start, end) == texts(*left)
    take(daemon, queue, places, 9)
    with pytest.raises(MessagesMissing, match=r"of the 13 messages .* 1 has gone before they were"):
        one.reader.partitions(start, end)


def test_holes_are_not_behind(daemon: Any, queue: str, readers: Any) -> None:
    places = fill(daemon, queue)
    take(daemon, queue, places, *EVERY_OTHER)
    one = readers(queue)
    end = one.after(one.first(), ReadMaxRows(4))
    for _ in range(2):
        report = json.loads(json.dumps(one.reader.reportLatestOffset()))
        progress = {"sources": [{"endOffset": end, "latestOffset": report}]}
        assert lag(progress) == {queue: 6}
        whole = sum(daemon.manager.peek_many(queue, 20).run.lengths)
        left = daemon.manager.queue(queue).messages
        assert lag_bytes(json.dumps(progress)) == {queue: whole * 6 // left}
        one.reader.commit(end)
    assert daemon.manager.queue(queue).messages == 6


# ---- a lock behind a hole ---------------------------------------------------------------------


def test_a_lock_behind_a_hole_is_waited_for_and_told(
    daemon: Any, queue: str, readers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    places = fill(daemon, queue)
    take(daemon, queue, places, 3)
    with daemon.manager.transaction() as tx:
        tx.receive(queue, lookup_id=places[7])
        one = readers(queue, readMode="peek", failOnDataLoss="false")
        start = one.first()
        end = one.after(start)
        assert one.bodies(start, end) == texts(0, 1, 2, 4, 5, 6)
        with caplog.at_level(logging.WARNING, "onceq.spark"):
            assert one.after(end) == end
            assert one.after(end) == end
        (told,) = [one.getMessage() for one in caplog.records]
        assert f"an open transaction holds the message with lookup identifier {places[7]}" in told
        tx.abort()
    rest = one.after(end)
    assert one.bodies(end, rest)[-1] == "19"


def test_a_locked_message_does_not_make_a_trigger_read(
    daemon: Any, queue: str, readers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one message is peeked to find out how far a batch goes."""
    places = fill(daemon, queue)
    with daemon.manager.transaction() as tx:
        tx.receive(queue, lookup_id=places[18])
        one = readers(queue, readMode="peek")
        start = one.first()
        with monkeypatch.context() as patch:
            for name in ("peek_many", "peek_tops"):
                patch.setattr(QueueManager, name, None)
            end = one.after(start, ReadMaxRows(5))
            assert counts(end) == [5]
            assert counts(one.after(end, ReadAllAvailable())) == [13]
        tx.abort()


# ---- what goes between counting and reading -----------------------------------------------------


def test_what_goes_later_is_told_with_its_cause(daemon: Any, queue: str, readers: Any) -> None:
    places = fill(daemon, queue)
    take(daemon, queue, places, 0, 5)
    daemon.manager.move(queue, places[6], ";aside")
    one = readers(queue, readMode="peek")
    start = one.first()
    end = one.after(start)
    assert list(end["ended"].values()) == [{"moved": 1}]
    daemon.manager.move(queue, places[8], ";aside")
    take(daemon, queue, places, 9)
    with pytest.raises(MessagesMissing) as told:
        one.bodies(start, end)
    assert told.value.text.startswith("[messages-missing] of the 17 messages of ")
    assert "2 have gone before they were read: 1 moved to a subqueue, 1 received" in told.value.text
    assert "failOnDataLoss to false" in told.value.text
    other = readers(queue, readMode="peek", failOnDataLoss="false")
    assert len(other.bodies(start, end)) == 15
    daemon.manager.purge(queue)
    with pytest.raises(MessagesMissing, match="15 purged by an operator"):
        one.bodies(start, end)


def test_a_dense_batch_from_which_something_went(daemon: Any, queue: str, readers: Any) -> None:
    places = fill(daemon, queue)
    one = readers(queue, readMode="peek")
    start = one.first()
    end = one.after(start)
    take(daemon, queue, places, 4)
    with pytest.raises(MessagesMissing, match="1 has gone before they were read: 1 received by"):
        one.bodies(start, end)
