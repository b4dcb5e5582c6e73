"""A transaction that a row in a database decides, with crashes at every point (P11).

The home manager has a message that the transaction takes; the database is its last agent. At a
point of the commit *ours* (the manager) is killed, *theirs* (the server of the database) crashes,
both do, or the application goes away; what was killed is started again at once. A commit of the
database may also be *slow*: its row is written, the application is gone, and it is carried through
only in the middle of recovery. Afterwards recovery runs until it finds nothing more to do, and both
must have one outcome, nothing may be left prepared, and no lock held.

Another database may take part in two phases beside it, and has the outcome of the row.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pymysql
import pytest

import onceq
from onceq.client.plans.branches import ByRow
from onceq.client.recovering import ManagerDecider
from onceq.errors import DatabaseRestored, InDoubt, OnceqError, RolledBack
from onceq.model.requests.xa import ROWS_ACCEPTED
from onceq.partners.contract import Agent, LastAgent, Row
from onceq.partners.mariadb import MariadbAgent, MariadbLast
from onceq.partners.postgresql import PostgresAgent, PostgresLast
from onceq.partners.procedures import What
from onceq.partners.sqlite import SqliteAgent, SqliteLast
from tests.daemon.applications import Daemon
from tests.partners.bases import Base
from tests.partners.crashes import IN, OUT, PAUSE_S, ROUNDS_MAX, Gone, all_of
from tests.partners.pair import Pair
from tests.servers import MariaDB, Postgres

POSTGRESQL, MARIADB, SQLITE = "postgresql", "mariadb", "sqlite"
STEPS = ("promise", "record", "fulfil")
POINTS = tuple(f"{when} {step}" for step in STEPS for when in ("before", "after"))
CRASHES = ("ours", "theirs", "both", "application")
SLOW = "in record"
"""The point at which the row is written and not committed; what happens there is for how many
rounds of recovery that stays so."""
ERRORS = (psycopg.Error, pymysql.err.Error, sqlite3.Error)


class LastBase(Protocol):
    """A database that is a last agent, with a table ``done`` with a row for each case."""

    kind: str

    def connect(self) -> Any:
        """As an application does."""

    def last(self, connection: Any) -> LastAgent:
        """Of such a connection."""

    def agent(self) -> Agent:
        """For recovery."""

    def restart(self) -> None:
        """Crash its server, and start it again."""

    def insert(self, connection: Any, number: int) -> None:
        """Write the row of a case."""

    def write_decision(self, connection: Any, row: Row) -> None:
        """Write our row, and do not commit."""

    def commit(self, connection: Any) -> None:
        """Commit all the same."""

    def has(self, number: int) -> bool:
        """Whether the row of a case is committed."""

    def write_at_once(self, number: int, *, there: bool) -> None:
        """Write or remove the row of a case; an error if a lock is held."""


class LastPostgres:
    kind = POSTGRESQL

    def __init__(self, server: Postgres) -> None:
        self.server = server
        server.sql("CREATE TABLE IF NOT EXISTS done (number int PRIMARY KEY)")

    def connect(self) -> Any:
        return psycopg.connect(self.server.conninfo())

    def last(self, connection: Any) -> LastAgent:
        return PostgresLast(connection)

    def agent(self) -> Agent:
        return PostgresAgent(self.server.conninfo(), lock_ms=50)

    def restart(self) -> None:
        self.server.restart()

    def insert(self, connection: Any, number: int) -> None:
        connection.execute("INSERT INTO done VALUES (%s)", (number,))

    def write_decision(self, connection: Any, row: Row) -> None:
        connection.execute(
            "INSERT INTO onceq_decisions VALUES (%s, %s, %s, 'committed')",
            (row.manager, row.number, row.id),
        )

    def commit(self, connection: Any) -> None:
        connection.pgconn.exec_(b"COMMIT")

    def has(self, number: int) -> bool:
        return bool(self.server.sql(f"SELECT number FROM done WHERE number = {number}"))

    def write_at_once(self, number: int, *, there: bool) -> None:
        with psycopg.connect(self.server.conninfo(), autocommit=True) as connection:
            connection.execute("SET lock_timeout = '2s'")
            connection.execute(_write(number, there=there).encode())


class LastPair(LastPostgres):
    """Two servers: where one would crash and start again, its standby takes its place.

    The standby is synchronous, so that there is one outcome all the same.
    """

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        super().__init__(pair.primary)

    def connect(self) -> Any:
        return psycopg.connect(self.pair.conninfo)

    def restart(self) -> None:
        if self.pair.followed:
            self.pair.fail_over()
            self.server = self.pair.primary
        else:
            self.server.restart()

    def follow(self) -> None:
        """Make a standby again, if there is none."""
        if not self.pair.followed:
            self.pair.follow_again()


class LastMariadb:
    kind = MARIADB

    def __init__(self, server: MariaDB) -> None:
        self.server = server
        server.sql("CREATE TABLE IF NOT EXISTS done (number int PRIMARY KEY) ENGINE=InnoDB")

    def connect(self) -> Any:
        return pymysql.connect(**self.server.arguments())

    def last(self, connection: Any) -> LastAgent:
        return MariadbLast(connection)

    def agent(self) -> Agent:
        return MariadbAgent(self.connect, "test", lock_s=0)

    def restart(self) -> None:
        self.server.restart()

    def insert(self, connection: Any, number: int) -> None:
        _execute(connection, f"INSERT INTO done VALUES ({number})")

    def write_decision(self, connection: Any, row: Row) -> None:
        values = f"('{row.manager}', {row.number}, '{row.id}', 'committed')"
        _execute(connection, f"INSERT INTO onceq_decisions VALUES {values}")

    def commit(self, connection: Any) -> None:
        _execute(connection, "COMMIT")

    def has(self, number: int) -> bool:
        return bool(self.server.sql(f"SELECT number FROM done WHERE number = {number}"))

    def write_at_once(self, number: int, *, there: bool) -> None:
        with pymysql.connect(**self.server.arguments(), autocommit=True) as connection:
            _execute(connection, "SET innodb_lock_wait_timeout = 2, lock_wait_timeout = 2")
            _execute(connection, _write(number, there=there))


def _execute(connection: Any, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


class LastSqlite:
    kind = SQLITE

    def __init__(self, path: Path) -> None:
        self.path = path
        with contextlib.closing(self.connect()) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS done (number int PRIMARY KEY)")
            connection.commit()

    def connect(self) -> Any:
        return sqlite3.connect(self.path, timeout=2)

    def last(self, connection: Any) -> LastAgent:
        return SqliteLast(connection)

    def agent(self) -> Agent:
        return SqliteAgent(str(self.path), wait_s=0.05)

    def restart(self) -> None:
        """There is no server."""

    def insert(self, connection: Any, number: int) -> None:
        connection.execute("INSERT INTO done VALUES (?)", (number,))

    def write_decision(self, connection: Any, row: Row) -> None:
        connection.execute(
            "INSERT INTO onceq_decisions VALUES (?, ?, ?, 'committed')",
            (row.manager, row.number, row.id),
        )

    def commit(self, connection: Any) -> None:
        connection.execute("COMMIT")

    def has(self, number: int) -> bool:
        with contextlib.closing(self.connect()) as connection:
            found = connection.execute("SELECT * FROM done WHERE number = ?", (number,)).fetchall()
        return bool(found)

    def write_at_once(self, number: int, *, there: bool) -> None:
        with contextlib.closing(self.connect()) as connection, connection:
            connection.execute(_write(number, there=there))


def _write(number: int, *, there: bool) -> str:
    if there:
        return f"DELETE FROM done WHERE number = {number}"
    return f"INSERT INTO done VALUES ({number})"


class _Watched:
    """A last agent that says where it is."""

    def __init__(self, last: LastAgent, base: LastBase, at: Callable[[str], None]) -> None:
        self._last = last
        self._base = base
        self._at = at
        self.connection = last.connection
        self.slow = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._last, name)

    def abandon(self) -> None:
        if not self.slow:
            self._last.abandon()

    def record(self, row: Row) -> None:
        self._at("before record")
        if self.slow:
            self._base.write_decision(self.connection, row)
            raise Gone
        self._last.record(row)
        self._at("after record")


class LastStage:
    """A daemon and a database, for many cases one after another."""

    def __init__(self, folder: Path) -> None:
        self.home = Daemon(folder / "l", name="LASTHOME")
        self.home.start()
        self.count = 0
        self.there = False
        with onceq.connect(self.home.where) as home:
            home.create_queue(IN, transactional=True)
            home.create_queue(OUT, transactional=True)

    def close(self) -> None:
        self.home.kill()

    def crash(self, what: str, base: LastBase) -> None:
        """Let it happen; what was killed runs again."""
        if what == "application":
            raise Gone
        if what in ("ours", "both"):
            self.home.kill()
        if what in ("theirs", "both"):
            base.restart()
        if what in ("ours", "both"):
            self.home.start()

    def case(
        self, plan: dict[str, str], base: LastBase, *, messages: int = 1, other: Base | None = None
    ) -> str:
        """One transaction, with crashes by point; returns what the application was told.

        Args:
            other: Takes part in two phases; if the server of ``base`` crashes, so does its own.
        """
        self.count += 1
        number = self.count
        slow = int(plan[SLOW]) if SLOW in plan else None
        connection = base.connect()
        beside = None if other is None else (other, other.connect())
        reached: list[str] = []

        def at(point: str) -> None:
            reached.append(point)
            if point in plan:
                self.crash(plan[point], base)
                if other is not None and plan[point] in ("theirs", "both"):
                    other.server.restart()

        with onceq.connect(self.home.where) as home:
            home.send(IN, f"{number}", transactional=True)
            told = self._attempt(home, base, connection, number, messages, at, slow, beside)
        if beside is not None:
            _close(beside[1])
        still = slow is not None and told == "gone" and "before record" in reached
        if not still:
            _close(connection)
        story = f"case {number} ({base.kind}), {plan}, told {told}, reached {reached}"
        with onceq.connect(self.home.where) as home:
            self._recover(home, base, story, connection if still else None, slow or 0, other)
        _close(connection)
        self._check(base, number, messages, told, story)
        if other is not None:
            assert other.has(number) == self.there, story
            assert other.prepared() == [], story
            other.write_at_once(number, there=self.there)
        return told

    def set_back(self, base: LastPair, lost: int) -> None:
        """Commit transactions that the standby lacks, and let it take the place of the primary:
        each application must be told before it works there.

        Args:
            base: With a standby that is not synchronous.
            lost: How many the standby lacks.
        """
        base.follow()
        assert self.case({}, base) == "committed"
        base.pair.catch_up()
        base.pair.standby.crash()
        for _ in range(lost):
            assert self.case({}, base) == "committed"
        base.restart()
        for _ in range(2):
            with onceq.connect(self.home.where) as home, base.connect() as connection:
                last = base.last(connection)
                with pytest.raises(DatabaseRestored), home.transaction() as tx:
                    tx.enlist(last)
        with onceq.connect(self.home.where) as home:
            ManagerDecider(home).rows(last.name, ROWS_ACCEPTED)
        base.follow()
        assert self.case({}, base) == "committed"

    def _attempt(
        self, home: Any, base: LastBase, connection: Any, number: int, messages: int,
        at: Callable[[str], None], slow: int | None, beside: tuple[Base, Any] | None,
    ) -> str:  # fmt: skip
        home.look_after_rows = lambda last: False  # recovery is run by hand, after the crash
        home.look_after = lambda partner: None
        home.recover_soon = lambda: None
        try:
            with home.transaction() as tx:
                watched = _Watched(base.last(connection), base, at)
                tx.enlist(watched)
                assert tx.receive(IN, timeout=5).text == f"{number}"
                base.insert(connection, number)
                if beside is not None:
                    other, its = beside
                    tx.enlist(other.partner(its))
                    other.insert(its, number)
                for index in range(messages):
                    tx.send(OUT, f"{number}.{index}")
                watched.slow = slow is not None
                inner = tx._partners.home_by_row

                def step(tx: Any, by_row: ByRow, what: What) -> Any:
                    at(f"before {what.value}")
                    result = inner(tx, by_row, what)
                    at(f"after {what.value}")
                    return result

                tx._partners.home_by_row = step
            return "committed"
        except Gone:
            return "gone"
        except RolledBack:
            return "rolled back"
        except InDoubt:
            return "in doubt"
        except (OnceqError, *ERRORS) as error:
            return f"refused: {type(error).__name__}"

    def _recover(
        self, home: Any, base: LastBase, story: str, slow: Any, rounds: int, other: Base | None
    ) -> None:
        recovery = home.recovery([other.resource()] if other is not None else [])
        recovery.add_agent(base.agent())
        pause = threading.Event()
        now = 0.0
        for number in range(ROUNDS_MAX):
            if slow is not None and number == rounds:
                with contextlib.suppress(*ERRORS):
                    base.commit(slow)
                _close(slow)
            report = recovery.step(now)
            if report.clean and (slow is None or number >= rounds):
                break
            now += recovery.next_s(now, report)
            if not report.clean:
                pause.wait(PAUSE_S)
        recovery.close()
        assert report.clean, f"{story}: {report}"

    def _check(self, base: LastBase, number: int, messages: int, told: str, story: str) -> None:
        """Compare both places with each other and with what was told."""
        with onceq.connect(self.home.where) as home:
            assert home.admin.branches() == [], story
            assert home.admin.decisions() == [], story
            there = self.there = base.has(number)
            expected = [f"{number}.{k}" for k in range(messages)] if there else []
            assert [m.text for m in all_of(home, OUT)] == expected, story
            waiting = [m.text for m in all_of(home, IN)]
            assert waiting == ([] if there else [f"{number}"]), story
        if told == "committed":
            assert there, story
        if told.startswith(("rolled back", "refused")):
            assert not there, story
        try:
            base.write_at_once(number, there=there)
        except ERRORS as error:
            raise AssertionError(f"{story}: {base.kind} holds a lock: {error}") from error


def _close(connection: Any) -> None:
    with contextlib.suppress(*ERRORS):
        connection.close()
