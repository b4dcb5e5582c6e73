"""The link for threads, with the manager's end in the hands of the test."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import pytest

from onceq.client import connecting
from onceq.client.address import ManagerAddress
from onceq.client.async_link import AsyncLink
from onceq.client.credentials import AUTHORITIES
from onceq.client.link import LinkRequest
from onceq.client.socket_link import SocketLink
from onceq.errors import (
    LinkLost,
    MalformedPacket,
    ManagerAway,
    OnceqError,
    QueueNotFound,
    ReceiveTimeout,
    ServiceNotAvailable,
    UnknownVersion,
    WrongAddress,
)
from onceq.model import requests
from onceq.model.message import PLAIN
from onceq.model.requests import SendItem
from onceq.model.results import Sent
from onceq.model.run import Run
from onceq.packet.arrived import Batch
from onceq.wire.app.frames import ANSWER
from tests.unit.client.scripted import WAIT_S, Scripted, begun
from tests.unit.client.tls_door import Authority, Door

T = TypeVar("T")


def look(name: str = "") -> LinkRequest:
    return LinkRequest(requests.SetQueue(name, {}))


def receive() -> LinkRequest:
    return LinkRequest(requests.Receive("q", wait_ms=-1))


class Green(socket.socket):
    """As gevent's: it waits for bytes although it is told not to, here for ever."""

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        ready, _, _ = select.select([self], [], [], 0)
        assert ready or not flags & socket.MSG_DONTWAIT, "it would wait"
        return super().recv(size, flags)


def green_connection(address: tuple[str, int], timeout: float) -> Green:
    made = Green(fileno=socket.create_connection(address, timeout).detach())
    made.settimeout(timeout)
    return made


@pytest.fixture(params=["plain", "tls", "green", "green-tls"])
def server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scripted]:
    """Everything here holds over TLS as well, and with sockets of greenlets (finding K11)."""
    if "green" in request.param:
        green = vars(socket) | {"socket": Green, "create_connection": green_connection}
        monkeypatch.setattr(connecting, "socket", SimpleNamespace(**green))
    with Scripted(tmp_path) as made:
        if "tls" not in request.param:
            yield made
            return
        authority = Authority(tmp_path)
        monkeypatch.setenv(AUTHORITIES, authority.file)
        door = Door(made.address.path, authority.server("127.0.0.1"))
        made.address = door.address
        yield made
        door.close()


def arrived(link: SocketLink) -> None:
    """Wait until something is there to be read."""
    found, _, _ = select.select([link._socket.fileno()], [], [], WAIT_S)
    assert found


@pytest.fixture
def link(server: Scripted) -> Iterator[SocketLink]:
    future = begun(lambda: SocketLink(server.address, WAIT_S))
    server.greet(name="ALPHA", id=bytes(range(16)), now_s=77)
    made = future.result(WAIT_S)
    yield made
    made.close()


def test_the_greeting_says_who_is_there(link: SocketLink) -> None:
    said = link.greeting
    assert (said.name, said.id, said.now_s) == ("ALPHA", bytes(range(16)), 77)


def test_a_refused_hello_is_raised(server: Scripted) -> None:
    future = begun(lambda: SocketLink(server.address, WAIT_S))
    server.accept()
    server.read()
    server.fail(0, "unknown-version", "this manager speaks 9")
    with pytest.raises(UnknownVersion, match="speaks 9"):
        future.result(WAIT_S)


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(ServiceNotAvailable, match="is it running"):
        SocketLink(ManagerAddress(path=str(tmp_path / "none.sock")), 1.0)
    with pytest.raises(ServiceNotAvailable):
        SocketLink(ManagerAddress(host="127.0.0.1", port=1), 1.0)


def test_one_that_does_not_answer_in_time(server: Scripted) -> None:
    future = begun(lambda: SocketLink(server.address, WAIT_S, 0.05))
    server.greet(name="ALPHA", id=bytes(range(16)), now_s=77)
    made = future.result(WAIT_S)
    with pytest.raises(LinkLost, match="gave no answer in time"):
        made.call(look())
    assert not made.alive
    made.close()


def test_one_that_hangs_up_at_once(server: Scripted) -> None:
    future = begun(lambda: SocketLink(server.address, WAIT_S))
    server.accept()
    server.read()
    server.hang_up()
    with pytest.raises(ServiceNotAvailable, match="closed the connection"):
        future.result(WAIT_S)


def test_the_port_of_queue_managers_is_not_that_of_applications() -> None:
    """It hangs up on what is no packet; who is there says so, for threads and for tasks."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up() -> None:
            for _ in range(2):  # It is asked whether it is an HTTP server, too.
                peer, _ = listening.accept()
                peer.recv(1 << 16)
                peer.close()

        address = ManagerAddress(host="127.0.0.1", port=listening.getsockname()[1])
        words = "is that the port for other queue managers .* client_listen"
        with pytest.raises(WrongAddress, match=words) as by_threads:
            begun(hang_up)
            SocketLink(address, WAIT_S)
        with pytest.raises(WrongAddress, match=words) as by_tasks:
            begun(hang_up)
            asyncio.run(AsyncLink.connect(address, WAIT_S))
        assert by_tasks.value.text == by_threads.value.text


def test_threads_and_tasks_say_the_same_of_whom_they_cannot_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that is not there is wrong; one that does not answer may only be away."""

    def no_such_host(*args: object, **kwargs: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    nowhere = ManagerAddress(host="no-such-host.invalid", port=1802)
    cases = ((nowhere, WrongAddress), (ManagerAddress(path=str(tmp_path / "none")), ManagerAway))
    for address, kind in cases:
        with monkeypatch.context() as patch:
            if address.host:
                patch.setattr(socket, "getaddrinfo", no_such_host)
            with pytest.raises(ServiceNotAvailable) as by_threads:
                SocketLink(address, WAIT_S)
            with pytest.raises(ServiceNotAvailable) as by_tasks:
                asyncio.run(AsyncLink.connect(address, WAIT_S))
        assert type(by_threads.value) is type(by_tasks.value) is kind
        assert by_tasks.value.text == by_threads.value.text


def test_answers_reach_their_threads_in_any_order(server: Scripted, link: SocketLink) -> None:
    futures = {str(n): begun(partial(link.call, look(str(n)))) for n in range(16)}
    asked = [server.read() for _ in futures]
    for request, _, head, _ in reversed(asked):
        server.say(request, f"answer {head.name}")
    for name, future in futures.items():
        assert future.result(WAIT_S) == f"answer {name}"


def test_a_reader_whose_answer_has_come_hands_the_reading_on(
    server: Scripted, link: SocketLink
) -> None:
    for _ in range(20):
        first = begun(lambda: link.call(look("first")))
        one = server.read()
        second = begun(lambda: link.call(look("second")))
        two = server.read()
        server.say(one[0], 1)
        assert first.result(WAIT_S) == 1
        server.say(two[0], 2)
        assert second.result(WAIT_S) == 2


def test_answers_are_read_while_another_thread_is_stuck_in_writing(
    server: Scripted, link: SocketLink
) -> None:
    """The manager may want its answers read before it reads on: else nobody would move."""
    first = begun(lambda: link.call(look("first")))
    one = server.read()[0]
    second = begun(lambda: link.call(look("second")))
    two = server.read()[0]
    large = LinkRequest(requests.Send(0, [SendItem("q", PLAIN, Run.of([bytes(4 << 20)]))]))
    writing = begun(lambda: link.call(large))
    assert server.peer is not None
    server.peer.recv(1, socket.MSG_PEEK)  # It is under way, and more than the kernel takes.
    server.say(one, 1)
    assert first.result(WAIT_S) == 1
    server.say(two, 2)
    assert second.result(WAIT_S) == 2
    request, _, _, data = server.read()
    assert len(data) == 4 + (4 << 20)
    server.write(request, requests.Send.code | ANSWER, Sent(1, 1, 0))
    assert writing.result(WAIT_S) == Sent(1, 1, 0)


def test_errors_are_raised_as_what_they_are(server: Scripted, link: SocketLink) -> None:
    for code, error in [("queue-not-found", QueueNotFound), ("timeout", ReceiveTimeout),
                        ("of-a-later-version", OnceqError)]:  # fmt: skip
        future = begun(lambda: link.call(look()))
        server.fail(server.read()[0], code, "said")
        with pytest.raises(error, match="said"):
            future.result(WAIT_S)


def test_a_request_that_waits_for_nothing_carries_number_zero(
    server: Scripted, link: SocketLink
) -> None:
    assert link.call(LinkRequest(requests.Abort(1), waits=False)) is None
    request, code, head, _ = server.read()
    assert (request, code, head.transaction) == (0, requests.Abort.code, 1)


def test_a_lazy_request_goes_out_with_the_next(server: Scripted, link: SocketLink) -> None:
    link.call(LinkRequest(requests.Begin(1), waits=False, lazy=True))
    future = begun(lambda: link.call(look()))
    assert server.read()[1] == requests.Begin.code
    server.say(server.read()[0], None)
    assert future.result(WAIT_S) is None


def behind() -> tuple[LinkRequest, LinkRequest]:
    """A commit, and what goes out with it."""
    second = receive()
    return LinkRequest(requests.Commit(1, then=2), behind=second), second


def test_what_goes_out_behind_a_request_is_waited_for_apart(
    server: Scripted, link: SocketLink
) -> None:
    first, second = behind()
    future = begun(lambda: link.call(first))
    asked, taken = server.read(), server.read()
    assert (asked[1], taken[1]) == (requests.Commit.code, requests.Receive.code)
    server.write(asked[0], requests.Commit.code | ANSWER, Sent(1, 0, 1))
    assert future.result(WAIT_S) == Sent(1, 0, 1)
    later = begun(lambda: link.call(second))
    server.hand(taken[0], b"x")
    batch = later.result(WAIT_S)
    assert isinstance(batch, Batch)
    assert [bytes(body) for body in batch.run] == [b"x"]


def test_what_goes_out_behind_a_request_is_lost_with_it(server: Scripted, link: SocketLink) -> None:
    first, second = behind()
    future = begun(lambda: link.call(first))
    server.read()
    server.hang_up()
    for one in (future, begun(lambda: link.call(second))):
        with pytest.raises(LinkLost):
            one.result(WAIT_S)


def test_nothing_of_two_requests_is_sent_on_a_broken_connection(
    server: Scripted, link: SocketLink
) -> None:
    link.close()
    with pytest.raises(ServiceNotAvailable) as caught:
        link.call(behind()[0])
    assert not isinstance(caught.value, LinkLost)


def test_a_lost_connection_reaches_everybody(server: Scripted, link: SocketLink) -> None:
    futures = [begun(lambda: link.call(look())) for _ in range(5)]
    for _ in futures:
        server.read()
    server.hang_up()
    for future in futures:
        with pytest.raises(LinkLost):
            future.result(WAIT_S)
    assert not link.alive
    with pytest.raises(ServiceNotAvailable) as caught:
        link.call(look())
    assert not isinstance(caught.value, LinkLost), "it was never sent"


def test_a_look_notices_that_the_other_side_has_gone(server: Scripted, link: SocketLink) -> None:
    assert link.check_alive()
    server.hang_up()
    assert link.alive, "nobody has looked yet"
    arrived(link)
    assert not link.check_alive()
    assert not link.alive


def test_a_look_takes_nothing(server: Scripted, link: SocketLink) -> None:
    future = begun(lambda: link.call(look()))
    request = server.read()[0]
    assert link.check_alive()
    server.say(request, 5)
    assert future.result(WAIT_S) == 5


def test_the_manager_may_end_it_with_a_reason(server: Scripted, link: SocketLink) -> None:
    future = begun(lambda: link.call(look()))
    server.read()
    server.fail(0, "malformed-packet", "what was that")
    with pytest.raises(LinkLost, match="what was that"):
        future.result(WAIT_S)


FAREWELL = (0, "service-not-available", "it stops")


def test_a_farewell_says_that_what_was_not_answered_has_not_happened(
    server: Scripted, link: SocketLink
) -> None:
    first = begun(lambda: link.call(look()))
    request = server.read()[0]
    second = begun(lambda: link.call(look()))
    server.read()
    server.say(request, 3)
    server.fail(*FAREWELL)
    assert first.result(WAIT_S) == 3
    with pytest.raises(ServiceNotAvailable, match="stops") as caught:
        second.result(WAIT_S)
    assert not isinstance(caught.value, LinkLost)
    assert not link.alive


def test_a_farewell_that_nobody_waited_for_is_noticed_by_a_look(
    server: Scripted, link: SocketLink
) -> None:
    server.fail(*FAREWELL)
    assert link.alive
    arrived(link)
    assert not link.check_alive()
    with pytest.raises(ServiceNotAvailable):
        link.call(look())


@pytest.mark.parametrize("server", ["plain"], indirect=True)
def test_what_could_not_be_written_has_not_happened(server: Scripted, link: SocketLink) -> None:
    """Between the look and the first byte: the manager can know nothing of it."""
    server.hang_up()
    with pytest.raises(ServiceNotAvailable) as caught:
        link.call(look())
    assert not isinstance(caught.value, LinkLost)
    assert not link.alive


@pytest.mark.parametrize("raw", [b"\xff" * 64, b"\x0c\0\0\0\x01\0\0\0\0\0\x01\0\0\0\0\0"])
def test_nonsense_from_the_manager_ends_it(server: Scripted, link: SocketLink, raw: bytes) -> None:
    future = begun(lambda: link.call(look()))
    server.read()
    assert server.peer is not None
    server.peer.sendall(raw)
    with pytest.raises(LinkLost):
        future.result(WAIT_S)


def test_an_answer_that_makes_no_sense_is_its_own_fault(server: Scripted, link: SocketLink) -> None:
    future = begun(lambda: link.call(receive()))
    server.write(server.read()[0], requests.Receive.code | ANSWER, [1, 2])
    with pytest.raises(MalformedPacket):
        future.result(WAIT_S)
    assert link.alive


def test_closing_ends_what_waits(server: Scripted, link: SocketLink) -> None:
    future = begun(lambda: link.call(receive()))
    server.read()
    link.close()
    with pytest.raises(LinkLost, match="this side"):
        future.result(WAIT_S)


def test_an_interrupted_call_ends_the_connection(
    server: Scripted, link: SocketLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes may have been taken from the socket that nobody has seen."""

    def interrupted(*, until: float | None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(link, "_read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        link.call(look())
    assert not link.alive
