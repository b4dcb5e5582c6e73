"""What people trip over, each with its own server or its own mistake: told before, in words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pymysql
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import QueuePool

import onceq
from onceq import aio
from onceq.errors import EnlistRefused, PartnerLost, PartnerRefused, RolledBack, TwoPhaseForbidden
from onceq.model.branches import ONCEQ_FORMAT, Xid, make_gtrid
from onceq.partners.finding import partner_for
from onceq.partners.mariadb import MariadbDialect, MariaPartner, MariaResource
from onceq.partners.postgresql import PostgresPartner, PostgresResource
from onceq.partners.procedures import Calls, drive
from onceq.partners.shares import Rows
from tests.servers import MariaDB, Postgres, started

pytestmark = pytest.mark.slow
Q = r"private$\q"


class Base(DeclarativeBase):
    pass


class Kept(Base):
    __tablename__ = "kept"
    key: Mapped[str] = mapped_column(primary_key=True)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[onceq.QueueManager]:
    """The queue manager that decides; what it sends is beside the point here."""
    with onceq.open(str(tmp_path / "home"), create=True) as made:
        made.create_queue(Q, transactional=True)
        yield made


Begun = Callable[[], onceq.Transaction]


@pytest.fixture
def begun(home: onceq.QueueManager) -> Begun:
    """Begins a transaction in which the manager has work too: nothing is done in one phase."""

    def begin() -> onceq.Transaction:
        tx = home.transaction()
        tx.send(Q, "x")
        return tx

    return begin


# ---- PostgreSQL --------------------------------------------------------------------------------


def test_a_server_without_slots_is_found_out_before_any_work(
    postgres: Postgres, begun: Begun
) -> None:
    with started(lambda: Postgres(prepared=0)) as server:
        assert isinstance(server, Postgres)
        with psycopg.connect(server.conninfo()) as connection:
            tx = begun()
            with pytest.raises(TwoPhaseForbidden, match="max_prepared_transactions = 100"):
                tx.enlist(connection)
            connection.execute("select 1")  # it is as free as before
        resource = PostgresResource(server.conninfo())
        with pytest.raises(TwoPhaseForbidden, match=r"postgresql\.conf"):
            _ = resource.name
        resource.close()


def test_autocommit_and_open_transactions_are_explained(postgres: Postgres, begun: Begun) -> None:
    tx = begun()
    eager = psycopg.connect(postgres.conninfo(), autocommit=True)
    with eager, pytest.raises(PartnerRefused, match="autocommit = False before"):
        tx.enlist(eager)
    with psycopg.connect(postgres.conninfo()) as connection:
        connection.execute("select 1")
        with pytest.raises(PartnerRefused, match="a SELECT too"):
            tx.enlist(connection)
        with pytest.raises(psycopg.Error):
            connection.execute("select nothing")
        with pytest.raises(PartnerRefused, match="has failed"):
            tx.enlist(connection)
        connection.rollback()
        with connection.pipeline(), pytest.raises(PartnerRefused, match="pipeline"):
            tx.enlist(connection)
        tx.enlist(connection)
        with pytest.raises(psycopg.ProgrammingError):
            connection.commit()
        tx.abort()
    with pytest.raises(PartnerLost, match="closed"):
        begun().enlist(connection)


def test_a_transaction_ended_by_a_statement_is_noticed(postgres: Postgres, begun: Begun) -> None:
    with psycopg.connect(postgres.conninfo()) as one, psycopg.connect(postgres.conninfo()) as two:
        tx = begun()
        tx.enlist(one)
        tx.enlist(two)
        two.execute("rollback")
        with pytest.raises(RolledBack, match="ended by a statement"):
            tx.commit()


@pytest.mark.parametrize("statement", ["rollback; begin", "commit and chain"])
@pytest.mark.parametrize("alone", [True, False])
def test_a_statement_that_begins_another_transaction_is_noticed(
    postgres: Postgres, begun: Begun, statement: str, alone: bool
) -> None:
    """Finding K15: also where it is the only partner, and the commit has one phase."""
    with psycopg.connect(postgres.conninfo()) as one, psycopg.connect(postgres.conninfo()) as two:
        tx = begun()
        if not alone:
            tx.enlist(one)
        tx.enlist(two)
        two.execute(statement)
        two.execute("insert into kept values ('began again')")
        with pytest.raises(RolledBack, match="ended by a statement"):
            tx.commit()
    assert not postgres.sql("select key from kept where key = 'began again'")


def test_all_slots_taken_is_a_refusal_that_names_the_line(postgres: Postgres, begun: Begun) -> None:
    with started(lambda: Postgres(prepared=1)) as server:
        assert isinstance(server, Postgres)
        server.sql("create table kept (key text)")
        with psycopg.connect(server.conninfo()) as one, psycopg.connect(server.conninfo()) as two:
            tx = begun()
            for connection in (one, two):
                tx.enlist(connection)
                connection.execute("insert into kept values ('x')")
            with pytest.raises(RolledBack, match="raise max_prepared_transactions"):
                tx.commit()
        assert server.sql("select * from kept") == []
        assert server.sql("select gid from pg_prepared_xacts") == []


def test_a_notification_waits_for_the_decision(postgres: Postgres, begun: Begun) -> None:
    """Nothing written is not nothing done."""
    with (
        psycopg.connect(postgres.conninfo(), autocommit=True) as listener,
        psycopg.connect(postgres.conninfo()) as one,
        psycopg.connect(postgres.conninfo()) as two,
    ):
        listener.execute("listen news")
        tx = begun()
        tx.enlist(one)
        one.execute("select 1")
        tx.enlist(two)
        two.execute("notify news")
        with pytest.raises(RolledBack, match="NOTIFY"):
            tx.commit()
        assert list(listener.notifies(timeout=0)) == []


def test_branches_of_another_database_of_the_server_are_not_listed(postgres: Postgres) -> None:
    postgres.sql("create database other")
    with psycopg.connect(postgres.conninfo("other")) as connection:
        partner = PostgresPartner(connection)
        partner.check()
        xid = Xid(ONCEQ_FORMAT, make_gtrid(b"T" * 16, 7), b"x")
        partner.begin(xid)
        connection.execute("create table t (n int)")
        partner.prepare(xid)
        here, there = (PostgresResource(postgres.conninfo(n)) for n in ("postgres", "other"))
        assert here.recover(b"onceq-") == []
        assert there.recover(b"onceq-") == [xid]
        assert here.name != there.name
        there.rollback(xid)
        here.close()
        there.close()
    postgres.sql("drop database other with (force)")


def test_names_that_others_chose_are_left_alone(postgres: Postgres) -> None:
    gids = ["plain", "1_bm8=_", "99999999999_bm8=_", "1869505393_!!_x", "1__", "1_bm9_bm8="]
    with psycopg.connect(postgres.conninfo()) as connection:
        for gid in gids:
            connection.execute("insert into kept values (%s)", [gid])
            connection.execute(f"prepare transaction '{gid}'".encode())
    resource = PostgresResource(postgres.conninfo())
    assert resource.recover(b"onceq") == []
    assert [xid.gtrid for xid in resource.recover(b"")] == [b"no"]
    resource.close()
    for gid in gids:
        postgres.sql(f"rollback prepared '{gid}'")


def test_a_user_without_rights_to_much_can_be_a_partner(postgres: Postgres, begun: Begun) -> None:
    postgres.sql("create role plain login")
    postgres.sql("grant insert, select on kept to plain")
    with psycopg.connect(postgres.conninfo(user="plain")) as connection:
        tx = begun()
        tx.enlist(connection)
        connection.execute("insert into kept values ('by plain')")
        tx.commit()
    assert postgres.sql("select key from kept where key = 'by plain'") == [("by plain",)]


def test_connections_with_rows_of_their_own_kind(postgres: Postgres, begun: Begun) -> None:
    with psycopg.connect(postgres.conninfo(), row_factory=dict_row) as connection:
        tx = begun()
        tx.enlist(connection)
        assert connection.execute("select 1 as n").fetchone() == {"n": 1}
        tx.commit()


# ---- MariaDB -----------------------------------------------------------------------------------


def test_an_open_transaction_of_mariadb_is_explained(mariadb: MariaDB, begun: Begun) -> None:
    connection = pymysql.connect(**mariadb.arguments())
    with connection, connection.cursor() as cursor:
        cursor.execute("select * from kept")
        with pytest.raises(PartnerRefused, match="a SELECT too"):
            begun().enlist(connection)


def test_mariadb_in_autocommit_mode_takes_part(mariadb: MariaDB, begun: Begun) -> None:
    connection = pymysql.connect(**mariadb.arguments(), autocommit=True)
    with connection:
        tx = begun()
        tx.enlist(connection)
        with connection.cursor() as cursor:
            cursor.execute("insert into kept values ('undone')")
        with pytest.raises(pymysql.err.OperationalError):
            connection.commit()
        tx.abort()
    assert mariadb.sql("select * from kept where k = 'undone'") == []


@pytest.mark.parametrize(
    ("row", "galera", "said"),
    [
        (("10.4.34-MariaDB", "h", 1), "OFF", "10.5.2 or newer"),
        (("8.0.36", "h", 1), "OFF", "MariaDB only"),
        (("10.11.6-MariaDB", "h", 1), "ON", "Galera"),
    ],
)
def test_servers_whose_promise_is_worth_nothing(
    row: tuple[object, ...], galera: str, said: str
) -> None:
    class Scripted(MariadbDialect):
        def query(self, connection: object, text: str) -> Calls[Rows]:
            yield from ()
            return [row] if text.startswith("SELECT") else [("wsrep_on", galera)]

    with pytest.raises(TwoPhaseForbidden, match=said):
        drive(Scripted().check_preparing(object()))


def test_dictionary_cursors(mariadb: MariaDB, begun: Begun) -> None:
    connection = pymysql.connect(
        **mariadb.arguments(), cursorclass=pymysql.cursors.DictCursor
    )  # fmt: skip
    with connection:
        tx = begun()
        tx.enlist(connection)
        tx.commit()
    resource = MariaResource(
        lambda: pymysql.connect(**mariadb.arguments(), cursorclass=pymysql.cursors.DictCursor)
    )
    assert resource.recover(b"") == []
    resource.close()


def test_a_name_of_ones_own(mariadb: MariaDB, postgres: Postgres) -> None:
    """For servers whose host name changes: containers."""
    partner = MariaPartner(pymysql.connect(**mariadb.arguments()), name="mariadb:stock")
    partner.check()
    assert partner.name == "mariadb:stock"
    own = partner.resource()
    assert own is not None
    assert own.name == "mariadb:stock"
    partner.connection.close()
    own.close()


# ---- SQLAlchemy --------------------------------------------------------------------------------


def test_an_engine_opens_a_connection_to_work_with(postgres: Postgres, begun: Begun) -> None:
    engine = sqlalchemy.create_engine(postgres.url())
    insert = sqlalchemy.text("insert into kept values (:key)")
    for key, good in (("engine 1", True), ("engine 2", False)):
        tx = begun()
        connection = tx.enlist(engine)
        connection.execute(insert, {"key": key})
        if good:
            tx.commit()
        else:
            tx.abort()
        assert connection.closed
    assert postgres.sql("select key from kept where key like 'engine%'") == [("engine 1",)]
    assert isinstance(engine.pool, QueuePool)
    assert engine.pool.checkedout() == 0
    engine.dispose()


def test_sessions_are_flushed_and_expired(postgres: Postgres, begun: Begun) -> None:
    engine = sqlalchemy.create_engine(postgres.url())
    with Session(engine) as session:
        with begun() as tx:
            tx.enlist(session)
            session.add(Kept(key="flushed"))
        assert not session.in_transaction()
        assert session.get(Kept, "flushed") is not None
        session.rollback()
        tx = begun()
        tx.enlist(session)
        session.add(Kept(key="flushed"))
        with pytest.raises(RolledBack, match="cannot be flushed"):
            tx.commit()
        assert session.get(Kept, "flushed") is not None
    assert postgres.sql("select key from kept where key = 'flushed'") == [("flushed",)]
    engine.dispose()


def test_sessions_that_do_it_themselves_are_refused(postgres: Postgres, begun: Begun) -> None:
    engine = sqlalchemy.create_engine(postgres.url())
    both = Session(engine, twophase=True)
    with both, pytest.raises(PartnerRefused, match="twophase=True"):
        begun().enlist(both)
    with Session(engine) as session:
        session.execute(sqlalchemy.text("select 1"))
        with pytest.raises(PartnerRefused, match="in a transaction already"):
            begun().enlist(session)
    engine.dispose()


@pytest.mark.parametrize("kind", ["session", "connection"])
def test_sqlalchemy_for_asyncio(kind: str, postgres: Postgres, tmp_path: Path) -> None:
    insert = sqlalchemy.text("insert into kept values (:key)")

    async def run() -> None:
        engine = create_async_engine(postgres.url())
        async with (
            await aio.open(str(tmp_path / "async"), create=True) as qm,
            AsyncSession(engine) if kind == "session" else engine.connect() as work,
        ):
            await qm.create_queue(Q, transactional=True)
            for key, good in (("good", True), ("bad", False), ("better", True)):
                tx = qm.transaction()
                await tx.send(Q, "x")
                await tx.enlist(work)
                await work.execute(insert, {"key": f"async {kind} {key}"})
                await (tx.commit() if good else tx.abort())
        await engine.dispose()

    asyncio.run(run())
    found = postgres.sql(f"select key from kept where key like 'async {kind}%' order by key")
    assert found == [(f"async {kind} better",), (f"async {kind} good",)]


# ---- choosing ----------------------------------------------------------------------------------


def test_what_cannot_be_a_partner() -> None:
    for thing in (None, 5, "postgresql://", sqlalchemy.text("select 1")):
        with pytest.raises(EnlistRefused):
            partner_for(thing)


def test_asyncio_connections_need_an_asyncio_transaction(postgres: Postgres, begun: Begun) -> None:
    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(postgres.conninfo()) as connection:
            with pytest.raises(EnlistRefused, match="belongs to async code"):
                begun().enlist(connection)

    asyncio.run(run())


# ---- several databases at once -----------------------------------------------------------------


def test_postgresql_and_mariadb_together(
    postgres: Postgres, mariadb: MariaDB, begun: Begun, home: onceq.QueueManager
) -> None:
    maria = pymysql.connect(**mariadb.arguments())
    with psycopg.connect(postgres.conninfo()) as one, maria:
        for key, good in (("both 1", True), ("both 2", False), ("both 3", True)):
            tx = begun()
            tx.enlist(one)
            tx.enlist(maria)
            one.execute("insert into kept values (%s)", [key])
            with maria.cursor() as cursor:
                cursor.execute("insert into kept values (%s)", [key])
            if good:
                tx.commit()
                assert tx.pending == []
            else:
                tx.abort()
    query = "select {} from kept where {} like 'both%' order by 1"
    assert postgres.sql(query.format("key", "key")) == [("both 1",), ("both 3",)]
    assert mariadb.sql(query.format("k", "k")) == [("both 1",), ("both 3",)]
    assert home.admin.decisions() == []


def test_awaited_and_other_partners_together(
    postgres: Postgres, mariadb: MariaDB, tmp_path: Path
) -> None:
    async def run() -> None:
        maria = pymysql.connect(**mariadb.arguments())
        async with (
            await psycopg.AsyncConnection.connect(postgres.conninfo()) as one,
            await aio.open(str(tmp_path / "async"), create=True) as qm,
            qm.transaction() as tx,
        ):
            await qm.create_queue(Q, transactional=True)
            await tx.send(Q, "x")
            await tx.enlist(one)
            await tx.enlist(maria)
            await one.execute("insert into kept values ('mixed')")
            with maria.cursor() as cursor:
                cursor.execute("insert into kept values ('mixed')")
        maria.close()

    asyncio.run(run())
    assert postgres.sql("select key from kept where key = 'mixed'") == [("mixed",)]
    assert mariadb.sql("select k from kept where k = 'mixed'") == [("mixed",)]
