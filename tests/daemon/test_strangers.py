"""What strangers open and do not use: the store, the local socket and known peers keep theirs."""

from __future__ import annotations

import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import onceq
from tests import nursery
from tests.daemon.crowd import Q, goes_on
from tests.daemon.process import WAIT_S, Process

pytestmark = pytest.mark.slow

FILES = 256
"""The limit of open files of the daemon."""
STRANGERS = 600

LIMITED = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
from onceq.service.main import main
sys.exit(main())
"""

EMBEDDED = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
import onceq
with onceq.open(sys.argv[1], name="ALPHA", listen="127.0.0.1:0", create=True) as qm:
    with open(sys.argv[1] + "/onceq.port", "w") as file:
        file.write(qm._link._host.peers_at)
    print("listening", flush=True)
    sys.stdin.readline()
    mine = [open(sys.executable, "rb") for _ in range(100)]
    print("opened", len(mine), flush=True)
    qm.create_queue({Q!r}, transactional=True)
    qm.send({Q!r}, "still here", transactional=True)
print("closed", flush=True)
"""


@pytest.fixture(autouse=True)
def room() -> Iterator[None]:
    """The test opens many itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, STRANGERS + 400)
    if hard not in (resource.RLIM_INFINITY,) and hard < wanted:
        pytest.skip(f"this process may have {hard} files open only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def flood(where: str) -> list[socket.socket]:
    """Connect often, and say nothing."""
    host, port = where.rsplit(":", 1)
    made = []
    for _ in range(STRANGERS):
        one = socket.create_connection((host, int(port)), timeout=WAIT_S)
        made.append(one)
    return made


def test_silent_connections_take_nothing_from_the_store_and_from_applications(
    tmp_path: Path,
) -> None:
    alpha = Process(
        tmp_path / "alpha", "--create", "ALPHA", "--listen", "127.0.0.1:0",
        program=("-c", LIMITED),
    ).started()  # fmt: skip
    beta = Process(
        tmp_path / "beta", "--create", "BETA", "--listen", "127.0.0.1:0",
        "--peer", f"ALPHA={alpha.peers_at}",
    ).started()  # fmt: skip
    strangers = flood(alpha.peers_at)
    try:
        with onceq.connect(str(alpha.path)) as here, onceq.connect(str(beta.path)) as there:
            here.create_queue(Q, transactional=True)
            goes_on(here, there)
    finally:
        for one in strangers:
            one.close()
        codes = [process.end(signal.SIGTERM) for process in (alpha, beta)]
    assert codes == [0, 0], alpha.said
    assert len(alpha.said.splitlines()) < 200, "a line for each of them is too many"
    assert "more of these: count=" in alpha.said


def test_an_application_keeps_its_own_files(tmp_path: Path) -> None:
    """A queue manager inside it takes a share only, whoever connects."""
    program = nursery.Popen(
        [sys.executable, "-c", EMBEDDED, str(tmp_path / "a")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with program:
        assert program.stdout is not None
        assert program.stdin is not None
        assert program.stdout.readline() == "listening\n"
        strangers = flood((tmp_path / "a" / "onceq.port").read_text())
        program.stdin.write("go on\n")
        program.stdin.flush()
        assert program.stdout.read() == "opened 100\nclosed\n"
        for one in strangers:
            one.close()
        assert program.wait(WAIT_S) == 0
