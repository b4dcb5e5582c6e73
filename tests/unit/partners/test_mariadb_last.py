"""MariaDB as the last agent, without a server: what errors of a commit mean, and settings."""

from __future__ import annotations

import contextlib
from typing import Any

import pymysql
import pytest

from onceq.errors import EnlistRefused, PartnerLost, PartnerRefused
from onceq.model.branches import xid_by_row
from onceq.partners.contract import Row
from onceq.partners.mariadb import MariadbAgent, MariadbLast

XID = xid_by_row(b"G" * 16, 1, "x")
ROW = Row("0" * 32, 5, "1")
TOLD = {
    "version": "10.11.6-MariaDB", "read_only": "OFF", "log_bin": "OFF", "sync_binlog": "0",
    "innodb_flush_log_at_trx_commit": "1", "wsrep_on": "OFF",
}  # fmt: skip


class Scripted(pymysql.connections.Connection):  # type: ignore[misc]
    """A connection to a server whose next commit fails."""

    def __init__(
        self, code: int = 0, *, left: bool = False, settings: dict[str, str] = TOLD
    ) -> None:
        """``code``: its error; ``left``: whether the transaction is still open after that."""
        self.settings = settings
        self.code = code
        self.left = left
        self.said: list[str] = []

    @property
    def open(self) -> bool:
        return True

    def cursor(self, cursor: Any = None) -> Any:
        return Cursor(self)

    def close(self) -> None:
        """There is no socket."""

    __del__ = close


class Cursor:
    def __init__(self, connection: Scripted) -> None:
        self.connection = connection
        self.found: list[Any] = []
        self.description: object = "as of PEP 249"

    def execute(self, command: str) -> None:
        connection = self.connection
        connection.said.append(command)
        if command.startswith("SELECT @@in"):
            self.found = [{"busy": 0, "base": "shop"}]
        elif command.startswith("SELECT engine"):
            self.found = [("InnoDB",)]
        elif command.startswith("SELECT @@hostname"):
            self.found = [("h", 3306)]
        elif command.startswith("SHOW"):
            self.found = list(connection.settings.items())
        elif "COMMIT" in command and connection.code:
            raise pymysql.err.OperationalError(connection.code, "said no")
        elif command.startswith("ROLLBACK TO") and not connection.left:
            raise pymysql.err.OperationalError(1305, "SAVEPOINT does not exist")

    def fetchall(self) -> list[Any]:
        return self.found

    def close(self) -> None:
        """It holds nothing."""


def recorded(connection: Scripted) -> None:
    last = MariadbLast(connection)
    last.check()
    last.begin(XID)
    assert last.name == "mariadb:h:3306/shop"
    last.record(ROW)


def test_one_statement_looks_whether_it_is_the_same_transaction_and_commits() -> None:
    connection = Scripted()
    recorded(connection)
    recorded(connection)
    assert sum(command.startswith("SHOW") for command in connection.said) == 1
    assert connection.said[-1] == (
        "BEGIN NOT ATOMIC RELEASE SAVEPOINT onceq_enlisted; SAVEPOINT onceq_enlisted; INSERT INTO "
        f"`shop`.onceq_decisions VALUES ('{ROW.manager}', 5, '1', 'committed'); "
        "COMMIT AND NO CHAIN NO RELEASE; END"
    )


def test_what_leaves_the_transaction_open_has_not_committed_it() -> None:
    for code in (1062, 1205, 1317):
        connection = Scripted(code, left=True)
        with pytest.raises(PartnerRefused, match="said no"):
            recorded(connection)
        assert connection.said[-1].startswith("ROLLBACK AND NO CHAIN")


def test_an_error_after_which_nothing_is_open_may_come_from_a_commit_that_was_done() -> None:
    for code in (1180, 1317, 1105):
        with pytest.raises(PartnerLost, match="is not known"):
            recorded(Scripted(code))


def test_errors_that_no_commit_has() -> None:
    for code, said in ((1205, "said no"), (1213, "said no"), (1305, "ended by a statement")):
        with pytest.raises(PartnerRefused, match=said):
            recorded(Scripted(code))


def test_a_lost_connection_is_no_answer() -> None:
    for code in (2013, 1927, 0):
        connection = Scripted(code)
        connection.code = connection.code or 2006
        with pytest.raises(PartnerLost):
            recorded(connection)


def test_an_agent_waits_for_locks_as_long_as_it_is_told() -> None:
    connection = Scripted()
    agent = MariadbAgent(lambda: connection, "sh`op", lock_s=0)
    assert agent.name == "mariadb:h:3306/sh`op"
    agent.note("0" * 32, 5)
    assert connection.said[0] == "SET autocommit = 1"
    assert connection.said[1].startswith("SET innodb_lock_wait_timeout = 0, lock_wait_timeout = 2")
    assert "`sh``op`.onceq_decisions" in connection.said[-1]
    agent.close()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"version": "8.0.36"}, "MariaDB only"),
        ({"wsrep_on": "ON"}, "Galera"),
        ({"read_only": "ON"}, "only reads"),
        ({"innodb_flush_log_at_trx_commit": "0"}, "does not sync"),
        ({"log_bin": "ON", "sync_binlog": "1"}, ""),
        ({"log_bin": "ON", "innodb_flush_log_at_trx_commit": "3"}, ""),
    ],
)
def test_settings(changed: dict[str, str], said: str) -> None:
    _look_at({**TOLD, **changed}, said)


def test_a_binary_log_that_is_not_synced_cannot_decide() -> None:
    _look_at({**TOLD, "log_bin": "ON"}, "sync_binlog is 0")


def _look_at(settings: dict[str, str], said: str) -> None:
    with pytest.raises(EnlistRefused, match=said) if said else contextlib.nullcontext():
        MariadbLast(Scripted(settings=settings)).check()
