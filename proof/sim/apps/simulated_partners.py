"""Partners of simulated applications, and the resources of recovery: managers and databases.

They are what ``partners/contract.py`` asks for, but each verb is a part of a program: a generator
that takes virtual time. All of them keep the books (``shared_books.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Protocol

from onceq.errors import LinkLost, OnceqError, PartnerLost, RolledBack, UnknownBranch
from onceq.model.branches import DecisionState, Leave, Vote, Xid
from onceq.model.identity import guid_text
from onceq.model.requests import (
    AskDecision,
    CommitBranch,
    DecisionDone,
    EndBranch,
    Look,
    PrepareBranch,
    Request,
    RollbackBranch,
    StartBranch,
)
from onceq.partners.recovery import Recovery
from proof.sim.apps.apps import Lost
from proof.sim.apps.clients import Client, Link, Talk
from proof.sim.apps.databases import Connection, Database
from proof.sim.apps.shared_books import Share, SharedBooks
from proof.sim.apps.work import Work
from proof.sim.base.node import Node


class Answered(Protocol):
    """What the books do when a branch has answered."""

    def __call__(self, share: Share, *, known: bool, recovered: bool) -> None:
        """Whether the partner knew the branch, and whether recovery has asked."""


def name_of(node: Node) -> str:
    """The name of a manager as a partner."""
    return f"onceq:{guid_text(node.guid)}"


class ManagerResource:
    """A manager whose branches anybody may end; see ``Resource``."""

    def __init__(self, books: SharedBooks, client: Client, node: Node, *, recovered: bool) -> None:
        self.books = books
        self.client = client
        self.node = node
        self.name = name_of(node)
        self._recovered = recovered

    def _ask(self, request: Request, asked: Callable[[], None] | None = None) -> Talk:
        try:
            return (yield from self.client.ask(self.client.link(self.node), request, asked))
        except Lost as lost:
            raise PartnerLost(f"{self.node.name} gives no answer") from lost

    def recover(self, prefix: bytes = b"") -> Talk:
        """See Resource."""
        views = yield from self._ask(Look("branches"))
        found = [Xid.parse(view.xid) for view in views if view.phase == "prepared"]
        return [xid for xid in found if xid.gtrid.startswith(prefix)]

    def commit(self, xid: Xid) -> Talk:
        """See Resource."""
        yield from self._tell(CommitBranch(xid), self.books.commit, self.books.committed)

    def rollback(self, xid: Xid) -> Talk:
        """See Resource."""
        yield from self._tell(RollbackBranch(xid), self.books.rollback, self.books.rolled_back)

    def _tell(
        self, request: CommitBranch | RollbackBranch, asked: Callable[[Share], None],
        answered: Answered,
    ) -> Talk:  # fmt: skip
        """Tell a branch its outcome; the books hear of the question and of the answer."""
        share = self.books.shares[self.name, request.xid]
        answer = yield from self._ask(request, lambda: asked(share))
        known = not isinstance(answer, UnknownBranch)
        if known and isinstance(answer, OnceqError):
            self.books.kernel.wrong(f"I20: {request} is refused at {self.name}: {answer!r}")
        answered(share, known=known, recovered=self._recovered)
        if not known:
            raise answer


class ManagerPartner(ManagerResource):
    """A manager in which the application works; see ``Partner``."""

    def __init__(
        self, books: SharedBooks, work: Work, share: Share, client: Client, node: Node
    ) -> None:
        super().__init__(books, client, node, recovered=False)
        self.share = share
        self._work = work
        self._link: Link | None = None
        self._number = client.number()

    def begin(self) -> Talk:
        """See Partner."""
        try:
            link = self._link = self.client.link(self.node)
        except Lost as lost:
            raise PartnerLost(f"{self.node.name} cannot be reached") from lost
        link.on_lost.append(lambda: self.books.lost(self.share))
        yield from self._here(StartBranch(self._number, self.share.xid))

    def _here(self, request: Request, asked: Callable[[], None] | None = None) -> Talk:
        """Ask over the connection to which the work belongs."""
        assert self._link is not None
        try:
            answer = yield from self.client.ask(self._link, request, asked)
        except Lost as lost:
            raise PartnerLost(f"{self.node.name} gives no answer") from lost
        if isinstance(answer, OnceqError):
            raise answer
        return answer

    def work(self) -> Talk:
        """Receive or send something there."""
        unit, number = self.share.unit, self._number
        assert unit is not None
        assert self._link is not None
        talk = self._work.receive if self.client.rng.random() < 0.4 else self._work.send
        try:
            yield from self.client.over(self._link, talk(self.node, unit, number))
        except Lost as lost:
            raise PartnerLost(f"{self.node.name} gives no answer") from lost

    def prepare(self) -> Talk:
        """See Partner."""
        xid = self.share.xid
        if self.client.rng.random() < 0.3:
            yield from self._end(Leave.SUCCESS)

        def going() -> None:
            self.share.asked = True

        try:
            vote = yield from self._here(PrepareBranch(xid, self._number), going)
        except RolledBack:
            self.books.refused(self.share)
            raise
        self.books.voted(self.share, vote)
        return vote

    def _end(self, how: Leave) -> Talk:
        at, self._number = self._number, 0
        yield from self._here(EndBranch(at, self.share.xid, how))

    def undo(self) -> Talk:
        """Roll back, prepared or not."""
        if self._link is not None and self._link.alive and self._number and not self.share.asked:
            yield from self._end(Leave.FAIL)
        try:
            yield from self.rollback(self.share.xid)
        except UnknownBranch:
            return

    def abandon(self) -> None:
        """See Partner."""


class DatabaseResource:
    """A database for recovery; see ``Resource``."""

    def __init__(self, books: SharedBooks, database: Database) -> None:
        self.books = books
        self.database = database
        self.name = database.name
        self._recovered = True
        self._connection: Connection | None = None

    def recover(self, prefix: bytes = b"") -> Talk:
        """See Resource."""
        there = self.database.prepared
        return (
            yield from self.database.call(
                lambda: sorted(xid for xid in there if xid.gtrid.startswith(prefix))
            )
        )

    def commit(self, xid: Xid) -> Talk:
        """See Resource."""
        yield from self._tell(xid, self.database.commit, self.books.commit, self.books.committed)

    def rollback(self, xid: Xid) -> Talk:
        """See Resource."""
        yield from self._tell(
            xid, self.database.rollback, self.books.rollback, self.books.rolled_back
        )

    def _tell(
        self, xid: Xid, verb: Callable[[Xid, Connection | None], None],
        asked: Callable[[Share], None], answered: Answered,
    ) -> Talk:  # fmt: skip
        """Tell a branch its outcome; the books hear of the question and of the answer."""
        share = self.books.shares[self.name, xid]

        def work() -> None:
            asked(share)
            verb(xid, self._connection)

        try:
            yield from self.database.call(work, self._connection)
        except UnknownBranch:
            answered(share, known=False, recovered=self._recovered)
            raise
        answered(share, known=True, recovered=self._recovered)


class DatabasePartner(DatabaseResource):
    """A database in which the application works; see ``Partner``."""

    def __init__(self, books: SharedBooks, share: Share, database: Database) -> None:
        super().__init__(books, database)
        self.share = share
        self._recovered = False

    def begin(self) -> Talk:
        """See Partner."""
        self._connection = self.database.connect()
        yield from ()

    def _here(self, work: Callable[[Connection], Any]) -> Talk:
        connection = self._connection
        assert connection is not None
        return (yield from self.database.call(lambda: work(connection), connection))

    def work(self) -> Talk:
        """Write a row."""
        row = self.books.row(self.share)
        yield from self._here(lambda connection: connection.rows.add(row))

    def prepare(self) -> Talk:
        """See Partner."""
        self.share.asked = True
        try:
            vote: Vote = yield from self._here(
                lambda connection: self.database.prepare(self.share.xid, connection)
            )
        except PartnerLost:
            self.books.lost(self.share)
            raise
        except OnceqError:
            self.books.refused(self.share)
            raise
        self.books.voted(self.share, vote)
        return vote

    def commit_one_phase(self) -> Talk:
        """See Partner."""
        self.share.whole.alone = True
        yield from self._here(self.database.commit_one_phase)

    def undo(self) -> Talk:
        """Roll back, prepared or not."""
        if self._connection is None:
            return
        if not self.share.asked:
            yield from self._here(self.database.undo)
            return
        try:
            yield from self.rollback(self.share.xid)
        except UnknownBranch:
            return

    def abandon(self) -> None:
        """See Partner."""
        if self._connection is not None and self._connection.usable:
            self.database.abandon(self._connection)


Partner = ManagerPartner | DatabasePartner


class Decider:
    """The home manager for recovery; see ``partners.recovery.Decider``."""

    def __init__(self, books: SharedBooks, client: Client) -> None:
        self.books = books
        self.client = client
        self.guid = client.node.guid

    def _ask(self, request: Request) -> Talk:
        try:
            answer = yield from self.client.ask(self.client.link(self.client.node), request)
        except Lost as lost:
            raise LinkLost(f"{self.client.node.name} gives no answer") from lost
        if isinstance(answer, OnceqError):
            raise answer
        return answer

    def decision(self, gtrid: bytes) -> Generator[Any, Any, DecisionState]:
        """See Decider."""
        decision: DecisionState = yield from self._ask(AskDecision(gtrid))
        if decision is DecisionState.COMMITTED:
            self.books.decided(self.books.wholes[gtrid])
        return decision

    def open_decisions(self) -> Generator[Any, Any, Mapping[bytes, tuple[str, ...]]]:
        """See Decider."""
        views = yield from self._ask(Look("decisions"))
        return {view.gtrid.encode(): view.partners for view in views}

    def done(self, gtrid: bytes) -> Talk:
        """See Decider."""
        yield from self._ask(DecisionDone(gtrid))


def one_round(recovery: Recovery, now_s: float) -> Talk:
    """Carry a round of recovery out; returns its report."""
    calls = recovery.calls(now_s)
    try:
        call = next(calls)
        while True:
            try:
                answer = yield from call()
            except OnceqError as error:
                call = calls.throw(error)
            else:
                call = calls.send(answer)
    except StopIteration as stop:
        return stop.value
