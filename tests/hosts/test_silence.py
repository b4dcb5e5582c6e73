"""A queue manager that stands still (K8).

Every wait that has a time-out ends by it, and says that it may have happened; every loop hears
``stop``; a computer that is lost is noticed alike at both ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq import aio
from onceq.client import link
from onceq.errors import (
    AnswerOverdue,
    InDoubt,
    LinkLost,
    ManagerAway,
    OnceqError,
    ReceiveTimeout,
    ServiceNotAvailable,
)
from onceq.sockets import both_ends
from tests.daemon.applications import Blocking, _in, background_loop
from tests.hosts.places import LINKS, PLAIN, Place, Q, placed

pytestmark = pytest.mark.slow
WAIT_S = 30.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with placed(tmp_path_factory, "still") as made:
        yield made


@pytest.fixture(params=[(face, link) for face in ("threads", "tasks") for link in LINKS],
                ids="-".join)  # fmt: skip
def qm(request: pytest.FixtureRequest, place: Place) -> Iterator[Any]:
    face, link = request.param
    with onceq.connect(place.daemon.where) as other:
        for queue in (Q, PLAIN):
            other.purge(queue)
    if face == "threads":
        made = onceq.connect(place.where(link), timeout=0.2)
        yield made
        made.close()
        return
    with background_loop() as loop:
        inner = _in(loop, aio.connect(place.where(link), timeout=0.2))
        yield Blocking(inner, loop)
        _in(loop, inner.close())


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are overdue soon, and a manager that stands still is not asked for seconds."""
    monkeypatch.setattr(both_ends, "GRACE_S", 0.1)
    monkeypatch.setattr(link, "RECONNECT_S", (0.05,))


def test_a_receive_for_good_gives_up_and_what_comes_late_is_given_to_the_next(
    qm: Any, place: Place
) -> None:
    qm.send(PLAIN, b"m")
    with place.silent(), pytest.raises(AnswerOverdue, match="may have happened"):
        qm.receive(PLAIN, timeout=0.05)
    assert qm.receive(PLAIN, timeout=WAIT_S).body == b"m"


WAITS: dict[str, Callable[[Any], object]] = {
    "peek": lambda qm: qm.peek(PLAIN, timeout=0.05),
    "by an identifier": lambda qm: qm.receive(PLAIN, correlation_id=bytes(20), timeout=0.05),
    "in a transaction": lambda qm: qm.transaction().receive(Q, timeout=0.05),
    "whole": lambda qm: qm.transaction().receive_transaction(Q, timeout=0.05),
}


def test_every_wait_with_a_time_out_ends(qm: Any, place: Place) -> None:
    qm.send(PLAIN, b"m")
    for wait in WAITS.values():
        with place.silent(), pytest.raises(ServiceNotAvailable):
            wait(qm)
    assert qm.receive(PLAIN, timeout=WAIT_S).body == b"m"


def test_a_message_of_a_transaction_that_was_given_up_goes_back(qm: Any, place: Place) -> None:
    qm.send(Q, b"m", transactional=True)
    tx = qm.transaction()
    with place.silent(), pytest.raises(ServiceNotAvailable):
        tx.receive(Q, timeout=0.05)
    assert qm.receive(Q, timeout=WAIT_S).body == b"m"


def test_a_call_without_a_time_out_notices_a_manager_that_is_silent_for_long(
    qm: Any, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(both_ends, "SILENT_S", 0.2)
    with place.silent():
        with pytest.raises(LinkLost):
            qm.send(PLAIN, b"m")
        with pytest.raises(ManagerAway):
            qm.admin.status()
    with pytest.raises(ReceiveTimeout):
        while True:
            assert qm.receive(PLAIN, timeout=0.2).body == b"m"


def test_a_commit_is_in_doubt_and_its_outcome_is_told_later(
    qm: Any, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    tx = qm.transaction()
    tx.send(Q, b"m")
    with monkeypatch.context() as patch, place.silent():
        patch.setattr(both_ends, "SILENT_S", 0.2)
        with pytest.raises(InDoubt):
            tx.commit()
    became = _persistently(lambda: qm.outcome(tx.id))
    assert str(became) in ("committed", "aborted")
    with onceq.connect(place.daemon.where) as other:
        assert other.queue(Q).messages == (str(became) == "committed")


def _persistently(do: Callable[[], Any]) -> Any:
    while True:
        with contextlib.suppress(ServiceNotAvailable):
            return do()


def test_a_manager_that_lets_wait_for_long_shows_that_it_lives(
    qm: Any, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receive without a time-out waits on, through many times SILENT_S."""
    monkeypatch.setattr(both_ends, "SILENT_S", 0.4)
    timer = threading.Timer(1.2, _send, (place, b"m"))
    timer.start()
    assert qm.receive(PLAIN).body == b"m"
    timer.join()


def _send(place: Place, body: bytes) -> None:
    with onceq.connect(place.daemon.where) as other:
        other.send(PLAIN, body)


def test_a_loop_hears_stop_while_the_manager_stands_still(place: Place) -> None:
    stop, ended = threading.Event(), threading.Event()
    with onceq.connect(place.daemon.where, timeout=0.2) as qm:
        handled: list[object] = []

        def loop() -> None:
            qm.consume(Q, lambda tx, message: handled.append(message), stop=stop)
            ended.set()

        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        with place.silent():
            stop.set()
            assert ended.wait(WAIT_S)
        thread.join(WAIT_S)


def test_a_loop_of_tasks_hears_stop_while_the_manager_stands_still(place: Place) -> None:
    async def main() -> int:
        async with await aio.connect(place.daemon.where, timeout=0.2) as qm:
            stop = asyncio.Event()

            async def handle(tx: Any, message: Any) -> None:
                raise AssertionError("there is nothing to handle")

            task = asyncio.create_task(qm.consume(Q, handle, stop=stop))
            await asyncio.sleep(0)
            with place.silent():
                stop.set()
                return await asyncio.wait_for(task, WAIT_S)

    with onceq.connect(place.daemon.where) as other:
        other.purge(Q)
    assert asyncio.run(main()) == 0


def test_threads_that_share_a_connection_give_up_each_in_its_own_time(place: Place) -> None:
    """The one that reads for all, and those that wait for it."""
    with onceq.connect(place.daemon.where, timeout=0.2) as qm, place.silent():
        said: list[str] = []

        def wait(timeout: float) -> None:
            try:
                qm.receive(PLAIN, timeout=timeout)
            except OnceqError as error:
                said.append(type(error).__name__)

        threads = [threading.Thread(target=wait, args=(k * 0.05,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        assert said == ["AnswerOverdue"] * 4


def test_the_system_watches_alike_at_both_ends(place: Place, tmp_path: Path) -> None:
    def options(plain: Any) -> list[int]:
        return [plain.getsockopt(level, option) for level, option, _ in both_ends.KEEPALIVE]

    wanted = [value for _, _, value in both_ends.KEEPALIVE]
    with onceq.connect(place.where("tcp")) as qm:
        assert options(qm._link._socket) == wanted  # type: ignore[attr-defined]

    async def main() -> list[int]:
        async with await aio.connect(place.where("tcp")) as made:
            return options(made._link._plain)  # type: ignore[attr-defined]

    assert asyncio.run(main()) == wanted
    idle, interval, count, user_ms = wanted[1:]
    assert idle + interval * count == both_ends.SILENT_S == user_ms / 1000
    with socket.create_server(("127.0.0.1", 0)) as server:
        both_ends.watch(server)
        assert options(server) == wanted
