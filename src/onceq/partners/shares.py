"""What a connection to a database does in a transaction, and what recovery does with the database.

There are two procedures. A connection *prepares*, and is told the outcome (``PreparingShare``); or
it *decides* by a row that it commits (``DecidingShare``). Recovery has one class for each:
``PreparedBranches`` and ``DecidingRows``. What differs between databases is in a ``Dialect``:
``postgresql.py``, ``mariadb.py`` and ``sqlite.py`` have one each, because each imports its driver.

Every operation is a generator of calls (``procedures.py``), so it is written once for threads and
for tasks.

Upholds: I20 and I21 as far as the contract asks.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, Final
from weakref import WeakKeyDictionary

from onceq import errors
from onceq.model.branches import Vote, Xid
from onceq.partners.contract import ABORTED, COMMITTED, NOTED, TABLE, Row
from onceq.partners.procedures import Calls, drive, in_tasks, in_threads

CONNECT_S: Final = 10
"""How long recovery waits for a connection (seconds)."""
LOCK_S: Final = 2.0
"""How long recovery waits for a commit that is under way; then it tries again later."""
SAVEPOINT: Final = "onceq_enlisted"
"""Set at the beginning of a transaction. It is gone when the transaction is, also where the driver
has begun another one."""
_NEEDS_NO_QUOTES: Final = re.compile(r"[0-9A-Za-z_.-]*")
Rows = Sequence[Sequence[Any]]


@dataclass(frozen=True)
class KnownDatabase:
    """What is known of a database that can take part, over one connection.

    Attributes:
        name: Of its partners and of its last agents; see the contract.
        address: Where the connection leads.
        schema: The database that the connection was in, where it can go to another one.
        managers: GUIDs of queue managers whose rows were looked for over the connection.
    """

    name: str
    address: str
    schema: str = ""
    managers: set[str] = field(default_factory=set, compare=False)


class Dialect(ABC):
    """What differs between databases. Calls raise errors of the driver, unless they say more."""

    kind: ClassVar[str]
    """What errors call it."""
    make_table: ClassVar[str]
    """The statement that makes the table of decisions."""
    keep_existing: ClassVar[str] = " ON CONFLICT DO NOTHING"
    """The end of an INSERT that leaves a row alone which is there."""
    unknown_branch: ClassVar[tuple[object, ...]] = ()
    """Codes of errors: the server has no such branch."""
    rolled_back: ClassVar[tuple[object, ...]] = ()
    """Codes of errors: the server has rolled the branch back."""
    no_table: ClassVar[tuple[object, ...]] = ()
    """Codes of errors: there is no such table."""

    def table_in(self, schema: str) -> str:
        """Return how statements call the table of decisions."""
        return TABLE

    @abstractmethod
    def errors(self, connection: Any) -> type[Exception]:
        """Return the class of all errors of the driver."""

    @abstractmethod
    def code_of(self, error: BaseException) -> object:
        """Return the code of an error, as the tables above have it."""

    @abstractmethod
    def is_refusal(self, error: Exception, connection: Any) -> bool:
        """Return whether an error before the vote, or in a commit, says that nothing was done."""

    def text_of(self, error: Exception) -> str:
        """Return the text of an error, with what may help."""
        return " ".join(str(error).split())

    @abstractmethod
    def query(self, connection: Any, text: str) -> Calls[Rows]:
        """Execute statements; returns the rows of the last one."""

    @abstractmethod
    def query_apart(self, connection: Any, text: str) -> Calls[Rows]:
        """As ``query``, in a transaction of its own."""

    @abstractmethod
    def cut(self, connection: Any) -> None:
        """Cut the connection; see ``Partner.abandon``."""

    @abstractmethod
    def check_idle(self, connection: Any) -> Calls[str]:
        """Return the database that the connection is in, where it can go to another one.

        Raises:
            PartnerRefused: It is in the middle of something else (XTX-9).
            PartnerLost: It is closed or broken.
        """

    @abstractmethod
    def ask_name(self, connection: Any, schema: str) -> Calls[str]:
        """Return the name of a database that decides; raises EnlistRefused if it cannot."""

    @abstractmethod
    def check_deciding(self, connection: Any, schema: str) -> Calls[KnownDatabase]:
        """Return what the database is, and see that it has the table of decisions.

        Args:
            schema: What ``check_idle`` has found.

        Raises:
            EnlistRefused: Its commits can decide nothing.
        """

    @abstractmethod
    def begin_deciding(self, connection: Any, xid: Xid) -> Calls[None]:
        """Begin the transaction."""

    @abstractmethod
    def commit_deciding(self, connection: Any, xid: Xid, insert: str) -> Calls[None]:
        """Commit the transaction that was begun and no other, with a statement before if it is not
        empty. Errors are those of the contract; after a refusal the connection is free."""

    @abstractmethod
    def roll_back_deciding(self, connection: Any) -> Calls[None]:
        """Roll the transaction back."""


class PreparingDialect(Dialect):
    """What differs between databases that also prepare."""

    @abstractmethod
    def check_preparing(self, connection: Any) -> Calls[KnownDatabase]:
        """Return what the database is; raises TwoPhaseForbidden if it can prepare nothing."""

    @abstractmethod
    def begin_branch(self, connection: Any, xid: Xid) -> Calls[None]:
        """Begin the branch."""

    def wrote_nothing(self, connection: Any, xid: Xid) -> Calls[bool]:
        """Return whether nobody could tell a commit of the branch from a rollback."""
        yield from ()
        return False

    @abstractmethod
    def prepare(self, connection: Any, xid: Xid) -> Calls[None]:
        """Prepare. Errors are those of the contract; after a refusal the connection is free."""

    @abstractmethod
    def commit_branch(self, connection: Any, xid: Xid) -> Calls[None]:
        """Commit what is not prepared. Errors as of ``prepare``."""

    @abstractmethod
    def roll_back_branch(self, connection: Any, xid: Xid) -> Calls[None]:
        """Roll back what is not prepared."""

    @abstractmethod
    def end_prepared(self, connection: Any, xid: Xid, *, commit: bool) -> Calls[None]:
        """End what is prepared, over the connection that has prepared it."""

    @abstractmethod
    def end_found(self, xid: Xid, *, commit: bool) -> str:
        """Return the statement that ends what is prepared, over any connection."""

    @abstractmethod
    def list_prepared(self, connection: Any) -> Calls[list[Xid]]:
        """Return the branches that are prepared and can be ended over the connection."""


class Meaning:
    """Around calls of a driver: what an error of it means. A class, because it stands around every
    call and nearly always does nothing."""

    __slots__ = ("_connection", "_dialect", "_voting")

    def __init__(self, dialect: Dialect, connection: Any, *, voting: bool) -> None:
        """Take what is asked.

        Args:
            voting: The share is not prepared yet: an error that the server gives refuses it.
        """
        self._dialect = dialect
        self._connection = connection
        self._voting = voting

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: object, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, errors.OnceqError):
            return
        dialect, connection = self._dialect, self._connection
        if not isinstance(error, dialect.errors(connection)):
            return
        text, code = dialect.text_of(error), dialect.code_of(error)
        if self._voting:
            if dialect.is_refusal(error, connection):
                raise errors.PartnerRefused(f"{dialect.kind} says: {text}") from error
        elif code in dialect.unknown_branch:
            raise errors.UnknownBranch(f"{dialect.kind} knows no such branch: {text}") from error
        elif code in dialect.rolled_back:
            raise errors.RolledBackByHand(
                f"{dialect.kind} has rolled the branch back: {text}"
            ) from error
        raise errors.PartnerLost(f"{dialect.kind} gives no answer: {text}") from error


def cut(descriptor: int) -> None:
    """Shut a socket down, in both directions, from any thread; its owner closes it. Never raises.

    Drivers' own ``close`` takes a lock that a running statement holds, or frees what it uses. A
    socket that is shut down makes both sides notice: the driver raises, the server rolls back what
    is not prepared and lets others end what is.
    """
    with (
        contextlib.suppress(OSError, ValueError),
        # A copy of the descriptor: when it is closed, the one of the driver stays open.
        socket.socket(fileno=os.dup(descriptor)) as shared,
    ):
        shared.shutdown(socket.SHUT_RDWR)


# ---- rows -------------------------------------------------------------------------------------


def insert_row(table: str, row: Row, outcome: str, ending: str = "") -> str:
    """Return the statement that writes a row."""
    return f"INSERT INTO {table} VALUES ({', '.join(_key_of(row))}, '{outcome}'){ending}"


def _key_of(row: Row) -> tuple[str, str, str]:
    assert _NEEDS_NO_QUOTES.fullmatch(row.manager + row.id), row
    return f"'{row.manager}'", str(int(row.number)), f"'{row.id}'"


def _count_rows(
    table: str, manager: str, after: int, upto: int, but: Sequence[int], must: Sequence[int],
    note: int,
) -> str:  # fmt: skip
    """Return the query of ``count``, in the SQL that all databases have."""
    noted = f"outcome = '{NOTED}' AND number = {note}"
    there = f"outcome = '{COMMITTED}' AND number IN {_among(must)}"
    counted = (
        f"outcome = '{COMMITTED}' AND number > {after} AND number <= {upto} "
        f"AND number NOT IN {_among(but)}"
    )
    return (
        f"SELECT COALESCE(MAX(CASE WHEN {noted} THEN 1 ELSE 0 END), 0), "
        f"COUNT(DISTINCT CASE WHEN {there} THEN number END), "
        f"COALESCE(SUM(CASE WHEN {counted} THEN 1 ELSE 0 END), 0) FROM {table} "
        f"WHERE manager = {_key_of(Row(manager, 0, ''))[0]} "
        f"AND outcome IN ('{COMMITTED}', '{NOTED}') "
        f"AND (number BETWEEN {after} AND {upto} OR number = {note} "
        f"OR number IN {_among(must)})"
    )


def _read_count(found: Rows, must: Sequence[int], note: int) -> int:
    """Return what ``count`` does for the one row of that query."""
    ((noted, there, count),) = found
    return int(count) if (noted or not note) and there == len(set(must)) else -1


def _among(numbers: Iterable[int]) -> str:
    """Return a list for IN, which must not be empty; no number is negative."""
    return f"({', '.join(map(str, (-1, *numbers)))})"


# ---- connections of applications --------------------------------------------------------------


class DatabaseShare(ABC):
    """A connection of an application, and what is done with it by either procedure.

    Until the end of the transaction the application neither commits nor rolls back on it.
    """

    dialect: ClassVar[Dialect]

    def __init__(self, connection: Any, *, name: str = "") -> None:
        """Take a connection outside any transaction.

        Args:
            name: Another name than the database has by itself: the same always, and for everybody
                who recovers it.
        """
        self.connection = connection
        self._name = name
        self._database: KnownDatabase | None = None
        self._xid: Xid | None = None

    @property
    def found(self) -> KnownDatabase:
        """What ``check`` has found."""
        assert self._database is not None, "check comes first"
        return self._database

    @property
    def name(self) -> str:
        """The name of the database. See the contract."""
        return self._name or self.found.name

    @property
    def address(self) -> str:
        """Where the connection leads."""
        return self.found.address

    def abandon(self) -> None:
        """Cut the connection. See Partner."""
        self.dialect.cut(self.connection)

    def _meaning(self, *, voting: bool) -> Meaning:
        return Meaning(self.dialect, self.connection, voting=voting)


class PreparingShare(DatabaseShare):
    """A connection that prepares. See Partner."""

    dialect: ClassVar[PreparingDialect]

    _known: ClassVar[MutableMapping[Any, KnownDatabase]] = WeakKeyDictionary()
    """Asked once for each connection: what a server says of itself does not change meanwhile."""
    _may_vote = False
    _prepared = False

    @abstractmethod
    def resource(self) -> PreparedBranches | None:
        """Return the other side of the same database. See Partner."""

    def _check(self) -> Calls[None]:
        """Check that the connection can begin, and that the server can prepare."""
        connection = self.connection
        with self._meaning(voting=True):
            yield from self.dialect.check_idle(connection)
            if connection not in self._known:
                self._known[connection] = yield from self.dialect.check_preparing(connection)
        self._database = self._known[connection]

    def _begin(self, xid: Xid) -> Calls[None]:
        """Begin the branch. See Partner."""
        with self._meaning(voting=True):
            yield from self.dialect.begin_branch(self.connection, xid)

    def _prepare(self, xid: Xid) -> Calls[Vote]:
        """Promise both outcomes. See Partner."""
        if self._may_vote and (yield from self.dialect.wrote_nothing(self.connection, xid)):
            yield from self._end(xid, commit=False)
            return Vote.READ_ONLY
        yield from self.dialect.prepare(self.connection, xid)
        self._prepared = True
        return Vote.PREPARED

    def _commit(self, xid: Xid) -> Calls[None]:
        """Commit what is prepared. See Partner."""
        yield from self._end(xid, commit=True)

    def _commit_one_phase(self, xid: Xid) -> Calls[None]:
        """Commit what is not prepared. See Partner."""
        yield from self.dialect.commit_branch(self.connection, xid)

    def _rollback(self, xid: Xid) -> Calls[None]:
        """Undo the work of the branch, prepared or not. See Partner."""
        yield from self._end(xid, commit=False)

    def _end(self, xid: Xid, *, commit: bool) -> Calls[None]:
        with self._meaning(voting=False):
            if commit or self._prepared:
                yield from self.dialect.end_prepared(self.connection, xid, commit=commit)
            else:
                yield from self.dialect.roll_back_branch(self.connection, xid)

    def _forget(self, xid: Xid) -> Calls[None]:
        """Do nothing: no database here remembers what it has decided on its own."""
        yield from ()


class PreparingInThreads(PreparingShare):
    """A connection that prepares, for threads. See Partner."""

    check = in_threads(PreparingShare._check)
    begin = in_threads(PreparingShare._begin)
    prepare = in_threads(PreparingShare._prepare)
    commit = in_threads(PreparingShare._commit)
    commit_one_phase = in_threads(PreparingShare._commit_one_phase)
    rollback = in_threads(PreparingShare._rollback)
    forget = in_threads(PreparingShare._forget)


class PreparingInTasks(PreparingShare):
    """A connection that prepares, for tasks. See AsyncPartner."""

    check = in_tasks(PreparingShare._check)
    begin = in_tasks(PreparingShare._begin)
    prepare = in_tasks(PreparingShare._prepare)
    commit = in_tasks(PreparingShare._commit)
    commit_one_phase = in_tasks(PreparingShare._commit_one_phase)
    rollback = in_tasks(PreparingShare._rollback)
    forget = in_tasks(PreparingShare._forget)


class DecidingShare(DatabaseShare):
    """A connection that decides by a row. See LastAgent."""

    _known: ClassVar[MutableMapping[Any, KnownDatabase] | None] = WeakKeyDictionary()
    """Asked once for each connection and database; None: each time."""

    def is_new(self, manager: str) -> bool:
        """Return whether the rows of a queue manager were not looked for. See LastAgent."""
        return manager not in self.found.managers

    def set_looked(self, manager: str) -> None:
        """Remember that they were. See LastAgent."""
        self.found.managers.add(manager)

    def withdraw(self) -> None:
        """Do nothing: no call before ``begin`` leaves anything open. See LastAgent."""

    @abstractmethod
    def agent(self) -> DecidingRows | None:
        """Return the same database as recovery sees it. See LastAgent."""

    def _check(self) -> Calls[None]:
        """Check that the connection can begin, and that the database can decide."""
        connection = self.connection
        with self._meaning(voting=True):
            schema = yield from self.dialect.check_idle(connection)
            found = self._known.get(connection) if self._known is not None else None
            if found is None or found.schema != schema:
                found = yield from self.dialect.check_deciding(connection, schema)
                if self._known is not None:
                    self._known[connection] = found
        self._database = found

    def _count(
        self, manager: str, after: int, upto: int, but: Sequence[int], must: Sequence[int],
        note: int,
    ) -> Calls[int]:  # fmt: skip
        """Count committed rows of a queue manager. See LastAgent."""
        table = self.dialect.table_in(self.found.schema)
        query = _count_rows(table, manager, after, upto, but, must, note)
        with self._meaning(voting=False):
            found = yield from self.dialect.query_apart(self.connection, query)
        return _read_count(found, must, note)

    def _begin(self, xid: Xid) -> Calls[None]:
        """Begin the transaction. See LastAgent."""
        with self._meaning(voting=True):
            yield from self.dialect.begin_deciding(self.connection, xid)
        self._xid = xid

    def _record(self, row: Row) -> Calls[None]:
        """Commit with a row that says so. See LastAgent."""
        table = self.dialect.table_in(self.found.schema)
        yield from self._commit_with(insert_row(table, row, COMMITTED))

    def _commit_one_phase(self, xid: Xid) -> Calls[None]:
        """Commit without a row. See LastAgent."""
        yield from self._commit_with("")

    def _commit_with(self, insert: str) -> Calls[None]:
        assert self._xid is not None, "begin comes first"
        yield from self.dialect.commit_deciding(self.connection, self._xid, insert)

    def _rollback(self, xid: Xid) -> Calls[None]:
        """Undo the work. See LastAgent."""
        with self._meaning(voting=False):
            yield from self.dialect.roll_back_deciding(self.connection)


class DecidingInThreads(DecidingShare):
    """A connection that decides, for threads. See LastAgent."""

    check = in_threads(DecidingShare._check)
    count = in_threads(DecidingShare._count)
    begin = in_threads(DecidingShare._begin)
    record = in_threads(DecidingShare._record)
    commit_one_phase = in_threads(DecidingShare._commit_one_phase)
    rollback = in_threads(DecidingShare._rollback)


class DecidingInTasks(DecidingShare):
    """A connection that decides, for tasks. See LastAgent."""

    check = in_tasks(DecidingShare._check)
    count = in_tasks(DecidingShare._count)
    begin = in_tasks(DecidingShare._begin)
    record = in_tasks(DecidingShare._record)
    commit_one_phase = in_tasks(DecidingShare._commit_one_phase)
    rollback = in_tasks(DecidingShare._rollback)


# ---- connections of recovery ------------------------------------------------------------------


class RecoveryConnection:
    """A database over a connection of recovery's own, where each statement commits by itself."""

    dialect: ClassVar[Dialect]
    settings: Sequence[str] = ()
    """Statements that a new connection needs."""

    def __init__(self, connect: Callable[[], Any], *, name: str = "") -> None:
        """Connect later.

        Args:
            connect: Makes a connection.
            name: The name of the partner, where it has one of its own.
        """
        self._connect = connect
        self._name = name
        self._connection: Any = None

    def close(self) -> None:
        """Let go of the connection; never raises."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    @contextlib.contextmanager
    def _asking(self) -> Iterator[Any]:
        """A connection that works. After a loss it is a new one next time, so that nobody takes an
        answer of another server, or of an earlier state, for one of this."""
        try:
            if self._connection is None:
                self._connection = self._connect()
                with Meaning(self.dialect, self._connection, voting=False):
                    for text in self.settings:
                        drive(self.dialect.query(self._connection, text))
            with Meaning(self.dialect, self._connection, voting=False):
                yield self._connection
        except (errors.UnknownBranch, errors.RolledBackByHand, errors.EnlistRefused):
            raise
        except errors.OnceqError:
            self.close()
            raise
        except Exception as error:
            self.close()
            text = " ".join(str(error).split())
            raise errors.PartnerLost(f"{self.dialect.kind} cannot be reached: {text}") from error

    def _query(self, text: str) -> Rows:
        with self._asking() as connection:
            return drive(self.dialect.query(connection, text))


class PreparedBranches(RecoveryConnection):
    """What is prepared in a database, for recovery. See Resource.

    The user of the connection may end what the application prepares: it is the same one, or a
    superuser.
    """

    dialect: ClassVar[PreparingDialect]

    @property
    def name(self) -> str:
        """The name of the partners of the database."""
        if not self._name:
            with self._asking() as connection:
                self._name = drive(self.dialect.check_preparing(connection)).name
        return self._name

    def recover(self, prefix: bytes = b"") -> list[Xid]:
        """List what is prepared here and can be ended from here. See Resource."""
        with self._asking() as connection:
            listed = drive(self.dialect.list_prepared(connection))
        return [xid for xid in listed if xid.gtrid.startswith(prefix)]

    def commit(self, xid: Xid) -> None:
        """Commit what is prepared. See Resource."""
        self._end(xid, commit=True)

    def rollback(self, xid: Xid) -> None:
        """Roll back what is prepared. See Resource."""
        self._end(xid, commit=False)

    def _end(self, xid: Xid, *, commit: bool) -> None:
        try:
            self._query(self.dialect.end_found(xid, commit=commit))
        except errors.UnknownBranch:
            # MariaDB says the same of a branch whose own connection still lives.
            if xid not in self.recover(xid.gtrid):
                raise
            raise errors.PartnerLost(
                f"branch {xid} is still held by the connection that prepared it; it can be ended "
                f"when {self.dialect.kind} has noticed that this one is gone"
            ) from None

    def forget(self, xid: Xid) -> None:
        """Do nothing: no database here remembers what it has decided on its own."""


class DecidingRows(RecoveryConnection):
    """The rows in a database that decide, for recovery. See Agent.

    The user of the connection may write the table of decisions.
    """

    def __init__(self, connect: Callable[[], Any], schema: str = "", *, name: str = "") -> None:
        """Connect later.

        Args:
            connect, name: As of RecoveryConnection.
            schema: The database with the table, where a connection can go to another one.
        """
        super().__init__(connect, name=name)
        self._schema = schema
        self._table = self.dialect.table_in(schema)

    @property
    def name(self) -> str:
        """The name of the last agents of the database."""
        if not self._name:
            with self._asking() as connection:
                self._name = drive(self.dialect.ask_name(connection, self._schema))
        return self._name

    def settle(self, row: Row) -> bool:
        """Return whether the transaction is committed; if not it never will be. See Agent."""
        manager, number, id_ = _key_of(row)
        # Each is a transaction of its own: the second sees the row that was first.
        self._query(insert_row(self._table, row, ABORTED, self.dialect.keep_existing))
        ((outcome,),) = self._query(
            f"SELECT outcome FROM {self._table} WHERE manager = {manager} AND number = {number} "
            f"AND id = {id_}"
        )
        return bool(outcome == COMMITTED)

    def count(
        self, manager: str, after: int, upto: int, but: Sequence[int], must: Sequence[int],
        note: int,
    ) -> int:  # fmt: skip
        """Count committed rows of a queue manager. See Agent."""
        query = _count_rows(self._table, manager, after, upto, but, must, note)
        with self._asking() as connection:
            try:
                found = drive(self.dialect.query(connection, query))
            except self.dialect.errors(connection) as error:
                if self.dialect.code_of(error) not in self.dialect.no_table:
                    raise
                return -1 if must or note else 0
        return _read_count(found, must, note)

    def note(self, manager: str, number: int) -> None:
        """Write a note. See Agent."""
        row = Row(manager, number, "")
        self._query(insert_row(self._table, row, NOTED, self.dialect.keep_existing))

    def remove(self, manager: str, below: int, but: Sequence[int]) -> None:
        """Remove committed rows and notes with lower numbers, but some. See Agent."""
        self._query(
            f"DELETE FROM {self._table} WHERE manager = {_key_of(Row(manager, 0, ''))[0]} "
            f"AND number < {below} AND outcome IN ('{COMMITTED}', '{NOTED}') "
            f"AND number NOT IN {_among(but)}"
        )
