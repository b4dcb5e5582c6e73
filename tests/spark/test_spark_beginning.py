"""Where a query begins by time, and how long it waits for a batch that is worth it.

Called as Spark calls it, on a real queue manager and without Spark.
"""

from __future__ import annotations

from typing import Any

import pytest

from onceq.errors import ConfigurationError

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from onceq.spark.source.options import parse
from onceq.spark.source.reader import OnceqReader
from tests.spark.driver import NAMES, send


def test_a_query_begins_by_time(daemon: Any, queue: str, readers: Any) -> None:
    """All have arrived in one second or two: that of the last, and what a clock says besides."""
    send(daemon, queue, *range(20))
    batch = daemon.manager.peek_many(queue, 20)
    daemon.manager.receive(queue, lookup_id=batch.lookup_ids[7])
    last = batch.arrived_times[19]
    expected = [
        f"{at}" for at, second in enumerate(batch.arrived_times) if at != 7 and second >= last
    ]
    one = readers(queue, readMode="peek", startingTimestamp=last * 1_000)
    assert one.bodies(one.first(), one.after(one.first())) == expected
    late = readers(queue, readMode="peek", startingTimestamp=(last + 1) * 1_000)
    start = late.first()
    assert list(start["to"].values()) == [batch.lookup_ids[19]]
    assert late.after(start) == start
    given = {"queueManager": str(daemon.path), "queue": queue, "startingTimestamp": f"{last}999"}
    reader = OnceqReader(parse(given, stream=False), NAMES)
    rows = [row for task in reader.partitions() for found in reader.read(task)
            for row in found.to_pylist()]  # fmt: skip
    assert [row["body"].decode() for row in rows] == expected


def test_a_queue_with_priorities_has_no_place_for_a_time(daemon: Any, readers: Any) -> None:
    name = r"private$\no-order-of-times"
    daemon.manager.create_queue(name)
    given = {"queueManager": str(daemon.path), "queue": name, "startingTimestamp": "0"}
    with pytest.raises(ConfigurationError, match="filter by the column arrivedTime"):
        OnceqReader(parse(given, stream=False), NAMES).partitions()


def test_a_batch_waits_until_it_is_worth_it(daemon: Any, queue: str, readers: Any) -> None:
    now = 100.0
    one = readers(queue, minOffsetsPerTrigger=5, maxTriggerDelay="10s")
    one.reader._clock = lambda: now
    assert isinstance(one.reader.getDefaultReadLimit(), ReadMaxRows)
    limit = one.reader.getDefaultReadLimit()
    start = one.first()
    send(daemon, queue, 0)
    end = one.after(start, limit)
    assert one.bodies(start, end) == ["0"], "nothing was given before: it begins at once"
    send(daemon, queue, 1, 2)
    now = 109.9
    assert one.after(end, limit) == end
    everything = one.after(end, ReadAllAvailable())
    assert one.bodies(end, everything) == ["1", "2"], "who asks for everything gets it"
    send(daemon, queue, 3)
    assert one.after(everything, limit) == everything
    now = 119.9
    late = one.after(everything, limit)
    assert one.bodies(everything, late) == ["3"], "it has waited long enough"
    send(daemon, queue, 4, 5, 6, 7, 8)
    full = one.after(late, limit)
    assert one.bodies(late, full) == ["4", "5", "6", "7", "8"]
    send(daemon, queue, 9)
    one.reader.prepareForTriggerAvailableNow()
    assert one.bodies(full, one.after(full, limit)) == ["9"]
