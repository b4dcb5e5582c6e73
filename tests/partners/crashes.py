"""One transaction over two queue managers and databases, with crashes at every point (P11).

The home manager (H) has a message that the transaction takes, and decides. A second manager (M) and
a database, or two of different kinds, are its partners. At a point of the commit *ours* are killed
(both managers, SIGKILL), *theirs* crash (the servers of the databases, likewise), both, or the
application goes away; what was killed is started again at once. Afterwards recovery runs until it
finds nothing more to do, and all must have one outcome, nothing may be left prepared, and no lock
held.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onceq
from onceq import errors
from onceq.client.recovering import ManagerResource
from onceq.client.threads.recovering import ManagerPartner
from onceq.errors import InDoubt, OnceqError, RolledBack
from onceq.model.branches import Vote, Xid
from onceq.partners.contract import Resource
from onceq.partners.procedures import What
from tests.daemon.applications import Daemon
from tests.partners.bases import ERRORS, Base

STEPS = (
    "prepare ours", "prepare theirs", "decide", "commit theirs", "commit ours", "forget",
)  # fmt: skip
POINTS = tuple(f"{when} {step}" for step in STEPS for when in ("before", "after"))
SECOND = tuple(f"{when} {verb} the second" for verb in ("prepare", "commit") for when in
               ("before", "after"))  # fmt: skip
"""Points of a second database, beside those of the first."""
CRASHES = ("ours", "theirs", "both")
IN, OUT = r"private$\in", r"private$\out"
ROUNDS_MAX = 100
PAUSE_S = 0.05
"""Between rounds: a server notices a connection that was closed a moment later, and lets others
end its branch only then."""


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
    """Two daemons and servers, for many cases one after another."""

    def __init__(self, folder: Path) -> None:
        self.home = Daemon(folder / "h", name="HOME")
        self.other = Daemon(folder / "m", name="OTHER")
        for daemon in (self.home, self.other):
            daemon.start()
        self.count = 0
        with onceq.connect(self.home.where) as home, onceq.connect(self.other.where) as other:
            home.create_queue(IN, transactional=True)
            home.create_queue(OUT, transactional=True)
            other.create_queue(OUT, transactional=True)

    def close(self) -> None:
        for daemon in (self.home, self.other):
            daemon.kill()

    def crash(self, what: str, bases: Sequence[Base]) -> None:
        """Let it happen; what was killed runs again.

        Args:
            what: One of CRASHES, "application", or the kind of a database.
            bases: Those that take part.
        """
        if what == "application":
            raise Gone
        ours = (self.home, self.other) if what in ("ours", "both") else ()
        for daemon in ours:
            daemon.kill()
        for base in bases:
            if what in ("theirs", "both", base.kind):
                base.server.restart()
        for daemon in ours:
            daemon.start()

    def case(self, plan: dict[str, str], bases: Sequence[Base], *, messages: int = 1) -> str:
        """One transaction, with crashes by point; returns what the application was told."""
        self.count += 1
        number = self.count
        reached: list[str] = []

        def at(point: str) -> None:
            reached.append(point)
            if point in plan:
                self.crash(plan[point], bases)

        with contextlib.ExitStack() as stack:
            home = stack.enter_context(onceq.connect(self.home.where))
            other = stack.enter_context(onceq.connect(self.other.where))
            home.send(IN, f"{number}", transactional=True)
            connections = [base.connect() for base in bases]
            for connection in connections:
                stack.callback(_close, connection)
            work = list(zip(bases, connections, strict=True))
            told = self._attempt(home, other, work, number, messages, at)
        unused = set(plan) - set(reached)
        assert len(plan) > 1 or not unused, f"{unused} was never reached"
        kinds = " and ".join(base.kind for base in bases)
        self.check(
            number, told, messages, bases, story=f"case {number} {kinds} {plan}: told {told!r}"
        )
        return told

    def _attempt(
        self, home: Any, other: Any, work: list[tuple[Base, Any]], number: int, messages: int,
        at: Callable[[str], None],
    ) -> str:  # fmt: skip
        home.look_after = lambda partner: None  # recovery is run by hand, after the crash
        home.recover_soon = lambda: None
        try:
            with home.transaction() as tx:
                assert tx.receive(IN, timeout=5).text == f"{number}"
                mine = ManagerPartner(other)
                tx.enlist(_Watched(mine, "ours", at))
                for (base, connection), whose in zip(work, ("theirs", "the second"), strict=False):
                    tx.enlist(_Watched(base.partner(connection), whose, at))
                    base.insert(connection, number)
                for index in range(messages):
                    tx.send(OUT, f"{number}.{index}")
                    mine.work.send(OUT, f"{number}.{index}")  # type: ignore[union-attr]
                inner = tx._partners.home

                def decide(tx: Any, what: What) -> Any:
                    name = "decide" if what is What.DECIDE else "forget"
                    at(f"before {name}")
                    result = inner(tx, what)
                    at(f"after {name}")
                    return result

                tx._partners.home = decide
            return "committed"
        except Gone:
            return "gone"
        except RolledBack:
            return "rolled back"
        except InDoubt:
            return "in doubt"
        except (OnceqError, *ERRORS) as error:
            return f"refused: {type(error).__name__}"

    def check(
        self, number: int, told: str, messages: int, bases: Sequence[Base], *, story: str
    ) -> None:
        """Recover, and compare all places with each other and with what was told."""
        with onceq.connect(self.home.where) as home, onceq.connect(self.other.where) as other:
            self._recover(home, [ManagerResource(other), *(b.resource() for b in bases)], story)
            for base in bases:
                assert base.prepared() == [], f"{story}: in {base.kind}"
            assert home.admin.branches() == other.admin.branches() == [], story
            assert home.admin.decisions() == [], story
            outcomes = {base.kind: base.has(number) for base in bases}
            assert len(set(outcomes.values())) == 1, f"{story}: {outcomes}"
            there = self.there = outcomes[bases[0].kind]
            expected = [f"{number}.{k}" for k in range(messages)] if there else []
            assert [m.text for m in all_of(home, OUT)] == expected, story
            assert [m.text for m in all_of(other, OUT)] == expected, story
            waiting = [m.text for m in all_of(home, IN)]
            assert waiting == ([] if there else [f"{number}"]), story
            if told == "committed":
                assert there, story
            if told.startswith(("rolled back", "refused")):
                assert not there, story
            for base in bases:
                try:
                    base.write_at_once(number, there=there)
                except ERRORS as error:
                    raise AssertionError(f"{story}: {base.kind} holds a lock: {error}") from error

    def _recover(self, home: Any, resources: list[Resource], story: str) -> None:
        recovery = home.recovery(resources)
        pause = threading.Event()
        now = 0.0
        for _ in range(ROUNDS_MAX):
            report = recovery.step(now)
            if report.clean:
                break
            now += recovery.next_s(now, report)
            if report.failed:
                pause.wait(PAUSE_S)
        recovery.close()
        assert report.clean, f"{story}: {report}"


def _close(connection: Any) -> None:
    """Also one that was lost, of which PyMySQL says so."""
    with contextlib.suppress(*ERRORS):
        connection.close()


def all_of(qm: Any, queue: str) -> list[onceq.Message]:
    """What is in a queue and free to be taken; it is taken."""
    try:
        return list(qm.receive_many(queue, 1000, timeout=0))
    except errors.ReceiveTimeout:
        return []
