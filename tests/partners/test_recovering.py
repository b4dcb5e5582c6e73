"""The manager's own recovery: databases of its configuration, without any application (XTX-5)."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

import onceq
from onceq.client.plans.branches import ByRow
from onceq.errors import ConfigurationError, PartnerLost
from onceq.partners.contract import Resource, Row
from onceq.partners.finding import without_secrets
from onceq.partners.mariadb import MariaResource
from onceq.partners.postgresql import PostgresLast, PostgresResource
from onceq.partners.procedures import What
from onceq.partners.sqlite import SqliteAgent, SqliteLast
from tests import nursery
from tests.daemon.applications import WAIT_S, Daemon
from tests.daemon.shell import ONCEQ
from tests.partners.waiting import until
from tests.scratch import scratch
from tests.servers import MariaDB, Postgres

pytestmark = pytest.mark.slow
Q = r"private$\q"


class Gone(BaseException):
    """The application ends here."""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with scratch(tmp_path_factory, "recovering") as made:
        yield made


def configure(path: Path, server: Postgres) -> None:
    path.mkdir(exist_ok=True)
    (path / "onceq.toml").write_text(f'databases = ["{server.conninfo()}"]\n')


def abandon(qm: Any, server: Postgres, key: str, at: str) -> None:
    """Commit a row and a message together, and die: before the decision, or after it."""
    qm._recovering.look_after = lambda partner: None
    qm._recovering.soon = lambda: None
    base = psycopg.connect(server.conninfo())
    with pytest.raises(Gone), qm.transaction() as tx:
        tx.enlist(base)
        base.execute("INSERT INTO kept VALUES (%s)", (key,))
        tx.send(Q, key)
        assert tx._partners is not None
        inner = tx._partners.home

        def home(tx: Any, what: What) -> Any:
            if at == "after":
                inner(tx, what)
            base.close()
            raise Gone

        tx._partners.home = home


def left(server: Postgres) -> list[str]:
    return [str(gid) for (gid,) in server.sql("select gid from pg_prepared_xacts")]


def rows(server: Postgres, *keys: str) -> list[str]:
    found = server.sql(f"select key from kept where key in {(*keys, '')} order by key")
    return [str(key) for (key,) in found]


def test_a_daemon_ends_what_a_dead_application_has_left(folder: Path, postgres: Postgres) -> None:
    daemon = Daemon(folder / "a")
    with daemon, onceq.connect(daemon.where) as qm:
        qm.create_queue(Q, transactional=True)
        abandon(qm, postgres, "daemon-after", "after")
        abandon(qm, postgres, "daemon-before", "before")
    assert len(left(postgres)) == 2
    configure(folder / "a", postgres)
    with daemon:
        until(lambda: not left(postgres))
        with onceq.connect(daemon.where) as qm:
            until(lambda: not qm.admin.decisions())
            assert [m.text for m in qm.receive_many(Q, 5, timeout=0)] == ["daemon-after"]
    assert rows(postgres, "daemon-after", "daemon-before") == ["daemon-after"]
    log = (folder / "a.log").read_text()
    assert log.count("a branch left prepared was committed") == 1
    assert log.count("a branch left prepared was rolled back") == 1


def test_an_embedded_manager_does_the_same(folder: Path, postgres: Postgres) -> None:
    path = str(folder / "e")
    with onceq.open(path, name="E", create=True) as qm:
        qm.create_queue(Q, transactional=True)
        abandon(qm, postgres, "embedded-after", "after")
    assert len(left(postgres)) == 1
    configure(folder / "e", postgres)
    with onceq.open(path) as qm:
        until(lambda: not left(postgres) and not qm.admin.decisions())
    assert rows(postgres, "embedded-after") == ["embedded-after"]
    until(lambda: not [t for t in threading.enumerate() if t.name == "onceq-recovery"])


def test_a_database_that_comes_back_later(folder: Path, postgres: Postgres) -> None:
    daemon = Daemon(folder / "a")
    with daemon, onceq.connect(daemon.where) as qm:
        qm.create_queue(Q, transactional=True)
        abandon(qm, postgres, "later", "after")
    configure(folder / "a", postgres)
    postgres.crash()
    try:
        daemon.start()
        until(lambda: "a database cannot be asked" in (folder / "a.log").read_text())
    finally:
        postgres.start()
    until(lambda: not left(postgres))
    daemon.stop()
    assert rows(postgres, "later") == ["later"]
    log = (folder / "a.log").read_text()
    assert log.count("a database cannot be asked") == 1
    assert log.count("a database can be asked again") == 1


@pytest.mark.parametrize(
    ("address", "text"),
    [("shop", "is not the address of a database"), ("oracle://u:pw@h/x", "oracle://u…@h/x")],
)
def test_an_address_that_is_none(folder: Path, address: str, text: str) -> None:
    (folder / "e").mkdir()
    (folder / "e" / "onceq.toml").write_text(f'databases = ["{address}"]\n')
    before = threading.active_count()
    with pytest.raises(ConfigurationError, match=text):
        onceq.open(str(folder / "e"), name="E", create=True)
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("address", "logged"),
    [
        ("postgresql://u:p%40w@h:5432/x", "postgresql://u…@h:5432/x"),
        ("postgresql://u@h/x", "postgresql://u@h/x"),
        ("mariadb://u:@h/x", "mariadb://u…@h/x"),
        ("host=h password='a b' user=u", "host=h password=… user=u"),
        ("host=h password=secret", "host=h password=…"),
    ],
)
def test_passwords_are_not_logged(address: str, logged: str) -> None:
    assert without_secrets(address) == logged


@pytest.mark.parametrize("at", ["before", "after"])
def test_a_manager_without_queues_coordinates_databases(
    folder: Path, postgres: Postgres, mariadb: MariaDB, at: str
) -> None:
    """Two databases, one outcome, no message: its log has the decision."""
    key = f"coordinated {at}"
    with onceq.open(str(folder / "c"), name="C", create=True) as qm:
        qm._recovering.look_after = lambda partner: None  # type: ignore[method-assign]
        one, other = psycopg.connect(postgres.conninfo()), pymysql.connect(**mariadb.arguments())
        with pytest.raises(Gone), qm.transaction() as tx:
            tx.enlist(one)
            tx.enlist(other)
            one.execute("INSERT INTO kept VALUES (%s)", (key,))
            with other.cursor() as cursor:
                cursor.execute("INSERT INTO kept VALUES (%s)", (key,))
            assert tx._partners is not None
            inner = tx._partners.home

            def home(tx: Any, what: What) -> Any:
                if at == "after":
                    inner(tx, what)
                one.close()
                other.close()
                raise Gone

            tx._partners.home = home  # type: ignore[method-assign]
    assert len(left(postgres)) == len(mariadb.sql("xa recover")) == 1
    with onceq.open(str(folder / "c")) as qm:
        resources: list[Resource] = [
            PostgresResource(postgres.conninfo()),
            MariaResource(lambda: pymysql.connect(**mariadb.arguments())),
        ]
        recovery = qm.recovery(resources)
        report = recovery.step(0.0)
        recovery.close()
        assert report.clean, report
        assert qm.admin.decisions() == []
    expected = [key] if at == "after" else []
    assert rows(postgres, key) == expected
    assert [k for (k,) in mariadb.sql(f"select k from kept where k = '{key}'")] == expected


# ---- last agents -------------------------------------------------------------------------------


def leave_promised(qm: Any, last: Any, insert: str, key: str, at: What) -> None:
    """Die between the promise and the end, with the row written if ``at`` is FULFIL."""
    qm._recovering.look_after_rows = lambda last: False
    qm._recovering.soon = lambda: None
    with pytest.raises(Gone), qm.transaction() as tx:
        tx.enlist(last).execute(insert, (key,))
        tx.send(Q, key)
        assert tx._partners is not None
        inner = tx._partners.home_by_row

        def home(tx: Any, by_row: ByRow, what: What) -> Any:
            if what is at:
                raise Gone
            return inner(tx, by_row, what)

        tx._partners.home_by_row = home
    last.connection.close()


def test_a_daemon_asks_for_the_rows_of_a_dead_application(folder: Path) -> None:
    """PostgreSQL without prepared transactions, and SQLite."""
    daemon = Daemon(folder / "a")
    file = folder / "till.db"
    keys = ["postgres done", "postgres not", "sqlite done", "sqlite not"]
    with Postgres(prepared=0) as server:
        server.start()
        server.sql("CREATE TABLE kept (key text primary key)")
        with closing(sqlite3.connect(file)) as made:
            made.execute("CREATE TABLE kept (key text primary key)")
        with daemon, onceq.connect(daemon.where) as qm:
            qm.create_queue(Q, transactional=True)
            for key in keys:
                # What is thrown out of the record itself leaves the row as it is.
                at = What.FULFIL if key.endswith("done") else What.LEAVE
                if key.startswith("sqlite"):
                    last: Any = SqliteLast(sqlite3.connect(file))
                    insert = "INSERT INTO kept VALUES (?)"
                else:
                    last = PostgresLast(psycopg.connect(server.conninfo()))
                    insert = "INSERT INTO kept VALUES (%s)"
                if at is What.LEAVE:
                    last.record = lost
                leave_promised(qm, last, insert, key, at)
        (folder / "a" / "onceq.toml").write_text(
            f'databases = ["{server.conninfo()}", "sqlite://{file}"]\n'
        )
        with daemon, onceq.connect(daemon.where) as qm:
            until(lambda: not qm.admin.branches())
            # It is told of when the round is over.
            until(
                lambda: (folder / "a.log").read_text().count("a branch left prepared") == len(keys)
            )
            found = {m.text for m in qm.receive_many(Q, 5, timeout=0)}
        assert found == {"postgres done", "sqlite done"}
        assert server.sql("SELECT key FROM kept") == [("postgres done",)]
        with closing(sqlite3.connect(file)) as made:
            assert made.execute("SELECT key FROM kept").fetchall() == [("sqlite done",)]
    log = (folder / "a.log").read_text()
    assert log.count("a branch left prepared was committed") == 2
    assert log.count("a branch left prepared was rolled back") == 2
    assert "cannot be asked" not in log


def lost(row: Row) -> None:
    raise PartnerLost("the connection")


def tx(daemon: Daemon, *arguments: str, code: int = 0) -> str:
    command = [*ONCEQ, "-q", daemon.where, "tx", *arguments]
    done = nursery.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_by_hand(folder: Path) -> None:
    """What the command does, for a file."""
    daemon = Daemon(folder / "a")
    file = folder / "till.db"
    with daemon, onceq.connect(daemon.where) as qm:
        qm.create_queue(Q, transactional=True)
        with closing(sqlite3.connect(file)) as made:
            made.execute("CREATE TABLE kept (key text primary key)")
        last = SqliteLast(sqlite3.connect(file))
        leave_promised(qm, last, "INSERT INTO kept VALUES (?)", "k", What.FULFIL)
        where = ["--database", f"sqlite://{file}"]
    with daemon, onceq.connect(daemon.where) as qm:
        assert "a row of sqlite:" in tx(daemon, "list", *where)
        assert "asking decides" in tx(daemon, "recover", "--dry-run", *where, code=1)
        assert "committed at sqlite:" in tx(daemon, "recover", *where)
        assert qm.admin.branches() == []
        assert qm.receive(Q, timeout=5).text == "k"
        with closing(sqlite3.connect(file)) as made, made:
            made.execute("DELETE FROM onceq_decisions")
        name = SqliteAgent(str(file)).name
        assert "has not all rows" in tx(daemon, "recover", *where, code=1)
        assert "accepted in its present state" in tx(daemon, "accept-database", name)
        tx(daemon, "recover", *where)
