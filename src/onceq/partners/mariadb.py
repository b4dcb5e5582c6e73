"""MariaDB as a partner, through PyMySQL or MariaDB's own connector: any connection of PEP 249.

The branch is worked on between ``XA START`` and ``XA END``, prepared by ``XA PREPARE``, and ended
by ``XA COMMIT`` or ``XA ROLLBACK``. Only tables of transactional engines (InnoDB) take part:
MariaDB takes changes of others at once, whatever becomes of the branch.

Traps that are avoided here:
    * Before 10.5.2 a server rolls a prepared branch back when its connection is lost, so a
      promise would be worth nothing. Such servers are refused.
    * A branch whose own connection still lives cannot be ended by another one, and the error is
      the same as for a branch that does not exist (XAER_NOTA). So the list is read again before
      a branch is called unknown.
    * ``XA COMMIT`` of a recovered branch fails in a connection that is not in autocommit mode
      (XAER_OUTSIDE). So recovery's connections are.
    * After a deadlock the branch can only be rolled back, and ``XA END`` already says so.
    * ``XA RECOVER`` gives both parts of an identifier as one heap of bytes with two lengths, of all
      branches of the server; a branch can be ended from any of its databases.

Upholds: I20 and I21 as far as the contract asks.
"""

from __future__ import annotations

import contextlib
import re
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from weakref import WeakKeyDictionary

from onceq.errors import (
    InvalidParameter,
    PartnerLost,
    PartnerRefused,
    RolledBackByHand,
    TwoPhaseForbidden,
    UnknownBranch,
)
from onceq.model.branch import Vote
from onceq.model.xid import Xid
from onceq.partners.contract import short_name
from onceq.partners.cutting import cut

VERSION_MIN: Final = (10, 5, 2)
"""The first MariaDB that keeps a prepared branch when its connection is lost."""
CONNECT_S: Final = 10
"""How long recovery waits for a connection (seconds)."""
ANSWER_S: Final = 60
"""How long it waits for an answer: a server that hangs must not keep it from the others."""

_XAER_NOTA: Final = 1397
_ROLLED_BACK: Final = (1402, 1613, 1614)
"""XA_RBROLLBACK, XA_RBTIMEOUT, XA_RBDEADLOCK."""
_GONE: Final = (1053, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 1927)
"""Codes of the server that mean that the connection is, or will be, at its end."""
_CLIENT_CODES: Final = range(2000, 3000)
"""Codes of the client library: what the server did is not known."""


class MariaPartner:
    """A connection in a branch. See Partner.

    Until the end of the transaction the server refuses ``commit`` and ``rollback`` on it.
    """

    def __init__(self, connection: Any, *, name: str = "") -> None:
        """Take a connection outside any transaction.

        Args:
            connection: Of pymysql or mariadb.
            name: Another name than the server has by itself; its resource needs the same.
        """
        self.connection = connection
        self._name = name
        self._prepared = False

    @property
    def name(self) -> str:
        """``mariadb:<host name>:<port>``, as the server says them. See Partner."""
        return self._name or _known[self.connection]

    def check(self) -> None:
        """See Partner."""
        with _meaning(self.connection, voting=True):
            # Asked once for each connection: what a server says of itself does not change while
            # that lives.
            if self.connection not in _known:
                _known[self.connection] = _identify(self.connection)
            ((busy,),) = _rows(self.connection, "SELECT @@in_transaction")
        if busy:
            raise PartnerRefused(
                "the MariaDB connection is in a transaction already (without autocommit the first "
                "statement begins one, a SELECT too); commit it or roll it back first, or enlist "
                "the connection before its first statement"
            )

    def begin(self, xid: Xid) -> None:
        """See Partner."""
        with _meaning(self.connection, voting=True):
            _do(self.connection, f"XA START {_literal(xid)}")

    def prepare(self, xid: Xid) -> Vote:
        """See Partner."""
        self._voting(xid, f"XA PREPARE {_literal(xid)}")
        self._prepared = True
        return Vote.PREPARED

    def commit_one_phase(self, xid: Xid) -> None:
        """See Partner."""
        self._voting(xid, f"XA COMMIT {_literal(xid)} ONE PHASE")

    def _voting(self, xid: Xid, command: str) -> None:
        try:
            with _meaning(self.connection, voting=True):
                _do(self.connection, f"XA END {_literal(xid)}")
                _do(self.connection, command)
        except PartnerRefused:
            self._free(xid)
            raise

    def _free(self, xid: Xid) -> None:
        """Roll back what was refused; the server may have done so by itself."""
        with _meaning(self.connection, voting=False), contextlib.suppress(UnknownBranch):
            error = _error(self.connection)
            with contextlib.suppress(error):
                _do(self.connection, f"XA END {_literal(xid)}")
            try:
                _do(self.connection, f"XA ROLLBACK {_literal(xid)}")
            except error as again:
                if _code(again) not in (_XAER_NOTA, *_ROLLED_BACK):
                    raise

    def commit(self, xid: Xid) -> None:
        """See Partner."""
        with _meaning(self.connection, voting=False):
            _do(self.connection, f"XA COMMIT {_literal(xid)}")

    def rollback(self, xid: Xid) -> None:
        """See Partner."""
        if not self._prepared:
            self._free(xid)
            return
        with _meaning(self.connection, voting=False):
            _do(self.connection, f"XA ROLLBACK {_literal(xid)}")

    def forget(self, xid: Xid) -> None:
        """See Partner: MariaDB remembers nothing of what it decided on its own."""

    def abandon(self) -> None:
        """See Partner."""
        descriptor = _descriptor(self.connection)
        if descriptor >= 0:
            cut(descriptor)
        else:
            with contextlib.suppress(Exception):
                self.connection.close()

    def resource(self) -> MariaResource | None:
        """See Partner. Version 1 of MariaDB's connector does not tell what another connection
        needs."""
        again = _again(self.connection)
        return None if again is None else MariaResource(again, name=self._name)


class MariaResource:
    """One server, over a connection of recovery's own. See Resource."""

    def __init__(self, connect: Callable[[], Any], *, name: str = "") -> None:
        """Nothing is connected yet.

        Args:
            connect: Makes a connection; it is put into autocommit mode.
            name: See MariaPartner.
        """
        self._connect = connect
        self._name = name
        self._connection: Any = None

    @property
    def name(self) -> str:
        """See Resource."""
        if not self._name:
            with self._asking() as connection:
                self._name = _identify(connection)
        return self._name

    def recover(self, prefix: bytes = b"") -> list[Xid]:
        """See Resource."""
        with self._asking() as connection:
            return _listed(connection, prefix)

    def commit(self, xid: Xid) -> None:
        """See Resource."""
        self._end(xid, f"XA COMMIT {_literal(xid)}")

    def rollback(self, xid: Xid) -> None:
        """See Resource."""
        self._end(xid, f"XA ROLLBACK {_literal(xid)}")

    def _end(self, xid: Xid, command: str) -> None:
        try:
            with self._asking() as connection:
                _do(connection, command)
        except UnknownBranch:
            if xid not in self.recover(xid.gtrid):
                raise
            raise PartnerLost(
                f"branch {xid} is still held by the connection that prepared it; it can be ended "
                "when MariaDB has noticed that this one is gone"
            ) from None

    def forget(self, xid: Xid) -> None:
        """See Resource: MariaDB remembers nothing of what it decided on its own."""

    def close(self) -> None:
        """See Resource."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    @contextlib.contextmanager
    def _asking(self) -> Iterator[Any]:
        """A connection that works; after a loss it is a new one next time."""
        try:
            if self._connection is None:
                self._connection = self._connect()
                with _meaning(self._connection, voting=False):
                    _do(self._connection, "SET autocommit = 1")
            with _meaning(self._connection, voting=False):
                yield self._connection
        except (UnknownBranch, RolledBackByHand, TwoPhaseForbidden):
            raise
        except PartnerLost:
            self.close()
            raise
        except Exception as error:
            self.close()
            raise PartnerLost(f"MariaDB cannot be reached: {error}") from error


def resource_at(where: str) -> MariaResource:
    """The server at ``mariadb://user:password@host:port/database``, through PyMySQL."""
    import pymysql

    url = urlsplit(where)
    given = {
        "host": url.hostname or "localhost",
        "port": url.port or 3306,
        "user": unquote(url.username or ""),
        "password": unquote(url.password or ""),
        "database": url.path.strip("/"),
        "connect_timeout": CONNECT_S,
        "read_timeout": ANSWER_S,
        "write_timeout": ANSWER_S,
    }
    return MariaResource(lambda: pymysql.connect(**{k: v for k, v in given.items() if v}))


# ---- what servers say --------------------------------------------------------------------------

_known: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""Names that were found out over each connection: it is asked once."""


def _identify(connection: Any) -> str:
    """The name of a server that can be a partner.

    Raises:
        TwoPhaseForbidden: It cannot.
    """
    ((version, host, port),) = _rows(connection, "SELECT VERSION(), @@hostname, @@port")
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if "mariadb" not in version.lower():
        raise TwoPhaseForbidden(f"the server is {version}; of its kind onceq knows MariaDB only")
    if numbers < VERSION_MIN:
        raise TwoPhaseForbidden(
            f"MariaDB {version} rolls prepared transactions back when their connection is lost; "
            f"use {'.'.join(map(str, VERSION_MIN))} or newer"
        )
    galera = _rows(connection, "SHOW GLOBAL VARIABLES LIKE 'wsrep_on'")
    if galera and str(galera[0][1]).upper() == "ON":
        raise TwoPhaseForbidden(
            "the MariaDB server is part of a Galera cluster, which takes no XA transactions; set "
            "wsrep_on = OFF in its configuration, or use another server"
        )
    return short_name("mariadb", f"{host}:{port}")


def _listed(connection: Any, prefix: bytes) -> list[Xid]:
    found = []
    for format_id, global_bytes, branch_bytes, data in _rows(connection, "XA RECOVER"):
        raw = data.encode("latin-1", "replace") if isinstance(data, str) else bytes(data)
        if len(raw) != global_bytes + branch_bytes or not raw.startswith(prefix):
            continue
        with contextlib.suppress(InvalidParameter):  # format identifiers beyond XA's are foreign
            found.append(Xid(int(format_id), raw[:global_bytes], raw[global_bytes:]))
    return sorted(xid for xid in found if xid.gtrid.startswith(prefix))


def _literal(xid: Xid) -> str:
    return f"X'{xid.gtrid.hex()}',X'{xid.bqual.hex()}',{xid.format_id}"


# ---- what drivers say --------------------------------------------------------------------------


def _driver(connection: Any) -> str:
    """The package that a connection is of, also if its class is derived from it."""
    for kind in type(connection).__mro__:
        root = kind.__module__.partition(".")[0]
        if root in ("pymysql", "mariadb"):
            return root
    raise InvalidParameter(f"{type(connection)} is no connection of pymysql or mariadb")


def _error(connection: Any) -> type[Exception]:
    found: type[Exception] = sys.modules[_driver(connection)].Error
    return found


def _code(error: Exception) -> int:
    """The number of an error; 0 if it has none."""
    number = getattr(error, "errno", None)
    if number is None and error.args:
        number = error.args[0]
    return number if isinstance(number, int) else 0


@contextlib.contextmanager
def _meaning(connection: Any, *, voting: bool) -> Iterator[None]:
    """What an error of a driver means.

    Args:
        voting: The share is not prepared yet: an error that the server gives refuses it.
    """
    try:
        yield
    except _error(connection) as error:
        code = _code(error)
        said = " ".join(str(arg) for arg in error.args)
        if code == _XAER_NOTA and not voting:
            raise UnknownBranch(f"MariaDB knows no such branch: {said}") from error
        if code in _ROLLED_BACK and not voting:
            raise RolledBackByHand(f"MariaDB has rolled the branch back: {said}") from error
        if voting and code >= 1000 and code not in _GONE and code not in _CLIENT_CODES:
            raise PartnerRefused(f"MariaDB says: {said}") from error
        raise PartnerLost(f"MariaDB gives no answer: {said}") from error


def _do(connection: Any, command: str) -> None:
    cursor = connection.cursor()
    try:
        cursor.execute(command)
    finally:
        cursor.close()


def _rows(connection: Any, query: str) -> list[tuple[Any, ...]]:
    """All rows, also if the connection's cursors give dictionaries by default."""
    cursor = connection.cursor()
    try:
        cursor.execute(query)
        found = list(cursor.fetchall())
    finally:
        cursor.close()
    return [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in found]


def _descriptor(connection: Any) -> int:
    """Of the connection's socket; -1 if the driver does not tell."""
    with contextlib.suppress(Exception):
        # PyMySQL has no other name for it, nor has MariaDB's connector 2.
        holder = getattr(connection, "_client", connection)
        shared = getattr(holder, "_sock", None) or getattr(holder, "socket", None)
        return int(shared.fileno() if shared is not None else connection.get_socket())
    return -1


def _again(connection: Any) -> Callable[[], Any] | None:
    """Makes another connection like one, without keeping that one alive; None: nobody tells how."""
    if _driver(connection) == "mariadb":
        import mariadb

        told = getattr(connection, "_connection_params", None)
        if not isinstance(told, Mapping):
            return None
        same = dict(told)
        return lambda: mariadb.connect(**same)
    import pymysql

    given = {
        "host": connection.host,
        "port": connection.port,
        "user": connection.user,
        "password": connection.password,
        "unix_socket": connection.unix_socket,
        "ssl": connection.ctx if isinstance(connection._sock, ssl.SSLSocket) else None,
        "connect_timeout": CONNECT_S,
        "read_timeout": ANSWER_S,
        "write_timeout": ANSWER_S,
        "autocommit": True,
    }
    return lambda: pymysql.connect(**{key: value for key, value in given.items() if value})
