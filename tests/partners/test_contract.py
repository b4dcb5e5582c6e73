"""The contract of partners, held by each of ours against real servers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceq.testing.partners import CHECKS, Bench, Unsupported
from tests.partners.benches import bench
from tests.servers import MariaDB, Postgres

Check = Callable[[Bench], None]


def checked(check: Check, kind: str, server: Postgres | MariaDB) -> None:
    with bench(kind, server) as found:
        try:
            check(found)
        except Unsupported as error:
            pytest.skip(f"{check.__name__} is not tried here: {error}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("psycopg", marks=pytest.mark.tier("quick")),
        "psycopg deferred",
        "psycopg async",
        "sqlalchemy connection",
        "sqlalchemy session",
    ],
)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_postgresql(check: Check, kind: str, postgres: Postgres) -> None:
    checked(check, kind, postgres)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pymysql", "sqlalchemy connection", "sqlalchemy session"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_mariadb(check: Check, kind: str, mariadb: MariaDB) -> None:
    checked(check, kind, mariadb)
