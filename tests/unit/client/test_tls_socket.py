"""TLS in memory over a plain socket: what is whole is read, and nothing blocks that should not."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from onceq.client.address import parse
from onceq.client.link import PartlyWritten
from onceq.client.tls_socket import WRITE_BYTES, TlsSocket
from onceq.tls.contexts import APPLICATIONS, client_context
from tests.unit.client.scripted import WAIT_S, begun
from tests.unit.client.tls_door import Authority

T = TypeVar("T")
HOST = "queues.example"
PEEK = socket.MSG_PEEK | socket.MSG_DONTWAIT


class Server:
    """The other side, record by record in the hands of the test."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext) -> None:
        self.plain = plain
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)

    def shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self.plain.sendall(self._out.read())
                self._in.write(self.plain.recv(1 << 16))
            else:
                self.plain.sendall(self._out.read())
                return

    def record(self, data: bytes) -> bytes:
        """As it crosses the network."""
        self._tls.write(data)
        return self._out.read()

    def read(self, size: int) -> bytes:
        """So many bytes."""
        found = b""
        while len(found) < size:
            try:
                found += self._tls.read(size - len(found))
            except ssl.SSLWantReadError:
                raw = self.plain.recv(1 << 16)
                assert raw, "the other side has closed it"
                self._in.write(raw)
        return found

    def farewell(self) -> bytes:
        """That it writes nothing any more."""
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.unwrap()
        return self._out.read()


def ends(authority: Authority) -> tuple[TlsSocket, Server]:
    ours, theirs = socket.socketpair()
    ours.settimeout(WAIT_S)
    theirs.settimeout(WAIT_S)
    server = Server(theirs, authority.server(HOST))
    shaking = begun(server.shake_hands)
    made = TlsSocket(ours, client_context(authority.file), HOST)
    shaking.result(WAIT_S)
    made.settimeout(None)  # a timeout of Python's would let a look wait as well
    return made, server


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def pair(authority: Authority) -> Iterator[tuple[TlsSocket, Server]]:
    made, server = ends(authority)
    yield made, server
    made.close()
    server.plain.close()


Pair = tuple[TlsSocket, Server]


def test_what_is_spoken_in_it_was_agreed_on(pair: Pair) -> None:
    assert pair[0].protocol() == APPLICATIONS


def test_a_look_takes_nothing_and_half_a_record_is_nothing_yet(pair: Pair) -> None:
    made, server = pair
    with pytest.raises(BlockingIOError):
        made.recv(1, PEEK)
    raw = server.record(b"hello")
    server.plain.sendall(raw[:9])
    assert made.recv(1, PEEK), "something is there"
    with pytest.raises(BlockingIOError):
        made.recv(100, socket.MSG_DONTWAIT)
    with pytest.raises(BlockingIOError):
        made.recv(1, PEEK)  # the half was taken in
    server.plain.sendall(raw[9:])
    assert made.recv(1, PEEK)
    assert made.recv(100, socket.MSG_DONTWAIT) == b"hello"
    with pytest.raises(BlockingIOError):
        made.recv(1, PEEK)


def test_many_records_come_at_once_and_what_is_left_over_is_seen(pair: Pair) -> None:
    made, server = pair
    server.plain.sendall(b"".join(server.record(bytes([n]) * 100) for n in range(5)))
    assert made.recv(250) == b"\0" * 100 + b"\1" * 100 + b"\2" * 50
    assert made.recv(1, PEEK), "nothing is left in the plain socket, and yet there is more"
    assert made.recv(1 << 16) == b"\2" * 50 + b"\3" * 100 + b"\4" * 100


@pytest.mark.parametrize("orderly", [True, False])
def test_what_came_before_the_end_is_read_before_it(pair: Pair, orderly: bool) -> None:
    made, server = pair
    server.plain.sendall(server.record(b"last") + (server.farewell() if orderly else b""))
    server.plain.close()
    assert made.recv(100) == b"last"
    assert made.recv(100) == b""
    assert made.recv(100) == b""


def test_bytes_that_were_changed_on_their_way_end_it(pair: Pair) -> None:
    made, server = pair
    good, bad = server.record(b"good"), bytearray(server.record(b"bad"))
    bad[-1] ^= 1
    server.plain.sendall(good + bad)
    assert made.recv(100) == b"good"
    with pytest.raises(ssl.SSLError):
        made.recv(100)


def test_one_thread_reads_while_another_one_is_stuck_in_writing(pair: Pair) -> None:
    made, server = pair
    large = bytes(range(256)) * (4 << 12)
    writing = begun(lambda: made.sendmsg([b"begin", large]))
    assert server.read(5) == b"begin"
    for n in range(3):
        server.plain.sendall(server.record(b"%d" % n))
        assert made.recv(100) == b"%d" % n
    assert not writing.done()
    assert server.read(len(large)) == large
    assert writing.result(WAIT_S) == len(large) + 5


def test_what_could_not_be_written_is_told_from_what_may_have_been(pair: Pair) -> None:
    made, server = pair
    # More than the kernel takes, and nobody reads.
    made.settimeout(0.05)
    with pytest.raises(PartlyWritten):
        made.sendmsg([bytes(8 * WRITE_BYTES)])
    server.plain.close()
    with pytest.raises(BrokenPipeError):
        made.sendmsg([b"x"])


def test_only_the_host_that_was_asked_for_is_believed(authority: Authority, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for file, host, cure in (
        (authority.file, "other.example", "init --host"), (Authority(other).file, HOST, "name the"),
    ):  # fmt: skip
        ours, theirs = socket.socketpair()
        server = Server(theirs, authority.server(HOST))
        shaking = begun(server.shake_hands)
        with pytest.raises(ssl.SSLCertVerificationError) as refused:
            TlsSocket(ours, client_context(file), host)
        assert cure in parse(f"tls://{host}:1802").unreachable(refused.value).text
        with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
            shaking.result(WAIT_S)  # it hears why
        ours.close()
        theirs.close()
