"""A stream goes on with its checkpoint when hosts are renamed, and queue managers join or leave.

The stream's driver side, called as Spark calls it, on two queue managers and without Spark.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from onceq.errors import ConfigurationError

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")
from pyspark.sql.streaming.datasource import ReadMaxRows

from tests.spark.conftest import queue_of
from tests.spark.driver import send


@pytest.fixture
def queue(daemon: Any, other: Any, request: pytest.FixtureRequest) -> str:
    """A queue of the same name on both, with four messages each at the same places."""
    name = queue_of(request)
    for hub in (daemon, other):
        hub.manager.create_queue(name, transactional=True)
        send_named(hub, name, *range(4))
    return name


def send_named(hub: Any, queue: str, *numbers: int) -> None:
    send(hub, queue, *texts(hub, *numbers))


def texts(hub: Any, *numbers: int) -> list[str]:
    return [f"{hub.name} {number}" for number in numbers]


def left(queue: str, *hubs: Any) -> list[int]:
    """Messages that the queue has on each."""
    return [hub.manager.queue(queue)["messages"] for hub in hubs]


def test_another_host_name(daemon: Any, other: Any, queue: str, drivers: Any) -> None:
    """A batch that was not finished is run again, and the rest is read, under other addresses."""
    one = drivers(daemon.path, other.path, queue=queue)
    start = one.first()
    end = one.after(start, ReadMaxRows(4))
    rows = one.bodies(start, end)
    one.reader.stop()
    two = drivers(other.address, daemon.address, queue=queue)
    assert two.first()["to"] == start["to"]
    assert sorted(two.bodies(start, end)) == sorted(rows)
    rest = two.after(end)
    assert sorted(rows + two.bodies(end, rest)) == sorted(
        texts(daemon, 0, 1, 2, 3) + texts(other, 0, 1, 2, 3)
    )
    assert two.after(rest) == rest
    assert left(queue, daemon, other) == [0, 0]


def test_a_manager_leaves_and_comes_back(
    daemon: Any, other: Any, queue: str, drivers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    both = drivers(daemon.path, other.path, queue=queue)
    start = both.first()
    end = both.after(start, ReadMaxRows(4))
    both.reader.stop()
    alone = drivers(daemon.path, queue=queue)
    with caplog.at_level(logging.WARNING, "onceq.spark"):
        second = alone.after(end)
    assert f"{other.path}/{queue} is in the checkpoint, and is not read any more" in caplog.text
    assert "whether it has unread messages is not known" in caplog.text
    assert alone.bodies(end, second) == texts(daemon, 2, 3)
    assert alone.after(second) == second
    # What it had in the batch was written, and is still there: it goes when the manager is back.
    assert left(queue, daemon, other) == [0, 4]
    alone.reader.stop()
    back = drivers(daemon.address, other.address, queue=queue)
    third = back.after(second)
    assert left(queue, daemon, other) == [0, 2]
    assert back.bodies(second, third) == texts(other, 2, 3)
    assert back.after(third) == third
    assert left(queue, daemon, other) == [0, 0]


def test_a_queue_that_leaves_with_unread_messages_is_told(
    daemon: Any, queue: str, drivers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    second = queue + "-second"
    daemon.manager.create_queue(second, transactional=True)
    send_named(daemon, second, *range(3))
    both = drivers(daemon.path, queue=f"{queue},{second}")
    end = both.after(both.first(), ReadMaxRows(2))
    both.reader.stop()
    one = drivers(daemon.path, queue=queue)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "onceq.spark"):
        one.after(one.after(end))
    (told,) = [record.getMessage() for record in caplog.records]
    assert f"{second} is in the checkpoint" in told
    assert "2 messages in it are unread" in told


def test_what_has_joined_begins_where_a_new_query_would(
    daemon: Any, other: Any, queue: str, drivers: Any
) -> None:
    alone = drivers(daemon.path, queue=queue)
    end = alone.after(alone.first())
    alone.reader.stop()
    late = drivers(daemon.path, other.path, queue=queue, startingOffsets="latest")
    assert late.after(end) == end
    send_named(other, queue, 4)
    more = late.after(end)
    assert late.bodies(end, more) == texts(other, 4)
    assert left(queue, daemon, other) == [0, 5]


def test_a_batch_that_was_not_finished_needs_all_of_its_queues(
    daemon: Any, other: Any, queue: str, drivers: Any
) -> None:
    both = drivers(daemon.path, other.path, queue=queue)
    start = both.first()
    end = both.after(start)
    both.reader.stop()
    alone = drivers(daemon.path, queue=queue)
    with pytest.raises(ConfigurationError, match="was not finished, and has messages of"):
        alone.reader.partitions(start, end)


def test_two_addresses_of_one_manager(daemon: Any, queue: str, drivers: Any) -> None:
    twice = drivers(daemon.path, daemon.address, queue=queue, readMode="peek")
    with pytest.raises(ConfigurationError, match="are the same queue; name it once"):
        twice.first()


def test_a_pattern_finds_queues_while_a_stream_runs(
    daemon: Any, other: Any, queue: str, drivers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """One that is new is read from its first message on, and one that is deleted leaves."""
    new = queue + "-new"
    now = 100.0
    one = drivers(
        daemon.path, other.path, queue="", subscribePattern=queue.removeprefix("private$\\") + ".*",
        startingOffsets="latest",
    )  # fmt: skip
    one.reader._queues._clock = lambda: now
    one.reader._queues._next_s = now
    start = one.first()
    assert len(start["to"]) == 2
    daemon.manager.create_queue(new, transactional=True)
    daemon.manager.create_queue(new + "-plain")
    send_named(daemon, new, 7, 8)
    assert one.after(start) == start, "it is not looked for all the time"
    now = 120.0
    end = one.after(start)
    assert one.bodies(start, end) == texts(daemon, 7, 8)
    assert one.after(end) == end
    assert left(new, daemon) == [0]
    one.reader._queues.accesses[str(daemon.path)].release()
    daemon.manager.delete_queue(new)
    send_named(other, queue, 9)
    with caplog.at_level(logging.WARNING, "onceq.spark"):
        last = one.after(end)
    assert one.bodies(end, last) == texts(other, 9)
    assert f"{daemon.path}/{new} is in the checkpoint" in caplog.text
    assert len(last["left"]) == 1


def test_a_queue_of_a_pattern_that_is_made_again_is_a_new_one(
    daemon: Any, queue: str, drivers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"queue": "", "subscribePattern": queue.removeprefix("private$\\")}
    one = drivers(daemon.path, **options)
    end = one.after(one.first(), ReadMaxRows(2))
    one.reader.stop()
    daemon.manager.delete_queue(queue)
    daemon.manager.create_queue(queue, transactional=True)
    send_named(daemon, queue, 8, 9)
    two = drivers(daemon.path, **options)
    with caplog.at_level(logging.WARNING, "onceq.spark"):
        new = two.after(end)
    assert two.bodies(end, new) == texts(daemon, 8, 9)
    assert "is in the checkpoint, and is not read any more; whether" in caplog.text


def test_a_pattern_that_finds_nothing_waits(daemon: Any, queue: str, drivers: Any) -> None:
    name = queue + "-later"
    now = 100.0
    one = drivers(daemon.path, queue="", subscribePattern=name.removeprefix("private$\\"))
    one.reader._queues._clock = lambda: now
    one.reader._queues._next_s = now
    start = one.first()
    assert one.after(start) == start
    daemon.manager.create_queue(name, transactional=True)
    send_named(daemon, name, 1)
    now = 120.0
    assert one.bodies(start, one.after(start)) == texts(daemon, 1)


def test_a_batch_of_queues_that_are_no_more_can_be_left(
    daemon: Any, other: Any, queue: str, drivers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    both = drivers(daemon.path, other.path, queue=queue)
    start = both.first()
    end = both.after(start)
    both.reader.stop()
    alone = drivers(daemon.path, queue=queue, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "onceq.spark"):
        assert alone.bodies(start, end) == texts(daemon, 0, 1, 2, 3)
    assert "it is run without these" in caplog.text
