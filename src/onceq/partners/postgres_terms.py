"""What PostgreSQL and psycopg say, in the words of the contract: facts, errors, names of branches.

Upholds: I21: what an error does not say for certain is a loss.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

from onceq.errors import (
    InvalidParameter,
    OnceqError,
    PartnerEnded,
    PartnerLost,
    PartnerRefused,
    TwoPhaseForbidden,
    UnknownBranch,
)
from onceq.model.xid import Xid
from onceq.partners.contract import short_name

AnyConnection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

FACTS: Final = (
    "SELECT current_setting('max_prepared_transactions')::int, pg_is_in_recovery(), "
    "(SELECT system_identifier::text FROM pg_control_system()), current_database()"
)
ONLY_READ: Final = (
    b"SELECT pg_catalog.txid_current_if_assigned() IS NULL "
    b"AND current_setting('transaction_isolation') <> 'serializable' "
    b"AND NOT EXISTS (SELECT FROM pg_catalog.pg_locks WHERE pid = pg_catalog.pg_backend_pid() "
    b"AND locktype <> 'virtualxid' "
    b"AND mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock'))"
)
"""Whether the transaction can be ended before the decision, and nobody could tell the difference:
it has written nothing (also no temporary table); what it has read counts whether it commits or not,
which is not so if it is serializable; and it holds no lock that others may be waiting for on
purpose (advisory locks, LOCK TABLE), which would be free too early. What only its connection sees
(cursors WITH HOLD, exported snapshots, SET) is not asked for. NOTIFY cannot be."""
_GID: Final = re.compile(r"(\d{1,10})_([A-Za-z0-9+/=]+)_([A-Za-z0-9+/=]*)")
_UNDEFINED_OBJECT: Final = "42704"
_OUT_OF_SLOTS: Final = "53200"
_COMPLETION_UNKNOWN: Final = "40003"
_IDLE: Final = pq.TransactionStatus.IDLE
_INERROR: Final = pq.TransactionStatus.INERROR
_OFF: Final = pq.PipelineStatus.OFF


@dataclass(frozen=True, slots=True)
class Facts:
    """What a server says of itself.

    Attributes:
        name: ``postgresql:<system identifier>/<database>``: stable for the life of the cluster.
        address: Where the connection leads.
    """

    slots: int
    standby: bool
    system: str
    database: str
    address: str = ""
    name: str = field(init=False)

    def __post_init__(self) -> None:
        name = short_name("postgresql", f"{self.system}/{self.database}")
        object.__setattr__(self, "name", name)

    def check(self) -> None:
        """Whether a server like this can take part.

        Raises:
            TwoPhaseForbidden: It cannot; the text names the line to change.
        """
        if self.standby:
            raise TwoPhaseForbidden(
                f"the PostgreSQL server of database {self.database} is a standby: it only reads; "
                "connect to the primary (in the connection string: target_session_attrs=primary)"
            )
        if self.slots == 0:
            raise TwoPhaseForbidden(
                f"the PostgreSQL server of database {self.database} has "
                "max_prepared_transactions = 0, which forbids two-phase commit; write "
                "max_prepared_transactions = 100 (at least max_connections) into its "
                "postgresql.conf, or run ALTER SYSTEM SET max_prepared_transactions = 100, and "
                "restart it; or enlist PostgresLast(connection) in its place (AsyncPostgresLast in "
                "tasks), which needs no such setting"
            )


known: WeakKeyDictionary[object, Facts] = WeakKeyDictionary()
"""What was found out over each connection: it is asked once."""


def refuse_if_busy(connection: AnyConnection) -> None:
    """Say why a connection cannot begin a branch now (XTX-9).

    Raises:
        PartnerRefused, PartnerLost: What the text says.
    """
    pgconn = connection.pgconn
    status = pgconn.transaction_status
    if status == _IDLE and not connection.autocommit and pgconn.pipeline_status == _OFF:
        return
    if connection.closed:
        raise PartnerLost("the connection to PostgreSQL is closed")
    if connection.autocommit:
        raise PartnerRefused(
            "the PostgreSQL connection is in autocommit mode, where every statement is committed "
            "by itself; set connection.autocommit = False before enlisting it"
        )
    if pgconn.pipeline_status != _OFF:
        raise PartnerRefused(
            "the PostgreSQL connection is in pipeline mode; leave the block connection.pipeline() "
            "before enlisting it"
        )
    if status == pq.TransactionStatus.UNKNOWN:
        raise PartnerLost("the connection to PostgreSQL is broken")
    what = {
        int(pq.TransactionStatus.ACTIVE): "is in the middle of a statement; wait for its end",
        int(_INERROR): "is in a transaction that has failed; call connection.rollback() first",
    }.get(
        status,
        "is in a transaction already (psycopg begins one at the first statement, a SELECT too); "
        "commit it or roll it back first, or enlist the connection before its first statement",
    )
    raise PartnerRefused(f"the PostgreSQL connection {what}")


class Meaning:
    """Around a call of psycopg: what an error of it means. A class, because it stands around every
    call and nearly always does nothing."""

    __slots__ = ("_connection", "_voting")

    def __init__(self, connection: AnyConnection | None, *, voting: bool) -> None:
        """Say what is asked.

        Args:
            voting: The share is not prepared yet: an error that the server gives refuses it.
        """
        self._connection = connection
        self._voting = voting

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, psycopg.Error):
            raise self._meant(error) from error

    def _meant(self, error: psycopg.Error) -> OnceqError:
        connection, voting = self._connection, self._voting
        said = " ".join(str(error).split())
        if error.sqlstate == _UNDEFINED_OBJECT and not voting:
            return UnknownBranch(f"PostgreSQL knows no such branch: {said}")
        known = error.sqlstate not in (None, _COMPLETION_UNKNOWN)
        if voting and known and connection is not None and not connection.closed:
            if error.sqlstate == _OUT_OF_SLOTS and "prepared" in said:
                said += "; raise max_prepared_transactions in postgresql.conf"
            return PartnerRefused(f"PostgreSQL says: {said}")
        return PartnerLost(f"PostgreSQL gives no answer: {said}")


def _gid(xid: Xid) -> str:
    """The name of a branch, as psycopg writes it."""
    parts = (base64.b64encode(part).decode() for part in (xid.gtrid, xid.bqual))
    return "_".join((str(xid.format_id), *parts))


def xid_of(gid: str) -> Xid | None:
    """The branch of a name; None for names that others chose."""
    match = _GID.fullmatch(gid)
    if match is None:
        return None
    try:
        parts = [base64.b64decode(part, validate=True) for part in match.groups()[1:]]
        found = Xid(int(match[1]), *parts)
    except (binascii.Error, InvalidParameter):
        return None
    return found if _gid(found) == gid else None


def statement(verb: str, xid: Xid) -> bytes:
    gid = _gid(xid)
    assert _GID.fullmatch(gid), f"{gid!r} needs no quoting in a literal"
    return f"{verb} '{gid}'".encode()


def over_reason(
    connection: AnyConnection,
) -> PartnerRefused | None:
    """Return why there is nothing to commit any more; None: there is something."""
    status = connection.pgconn.transaction_status
    if connection.closed or status == pq.TransactionStatus.UNKNOWN:
        return PartnerEnded(
            "the enlisted PostgreSQL connection was closed before the commit, so the server has "
            "rolled its work back; keep it open until the transaction is over"
        )
    if status == _INERROR:
        return not_prepared("ROLLBACK")
    return ended() if status == _IDLE else None


def ended() -> PartnerEnded:
    """The error where a statement of the application has ended the share."""
    return PartnerEnded(
        "the transaction was ended by a statement (COMMIT or ROLLBACK) on the enlisted "
        "PostgreSQL connection; let the transaction that it is enlisted in do that"
    )


def mark(xid: Xid) -> bytes:
    """Return a statement that marks the open transaction with its branch.

    The server forgets the mark at the end of the transaction. A statement of the application that
    ends it and begins another one is noticed so. The server's own number of the transaction would
    do as well, but a SELECT fixes the isolation level, which the application may still want to set.
    """
    return f"SET LOCAL onceq.share = '{_gid(xid)}'".encode()


def guard(xid: Xid) -> bytes:
    """Return a statement that fails with ``GUARDED`` unless the marked transaction is open."""
    is_open = f"coalesce(current_setting('onceq.share', true) = '{_gid(xid)}', false)"
    return f"SELECT 1 / ({is_open})::int; ".encode()


GUARDED: Final = "22012"
"""SQLSTATE of a division by zero."""


def not_prepared(said: str | None) -> PartnerRefused:
    return PartnerRefused(
        "a statement of the transaction has failed, so PostgreSQL rolled it back instead of "
        f"preparing it (it answered {said!r})"
    )


def conninfo_of(connection: AnyConnection) -> str:
    """Return how recovery connects to the same database as the same user.

    It names the one host that has answered: of several in the connection string psycopg keeps no
    other. The next connection shows where the database has gone.
    """
    info = connection.info
    password = {"password": info.password} if info.password else {}
    return make_conninfo(info.dsn, **password)


def driver_xid(connection: AnyConnection, xid: Xid) -> psycopg.Xid:
    return connection.xid(xid.format_id, xid.gtrid.decode("ascii"), xid.bqual.decode("ascii"))
