"""The daemon: how it starts, what keeps it from starting, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq.errors import InDoubt, ServiceNotAvailable
from tests.daemon.process import ROOT, WAIT_S, Process

pytestmark = pytest.mark.slow

Q = r"private$\q"
Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    processes: list[Process] = []

    def started(name: str = "alpha", *options: str, wait: bool = True, **more: Any) -> Process:
        made = Process(
            tmp_path / name, "--create", name.upper(), "--listen", "127.0.0.1:0", *options, **more
        )
        processes.append(made)
        return made.started() if wait else made

    yield started
    for process in processes:
        process.end(signal.SIGKILL)


def test_it_says_in_one_line_that_it_is_ready_and_where(start: Start) -> None:
    # As a user starts it: with a fresh interpreter, which imports all that it needs.
    alpha = start("alpha", "--client-listen", "127.0.0.1:0", start=subprocess.Popen)
    found = re.fullmatch(
        r"onceq ALPHA ready: peers on (127\.0\.0\.1:\d+), "
        r"applications on (\S+/alpha/onceq\.sock) and (127\.0\.0\.1:\d+)",
        alpha.ready,
    )
    assert found
    peers, path, clients = found.groups()
    assert (alpha.path / "onceq.port").read_text() == f"{peers}\n{clients}\n\n"
    assert (alpha.path / "onceq.pid").read_text() == f"{alpha.popen.pid}\n"
    assert ":0" not in (peers[-2:], clients[-2:])
    with onceq.connect(str(alpha.path)) as qm:
        qm.rights.grant("nobody", "monitor")
    for where in (str(alpha.path), f"unix://{path}", f"onceq://{clients}"):
        with onceq.connect(where) as qm:
            assert qm.name == "ALPHA"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    modes = {file.is_dir(): stat.S_IMODE(file.stat().st_mode) for file in alpha.path.rglob("*")}
    assert modes == {False: 0o600, True: 0o700}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(start: Start, number: int) -> None:
    alpha = start()
    with onceq.connect(str(alpha.path)) as qm:
        qm.create_queue(Q, transactional=True)
        qm.send_many(Q, [b"x"] * 10, transactional=True)
        with ThreadPoolExecutor(1) as pool:
            qm.receive_many(Q, 10)
            qm.send(Q, b"kept", transactional=True)
            waiting = pool.submit(qm.receive, r"private$\none", timeout=0.0)
            assert isinstance(waiting.exception(WAIT_S), onceq.OnceqError)
            qm.create_queue(r"private$\idle")
            waiting = pool.submit(qm.receive, r"private$\idle", timeout=None)
            for _ in range(1_000_000):
                if qm.admin.status()["waiting_readers"]:
                    break
            assert alpha.end(number) == 0
            assert isinstance(waiting.exception(WAIT_S), ServiceNotAvailable)
    left = {file.name for file in alpha.path.iterdir()}
    assert not left & {"onceq.sock", "onceq.port", "onceq.pid"}
    assert alpha.said.rstrip().endswith("INFO stopped")
    starts = alpha.said.count("torn_bytes=")
    again = start()
    with onceq.connect(str(again.path)) as qm:
        # A thread of the daemon's own writes how it has found its store.
        while again.said.count("torn_bytes=") == starts:
            qm.admin.status()
        assert re.findall(r"torn_bytes=(\d+)", again.said)[-1] == "0"
        assert qm.receive(Q).body == b"kept"


def test_what_was_committed_survives_a_kill_and_the_old_socket_is_no_hindrance(
    start: Start,
) -> None:
    alpha = start()
    with onceq.connect(str(alpha.path)) as qm:
        qm.create_queue(Q, transactional=True)
        for number in range(20):
            qm.send(Q, b"%d" % number, transactional=True)
        alpha.end(signal.SIGKILL)
    assert (alpha.path / "onceq.sock").exists()
    again = start()
    with onceq.connect(str(again.path)) as qm:
        assert [bytes(m.body) for m in qm.receive_many(Q, 100)] == [b"%d" % n for n in range(20)]


def test_a_second_process_on_the_same_directory_is_refused(start: Start) -> None:
    alpha = start()
    second = start(wait=False)
    assert second.ended() == 3
    assert f"error (store-locked): process {alpha.popen.pid} runs" in second.said
    with onceq.connect(str(alpha.path)) as qm:
        assert qm.name == "ALPHA", "the first is unharmed"


def test_a_port_in_use_is_named_and_the_directory_can_be_used_again(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        alpha = start("alpha", "--listen", where, wait=False)
        assert alpha.ended() == 3
    assert f"onceq: error (port-in-use): {where} is in use" in alpha.said
    assert "Traceback" not in alpha.said
    start()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lisen = ''\n", r"onceq\.toml:1: lisen: there is no such key; did you mean 'listen'"),
        ("[settings]\nsession_idle_s = 0", r"onceq\.toml:2: settings\.session_idle_s: must be a"),
        ("name = ", r"onceq\.toml is not TOML"),
        ("name = 'BETA'", "belongs to queue manager ALPHA, the configuration says BETA"),
    ],
)
def test_a_mistake_in_the_configuration(start: Start, text: str, says: str) -> None:
    alpha = start()
    alpha.end()
    (alpha.path / "onceq.toml").write_text(text)
    process = start(wait=False)
    assert process.ended() == 2
    assert re.search(r"onceq: error \(configuration\): .*" + says, process.said)
    assert "Traceback" not in process.said


@pytest.mark.parametrize(
    "options", [("--listen", "nowhere"), ("--peer", "BETA"), ("--peer", "BETA=a b")]
)
def test_a_mistake_in_an_option(start: Start, options: tuple[str, str]) -> None:
    process = start("alpha", *options, wait=False)
    assert process.ended() == 2
    assert "onceq: error (configuration): " in process.said
    assert not (process.path / "STORE").exists(), "nothing was made"


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    process = Process(tmp_path / "none")
    assert process.ended() == 2
    assert "error (not-a-store)" in process.said


def test_a_path_too_long_for_its_socket(tmp_path: Path) -> None:
    process = Process(tmp_path / ("x" * 100), "--create", "X", "--listen", "")
    assert process.ended() == 2
    assert "take a data directory with a shorter path" in process.said
    assert not process.path.exists(), "nothing was made"


def test_it_does_not_run_without_its_assertions(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-O", "-m", "onceq.service.main", "--data", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True,
        timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "does not run under 'python -O'" in done.stderr
    embedded = "import onceq, sys\nonceq.open(sys.argv[1], create=True)"
    done = subprocess.run(
        [sys.executable, "-O", "-c", embedded, str(tmp_path / "e")],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True,
        timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert "ConfigurationError: onceq does not run under 'python -O'" in done.stderr


DISK_FAILS = """
import errno, os, sys
from onceq.service.main import main
data = sys.argv[sys.argv.index("--data") + 1]
real = os.fdatasync
def fdatasync(file):
    if os.path.exists(os.path.join(data, "fail")):
        raise OSError(errno.EIO, "Input/output error")
    real(file)
os.fdatasync = fdatasync
sys.exit(main(sys.argv[1:]))
"""


def test_a_disk_that_fails_ends_it_at_once_and_nothing_is_said_to_be_done(start: Start) -> None:
    alpha = start(program=("-c", DISK_FAILS))
    with onceq.connect(str(alpha.path)) as qm:
        qm.create_queue(Q, transactional=True)
        qm.send(Q, b"good", transactional=True)
        (alpha.path / "fail").touch()
        with pytest.raises(InDoubt) as caught:
            qm.send(Q, b"in doubt", transactional=True)
        assert alpha.ended() == 7
        assert "onceq: error (sync-failed): " in alpha.said
        (alpha.path / "fail").unlink()
        start()
        outcome = qm.outcome(caught.value.transaction)
        bodies = [bytes(message.body) for message in qm.receive_many(Q, 10)]
        assert bodies == {"committed": [b"good", b"in doubt"], "aborted": [b"good"]}[outcome]


MISTAKE = """
import sys
from onceq.core.manager import Manager
from onceq.model.requests import PurgeQueue
from onceq.service.main import main
real = Manager.step
def step(self, now, item):
    if isinstance(item, PurgeQueue):
        raise LookupError("a planted mistake")
    return real(self, now, item)
Manager.step = step
sys.exit(main(sys.argv[1:]))
"""


def test_a_mistake_of_ours_ends_it_with_its_trace_and_nothing_is_lost(start: Start) -> None:
    alpha = start(program=("-c", MISTAKE))
    with onceq.connect(str(alpha.path)) as qm:
        qm.create_queue(Q, transactional=True)
        qm.send(Q, b"good", transactional=True)
        with pytest.raises(ServiceNotAvailable):
            qm.purge(Q)
    assert alpha.ended() == 1
    assert "LookupError: a planted mistake" in alpha.said
    again = start()
    with onceq.connect(str(again.path)) as qm:
        assert qm.receive(Q).body == b"good"


def test_the_service_manager_of_the_system_is_told(start: Start, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(WAIT_S)
        start(NOTIFY_SOCKET=str(tmp_path / "notify"))
        assert listener.recv(100) == b"READY=1"


def test_messages_go_on_from_one_daemon_to_another_through_a_kill_of_either(
    start: Start, tmp_path: Path
) -> None:
    fast = "[settings]\nconnect_retry_s = 0.05\nresend_first_s = 0.2\norder_ack_delay_s = 0.02\n"
    beta = start("beta")
    peers = ("--peer", f"BETA={beta.peers_at}")
    alpha = start("alpha", *peers)
    for process in (alpha, beta):
        process.end()
        (process.path / "onceq.toml").write_text(fast)
    beta = start("beta", "--listen", beta.peers_at)
    alpha = start("alpha", *peers)
    with onceq.connect(str(beta.path)) as at_beta:
        at_beta.create_queue(Q, transactional=True)
    count = 0
    for victim in ("beta", "alpha", "beta"):
        with onceq.connect(str(alpha.path)) as at_alpha:
            for _ in range(10):
                at_alpha.send(rf"DIRECT=OS:BETA\{Q}", b"%d" % count, transactional=True)
                count += 1
        if victim == "beta":
            beta.end(signal.SIGKILL)
            beta = start("beta", "--listen", beta.peers_at)
        else:
            alpha.end(signal.SIGKILL)
            alpha = start("alpha", *peers)
    bodies: list[bytes] = []
    with onceq.connect(str(beta.path)) as at_beta:
        while len(bodies) < count:
            bodies += [bytes(m.body) for m in at_beta.receive_many(Q, 100, timeout=WAIT_S)]
    assert bodies == [b"%d" % number for number in range(count)]


def test_checkpoints_are_made_while_it_works_and_a_kill_in_between_loses_nothing(
    start: Start,
) -> None:
    alpha = start()
    alpha.end()
    (alpha.path / "onceq.toml").write_text("[settings]\ncheckpoint_log_bytes = 2_000_000\n")
    alpha = start()
    body = bytes(10_000)
    with onceq.connect(str(alpha.path)) as qm:
        qm.create_queue(Q, transactional=True)
        for number in range(60):
            qm.send_many(Q, [b"%d/%d " % (number, n) + body for n in range(100)],
                         transactional=True)  # fmt: skip
            if number < 50:
                assert len(qm.receive_many(Q, 100)) == 100
        alpha.end(signal.SIGKILL)
    assert list(alpha.path.glob("state-*.ckp"))
    again = start()
    with onceq.connect(str(again.path)) as qm:
        got: list[bytes] = []
        while len(got) < 1_000:
            got += [bytes(m.body).split()[0] for m in qm.receive_many(Q, 100, timeout=0)]
    assert got == [b"%d/%d" % (number, n) for number in range(50, 60) for n in range(100)]


def test_many_applications_at_once_share_it(start: Start) -> None:
    alpha = start()
    before = threading.active_count()  # other tests may have left worker threads in a pool
    with onceq.connect(str(alpha.path)) as qm:
        qm.create_queue(Q, transactional=True)

    def work(client: int) -> int:
        with onceq.connect(str(alpha.path)) as qm:
            for _ in range(10):
                qm.send(Q, b"%d" % client, transactional=True)
            return sum(len(qm.receive_many(Q, 1, timeout=WAIT_S)) for _ in range(10))

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(work, range(16))) == 160
    assert threading.active_count() < before + 4
