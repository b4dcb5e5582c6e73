"""The servers of tests let nothing wait for ever: one hanging test would stop all that follow."""

from __future__ import annotations

import psycopg
import pymysql
import pytest

from tests.servers import ANSWER_S, LOCK_S, MariaDB, Postgres

pytestmark = [pytest.mark.slow]


def test_postgresql_gives_up(postgres: Postgres) -> None:
    names = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
    query = f"SELECT name, setting::int FROM pg_settings WHERE name IN {names}"
    found = dict(postgres.sql(query))
    assert found == {
        "lock_timeout": LOCK_S * 1000,
        "statement_timeout": ANSWER_S * 1000,
        "idle_in_transaction_session_timeout": 2 * ANSWER_S * 1000,
    }
    with psycopg.connect(postgres.conninfo()) as connection:
        given = connection.info.get_parameters()
    assert {"connect_timeout", "tcp_user_timeout"} <= set(given)


def test_mariadb_gives_up(mariadb: MariaDB) -> None:
    query = "SELECT @@lock_wait_timeout, @@innodb_lock_wait_timeout"
    assert mariadb.sql(query) == [(LOCK_S, LOCK_S // 2)]
    with pymysql.connect(**mariadb.arguments()) as connection:
        assert connection._read_timeout == connection._write_timeout == ANSWER_S
