"""A queue manager goes away while a write is at work: it waits, and everything is sent once.

No Spark is needed for it: what a task does, and what the driver asks, with real connections that
break at each request in turn, and with a queue manager that is killed.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed: pip install onceq[spark]")
pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")

import onceq  # noqa: E402
from onceq.errors import QueueNotFound, ServiceNotAvailable  # noqa: E402
from onceq.model.branches import ONCEQ_FORMAT, Xid  # noqa: E402
from onceq.spark.sink import branches  # noqa: E402
from onceq.spark.sink.options import SinkOptions, parse_sink  # noqa: E402
from onceq.spark.sink.task import Staged, TaskBatch, stage  # noqa: E402
from onceq.spark.sink.writer import OnceqWriter, StagedMessage  # noqa: E402
from tests.daemon.applications import Daemon  # noqa: E402
from tests.daemon.cutting import AFTER, BEFORE, HALF, LATE, LATER, Relay  # noqa: E402

pytestmark = pytest.mark.slow
Q, P, E = r"private$\q", r"private$\p", r"private$\errors"
APP = "app"
NAMES = ("body", "queue")
REQUESTS_MAX = 60
COUNT, ROWS = 24, 2
"""Of several batches to one queue, one behind another, the client library makes one."""


class Place:
    """A daemon behind a relay, and a connection beside that one."""

    def __init__(self, daemon: Daemon, relay: Relay) -> None:
        self.daemon, self.relay = daemon, relay
        self.manager = onceq.connect(daemon.where)
        for queue in (Q, P, E):
            self.manager.create_queue(queue, transactional=True)

    def held(self, queue: str) -> list[int]:
        """What is in a queue; it is empty then."""
        try:
            return [int(body) for body in self.manager.receive_many(queue, timeout=0).bodies()]
        except onceq.ReceiveTimeout:
            return []

    def check(self, *expected: tuple[str, list[int]]) -> None:
        """Each row once and in order, and nothing is left over."""
        for queue, rows in expected:
            assert self.held(queue) == rows
        # What is only at work is over as soon as the end of its connection is noticed.
        assert self.prepared() == set()

    def prepared(self) -> set[str]:
        """What is promised."""
        return {view.xid for view in self.manager.admin.branches() if view.phase == "prepared"}


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Place]]:
    monkeypatch.setattr(branches, "BRANCH_MESSAGES", 7)
    with ExitStack() as stack:

        def made(name: str) -> Place:
            folder = tmp_path / name
            folder.mkdir()
            daemon = stack.enter_context(Daemon(folder / "data", name=name))
            relay = stack.enter_context(Relay(folder, daemon.path / "onceq.sock"))
            place = Place(daemon, relay)
            stack.callback(place.manager.close)
            return place

        yield made


@pytest.fixture
def place(places: Callable[[str], Place]) -> Place:
    return places("ALPHA")


def batches(to: Callable[[int], str]) -> Iterator[Any]:
    for first in range(0, COUNT, ROWS):
        rows = range(first, first + ROWS)
        bodies = [b"%d" % n for n in rows]
        yield pa.RecordBatch.from_pydict({"body": bodies, "queue": [to(n) for n in rows]})


def options(*relays: Relay, **more: str) -> SinkOptions:
    where = ",".join(relay.where for relay in relays)
    given = {"queueManager": where, "errorQueue": E, "retryTimeout": "60s", **more}
    return parse_sink({**given, "txnAppId": APP, "txnVersion": "0"}, stream=False)


def commit(chosen: SinkOptions, version: int, *staged: Staged) -> None:
    """As the driver does."""
    writer = OnceqWriter(chosen, NAMES)
    writer.commit([
        StagedMessage(TaskBatch(APP, version, "", partition), part)
        for partition, part in enumerate(staged)
    ])  # fmt: skip


def alternating(n: int) -> str:
    return r"private$\nowhere" if n % 12 == 11 else P if n % 8 > 3 else Q


EXPECTED = (
    (Q, [n for n in range(COUNT) if alternating(n) == Q]),
    (P, [n for n in range(COUNT) if alternating(n) == P]),
    (E, [n for n in range(COUNT) if n % 12 == 11]),
)


@pytest.mark.parametrize("when", [BEFORE, AFTER, HALF, LATE, LATER])
def test_an_answer_is_lost_at_any_request_of_a_task(place: Place, when: str) -> None:
    chosen = options(place.relay)
    for at in range(1, REQUESTS_MAX):
        place.relay.cut_number(at, when)
        staged = stage(batches(alternating), NAMES, chosen, TaskBatch(APP, at, "", 0))
        done = not place.relay.armed
        place.relay.let_go()
        listed = {str(Xid(ONCEQ_FORMAT, *xid)) for xid in staged.branches}
        assert place.prepared() == listed, "nothing else is left prepared"
        place.relay.cut_number(REQUESTS_MAX, when)
        commit(chosen, at, staged)
        place.check(*EXPECTED)
        if not done:
            assert at > 12, "it has looked up, begun, sent and prepared"
            return
    raise AssertionError("it asks too much")


@pytest.mark.parametrize("when", [BEFORE, AFTER])
def test_an_answer_is_lost_at_any_request_of_the_driver(place: Place, when: str) -> None:
    chosen = options(place.relay)
    for at in range(1, REQUESTS_MAX):
        staged = stage(batches(alternating), NAMES, chosen, TaskBatch(APP, at, "", 0))
        place.relay.cut_number(at, when)
        commit(chosen, at, staged)
        place.check(*EXPECTED)
        if place.relay.armed:
            return
    raise AssertionError("it asks too much")


@pytest.mark.parametrize("when", [BEFORE, AFTER, HALF, LATE, LATER])
@pytest.mark.parametrize("broken", [0, 1])
def test_an_answer_is_lost_at_either_of_two_queue_managers(
    places: Callable[[str], Place], when: str, broken: int
) -> None:
    both = places("ALPHA"), places("BETA")
    chosen = options(*(place.relay for place in both))

    def to(n: int) -> str:
        return f"{both[n // ROWS % 2].relay.where}/{Q}"

    for at in range(1, REQUESTS_MAX):
        both[broken].relay.cut_number(at, when)
        staged = stage(batches(to), NAMES, chosen, TaskBatch(APP, at, "", 0))
        both[broken].relay.let_go()
        commit(chosen, at, staged)
        for number, place in enumerate(both):
            place.check((Q, [n for n in range(COUNT) if n // ROWS % 2 == number]))
        assert both[0].manager.admin.decisions() == []
        if both[broken].relay.armed:
            assert at > 8
            return
    raise AssertionError("it asks too much")


# ---- it is killed, and comes back -------------------------------------------------------------


class Missed(logging.Handler):
    """Starts a queue manager when somebody has missed it."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place

    def emit(self, record: logging.LogRecord) -> None:
        if "does not answer" in record.getMessage():
            self.place.daemon.start()


@pytest.fixture
def missed(place: Place) -> Iterator[None]:
    handler, log = Missed(place), logging.getLogger("onceq.spark")
    log.addHandler(handler)
    yield
    log.removeHandler(handler)


def killed_at(place: Place, moment: int) -> Iterator[Any]:
    """The rows; before one batch of them the queue manager dies."""
    for number, batch in enumerate(batches(lambda n: Q)):
        if number == moment:
            place.daemon.kill()
        yield batch


@pytest.mark.usefixtures("missed")
def test_a_queue_manager_is_killed_while_a_task_stages(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = options(place.relay)
    for moment in (2, 5):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "onceq.spark"):
            staged = stage(killed_at(place, moment), NAMES, chosen, TaskBatch(APP, moment, "", 0))
        away, back = [record.getMessage() for record in caplog.records]
        assert "does not answer" in away
        assert "answers again" in back
        assert staged.rows == COUNT
        commit(chosen, moment, staged)
        place.check((Q, list(range(COUNT))))


@pytest.mark.usefixtures("missed")
def test_a_queue_manager_is_killed_while_the_driver_commits(place: Place) -> None:
    chosen = options(place.relay)
    staged = stage(batches(lambda n: Q), NAMES, chosen, TaskBatch(APP, 1, "", 0))
    place.daemon.kill()
    commit(chosen, 1, staged)
    commit(chosen, 1, staged)
    place.check((Q, list(range(COUNT))))


def test_one_that_stays_away_fails_the_write_in_the_end(place: Place) -> None:
    chosen = options(place.relay, retryTimeout="100ms")
    rows = itertools.chain(itertools.islice(batches(lambda n: Q), 1), dying(place))
    with pytest.raises(ServiceNotAvailable) as failed:
        stage(rows, NAMES, chosen, TaskBatch(APP, 1, "", 0))
    assert failed.value.text.startswith("[")
    assert "tried" in failed.value.text
    assert place.relay.where in failed.value.text
    place.daemon.start()
    assert place.held(Q) == []


def dying(place: Place) -> Iterator[Any]:
    place.daemon.kill()
    yield from batches(lambda n: Q)


def test_a_row_that_is_refused_when_it_is_sent_again_is_named(place: Place) -> None:
    """Its queue was deleted while the queue manager could not be reached."""
    chosen = parse_sink({"queueManager": place.relay.where, "queue": Q}, stream=True)

    def rows() -> Iterator[Any]:
        (first, *_) = batches(lambda n: Q)
        yield first
        place.relay.cut_number(1, BEFORE)
        place.manager.delete_queue(Q)
        yield first

    with pytest.raises(QueueNotFound, match=r"ALPHA: a row up to \d+ of partition 0"):
        stage(rows(), NAMES, chosen, TaskBatch(APP, 1, "", 0))
    assert place.prepared() == set()
