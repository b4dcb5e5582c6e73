"""One Spark session for all tests, and one queue manager that runs as a daemon."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import onceq
from tests import nursery, tiers
from tests.scratch import scratch
from tests.spark import starting

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")

FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
PRELOAD = Path(__file__).parent / "preload"


@pytest.fixture(scope="session", autouse=True)
def quick_java(request: pytest.FixtureRequest) -> None:
    """Every Java that these tests start, here and in processes of their own, starts quickly."""
    if request.config.getoption("--tier") != tiers.QUICK:
        starting.start_quickly()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, quick_java: None) -> Iterator[Any]:
    """A local session, small and quiet."""
    from onceq.spark.runtime import QUICK, quiet_session

    more = {
        **QUICK, "spark.driver.memory": "1g",
        "spark.sql.streaming.checkpointFileManagerClass": FILES,
    }  # fmt: skip
    with scratch(tmp_path_factory, "spark") as place, contextlib.ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(PRELOAD), prepend=os.pathsep)
            session = quiet_session("local[2]", "onceq tests", more, folder=place)
            made = stack.enter_context(session)
        yield made


@pytest.fixture
def rocks(spark: Any) -> Iterator[Any]:
    """The session with the state store that operators with memory need."""
    from onceq.spark.operators.columns import PROVIDER, ROCKSDB

    spark.conf.set(PROVIDER, ROCKSDB)
    yield spark
    spark.conf.unset(PROVIDER)


class Daemon:
    """A queue manager in a process of its own, and a connection to it."""

    def __init__(self, path: Path, name: str = "HUB") -> None:
        self.path = path
        self.name = name
        self.process: subprocess.Popen[str] | None = None
        self.address = self.peers = ""
        """Where it listens for applications, and for other queue managers."""
        self.start()
        self.manager = onceq.connect(str(path))
        if not (path / "tls").exists():
            # Executors connect over TCP, and show nothing.
            self.manager.rights.grant("nobody", "administer")

    @cached_property
    def token(self) -> str:
        """Of somebody who may do everything, also in external transactions."""
        return self.manager.tokens.create("executors", grants={"": "administer"}).token

    def start(self) -> None:
        """Start it and wait until it says that it is ready."""
        self.process = nursery.Popen(
            [sys.executable, "-m", "onceq.service.main", "--data", str(self.path),
             "--listen", "127.0.0.1:0", "--client-listen", "127.0.0.1:0", "--create", self.name],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert "ready" in said
        self.address = said.rsplit(" and ", 1)[1].strip()
        self.peers = said.split("peers on ")[1].split(",")[0]

    def kill(self) -> None:
        """As a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """In order."""
        self.manager.close()
        assert self.process is not None
        self.process.terminate()
        self.process.wait()


def token_file(folder: Path, *daemons: Daemon, more: str = "") -> str:
    """A file with the tokens that are shown over TCP, and none at sockets; its name."""
    file = folder / "executors.tokens"
    file.touch(0o600)
    lines = (f"{one.address} {one.token}\n{one.path} -\n" for one in daemons)
    file.write_text("".join(lines) + more)
    return str(file)


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One for all tests; each test has queues of its own."""
    with scratch(tmp_path_factory, "hub") as folder:
        made = Daemon(folder / "data")
        yield made
        made.stop()


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A second one."""
    with scratch(tmp_path_factory, "spoke") as folder:
        made = Daemon(folder / "data", "SPOKE")
        yield made
        made.stop()


@pytest.fixture
def queue(daemon: Daemon, request: pytest.FixtureRequest) -> str:
    """A transactional queue that is named after the test."""
    name = queue_of(request)
    daemon.manager.create_queue(name, transactional=True)
    return name


def queue_of(request: pytest.FixtureRequest) -> str:
    """The name of a queue of one test."""
    return "private$\\" + re.sub(r"\W+", "-", request.node.name)[:100]


@pytest.fixture
def drivers() -> Iterator[Any]:
    """Makes drivers of streams, without Spark; they end with the test (``driver.py``)."""
    from tests.spark.driver import Drivers

    made = Drivers()
    yield made
    made.stop()


@pytest.fixture
def readers(daemon: Daemon, drivers: Any) -> Any:
    """Makes drivers of queues of the one queue manager."""

    def make(queue: str, **options: object) -> Any:
        return drivers(daemon.path, queue=queue, **options)

    return make
