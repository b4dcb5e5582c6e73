"""Fixtures for tests of applications: ``pytest_plugins = ["onceq.testing.pytest"]`` in the
``conftest.py`` at the top, or ``pytest -p onceq.testing.pytest``.

Nothing is loaded for those who do not ask: there is no entry point, and what a fixture needs is
imported when a test uses it. Each test has managers of its own, which are closed when it ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from onceq.client.threads.manager import QueueManager
    from onceq.testing.daemons import Daemon
    from onceq.testing.links import Pair
    from onceq.testing.managers import Manager


@pytest.fixture
def onceq_manager(tmp_path: Path) -> Iterator[Manager]:
    """A queue manager in memory, with its clock and its death in the test's hands
    (``onceq.testing.managers.Manager``)."""
    from onceq.testing.managers import Manager

    with Manager(tmp_path / "onceq") as made:
        yield made


@pytest.fixture
def onceq_qm(onceq_manager: Manager) -> QueueManager:
    """The ``onceq.QueueManager`` of an application with it, and nothing else."""
    return onceq_manager.qm


@pytest.fixture
def onceq_pair(tmp_path: Path) -> Iterator[Pair]:
    """Two queue managers, ALPHA and BETA, and the way between them in the test's hands
    (``onceq.testing.links.Pair``)."""
    from onceq.testing.links import Pair

    with Pair(tmp_path / "onceq") as made:
        yield made


@pytest.fixture
def onceq_daemon() -> Iterator[Daemon]:
    """A queue manager in a process of its own (``onceq.testing.daemons.Daemon``)."""
    from onceq.testing.daemons import Daemon

    # Not below tmp_path: the path of a Unix socket is short.
    with tempfile.TemporaryDirectory(prefix="onceq-") as folder, Daemon(f"{folder}/a") as made:
        yield made
