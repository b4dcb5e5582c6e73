"""Real database servers for tests: in a temporary folder, on a free port of the loopback.

Where their programs come from: ``programs.py``. Nothing waits by the clock: a server is ready when
it takes a connection, and while it does not its process must live.

They make no test hang: a lock that is not given, a statement that does not end and a server that
does not answer are errors within a minute, although a database by itself waits for ever, or for a
day (metadata locks of MariaDB).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pymysql

from tests.programs import (
    NOBODY,
    PUBLIC,
    START_S,
    NoServer,
    as_nobody,
    mariadb_root,
    postgres_bin,
    run,
)

LOCK_S = 20
"""How long a server lets a statement wait for a lock, if a test sets nothing else."""
ANSWER_S = 60
"""How long a statement may take, and an answer."""


def free_port() -> int:
    """A port of the loopback that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


STARTS_MAX = 200
"""Attempts to start a server whose former processes are still there."""


class Server:
    """A process with a folder. Subclasses say what it is."""

    def __init__(self, within: Path = PUBLIC) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="onceq-server-", dir=within))
        if os.geteuid() == 0:
            shutil.chown(self.folder, NOBODY)
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.said = self.folder.with_suffix(".log")

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def answers(self) -> bool:
        raise NotImplementedError

    haunted = ""
    """What it says when processes of its former life are still there; they end by themselves."""

    def start(self) -> None:
        """Start, and come back when it takes connections."""
        said = ""
        for _ in range(STARTS_MAX):
            before = self.said.stat().st_size if self.said.exists() else 0
            if self._started():
                return
            said = self.said.read_bytes()[before:].decode(errors="replace")
            if not (self.haunted and self.haunted in said):
                break
        raise NoServer(f"{self.command()[0]} does not start: {said[-800:]}")

    def _started(self) -> bool:
        with self.said.open("ab") as log:
            self.process = subprocess.Popen(
                [*as_nobody(), *self.command()], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self.environment(), start_new_session=True, cwd="/",
            )  # fmt: skip
        for _ in range(START_S * 20):
            if self.answers():
                return True
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)
                break
        return False

    def crash(self) -> None:
        """Kill it with all its children, as a crash of the machine would, but for the disk."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(START_S)

    def restart(self) -> None:
        """Crash, and come back when it has recovered."""
        self.crash()
        self.start()

    def close(self) -> None:
        """Stop it and remove its files."""
        if self.process is not None and self.process.poll() is None:
            self.crash()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.said.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# ---- PostgreSQL --------------------------------------------------------------------------------


class Postgres(Server):
    """A PostgreSQL server with a superuser ``onceq`` who needs no password."""

    haunted = "pre-existing shared memory block"

    def __init__(
        self, *, prepared: int = 20, within: Path = PUBLIC, copied: Postgres | None = None
    ) -> None:
        """Make a new cluster; it is not started.

        Args:
            prepared: Its max_prepared_transactions.
            within: Where its folder is made.
            copied: It is a standby of this server, which is down.
        """
        bin_ = postgres_bin()
        super().__init__(within)
        self.prepared = prepared
        self._bin = bin_
        self.data = self.folder / "data"
        if copied is not None:
            self._copy(copied)
            return
        try:
            run(bin_ / "initdb", "-D", self.data, "-U", "onceq", "-A", "trust", "--no-sync",
                "--no-locale", "-E", "UTF8")  # fmt: skip
        except BaseException:
            self.close()
            raise

    def command(self) -> list[str]:
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_prepared_transactions": self.prepared,
            "fsync": "off",  # the machine does not crash here, only the server
            "shared_buffers": "16MB",
            "lock_timeout": f"{LOCK_S}s",
            "statement_timeout": f"{ANSWER_S}s",
            "idle_in_transaction_session_timeout": f"{2 * ANSWER_S}s",
        }
        given = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        return [str(self._bin / "postgres"), "-D", str(self.data), *given]

    def _copy(self, primary: Postgres) -> None:
        shutil.copytree(primary.data, self.data, ignore=shutil.ignore_patterns("postmaster.*"))
        (self.data / "standby.signal").touch()
        with (self.data / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = '{primary.conninfo()}'\n")
        if os.geteuid() == 0:
            for place in (self.data, *self.data.rglob("*")):
                shutil.chown(place, NOBODY)

    def promote(self) -> None:
        """Let a standby be the primary from now on; returns when it is."""
        self.sql(f"SELECT pg_promote(true, {START_S})")

    def conninfo(self, database: str = "postgres", user: str = "onceq") -> str:
        return (
            f"host=127.0.0.1 port={self.port} user={user} dbname={database} "
            f"connect_timeout={ANSWER_S} tcp_user_timeout={ANSWER_S * 1000}"
        )

    def url(self, database: str = "postgres") -> str:
        """For SQLAlchemy."""
        return (
            f"postgresql+psycopg://onceq@127.0.0.1:{self.port}/{database}?"
            f"connect_timeout={ANSWER_S}&tcp_user_timeout={ANSWER_S * 1000}"
        )

    def where(self, database: str = "one") -> str:
        """A connection string of one of its databases."""
        return self.conninfo(database)

    def execute(self, text: str, database: str = "one") -> list[tuple[Any, ...]]:
        """Run one command by itself; its rows."""
        return self.sql(text, database)

    def prepared_ids(self) -> list[str]:
        """What is left prepared, in all databases."""
        return [str(gid) for (gid,) in self.sql("SELECT gid FROM pg_prepared_xacts")]

    def answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.conninfo()).close()
        except psycopg.OperationalError:
            return False
        return True

    def sql(self, text: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """What an onlooker sees."""
        import psycopg

        with psycopg.connect(self.conninfo(database), autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []


# ---- MariaDB -----------------------------------------------------------------------------------


class MariaDB(Server):
    """A MariaDB server with a user ``onceq`` who may do all and needs no password."""

    def __init__(self) -> None:
        """Make a new server with a database ``test``; it is not started."""
        self._server, self._share, self._env = mariadb_root()
        super().__init__()
        self.data = self.folder / "data"
        self.data.mkdir()
        if os.geteuid() == 0:
            shutil.chown(self.data, NOBODY)
        try:
            self._bootstrap()
        except BaseException:
            self.close()
            raise

    def _options(self) -> list[str]:
        return [
            "--no-defaults", f"--datadir={self.data}", f"--lc-messages-dir={self._share}",
            f"--character-sets-dir={self._share}/charsets", "--innodb-log-file-size=8M",
            "--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=1",
            f"--socket={self.folder}/socket", f"--pid-file={self.folder}/pid",
            f"--tmpdir={self.folder}", f"--lock-wait-timeout={LOCK_S}",
            f"--innodb-lock-wait-timeout={LOCK_S // 2}",
            # Nothing is synced: the machine does not crash here, only the server.
            "--innodb-flush-method=nosync",
            # A start writes and reads less.
            "--innodb-temp-data-file-path=ibtmp1:4M:autoextend",
            "--innodb-buffer-pool-load-at-startup=OFF", "--aria-pagecache-buffer-size=1M",
        ]  # fmt: skip

    def _bootstrap(self) -> None:
        script = ["create database mysql;", "use mysql;"]
        script += [
            (self._share / name).read_text()
            for name in ("mysql_system_tables.sql", "mysql_system_tables_data.sql")
        ]
        script += [
            "flush privileges;",
            "create database test;",
            "create user onceq@'%' identified by '';",
            "grant all privileges on *.* to onceq@'%' with grant option;",
        ]
        run(self._server, *self._options(), "--bootstrap", env=self._env, text="\n".join(script))

    def command(self) -> list[str]:
        return [str(self._server), *self._options(), f"--port={self.port}",
                "--bind-address=127.0.0.1"]  # fmt: skip

    def environment(self) -> dict[str, str]:
        return self._env

    def arguments(self, database: str = "test") -> dict[str, Any]:
        """To connect with."""
        return {
            "host": "127.0.0.1", "port": self.port, "user": "onceq", "database": database,
            "connect_timeout": ANSWER_S, "read_timeout": ANSWER_S, "write_timeout": ANSWER_S,
        }  # fmt: skip

    def url(self, database: str = "test") -> str:
        """For SQLAlchemy."""
        return (
            f"mysql+pymysql://onceq@127.0.0.1:{self.port}/{database}?connect_timeout={ANSWER_S}"
            f"&read_timeout={ANSWER_S}&write_timeout={ANSWER_S}"
        )

    def answers(self) -> bool:
        try:
            pymysql.connect(**self.arguments()).close()
        except pymysql.err.OperationalError:
            return False
        return True

    def sql(self, text: str, database: str = "test") -> list[tuple[Any, ...]]:
        """What an onlooker sees."""
        connection = pymysql.connect(**self.arguments(database), autocommit=True)
        with connection, connection.cursor() as cursor:
            cursor.execute(text)
            return list(cursor.fetchall())

    def prepared_ids(self) -> list[str]:
        """What is left prepared, as ``XA COMMIT`` takes it."""
        return [str(xid) for *_, xid in self.sql("XA RECOVER FORMAT='SQL'")]


@contextlib.contextmanager
def postgres(*, prepared: int = 20) -> Iterator[Postgres]:
    """A server with the databases ``one`` and ``two``, for the time of a block."""
    with Postgres(prepared=prepared) as server:
        server.start()
        for name in ("one", "two"):
            server.sql(f"CREATE DATABASE {name}")
        yield server


def started(make: Callable[[], Server]) -> Server:
    """A server that runs."""
    server = make()
    try:
        server.start()
    except BaseException:
        server.close()
        raise
    return server
