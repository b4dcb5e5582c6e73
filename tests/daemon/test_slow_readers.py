"""Applications that ask for much and read nothing: memory is bounded, and others do not wait.

Nothing here looks at a clock: what is measured is memory, and the order in which things happen.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import onceq
from onceq.client.address import parse
from onceq.model import requests
from onceq.model.limits import ANSWERS_BYTES_MAX, RECEIVE_BYTES_MAX
from onceq.wire.app import frames
from onceq.wire.app.frames import FrameCode, written
from tests.daemon.process import WAIT_S, Process

pytestmark = pytest.mark.slow

Q = r"private$\q"
BODY = bytes(1 << 20)
MESSAGES = RECEIVE_BYTES_MAX >> 20
PEEKS = 38
READERS = 6


@pytest.fixture
def alpha(tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path / "alpha", "--create", "ALPHA", "--listen", "127.0.0.1:0").started()
    yield process
    assert process.end(signal.SIGTERM) == 0, process.said


def resident(process: Process) -> int:
    """Bytes of memory that a process has ever had."""
    status = Path(f"/proc/{process.popen.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) << 10


class Silent:
    """An application that asks and does not read."""

    def __init__(self, where: str, wait_ms: int = 0) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(WAIT_S)
        self.socket.connect(parse(where).path)
        hello = frames.frame(1, FrameCode.HELLO, frames.Hello(frames.VERSION, "silent"))
        self.socket.sendall(b"".join(hello))
        self.parser = frames.Parser()
        self.read(1)
        peek = requests.Receive(Q, 0, MESSAGES, RECEIVE_BYTES_MAX, wait_ms, peek=True)
        asked = [b"".join(written(n, peek)) for n in range(2, 2 + PEEKS)]
        self.socket.sendall(b"".join(asked))

    def read(self, count: int) -> list[int]:
        """So many answers; the bytes of each."""
        found: list[int] = []
        while len(found) < count:
            data = self.socket.recv(1 << 20)
            assert data, "the connection is still there"
            found += [len(rest) for _, _, _, rest in self.parser.feed(data)]
        return found


def test_memory_is_bounded_and_others_are_answered(alpha: Process) -> None:
    with onceq.connect(str(alpha.path)) as qm:
        qm.create_queue(Q, transactional=True)
        qm.send_many(Q, [BODY] * MESSAGES, transactional=True)
        before = resident(alpha)
        silent = [Silent(str(alpha.path)) for _ in range(READERS)]
        qm.create_queue(r"private$\other", transactional=True)
        for number in range(50):  # one who reads goes on meanwhile, also with what is large
            qm.send(r"private$\other", f"{number}", transactional=True)
            assert qm.receive(r"private$\other", timeout=WAIT_S).text == f"{number}"
            assert len(qm.peek_many(Q, MESSAGES, timeout=0)) >= 1
        grown = resident(alpha) - before
        assert grown < 2 * ANSWERS_BYTES_MAX + (128 << 20), f"{grown >> 20} MiB"
        for one in silent:  # and what was asked is answered when it is read
            assert len(one.read(PEEKS)) == PEEKS
            one.socket.close()


def test_one_message_for_peeks_that_wait_on_many_connections(alpha: Process) -> None:
    with onceq.connect(str(alpha.path)) as qm:
        qm.create_queue(Q, transactional=True)
        before = resident(alpha)
        silent = [Silent(str(alpha.path), wait_ms=-1) for _ in range(READERS)]
        qm.queues()
        body = bytes(4_000_000)
        qm.send(Q, body, transactional=True)
        qm.queues()
        grown = resident(alpha) - before
        assert grown < 2 * ANSWERS_BYTES_MAX + (128 << 20), f"{grown >> 20} MiB"
        for one in silent:
            assert min(one.read(PEEKS)) >= len(body)
            one.socket.close()
