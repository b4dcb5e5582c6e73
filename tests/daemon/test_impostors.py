"""Who listens where a queue manager did, and is told no token.

A real daemon dies, and somebody else takes its port or its socket; or it lives, and somebody passes
on what is said to it.

Upholds: I28.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import onceq
from onceq import aio
from onceq.cli.main import run
from onceq.client import credentials
from onceq.errors import AccessDenied, ConfigurationError, OnceqError, WrongAddress
from onceq.model.tokens import read
from onceq.wire.app import frames
from tests.daemon.applications import WAIT_S, Daemon
from tests.proofs import hello

pytestmark = pytest.mark.slow
SOMEBODY = 65_534


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path / "a", tcp=True) as made:
        yield made


@pytest.fixture
def token(daemon: Daemon) -> str:
    with onceq.connect(daemon.where) as admin:
        return admin.tokens.create("billing", grants={"": "monitor"}).token


def by_thread(where: str | None, token: str) -> str:
    with onceq.connect(where, token=token) as qm:
        return qm.name


def by_task(where: str | None, token: str) -> str:
    async def work() -> str:
        async with await aio.connect(where, token=token) as qm:
            return qm.name

    return asyncio.run(work())


Face = Callable[[str | None, str], str]
FACES: list[Face] = [by_thread, by_task]


class Impostor:
    """Listens, and notes what it is told.

    Attributes:
        heard: All of it.
    """

    def __init__(self, listening: socket.socket, answer: bytes = b"", to: str = "") -> None:
        """Answer each connection so, or as a queue manager does that is really there."""
        self.heard = b""
        self._listening, self._answer, self._to = listening, answer, to
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(WAIT_S)

    def _work(self) -> None:
        while True:
            try:
                peer, _ = self._listening.accept()
            except OSError:
                return
            with peer:
                peer.settimeout(WAIT_S)
                if self._to:
                    self._pass_on(peer)
                    continue
                while data := self._taken(peer):
                    self.heard += data
                    peer.sendall(self._answer)

    def _taken(self, own: socket.socket) -> bytes:
        try:
            return own.recv(1 << 16)
        except OSError:
            return b""

    def _pass_on(self, peer: socket.socket) -> None:
        """What is said goes on, word for word, one after the other."""
        host, _, port = self._to.removeprefix("onceq://").rpartition(":")
        with socket.create_connection((host, int(port)), WAIT_S) as there:
            ends = {peer: there, there: peer}
            threads = [threading.Thread(target=self._copy, args=pair) for pair in ends.items()]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(WAIT_S)

    def _copy(self, here: socket.socket, there: socket.socket) -> None:
        while data := self._taken(here):
            self.heard += data
            there.sendall(data)
        try:
            there.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def secret_of(token: str) -> bytes:
    found = read(token)
    assert found is not None
    return found[1]


def known() -> bytes:
    """What somebody answers who knows nothing of the token."""
    head = frames.ProofAnswer(bytes(16), bytes(32), bytes(32))
    return b"".join(map(bytes, frames.frame(1, frames.FrameCode.PROVE | frames.ANSWER, head)))


@pytest.mark.parametrize("at", ["port", "socket"])
@pytest.mark.parametrize("answer", [b"", known()], ids=["silent", "lies"])
def test_who_takes_the_place_of_a_dead_one_is_told_no_token(
    daemon: Daemon, token: str, at: str, answer: bytes
) -> None:
    """Neither as it is, nor in something that could be said again."""
    port, path = int(daemon.tcp.rpartition(":")[2]), daemon.path / "onceq.sock"
    for face in FACES:
        assert face(daemon.tcp, token) == "ALPHA"
    daemon.kill()
    if at == "port":
        listening = socket.create_server(("127.0.0.1", port))
        where = f"onceq://127.0.0.1:{port}"
    else:
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(path))
        listening.listen()
        where = str(path)
    impostor = Impostor(listening, answer)
    for face in FACES:
        if answer:
            with pytest.raises(AccessDenied, match="was not told, "):
                face(where, token)
        else:
            with pytest.raises(OnceqError):
                silent(face, where, token)
    impostor.close()
    said = impostor.heard
    assert b"billing" in said
    assert secret_of(token) not in said
    assert secret_of(token).hex().encode() not in said
    assert b"onceqt_" not in said


def silent(face: Face, where: str, token: str) -> None:
    """Nobody waits long for who says nothing."""
    if face is by_thread:
        onceq.connect(where, token=token, timeout=1.0)
    else:
        asyncio.run(aio.connect(where, token=token, timeout=1.0))


@pytest.mark.parametrize("face", FACES)
def test_who_passes_on_what_is_said_does_not_come_in(
    daemon: Daemon, token: str, face: Face
) -> None:
    """At another port of the same address, which a name may lead to as well."""
    impostor = Impostor(socket.create_server(("127.0.0.1", 0)), to=daemon.tcp)
    with pytest.raises(AccessDenied, match="through a tunnel"):
        face(f"onceq://127.0.0.1:{impostor.port}", token)
    impostor.close()
    assert secret_of(token) not in impostor.heard


def test_what_was_heard_on_one_connection_is_good_on_no_other(daemon: Daemon, token: str) -> None:
    """A whole conversation, said again to the queue manager that it was with."""
    host, _, port = daemon.tcp.removeprefix("onceq://").rpartition(":")
    bound = f"tcp\0{host}\0{port}".encode()
    nonce = b"n" * 32
    asked = b"".join(frames.frame(1, frames.FrameCode.PROVE, frames.Prove("billing", nonce)))
    said: list[bytes] = []
    for turn in range(2):
        with socket.create_connection((host, int(port)), WAIT_S) as own:
            own.sendall(asked)
            parser = frames.Parser()
            ((_, _, head, _),) = parser.feed(own.recv(1 << 16))
            answer = hello(token, frames.decode_head(head, frames.ProofAnswer), bound)
            said.append(b"".join(map(bytes, frames.frame(2, frames.FrameCode.HELLO, answer))))
            own.sendall(said[0])
            ((_, code, _, _),) = parser.feed(own.recv(1 << 16))
            assert bool(code & frames.FAILED) is bool(turn)
    assert said[0] != said[1]


def test_a_socket_of_another_account_is_no_queue_manager(
    daemon: Daemon, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both faces look at who listens, before anything is said."""
    monkeypatch.setattr(credentials, "listener", lambda own: SOMEBODY)
    for face in FACES:
        for shown in (token, ""):
            with pytest.raises(WrongAddress, match="the directory is not its own"):
                face(daemon.where, shown)
    owner = os.stat(daemon.path).st_uid
    monkeypatch.setattr(credentials, "listener", lambda own: owner)
    monkeypatch.setattr(os, "geteuid", lambda: SOMEBODY)
    for face in FACES:
        assert face(daemon.where, token) == "ALPHA", "the directory's own account listens"


def test_a_directory_of_another_account_is_not_taken_by_itself(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """To go there is not to mean it: somebody may have made it for that."""
    monkeypatch.chdir(daemon.path)
    assert run(["queue", "list"]) == 0
    assert {face(None, "") for face in FACES} == {"ALPHA"}
    real = os.stat(".").st_uid
    if real == 0:
        os.chown(daemon.path, SOMEBODY, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: SOMEBODY)
    capsys.readouterr()
    assert run(["queue", "list"]) != 0
    assert "say --qm . if it is" in capsys.readouterr().err
    for face in FACES:
        with pytest.raises(ConfigurationError, match=r"say connect\('\.'\) if it is"):
            face(None, "")
    if real == 0:
        assert run(["--qm", ".", "queue", "list"]) == 0, "it was named"
