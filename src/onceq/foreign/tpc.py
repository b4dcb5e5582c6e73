r"""PEP 249's two-phase calls on a queue manager (XTX-9).

It also has the effect once without two phases: the place in the stream is kept in the application's
own tables (``once``).

    connection = onceq.foreign.tpc.Connection(qm)
    connection.tpc_begin(connection.xid(7, "transfer 17", "queues"))
    connection.work.send(r"private$\orders", "17")
    connection.tpc_prepare()
    connection.tpc_commit()

Outside a transaction of that kind ``commit`` and ``rollback`` do nothing: each send and receive is
then for good by itself.
"""

from __future__ import annotations

from typing import Any

from onceq.client.threads.manager import QueueManager
from onceq.client.threads.transaction import Branch
from onceq.errors import BranchState, InvalidParameter
from onceq.model.branches import Vote, Xid
from onceq.model.message import Message

# ---- tpc -----------------------------------------------------------------------------------------


class Connection:
    """A queue manager for coordinators that speak PEP 249. For one thread at a time."""

    def __init__(self, manager: QueueManager) -> None:
        """Take a queue manager, which stays its owner's."""
        self.manager = manager
        self._branch: Branch | None = None
        self._vote: Vote | None = None

    @property
    def work(self) -> Branch:
        """Where to send and receive between ``tpc_begin`` and the end; raises BranchState."""
        if self._branch is None:
            raise BranchState("tpc_begin comes first")
        return self._branch

    def xid(self, format_id: int, global_transaction_id: str, branch_qualifier: str) -> Xid:
        """An identifier; texts are taken as UTF-8, 64 bytes at most."""
        return Xid(format_id, global_transaction_id.encode(), branch_qualifier.encode())

    def tpc_begin(self, xid: Xid) -> None:
        """Begin a branch; raises BranchState inside one, DuplicateBranch if it exists."""
        if self._branch is not None:
            raise BranchState("tpc_begin inside a two-phase transaction")
        self._branch = self.manager.branch(xid)
        self._vote = None

    def tpc_prepare(self) -> None:
        """Promise both outcomes.

        Raises:
            RolledBack: It cannot, and was rolled back.
            BranchState: There is no branch, or it was prepared.
        """
        self._vote = self.work.prepare()

    def tpc_commit(self, xid: Xid | None = None) -> None:
        """Commit what was prepared, or in one phase what was not; with ``xid`` one of
        ``tpc_recover``."""
        if xid is not None:
            self._outside("tpc_commit")
            self.manager.xa.commit(xid)
            return
        branch, vote = self.work, self._vote
        if vote is not Vote.READ_ONLY:
            branch.commit()
        self._branch = None

    def tpc_rollback(self, xid: Xid | None = None) -> None:
        """Undo the branch, prepared or not; with ``xid`` one of ``tpc_recover``."""
        if xid is not None:
            self._outside("tpc_rollback")
            self.manager.xa.rollback(xid)
            return
        branch, vote, self._branch = self.work, self._vote, None
        if vote is not Vote.READ_ONLY:
            branch.abort()

    def tpc_recover(self) -> list[Xid]:
        """Branches that are prepared, for ``tpc_commit(xid)`` and ``tpc_rollback(xid)``."""
        return self.manager.xa.recover()

    def commit(self) -> None:
        """Nothing, outside a two-phase transaction; raises BranchState inside one."""
        self._outside("commit")

    def rollback(self) -> None:
        """Nothing, outside a two-phase transaction; raises BranchState inside one."""
        self._outside("rollback")

    def _outside(self, call: str) -> None:
        if self._branch is not None:
            raise BranchState(f"{call} inside a two-phase transaction: use tpc_commit")

    def close(self) -> None:
        """Roll back what was not prepared; the queue manager stays open."""
        if self._branch is not None and self._vote is None:
            self.tpc_rollback()
        self._branch = None


# ---- once ----------------------------------------------------------------------------------------
#
# Effect once without two-phase commit: the place in the stream is kept in one's own tables.


TABLE = "onceq_done"
CREATE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (consumer VARCHAR(100) NOT NULL, "
    "source CHAR(32) NOT NULL, stream VARCHAR(20) NOT NULL, number VARCHAR(20) NOT NULL, "
    "PRIMARY KEY (consumer, source))"
)
"""The small table; numbers are text, because a stream has 64 bits without a sign."""
_MARKS = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric": ":1"}


class Done:
    """What one consumer has worked in, in its own database (PEP 249)."""

    def __init__(self, connection: Any, consumer: str, *, paramstyle: str = "qmark") -> None:
        """Make the table if it is not there; the caller commits that.

        Args:
            connection: Of any driver of PEP 249, not in autocommit mode.
            consumer: Name of the one who works; each has places of its own.
            paramstyle: Of the driver: qmark (sqlite3), format or pyformat (psycopg, PyMySQL).

        Raises:
            InvalidParameter: Another style, or a name of more than 100 characters.
        """
        if paramstyle not in ("qmark", "format", "pyformat"):
            raise InvalidParameter(f"paramstyle is qmark, format or pyformat, not {paramstyle!r}")
        if not 0 < len(consumer) <= 100:
            raise InvalidParameter("a consumer's name has 1 to 100 characters")
        self._connection = connection
        self._consumer = consumer
        self._mark = _MARKS[paramstyle]
        self._do(CREATE)

    def _do(self, text: str, *values: object) -> Any:
        cursor = self._connection.cursor()
        cursor.execute(text.replace("?", self._mark), values)
        return cursor

    def first(self, message: Message) -> bool:
        """Whether it comes for the first time; if so it is noted, with the caller's transaction.

        Raises:
            InvalidParameter: It was not sent in a transaction: such messages have no order.
        """
        if not message.transactional:
            raise InvalidParameter("only transactional messages come in order (EOD-1)")
        source = message.id.source.hex()
        place = (message.stream, message.number) if message.stream else (0, message.lookup_id)
        cursor = self._do(
            f"SELECT stream, number FROM {TABLE} WHERE consumer = ? AND source = ?",
            self._consumer, source,
        )  # fmt: skip
        row = cursor.fetchone()
        if row is not None and place <= (int(row[0]), int(row[1])):
            return False
        stream, number = map(str, place)
        if row is None:
            self._do(
                f"INSERT INTO {TABLE} (consumer, source, stream, number) VALUES (?, ?, ?, ?)",
                self._consumer, source, stream, number,
            )  # fmt: skip
        else:
            self._do(
                f"UPDATE {TABLE} SET stream = ?, number = ? WHERE consumer = ? AND source = ?",
                stream, number, self._consumer, source,
            )  # fmt: skip
        return True
