"""Partners of simulated applications, and the resources of recovery: managers and databases.

They are what ``partners/contract.py`` asks for, but each verb is a part of a program: a generator
that takes virtual time. All of them keep the books (``shared.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any

from onceq.core.inputs.inputs import Input
from onceq.errors import LinkLost, OnceqError, PartnerLost, RolledBack, UnknownBranch
from onceq.model.branch import Decision, Leave, Vote
from onceq.model.identity import guid_text
from onceq.model.requests import (
    AskDecision,
    CommitBranch,
    DecisionDone,
    EndBranch,
    Look,
    PrepareBranch,
    RollbackBranch,
    Send,
    StartBranch,
)
from onceq.model.xid import Xid
from onceq.testing.apps.apps import Lost
from onceq.testing.apps.clients import Client, Link, Talk
from onceq.testing.apps.databases import Connection, Database
from onceq.testing.apps.shared import Share, Shared
from onceq.testing.apps.work import Work
from onceq.testing.sim.node import Node

Make = Callable[[int, int], Input]


def name_of(node: Node) -> str:
    """The name of a manager as a partner."""
    return f"onceq:{guid_text(node.guid)}"


class ManagerResource:
    """A manager whose branches anybody may end; see ``Resource``."""

    def __init__(self, books: Shared, client: Client, node: Node, *, recovered: bool) -> None:
        self.books = books
        self.client = client
        self.node = node
        self.name = name_of(node)
        self._recovered = recovered

    def _ask(self, make: Make, asked: Callable[[], None] | None = None) -> Talk:
        try:
            return (yield from self.client.ask(self.client.link(self.node), make, asked))
        except Lost as lost:
            raise PartnerLost(f"{self.node.name} gives no answer") from lost

    def recover(self, prefix: bytes = b"") -> Talk:
        """See Resource."""
        views = yield from self._ask(lambda o, r: Look("branches", owner=o, request=r))
        found = [Xid.parse(view.xid) for view in views if view.phase == "prepared"]
        return [xid for xid in found if xid.gtrid.startswith(prefix)]

    def commit(self, xid: Xid) -> Talk:
        """See Resource."""
        share = self.books.shares[self.name, xid]
        answer = yield from self._ask(
            lambda o, r: CommitBranch(xid, owner=o, request=r), lambda: self.books.commit(share)
        )
        known = not isinstance(answer, UnknownBranch)
        if known and isinstance(answer, OnceqError):
            self.books.kernel.wrong(f"I20: {xid} is told to commit at {self.name}: {answer!r}")
        self.books.committed(share, known=known, recovered=self._recovered)
        if not known:
            raise answer

    def rollback(self, xid: Xid) -> Talk:
        """See Resource."""
        share = self.books.shares[self.name, xid]
        answer = yield from self._ask(
            lambda o, r: RollbackBranch(xid, owner=o, request=r), lambda: self.books.rollback(share)
        )
        known = not isinstance(answer, UnknownBranch)
        if known and isinstance(answer, OnceqError):
            self.books.kernel.wrong(f"I20: {xid} is told to roll back at {self.name}: {answer!r}")
        self.books.rolled_back(share, known=known, recovered=self._recovered)
        if not known:
            raise answer


class ManagerPartner(ManagerResource):
    """A manager in which the application works; see ``Partner``."""

    def __init__(self, books: Shared, work: Work, share: Share, client: Client, node: Node) -> None:
        super().__init__(books, client, node, recovered=False)
        self.share = share
        self._work = work
        self._link: Link | None = None
        client.transactions += 1
        self._number = client.transactions

    def begin(self) -> Talk:
        """See Partner."""
        try:
            link = self._link = self.client.link(self.node)
        except Lost as lost:
            raise PartnerLost(f"{self.node.name} cannot be reached") from lost
        link.on_lost.append(lambda: self.books.lost(self.share))
        yield from self._here(
            lambda o, r: StartBranch(self._number, self.share.xid, owner=o, request=r)
        )

    def _here(self, make: Make, asked: Callable[[], None] | None = None) -> Talk:
        """Ask over the connection to which the work belongs."""
        assert self._link is not None
        try:
            answer = yield from self.client.ask(self._link, make, asked)
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
        if self.client.rng.random() < 0.4:
            talk = self._work.receive(self.node, unit, number)
            try:
                yield from self.client.over(self._link, talk)
            except Lost as lost:
                raise PartnerLost(f"{self.node.name} gives no answer") from lost
            return
        item, messages = self._work.sends.item(self.node.index, unit)
        try:
            yield from self._here(lambda o, r: Send(number, (item,), owner=o, request=r))
        except PartnerLost:
            raise
        except OnceqError as error:
            self._work.sends.refused(error, messages)

    def prepare(self) -> Talk:
        """See Partner."""
        xid = self.share.xid
        if self.client.rng.random() < 0.3:
            yield from self._end(Leave.SUCCESS)

        def going() -> None:
            self.share.asked = True

        at = self._number
        try:
            vote = yield from self._here(
                lambda o, r: PrepareBranch(xid, at, owner=o, request=r), going
            )
        except RolledBack:
            self.books.refused(self.share)
            raise
        self.books.voted(self.share, vote)
        return vote

    def _end(self, how: Leave) -> Talk:
        at, self._number = self._number, 0
        yield from self._here(lambda o, r: EndBranch(at, self.share.xid, how, owner=o, request=r))

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

    def __init__(self, books: Shared, database: Database) -> None:
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
        share = self.books.shares[self.name, xid]
        work = partial(self._commit, share)
        try:
            yield from self.database.call(work, self._connection)
        except UnknownBranch:
            self.books.committed(share, known=False, recovered=self._recovered)
            raise
        self.books.committed(share, known=True, recovered=self._recovered)

    def _commit(self, share: Share) -> None:
        self.books.commit(share)
        self.database.commit(share.xid, self._connection)

    def rollback(self, xid: Xid) -> Talk:
        """See Resource."""
        share = self.books.shares[self.name, xid]
        work = partial(self._rollback, share)
        try:
            yield from self.database.call(work, self._connection)
        except UnknownBranch:
            self.books.rolled_back(share, known=False, recovered=self._recovered)
            raise
        self.books.rolled_back(share, known=True, recovered=self._recovered)

    def _rollback(self, share: Share) -> None:
        self.books.rollback(share)
        self.database.rollback(share.xid, self._connection)


class DatabasePartner(DatabaseResource):
    """A database in which the application works; see ``Partner``."""

    def __init__(self, books: Shared, share: Share, database: Database) -> None:
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

    def __init__(self, books: Shared, client: Client) -> None:
        self.books = books
        self.client = client
        self.guid = client.node.guid

    def _ask(self, make: Make) -> Talk:
        try:
            answer = yield from self.client.ask(self.client.link(self.client.node), make)
        except Lost as lost:
            raise LinkLost(f"{self.client.node.name} gives no answer") from lost
        if isinstance(answer, OnceqError):
            raise answer
        return answer

    def decision(self, gtrid: bytes) -> Generator[Any, Any, Decision]:
        """See Decider."""
        decision: Decision = yield from self._ask(
            lambda o, r: AskDecision(gtrid, owner=o, request=r)
        )
        if decision is Decision.COMMITTED:
            self.books.decided(self.books.wholes[gtrid])
        return decision

    def open_decisions(self) -> Generator[Any, Any, Mapping[bytes, tuple[str, ...]]]:
        """See Decider."""
        views = yield from self._ask(lambda o, r: Look("decisions", owner=o, request=r))
        return {view.gtrid.encode(): view.partners for view in views}

    def done(self, gtrid: bytes) -> Talk:
        """See Decider."""
        yield from self._ask(lambda o, r: DecisionDone(gtrid, owner=o, request=r))
