"""Two managers of the command line, and two embedded ones."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import onceq
from tests.daemon.mesh import Mesh
from tests.daemon.shell import Shell, two_managers
from tests.daemon.two import PLAIN, Q, Two
from tests.scratch import scratch


@pytest.fixture(scope="module")
def managers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """ALPHA runs; BETA exists, at an address that ALPHA knows, and does not."""
    with scratch(tmp_path_factory, "qm") as folder:
        yield from two_managers(folder)


@pytest.fixture
def onceq_(managers: tuple[Path, Path], capfd: pytest.CaptureFixture[str]) -> Shell:
    return Shell(*managers, capfd)


@pytest.fixture
def mesh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Mesh]:
    made = Mesh(tmp_path, capsys)
    yield made
    for one in made.running:
        if one.popen.poll() is None:
            assert one.end(signal.SIGTERM) == 0, one.said


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    names = str(tmp_path / "names.json")
    onceq.directory.create(names)
    made = [
        onceq.open(
            str(tmp_path / name), name=name, listen="127.0.0.1:0", directory=names, create=True
        )
        for name in ("ALPHA", "BETA")
    ]
    for qm in made:
        qm.create_queue(Q, transactional=True)
        qm.create_queue(PLAIN)
    alpha, beta = made
    yield Two(alpha, beta, tmp_path)
    for qm in made:
        qm.close()
