"""One server of each kind for all tests here; what cannot be had is said, not passed over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.programs import NoServer
from tests.servers import MariaDB, Postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    try:
        server = Postgres()
    except NoServer as error:
        pytest.skip(f"not run against PostgreSQL: {error}")
    with server:
        server.start()
        server.sql("create table kept (key text primary key)")
        server.sql("create table checked (key text primary key deferrable initially deferred)")
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    try:
        server = MariaDB()
    except NoServer as error:
        pytest.skip(f"not run against MariaDB: {error}")
    with server:
        server.start()
        server.sql("create table kept (k varchar(100) primary key) engine=innodb")
        server.sql("create table locks (k int primary key, n int) engine=innodb")
        values = ", ".join(f"({k}, 0)" for k in range(1, 50))
        server.sql(f"insert into locks values {values}")
        yield server


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test no branch is left in any server; what is left does not disturb others."""
    yield
    left: list[str] = []
    if "postgres" in request.fixturenames:
        server = request.getfixturevalue("postgres")
        for gid, database in server.sql("select gid, database from pg_prepared_xacts"):
            left.append(f"PostgreSQL {gid}")
            server.sql(f"rollback prepared '{gid}'", database)
    if "mariadb" in request.fixturenames:
        server = request.getfixturevalue("mariadb")
        if server.sql("xa recover"):
            left += [f"MariaDB {xid}" for *_, xid in server.sql("xa recover format='SQL'")]
            server.restart()
            for *_, xid in server.sql("xa recover format='SQL'"):
                server.sql(f"xa rollback {xid}")
    assert not left, left
