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
from typing import Any, Final
from weakref import WeakKeyDictionary

from onceq.errors import (
    InvalidParameter,
    PartnerLost,
    PartnerRefused,
    TwoPhaseForbidden,
    UnknownBranch,
)
from onceq.model.branch import Vote
from onceq.model.xid import Xid
from onceq.partners.contract import short_name
from onceq.partners.mariadb_terms import (
    ROLLED_BACK,
    XAER_NOTA,
    Recovering,
    abandon,
    again,
    code_of,
    do,
    error_of,
    meaning,
    refuse_if_busy,
    rows,
)

VERSION_MIN: Final = (10, 5, 2)
"""The first MariaDB that keeps a prepared branch when its connection is lost."""


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

    @property
    def address(self) -> str:
        """See Partner: what the server calls itself."""
        return _known[self.connection]

    def check(self) -> None:
        """See Partner."""
        with meaning(self.connection, voting=True):
            # Asked once for each connection: what a server says of itself does not change while
            # that lives.
            if self.connection not in _known:
                _known[self.connection] = _identify(self.connection)
            ((busy,),) = rows(self.connection, "SELECT @@in_transaction")
        refuse_if_busy(busy)

    def begin(self, xid: Xid) -> None:
        """See Partner."""
        with meaning(self.connection, voting=True):
            do(self.connection, f"XA START {_literal(xid)}")

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
            with meaning(self.connection, voting=True):
                do(self.connection, f"XA END {_literal(xid)}")
                do(self.connection, command)
        except PartnerRefused:
            self._free(xid)
            raise

    def _free(self, xid: Xid) -> None:
        """Roll back what was refused; the server may have done so by itself."""
        with meaning(self.connection, voting=False), contextlib.suppress(UnknownBranch):
            error = error_of(self.connection)
            with contextlib.suppress(error):
                do(self.connection, f"XA END {_literal(xid)}")
            try:
                do(self.connection, f"XA ROLLBACK {_literal(xid)}")
            except error as other:
                if code_of(other) not in (XAER_NOTA, *ROLLED_BACK):
                    raise

    def commit(self, xid: Xid) -> None:
        """See Partner."""
        with meaning(self.connection, voting=False):
            do(self.connection, f"XA COMMIT {_literal(xid)}")

    def rollback(self, xid: Xid) -> None:
        """See Partner."""
        if not self._prepared:
            self._free(xid)
            return
        with meaning(self.connection, voting=False):
            do(self.connection, f"XA ROLLBACK {_literal(xid)}")

    def forget(self, xid: Xid) -> None:
        """See Partner: MariaDB remembers nothing of what it decided on its own."""

    def abandon(self) -> None:
        """See Partner."""
        abandon(self.connection)

    def resource(self) -> MariaResource | None:
        """See Partner. Version 1 of MariaDB's connector does not tell what another connection
        needs."""
        connect = again(self.connection)
        return None if connect is None else MariaResource(connect, name=self._name)


class MariaResource(Recovering):
    """One server, over a connection of recovery's own. See Resource."""

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
                do(connection, command)
        except UnknownBranch:
            if xid not in self.recover(xid.gtrid):
                raise
            raise PartnerLost(
                f"branch {xid} is still held by the connection that prepared it; it can be ended "
                "when MariaDB has noticed that this one is gone"
            ) from None

    def forget(self, xid: Xid) -> None:
        """See Resource: MariaDB remembers nothing of what it decided on its own."""


_known: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""Names that were found out over each connection: it is asked once."""


def _identify(connection: Any) -> str:
    """The name of a server that can be a partner.

    Raises:
        TwoPhaseForbidden: It cannot.
    """
    ((version, host, port),) = rows(connection, "SELECT VERSION(), @@hostname, @@port")
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if "mariadb" not in version.lower():
        raise TwoPhaseForbidden(f"the server is {version}; of its kind onceq knows MariaDB only")
    if numbers < VERSION_MIN:
        raise TwoPhaseForbidden(
            f"MariaDB {version} rolls prepared transactions back when their connection is lost; "
            f"use {'.'.join(map(str, VERSION_MIN))} or newer"
        )
    galera = rows(connection, "SHOW GLOBAL VARIABLES LIKE 'wsrep_on'")
    if galera and str(galera[0][1]).upper() == "ON":
        raise TwoPhaseForbidden(
            "the MariaDB server is part of a Galera cluster, which takes no XA transactions; set "
            "wsrep_on = OFF in its configuration, or use another server"
        )
    return short_name("mariadb", f"{host}:{port}")


def _listed(connection: Any, prefix: bytes) -> list[Xid]:
    found = []
    for format_id, global_bytes, branch_bytes, data in rows(connection, "XA RECOVER"):
        raw = data.encode("latin-1", "replace") if isinstance(data, str) else bytes(data)
        if len(raw) != global_bytes + branch_bytes or not raw.startswith(prefix):
            continue
        with contextlib.suppress(InvalidParameter):  # format identifiers beyond XA's are foreign
            found.append(Xid(int(format_id), raw[:global_bytes], raw[global_bytes:]))
    return sorted(xid for xid in found if xid.gtrid.startswith(prefix))


def _literal(xid: Xid) -> str:
    return f"X'{xid.gtrid.hex()}',X'{xid.bqual.hex()}',{xid.format_id}"
