"""A tenant: an application with a small token, which attacks what is not its own.

It may make queues of its own, and look; it fills what it can, and tries everything that an
administrator can do. Another token is a monitor's, which may see everything and stop nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Final

import onceq
from onceq.client.threads.manager import QueueManager
from onceq.errors import AccessDenied, InsufficientResources, OnceqError
from onceq.model import requests
from onceq.model.branches import Xid, group_xid
from onceq.wire.app import frames
from onceq.wire.app.frames import written
from proof.torture.liar.honest import FIRST, KNOWN, SEALED
from proof.torture.liar.rogue import Lie, Rogue, believed
from tests.matrix.line import Line, unix

OWN: Final = r"private$\tenant-"
"""What its queues begin with."""
MINE: Final = rf"{OWN}mine"
STAR: Final = rf"{OWN}*"
NEIGHBOUR: Final = rf"{OWN}neighbour"
"""A queue of somebody else, whose name begins as its own do."""
STOCK: Final = r"private$\stock"
AT_ONCE: Final = 100
"""Looks that it asks for at once."""
FILLS: Final = 50
"""Things that one lie makes."""
MOST: Final = 2_000
"""Of each kind that it makes in all: what has no share yet would keep others from it."""
THERE: Final = bytes(range(16))
LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
GUESSED_CHARS: Final = 13
"""Of the identifier of an attempt: those that say which one it is, and for whom."""
BRANCH: Final = Xid(7, b"honest-transaction", b"queue")
"""What a coordinator of the honest has prepared."""


class Tenant(Rogue):
    """The tenant; see the module."""

    kind: ClassVar[str] = "tenant"

    def prepare(self) -> None:
        """An administrator gives it a token, and has queues of their own beside it."""
        self._path = str(self.honest.nodes["BETA"].path)
        self._admin = self.honest.admin("BETA")
        made = self._admin.tokens.create("tenant", grants={f"{OWN}*": "create"})
        seen = self._admin.tokens.create("watcher", grants={"": "monitor"})
        self._qm = onceq.connect(self._path, token=made.token)
        self._watcher = onceq.connect(self._path, token=seen.token)
        self._token = made.token
        self._qm.create_queue(MINE, transactional=True)
        self._admin.create_queue(NEIGHBOUR, transactional=True)
        self._admin.send(NEIGHBOUR, KNOWN, transactional=True)
        work = self._admin.branch(BRANCH)
        work.send(FIRST, KNOWN)
        work.end()
        self._admin.xa.prepare(BRANCH)
        self._made: dict[str, int] = {}
        self._kept: list[object] = []
        self._batch = self._admin.groups.attempt("honest", 1)

    def lies(self) -> Mapping[str, Lie]:
        """See Rogue."""
        return {
            **{f"tries: {name}": self._denied(name, what) for name, what in self._acts().items()},
            **{f"fills: {name}": self._filling(name, make) for name, make in self._fills().items()},
            "looks many times at once": self._looks,
            "purges to wash the trail": self._washes,
            "a queue called like a pattern": self._star,
            "keeps others from a queue as monitor": self._holds,
            "ends a transaction of others": self._branches,
            "guesses a transaction of others": self._guesses,
        }

    def leave(self) -> None:
        """See Rogue."""
        for name in ("_admin", "_qm", "_watcher"):
            with contextlib.suppress(AttributeError, OnceqError):
                getattr(self, name).close()

    def judge(self) -> None:
        """What others have is as it was."""
        with self.honest.admin("BETA") as admin:
            there = admin.queue(NEIGHBOUR).messages
            believed(there != 1, f"{NEIGHBOUR} has {there} messages")
            branches = [one.xid for one in admin.admin.branches()]
            believed(str(BRANCH) not in branches, "the transaction of others was ended")
            given = {
                (one.who, one.pattern)
                for one in admin.rights.list()
                if one.who in ("nobody", "token:tenant")
                and not one.pattern.startswith(OWN)
            }  # fmt: skip
            believed(given, f"it has rights, or has given them: {sorted(given)}")
            tokens = {one.name for one in admin.tokens.list()}
            believed(tokens != {"tools", "tenant", "watcher"}, f"tokens are {tokens}")

    # ---- what it may not ------------------------------------------------------------------------

    def _acts(self) -> dict[str, Callable[[QueueManager], object]]:
        """What is none of its business."""
        return {
            "send": lambda qm: qm.send(SEALED, b"lie", transactional=True),
            "send elsewhere": lambda qm: qm.send(
                r"DIRECT=OS:DELTA\private$\goods", b"lie", transactional=True
            ),
            "receive": lambda qm: qm.receive(STOCK, timeout=0),
            "peek": lambda qm: qm.peek(STOCK, timeout=0),
            "purge": lambda qm: qm.purge(STOCK),
            "delete": lambda qm: qm.delete_queue(NEIGHBOUR),
            "change": lambda qm: qm.set_queue(NEIGHBOUR, quota=0),
            "keep others away": _hold,
            "make a queue": lambda qm: qm.create_queue(r"private$\other"),
            "be administrator": lambda qm: qm.rights.grant("token:tenant", "administer"),
            "give others rights": lambda qm: qm.rights.grant("token:tenant", "receive", STOCK),
            "let strangers in": lambda qm: qm.rights.grant("nobody", "get-properties", MINE),
            "let an address in": lambda qm: qm.rights.grant("address:127.0.0.9", "send", MINE),
            "make a token": lambda qm: qm.tokens.create("more", grants={"": "administer"}),
            "revoke a token": lambda qm: qm.tokens.revoke("tools"),
            "pause": lambda qm: qm.admin.pause(r"DIRECT=OS:ALPHA\private$\q"),
            "give a name away": lambda qm: qm.admin.forget_peer("ALPHA"),
            "cut everybody off": lambda qm: qm.admin.disconnect(),
            "read the configuration again": lambda qm: qm.admin.reload(),
            "read the trail": lambda qm: qm.admin.trail(),
            "end a hold": lambda qm: qm.admin.release_queue(STOCK),
            "a job": lambda qm: qm.jobs.start("purge", NEIGHBOUR),
            "make a backup": lambda qm: qm.admin.backup(str(self.honest.folder / "stolen")),
        }

    def _denied(self, name: str, what: Callable[[QueueManager], object]) -> Lie:
        def lie() -> bool:
            try:
                found = what(self._qm)
            except AccessDenied:
                return True
            except OnceqError as error:
                believed(True, f"{error.code} is not what it must hear: {error.text}")
            believed(True, f"it was not refused, but answered with {str(found)[:80]}")
            return False

        return lie

    # ---- what is too much -----------------------------------------------------------------------

    def _fills(self) -> dict[str, Callable[[int], object]]:
        qm = self._qm
        return {
            "grants": lambda n: qm.rights.grant(f"account:friend-{n}", "send", MINE),
            "queues": lambda n: qm.create_queue(rf"{OWN}{n}", transactional=True),
            "subqueues": lambda n: qm.open_queue(f"{MINE};part-{n}", access="peek").close(),
            "queues held open": lambda n: self._kept.append(qm.open_queue(MINE, access="peek")),
            "transactions": lambda n: self._begin(),
        }

    def _begin(self) -> None:
        """It is never ended."""
        tx = self._qm.transaction()
        self._kept.append(tx)
        tx.send(MINE, b"x")

    def _filling(self, name: str, make: Callable[[int], object]) -> Lie:
        def lie() -> bool:
            begins = self._made.get(name, 0)
            self._made[name] = min(begins + FILLS, MOST)
            for number in range(begins, self._made[name]):
                try:
                    make(number)
                except InsufficientResources:
                    return True
            return False

        return lie

    def _looks(self) -> bool:
        """All at once, on one connection."""
        line, parser = Line(unix(f"{self._path}/onceq.sock"), self._token), frames.Parser()
        asked = [written(number, requests.Look("queues")) for number in range(2, AT_ONCE + 2)]
        line.socket.sendall(b"".join(bytes(part) for each in asked for part in each))
        answers = 0
        while answers < AT_ONCE and (data := line.socket.recv(1 << 16)):
            for _, _, _, body in parser.feed(data):
                answers += 1
                believed(STOCK.encode() in bytes(body), "it sees queues of others")
        line.close()
        return answers < AT_ONCE

    def _washes(self) -> bool:
        """Acts push older acts out, if they all have one place."""
        for _ in range(FILLS):
            self._qm.purge(MINE)
            self._qm.set_queue(MINE, label=f"label {self.rng.random()}")
        return False

    def _star(self) -> bool:
        """Its owner has the queue of that name, and none that the pattern has."""
        with contextlib.suppress(OnceqError):
            self._qm.create_queue(STAR, transactional=True)
        for act in (
            lambda: self._qm.receive(NEIGHBOUR, timeout=0),
            lambda: self._qm.purge(NEIGHBOUR),
            lambda: self._qm.rights.grant("token:tenant", "receive", NEIGHBOUR),
        ):
            try:
                act()
            except AccessDenied:
                continue
            believed(True, f"its queue {STAR} has opened {NEIGHBOUR}")
        return True

    def _holds(self) -> bool:
        try:
            _hold(self._watcher)
        except AccessDenied:
            return True
        believed(True, "a monitor has kept others from receiving")
        return False

    # ---- transactions of others -----------------------------------------------------------------

    def _branches(self) -> bool:
        verb = self.rng.choice([self._qm.xa.commit, self._qm.xa.rollback, self._qm.xa.forget])
        with self._refusals() as refused:
            verb(BRANCH)
        branches = [one.xid for one in self._admin.admin.branches()]
        believed(str(BRANCH) not in branches, f"it has ended {BRANCH}")
        return bool(refused)

    def _guesses(self) -> bool:
        """Nobody prepares, commits or undoes under the identifier of somebody else's batch."""
        anchor = self._batch.anchor(THERE)
        letters = bytes(self.rng.sample(LETTERS, GUESSED_CHARS))
        guessed = group_xid(anchor.gtrid[:-GUESSED_CHARS] + letters, "x")
        refused: list[str] = []
        for xid in (anchor, guessed):
            with self._refusals() as one:
                self._qm.branch(xid).end()
                believed(True, f"it takes part in {xid}")
            refused += one
            with self._refusals() as one:
                self._qm.groups.commit("honest", 1, [xid])
                believed(True, f"it has committed {xid}")
            refused += one
        with self._refusals() as one:
            self._qm.groups.rollback("honest", 1)
        return bool(refused)

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[list[str]]:
        found: list[str] = []
        try:
            yield found
        except OnceqError as error:
            found.append(error.code)


def _hold(qm: QueueManager) -> None:
    """Keep others from receiving what the honest are at work with."""
    qm.open_queue(STOCK, access="peek", share="deny-receive").close()
