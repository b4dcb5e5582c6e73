"""MariaDB through its own connector: the same contract, and recovery by a connection like it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mariadb as connector
import pymysql
import pytest

import onceq
from onceq.partners.contract import Resource
from onceq.partners.finding import partner_for
from onceq.partners.mariadb import MariaResource
from onceq.partners.shares import cut
from onceq.testing.partners import CHECKS, Bench
from tests.partners.benches import MariaBench, deadlock
from tests.scratch import scratch
from tests.servers import MariaDB

pytestmark = pytest.mark.slow
Q = r"private$\q"


class ConnectorBench(MariaBench):
    def connect(self) -> Any:
        return connector.connect(**self.server.arguments())

    def lose(self, connection: Any) -> None:
        cut(connection._client.socket.fileno())

    def resource(self) -> Resource:
        return MariaResource(self.connect)

    def write(self, connection: Any, key: str) -> None:
        cursor = connection.cursor()
        cursor.execute("insert into kept values (?)", [key])
        cursor.close()

    def spoil(self, connection: Any) -> None:
        cursor = connection.cursor()
        with contextlib.suppress(connector.Error):
            deadlock(pymysql.connect(**self.server.arguments()), cursor.execute)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract(check: Callable[[Bench], None], mariadb: MariaDB) -> None:
    check(ConnectorBench(mariadb))


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with scratch(tmp_path_factory, "connector") as made:
        yield made


def test_enlisted_and_looked_after(folder: Path, mariadb: MariaDB) -> None:
    with onceq.open(str(folder / "e"), name="E", create=True) as qm:
        qm.create_queue(Q, transactional=True)
        base = connector.connect(**mariadb.arguments())
        with qm.transaction() as tx:
            tx.enlist(base)
            cursor = base.cursor()
            cursor.execute("insert into kept values ('connector')")
            tx.send(Q, "connector")
        assert qm.receive(Q, timeout=0).text == "connector"
        partner: Any = partner_for(base)
        partner.check()
        resource = partner.resource()
        base.close()
        assert resource.name == partner.name
        assert resource.recover() == []
        resource.close()
    assert mariadb.sql("select k from kept where k = 'connector'") == [("connector",)]
