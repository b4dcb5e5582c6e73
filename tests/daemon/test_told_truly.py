"""What is said is so: permission is called that, a size is the size, expired is not arrived."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import onceq
from onceq.client.why import why
from onceq.model.settings import Settings
from tests import nursery
from tests.daemon.process import ROOT, WAIT_S, Process

pytestmark = pytest.mark.slow

Q = r"private$\q"
NOBODY = 65534

AS_SOMEBODY_ELSE = """
import contextlib, io, os, sys
from onceq.cli.main import run
where, *arguments = sys.argv[1:]
with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
    # The interpreter's own files may be root's: whatever is imported late is imported here.
    run([word.replace(where, "/nowhere/at/all") for word in arguments])
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid({0}, {0}, {0})
    os.setresuid({0}, {0}, {0})
sys.exit(run(arguments))
""".replace("{0}", str(NOBODY))


@pytest.fixture(scope="module")
def alpha(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("told")
    process = Process(folder / "alpha", "--create", "ALPHA", "--listen", "127.0.0.1:0").started()
    yield process
    os.chmod(process.path, 0o700)
    assert process.end(signal.SIGTERM) == 0


def somebody_else(*arguments: str) -> tuple[int, str]:
    """Exit code and errors of a command of an account that may not look into the directory."""
    done = subprocess.run(
        [sys.executable, "-c", AS_SOMEBODY_ELSE, *arguments], cwd="/",
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "command",
    [["-q", "DIR", "queue", "list"], ["-q", "unix://DIR/onceq.sock", "qm", "status"],
     ["qm", "run", "DIR"], ["qm", "check", "DIR"]],
)  # fmt: skip
def test_who_may_not_hears_permission_and_what_to_do(alpha: Process, command: list[str]) -> None:
    if os.geteuid():
        os.chmod(alpha.path, 0)
    code, error = somebody_else(
        str(alpha.path), *[word.replace("DIR", str(alpha.path)) for word in command]
    )
    assert code == 3, error
    assert "(access-denied)" in error
    assert "permission denied" in error
    assert "run this as" in error
    assert "disk" not in error
    assert "not the directory" not in error


def test_a_file_is_as_large_as_it_is(alpha: Process, tmp_path: Path) -> None:
    with onceq.connect(str(alpha.path)) as qm:
        qm.create_queue(Q, exist_ok=True)
    large = tmp_path / "large"
    large.write_bytes(bytes(5_000_000))
    done = nursery.run(
        [sys.executable, "-m", "onceq.cli.main", "-q", str(alpha.path), "send", Q,
         "--file", str(large)],
        cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "5,000,000 bytes" in done.stderr
    assert "4,194,305" not in done.stderr
    assert "4194305" not in done.stderr


def test_what_expired_is_not_called_acknowledged(tmp_path: Path) -> None:
    settings = Settings(connect_retry_s=0.05)
    with onceq.open(
        str(tmp_path / "a"), name="A", settings=settings, peers={"B": "127.0.0.1:1"}, create=True
    ) as qm:
        there = rf"DIRECT=OS:B\{Q}"
        qm.send(there, "late", transactional=True, time_to_reach_queue=1)
        while qm.admin.outgoing_queue(there)["messages"]:
            qm.admin.status()
        said = why(qm.admin.outgoing_queue(there))
        assert "1 message ended here without an acknowledgment" in said
        assert "its time was over" in said
        assert "everything sent" not in said
