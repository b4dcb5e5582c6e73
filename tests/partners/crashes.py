"""One transaction over two queue managers and PostgreSQL, with crashes at every point (P11).

The home manager (H) has a message that the transaction takes, and decides. A second manager (M) and
the database are its partners. At a point of the commit *ours* are killed (both managers, SIGKILL),
*theirs* crashes (PostgreSQL, immediate shutdown), both, or the application goes away; what was
killed is started again at once. Afterwards recovery runs until it finds nothing more to do, and all
must have one outcome, nothing may be left prepared, and no lock held.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

import onceq
from onceq import errors
from onceq.client.recovering import ManagerPartner, ManagerResource
from onceq.errors import InDoubt, OnceqError, RolledBack
from onceq.model.branch import Vote
from onceq.model.xid import Xid
from onceq.partners.contract import Resource
from onceq.partners.deciding import What
from onceq.partners.postgresql import PostgresPartner, PostgresResource
from tests.daemon.applications import Daemon
from tests.servers import Postgres

STEPS = (
    "prepare ours", "prepare theirs", "decide", "commit theirs", "commit ours", "forget",
)  # fmt: skip
POINTS = tuple(f"{when} {step}" for step in STEPS for when in ("before", "after"))
CRASHES = ("ours", "theirs", "both")
IN, OUT = r"private$\in", r"private$\out"
ROUNDS_MAX = 60


class Gone(BaseException):
    """The application ends here."""


class _Watched:
    """A partner that says where it is."""

    def __init__(self, partner: Any, whose: str, at: Callable[[str], None]) -> None:
        self._partner = partner
        self._whose = whose
        self._at = at

    @property
    def name(self) -> str:
        return str(self._partner.name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._partner, name)

    def check(self) -> None:
        self._partner.check()

    def begin(self, xid: Xid) -> None:
        self._partner.begin(xid)

    def prepare(self, xid: Xid) -> Vote:
        self._at(f"before prepare {self._whose}")
        vote: Vote = self._partner.prepare(xid)
        self._at(f"after prepare {self._whose}")
        return vote

    def commit(self, xid: Xid) -> None:
        self._at(f"before commit {self._whose}")
        self._partner.commit(xid)
        self._at(f"after commit {self._whose}")

    def rollback(self, xid: Xid) -> None:
        self._partner.rollback(xid)


class Stage:
    """Two daemons and a server, for many cases one after another."""

    def __init__(self, folder: Path, server: Postgres) -> None:
        self.server = server
        self.home = Daemon(folder / "h", name="HOME")
        self.other = Daemon(folder / "m", name="OTHER")
        for daemon in (self.home, self.other):
            daemon.start()
        self.count = 0
        with onceq.connect(self.home.where) as home, onceq.connect(self.other.where) as other:
            home.create_queue(IN, transactional=True)
            home.create_queue(OUT, transactional=True)
            other.create_queue(OUT, transactional=True)
        server.execute("CREATE TABLE IF NOT EXISTS done (number int PRIMARY KEY)")

    def close(self) -> None:
        for daemon in (self.home, self.other):
            daemon.kill()

    def crash(self, what: str) -> None:
        """Let it happen; what was killed runs again."""
        if what == "application":
            raise Gone
        if what in ("ours", "both"):
            for daemon in (self.home, self.other):
                daemon.kill()
        if what in ("theirs", "both"):
            self.server.restart()
        if what in ("ours", "both"):
            for daemon in (self.home, self.other):
                daemon.start()

    def case(self, plan: dict[str, str], *, messages: int = 1) -> str:
        """One transaction, with crashes by point; returns what the application was told."""
        self.count += 1
        number = self.count
        reached: list[str] = []

        def at(point: str) -> None:
            reached.append(point)
            if point in plan:
                self.crash(plan[point])

        with contextlib.ExitStack() as stack:
            home = stack.enter_context(onceq.connect(self.home.where))
            other = stack.enter_context(onceq.connect(self.other.where))
            home.send(IN, f"{number}", transactional=True)
            base = psycopg.connect(self.server.where())
            stack.callback(base.close)
            told = self._attempt(home, other, base, number, messages, at)
        unused = set(plan) - set(reached)
        assert len(plan) > 1 or not unused, f"{unused} was never reached"
        self.check(number, told, messages, story=f"case {number} {plan}: told {told!r}")
        return told

    def _attempt(
        self, home: Any, other: Any, base: Any, number: int, messages: int,
        at: Callable[[str], None],
    ) -> str:  # fmt: skip
        home.look_after = lambda partner: None  # recovery is run by hand, after the crash
        home.recover_soon = lambda: None
        try:
            with home.transaction() as tx:
                assert tx.receive(IN, timeout=5).text == f"{number}"
                mine = ManagerPartner(other)
                tx.enlist(_Watched(mine, "ours", at))
                tx.enlist(_Watched(PostgresPartner(base), "theirs", at))
                base.execute("INSERT INTO done VALUES (%s)", (number,))
                for index in range(messages):
                    tx.send(OUT, f"{number}.{index}")
                    mine.work.send(OUT, f"{number}.{index}")  # type: ignore[union-attr]
                inner = tx._home

                def decide(what: What) -> Any:
                    name = "decide" if what is What.DECIDE else "forget"
                    at(f"before {name}")
                    result = inner(what)
                    at(f"after {name}")
                    return result

                tx._home = decide
            return "committed"
        except Gone:
            return "gone"
        except RolledBack:
            return "rolled back"
        except InDoubt:
            return "in doubt"
        except (OnceqError, psycopg.Error) as error:
            return f"refused: {type(error).__name__}"

    def check(self, number: int, told: str, messages: int, *, story: str) -> None:
        """Recover, and compare all places with each other and with what was told."""
        with onceq.connect(self.home.where) as home, onceq.connect(self.other.where) as other:
            resources: list[Resource] = [
                ManagerResource(other),
                PostgresResource(self.server.where()),
            ]
            recovery = home.recovery(resources)
            now = 0.0
            for _ in range(ROUNDS_MAX):
                report = recovery.step(now)
                if report.clean:
                    break
                now += recovery.next_s(now, report)
            recovery.close()
            assert report.clean, f"{story}: {report}"
            assert self.server.prepared_ids() == [], story
            assert home.branches() == other.branches() == [], story
            assert home.decisions() == [], story
            rows = self.server.execute(f"SELECT number FROM done WHERE number = {number}")
            there = bool(rows)
            expected = [f"{number}.{k}" for k in range(messages)] if there else []
            assert [m.text for m in _all(home, OUT)] == expected, story
            assert [m.text for m in _all(other, OUT)] == expected, story
            waiting = [m.text for m in _all(home, IN)]
            assert waiting == ([] if there else [f"{number}"]), story
            if told == "committed":
                assert there, story
            if told.startswith(("rolled back", "refused")):
                assert not there, story
            self._locks(number, there, story)

    def _locks(self, number: int, there: bool, story: str) -> None:
        """Nobody holds the row: it can be written at once."""
        with psycopg.connect(self.server.where(), autocommit=True) as base:
            base.execute("SET lock_timeout = '2s'")
            verb = "DELETE FROM done WHERE number = %s" if there else "INSERT INTO done VALUES (%s)"
            try:
                base.execute(verb.encode(), (number,))
                base.execute("TRUNCATE done")
            except psycopg.errors.LockNotAvailable as error:
                raise AssertionError(f"{story}: a lock is held") from error


def _all(qm: Any, queue: str) -> list[onceq.Message]:
    """What is in a queue and free to be taken; it is taken."""
    try:
        return list(qm.receive_many(queue, 1000, timeout=0))
    except errors.ReceiveTimeout:
        return []
