"""New checkpoints where others have read, old ones, journals, leases: nothing is lost silently.

Called as Spark calls it, on a real queue manager; and one time with Spark and Parquet, as the loss
was found.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from onceq.errors import ConfigurationError, ReadBefore, ServiceNotAvailable, SharingViolation

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")

from onceq.client.plans import receive
from onceq.client.stopping import pause
from onceq.spark.source import access as access_module
from tests.spark.driver import Driver, send


def read_all(driver: Driver) -> Any:
    """One batch of everything, committed and removed; where it ended."""
    end = driver.after(driver.first())
    assert driver.after(end) == end
    driver.reader.stop()
    return end


def known(daemon: Any, queue: str) -> list[tuple[str, str]]:
    found = daemon.manager._run(receive.readers(daemon.manager._state, queue))
    return [(one.reader, one.query) for one in found]


# ---- beginning anew -----------------------------------------------------------------------------


def test_a_query_that_begins_anew_is_refused_until_told(
    daemon: Any, queue: str, readers: Any
) -> None:
    send(daemon, queue, "a", "b")
    end = read_all(readers(queue))
    assert known(daemon, queue) == [("", end["query"])]
    send(daemon, queue, "c", "d")
    anew = readers(queue)
    with pytest.raises(ReadBefore, match=end["query"]):
        anew.after(anew.first())
    with pytest.raises(ReadBefore):
        anew.after(anew.first())
    anew.reader.stop()
    assert daemon.manager.queue(queue)["messages"] == 2
    # The old checkpoint goes on...
    again = readers(queue)
    assert again.bodies(end, again.after(end)) == ["c", "d"]
    again.reader.stop()
    # ... and so does a new one that was told where to begin.
    place = daemon.manager.queue(queue)["first_lookup"]
    told = readers(queue, startingOffsets=f'{{"{queue}": {place}}}'.replace("\\", "\\\\"))
    assert told.bodies(told.first(), told.after(told.first())) == ["c", "d"]
    told.reader.stop()


def test_words_in_starting_offsets_stand_in_jobs_for_good(
    daemon: Any, queue: str, readers: Any
) -> None:
    """So they tell nothing of this start."""
    send(daemon, queue, "a")
    read_all(readers(queue, startingOffsets="earliest"))
    anew = readers(queue, startingOffsets="earliest")
    with pytest.raises(ReadBefore):
        anew.after(anew.first())


def test_a_reader_that_is_forgotten_begins_anew(daemon: Any, queue: str, readers: Any) -> None:
    send(daemon, queue, "a")
    read_all(readers(queue))
    daemon.manager._run(receive.forget(daemon.manager._state, queue, ""))
    send(daemon, queue, "b")
    anew = readers(queue)
    assert anew.bodies(anew.first(), anew.after(anew.first())) == ["b"]


def test_another_subscription_and_who_only_looks_are_not_meant(
    daemon: Any, queue: str, readers: Any
) -> None:
    send(daemon, queue, "a")
    read_all(readers(queue, subscription="one"))
    send(daemon, queue, "b")
    look = readers(queue, readMode="peek", subscription="one")
    assert look.bodies(look.first(), look.after(look.first())) == ["b"]
    other = readers(queue, subscription="two")
    assert other.bodies(other.first(), other.after(other.first())) == ["b"]
    other.reader.stop()
    one = readers(queue, subscription="one")
    with pytest.raises(ReadBefore, match="of subscription 'one'"):
        one.after(one.first())


def test_a_queue_that_was_made_again_has_no_readers(daemon: Any, queue: str, readers: Any) -> None:
    send(daemon, queue, "a")
    read_all(readers(queue))
    daemon.manager.delete_queue(queue)
    daemon.manager.create_queue(queue, transactional=True)
    send(daemon, queue, "b")
    anew = readers(queue)
    assert anew.bodies(anew.first(), anew.after(anew.first())) == ["b"]


def test_one_of_two_queues_is_enough(daemon: Any, queue: str, readers: Any) -> None:
    daemon.manager.create_queue(queue + "-b", transactional=True)
    send(daemon, queue + "-b", "a")
    read_all(readers(queue + "-b"))
    both = readers(f"{queue},{queue}-b")
    with pytest.raises(ReadBefore, match="-b and removed"):
        both.after(both.first())


def test_a_batch_that_was_not_finished_is_run_again(daemon: Any, queue: str, readers: Any) -> None:
    """Its end stands in the checkpoint, so it is the same query."""
    send(daemon, queue, "a")
    first = readers(queue)
    end = first.after(first.first())
    first.reader.stop()
    second = readers(queue)
    assert second.bodies(second.first(), end) == ["a"]
    assert second.after(end) == end
    assert known(daemon, queue) == [("", end["query"])]


def test_a_checkpoint_that_went_back_in_time_is_refused(
    daemon: Any, queue: str, readers: Any
) -> None:
    """Its next batch would have the number of one that the sink has."""
    send(daemon, queue, "a")
    old = read_all(readers(queue))
    send(daemon, queue, "b")
    driver = readers(queue)
    newer = driver.after(old)
    assert driver.after(newer) == newer
    driver.reader.stop()
    send(daemon, queue, "c")
    back = readers(queue)
    with pytest.raises(ReadBefore, match="is older than what it has done"):
        back.after(old)
    back.reader.commit(old)
    assert daemon.manager.queue(queue)["messages"] == 1
    back.reader.stop()
    good = readers(queue)
    assert good.bodies(newer, good.after(newer)) == ["c"]


# ---- afterRead ----------------------------------------------------------------------------------


def test_the_journal_keeps_what_was_removed(daemon: Any, queue: str, readers: Any) -> None:
    send(daemon, queue, "a", "b")
    read_all(readers(queue, afterRead="journal"))
    kept = daemon.manager.peek_many(queue + ";journal", 10)
    assert (kept.bodies(), daemon.manager.queue(queue)["messages"]) == ([b"a", b"b"], 0)


def test_a_full_journal_ends_the_query_and_nothing_is_removed(
    daemon: Any, queue: str, readers: Any
) -> None:
    daemon.manager.set_queue(queue, journal_quota_kb=1)
    send(daemon, queue, "x" * 800, "y" * 800)
    driver = readers(queue, afterRead="journal")
    end = driver.after(driver.first())
    with pytest.raises(Exception, match=r"\[quota-exceeded\].*nothing is removed"):
        driver.after(end)
    assert daemon.manager.queue(queue)["messages"] == 2
    daemon.manager.set_queue(queue, journal_quota_kb=1_000)
    assert driver.after(end) == end
    assert daemon.manager.queue(queue + ";journal")["messages"] == 2


def test_a_journal_has_none_itself(daemon: Any, queue: str, readers: Any) -> None:
    driver = readers(queue + ";journal", afterRead="journal")
    with pytest.raises(ConfigurationError, match="has no journal of its own"):
        driver.first()


# ---- leases -------------------------------------------------------------------------------------


def silent(driver: Driver) -> None:
    """Its computer has died: nobody renews, and the connection says nothing."""
    (access,) = driver.reader._queues.accesses.values()
    access._rest()


def test_a_driver_that_died_with_its_computer_is_replaced(
    daemon: Any, queue: str, readers: Any, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """And when it was only stopped, it is told by its next request."""
    monkeypatch.setattr("onceq.spark.source.access.HOLD_SAY_S", 0.0)
    send(daemon, queue, "a", "b")
    dead = readers(queue, subscription="s")
    end = dead.after(dead.first())
    silent(dead)
    (held,) = next(iter(dead.reader._queues.accesses.values()))._held.values()

    def wait(seconds: float) -> None:
        """The next one waits, and the lease is over meanwhile."""
        held._run(receive.renew(held._state, 1))
        pause(seconds)

    with monkeypatch.context() as patch:
        patch.setattr("onceq.spark.source.access.pause", wait)
        new = readers(queue, subscription="s")
        assert new.bodies(new.first(), end) == ["a", "b"]
    assert "a Spark stream of subscription 's', process" in caplog.text
    new.after(end)
    with monkeypatch.context() as patch, pytest.raises(SharingViolation, match="a Spark stream"):
        patch.setattr("onceq.spark.source.access.HOLD_S_MAX", 0.0)
        dead.after(end)
    new.reader.stop()
    with pytest.raises(SharingViolation, match="goes on in its place"):
        dead.after(end)


def test_a_removal_that_was_under_way_when_the_lease_ended_is_refused(
    daemon: Any, queue: str, readers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its look and its removal another one has come and gone."""
    monkeypatch.setattr("onceq.spark.source.access.LEASE_MS", 1)
    send(daemon, queue, "a", "b")
    one = readers(queue)
    end = one.after(one.first())
    silent(one)
    real = access_module._renewed
    replaced: list[bool] = []

    def renewed(*given: Any) -> bool:
        """The last renewal comes just in time, and then somebody else."""
        found = real(*given)
        if not replaced:
            replaced.append(True)
            another = readers(queue)
            another.first()
            another.reader.stop()
        return found

    monkeypatch.setattr("onceq.spark.source.access._renewed", renewed)
    with pytest.raises(SharingViolation, match="goes on in its place"):
        one.after(end)
    assert replaced
    assert daemon.manager.queue(queue)["messages"] == 2


def test_a_living_driver_renews_its_hold(
    daemon: Any, queue: str, readers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeat of a driver that Spark asks nothing of."""
    beats = threading.Semaphore(0)
    real = receive.renew

    def renew(handle: Any, lease_ms: int) -> Any:
        beats.release()
        return real(handle, lease_ms)

    monkeypatch.setattr("onceq.client.plans.receive.renew", renew)
    monkeypatch.setattr("onceq.spark.source.access.RENEW_S", 0.01)
    one = readers(queue)
    one.first()
    for _ in range(5):
        assert beats.acquire(timeout=60)


def test_who_holds_a_queue_of_the_same_application_is_told(
    daemon: Any, queue: str, readers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A join of a stream with itself, which Spark reads twice (finding P6)."""
    monkeypatch.setattr("onceq.spark.source.access.HOLD_S_MAX", 0.0)
    one, two = readers(queue), readers(queue)
    one.first()
    with pytest.raises(
        SharingViolation, match=r"stream of this Spark application.*join with itsel"
    ):
        two.first()
    monkeypatch.setattr("os.getppid", lambda: -1)
    with pytest.raises(SharingViolation) as told:
        two.first()
    assert "this Spark application" not in told.value.text


# ---- who only meant to look ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"subscription": "job"}, {"readMode": "peek"}, {"afterRead": "journal"}],
    ids=str,
)
def test_a_new_query_without_a_name_says_that_it_removes(
    daemon: Any, queue: str, readers: Any, options: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """Finding P4."""
    send(daemon, queue, "a")
    driver = readers(queue, **options)
    end = driver.after(driver.first())
    assert ("set the option readMode to peek" in caplog.text) == (not options)
    assert (queue in caplog.text) == (not options)
    driver.reader.stop()
    caplog.clear()
    readers(queue, **options).after(end)
    assert "readMode" not in caplog.text, "one that goes on is no new query"


# ---- with Spark ---------------------------------------------------------------------------------


def land(spark: Any, daemon: Any, queue: str, folder: Path, **options: object) -> None:
    """The job of the documentation: a queue into a folder of Parquet, until it is empty."""
    reader = spark.readStream.format("onceq").option("queueManager", str(daemon.path))
    for name, value in options.items():
        reader = reader.option(name, value)
    writer = reader.load(queue).select("lookupId", "body").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "rows"))
    query.awaitTermination()


@pytest.mark.slow
def test_a_new_checkpoint_beside_an_old_folder_loses_nothing(
    spark: Any, daemon: Any, queue: str, tmp_path: Path
) -> None:
    """Spark's file sink takes batch 0 for the one that it has, and writes nothing."""
    send(daemon, queue, *(f"{n}" for n in range(100)))
    land(spark, daemon, queue, tmp_path)
    shutil.move(tmp_path / "checkpoint", tmp_path / "kept")
    send(daemon, queue, *(f"{n}" for n in range(100, 200)))
    with pytest.raises(Exception, match=r"\[read-before\]") as refused:
        land(spark, daemon, queue, tmp_path)
    assert len(str(refused.value).splitlines()) < 45, "our own chain of causes is not in it"
    assert daemon.manager.queue(queue)["messages"] == 100
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.move(tmp_path / "kept", tmp_path / "checkpoint")
    land(spark, daemon, queue, tmp_path)
    found = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert sorted(int(bytes(row.body)) for row in found) == list(range(200))
    assert daemon.manager.queue(queue)["messages"] == 0


@pytest.mark.slow
def test_what_spark_prints_of_a_queue_manager_that_is_away(
    spark: Any, daemon: Any, queue: str, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match=r"\[service-not-available\]") as away:
        land(spark, type("Nobody", (), {"path": "127.0.0.1:9"}), queue, tmp_path, retryTimeout="0s")
    with pytest.raises(Exception, match=r"\[queue-not-found\]") as missing:
        land(spark, daemon, queue + "-missing", tmp_path / "other")
    for found in (away, missing):
        text = str(found.value)
        assert len(text.splitlines()) < 45
        assert "direct cause" not in text
        assert "During handling" not in text


def test_a_queue_manager_that_is_away_and_back(
    daemon: Any, queue: str, readers: Any, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """It is started again while the first waits go by."""
    send(daemon, queue, "a", "b")
    driver = readers(queue, retryTimeout="60s", retryIntervalMs=10)
    end = driver.after(driver.first())
    daemon.kill()
    waits = 0

    def sleep(seconds: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 3:
            daemon.start()

    monkeypatch.setattr("onceq.spark.connections.pause", sleep)
    assert driver.bodies(None, end) == ["a", "b"]
    assert driver.after(end) == end
    assert daemon.manager.queue(queue)["messages"] == 0
    assert caplog.text.count("does not answer") == 1
    assert caplog.text.count("answers again") == 1


def test_one_that_stays_away_ends_the_query(queue: str) -> None:
    driver = Driver("127.0.0.1:9", queue, retryTimeout="50ms")
    with pytest.raises(ServiceNotAvailable, match=r"tried [2-9] times in 0 s"):
        driver.first()
