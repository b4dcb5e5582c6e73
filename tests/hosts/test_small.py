"""Small things between a client and its host (finding K12)."""

from __future__ import annotations

import asyncio
import copy
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import onceq
import onceq.aio
from onceq.client.address import parse
from onceq.client.threads.workers import Ending, side_by_side
from onceq.errors import ConfigurationError, IllegalPropertyValue, InvalidParameter, WrongAddress
from onceq.model.message import VT_LPWSTR

Q = r"private$\q"


@pytest.fixture
def qm(tmp_path: Path) -> Any:
    with onceq.open(tmp_path / "a", name="A", create=True) as made:
        made.create_queue("private$\\q", transactional=True)
        yield made


def test_a_client_says_that_it_cannot_travel(qm: Any) -> None:
    with qm.transaction() as tx, qm.open_queue(Q) as queue, queue.cursor() as cursor:
        made: list[Any] = [qm, tx, queue, cursor]
        for one in made:
            for travel in (copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="connect there"):
                    travel(one)
            with pytest.raises(TypeError, match="connect there"):
                one.__reduce_ex__(4)  # as pickle does


def test_messages_travel(qm: Any) -> None:
    """As ``multiprocessing`` hands them to a child, also those of an embedded queue manager."""
    qm.send_many(Q, ["one", "two"], transactional=True)
    batch, message = qm.peek_many(Q), qm.peek(Q)
    there = copy.deepcopy(batch)  # as pickle takes it apart
    assert [one.text for one in there] == ["one", "two"]
    assert list(there.lookup_ids) == list(batch.lookup_ids)
    assert copy.deepcopy(message).text == "one"


@pytest.mark.parametrize("where", ["http://host:80", "amqp://host", "https://host:1801/msmq/q"])
def test_addresses_of_other_protocols_are_refused_by_name(where: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is not spoken .*onceq://host:port"):
        onceq.connect(where)


def test_a_path_is_an_address(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not the directory of a queue manager"):
        parse(tmp_path)
    with pytest.raises(ConfigurationError, match="17 is neither a directory nor an address"):
        parse(17)  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", ["1", timedelta(seconds=1), [1]])
def test_a_timeout_that_is_no_number_is_refused_in_a_sentence(qm: Any, timeout: Any) -> None:
    for call in (qm.receive, qm.peek, qm.receive_many):
        with pytest.raises(InvalidParameter, match="a timeout is a number of seconds"):
            call(Q, timeout=timeout)


def test_text_of_com_and_a_body_that_is_cut(qm: Any) -> None:
    qm.send(Q, "grüße\0".encode("utf-16-le"), body_type=VT_LPWSTR, transactional=True)
    assert qm.receive(Q).text == "grüße"
    qm.send(Q, bytes(3_000_000), transactional=True)
    said = repr(qm.receive(Q))
    assert len(said) < 5_000
    assert "(3000000)" in said


@pytest.mark.parametrize("timeout", [-1, -0.001, float("-inf"), float("nan")], ids=str)
def test_a_timeout_below_zero_is_no_way_to_say_for_ever(qm: Any, timeout: float) -> None:
    with qm.transaction() as tx:
        calls: list[Callable[..., Any]] = [
            qm.receive, qm.peek, qm.receive_many, qm.peek_many, qm.request, tx.receive,
            tx.receive_many, tx.receive_transaction,
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(InvalidParameter, match="from 0, or None, which never ends"):
                call(Q, *((b"",) if call == qm.request else ()), timeout=timeout)
    with pytest.raises(InvalidParameter, match="from 0, or None, which never ends"):
        next(qm.messages(Q, timeout=timeout))


@pytest.mark.parametrize("timeout", [0, -1, None, "1", float("nan"), float("inf")], ids=repr)
def test_a_connection_has_a_time(timeout: Any) -> None:
    said = "timeout of a connection is a number of seconds above 0"
    with pytest.raises(InvalidParameter, match=said):
        onceq.connect("onceq://127.0.0.1:9", timeout=timeout)
    with pytest.raises(InvalidParameter, match=said):
        asyncio.run(onceq.aio.connect("onceq://127.0.0.1:9", timeout=timeout))


@pytest.mark.parametrize("name", ["time_to_be_received", "time_to_reach_queue"])
@pytest.mark.parametrize("value", [0.5, -1, "3", timedelta(seconds=1)], ids=str)
def test_a_time_of_a_message_is_whole_seconds(qm: Any, name: str, value: Any) -> None:
    with pytest.raises(IllegalPropertyValue, match=f"{name} is a whole number of seconds from 0"):
        qm.send(Q, b"", **{name: value})


def test_a_batch_travels(qm: Any) -> None:
    """One of an embedded manager has its bytes in the memory of the log."""
    qm.send(Q, bytes(100_000), transactional=True, label="large")
    qm.send_many(Q, [str(number) for number in range(1_500)], transactional=True)
    found = [qm.peek_many(Q, 1), qm.receive_many(Q, 3), qm.receive_many(Q, 1_000)]
    with qm.transaction() as tx:
        found.append(tx.receive_many(Q, 497))
        tx.send_many(Q, [b"a", b"b"])
    with qm.transaction() as tx:
        found.append(tx.receive_transaction(Q))
    for batch in found:
        for there in (copy.deepcopy(batch), copy.copy(batch)):  # by what pickle goes by
            assert type(there) is type(batch)
            assert list(there) == list(batch)
            assert there.lookup_ids == batch.lookup_ids


def test_no_repr_is_long(qm: Any) -> None:
    id = qm.send(Q, bytes(3_000_000), transactional=True, label="l" * 249)
    assert repr(id) == f"MessageId.parse({str(id)!r})"
    with qm.transaction() as tx, qm.open_queue(Q) as queue, queue.cursor() as cursor:
        tx.send_many(Q, [b"1"] * 2_000)
        shown = [
            qm, tx, queue, cursor, qm.queue(Q), qm.admin.status(), qm.admin.metrics(), qm.peek(Q),
            qm.peek_many(Q), *qm.peek_headers(Q), *qm.admin.transactions(), *qm.admin.settings(),
        ]  # fmt: skip
        for one in shown:
            assert len(repr(one)) < 1_000
    assert "messages=2001," in repr(qm.queue(Q))
    assert "locked" not in repr(qm.queue(Q)), "what is as by default is left out"


@pytest.mark.parametrize("silent", [True, False], ids=["waits", "answers"])
@pytest.mark.parametrize("face", ["threads", "tasks"])
def test_an_http_server_is_called_one(face: str, *, silent: bool) -> None:
    """It waits for the end of a line, or answers at once that it understands nothing."""
    over = threading.Event()

    def serve(listening: socket.socket) -> None:
        with suppress(OSError):
            while not over.is_set():
                there, _ = listening.accept()
                threading.Thread(target=answer, args=(there,)).start()

    def answer(there: socket.socket) -> None:
        with there, suppress(OSError):
            said = b""
            while silent and not said.endswith(b"\r\n\r\n"):
                data = there.recv(4096)
                if not data:
                    return
                said += data
            there.recv(0 if silent else 4096)
            there.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        where = f"onceq://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(WrongAddress, match=r"is an HTTP server .*client_listen names"):
            if face == "threads":
                onceq.connect(where, timeout=2.0)
            else:
                asyncio.run(onceq.aio.connect(where, timeout=2.0))
        over.set()
        socket.create_connection(listening.getsockname()).close()
        thread.join()


def test_threads_that_look_into_a_batch_see_all_of_it(qm: Any) -> None:
    """Each sees where messages begin, or nothing of it."""
    qm.send_many(Q, [str(number) for number in range(2_000)], transactional=True)
    batch = qm.receive_many(Q, 2_000)
    assert batch[1_999].text == "1999"
    before = batch._starts
    batch._starts = []
    assert [batch[at].text for at in (0, 7, -1)] == ["0", "7", "1999"]
    assert batch._starts is not before


def test_a_second_ctrl_c_ends_workers_that_are_waited_for() -> None:
    over = threading.Event()
    ending = Ending(threading.Event())
    interrupts = [KeyboardInterrupt(), KeyboardInterrupt()]
    real = threading.Thread.join

    def join(thread: threading.Thread, timeout: float | None = None) -> None:
        if interrupts:
            raise interrupts.pop()
        real(thread, timeout)

    def work() -> int:
        over.wait(20)
        return 0

    works: list[Callable[[], int]] = [work, work]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "join", join)
        with pytest.raises(KeyboardInterrupt):
            side_by_side(works, ending)
    assert not over.is_set(), "they are still at work"
    assert not interrupts
    over.set()
