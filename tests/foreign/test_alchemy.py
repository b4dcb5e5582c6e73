"""SQLAlchemy's two-phase sessions decide for queues and two real PostgreSQL databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import onceq
from onceq.errors import EnlistRefused, ReceiveTimeout
from onceq.foreign.alchemy import join
from tests.servers import Postgres, postgres

pytestmark = pytest.mark.slow
Q = r"private$\q"


class Base(DeclarativeBase):
    pass


class One(Base):
    __tablename__ = "one"
    x: Mapped[int] = mapped_column(primary_key=True)


class Two(Base):
    __tablename__ = "two"
    x: Mapped[int] = mapped_column(primary_key=True)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as made:
        made.execute("CREATE TABLE one (x int PRIMARY KEY)", "one")
        made.execute("CREATE TABLE two (x int PRIMARY KEY, CHECK (x < 100))", "two")
        yield made


@pytest.fixture
def session(server: Postgres) -> Iterator[Session]:
    engines: Any = {
        kind: sqlalchemy.create_engine(server.url(name))
        for kind, name in ((One, "one"), (Two, "two"))
    }
    with Session(twophase=True, binds=engines) as made:
        yield made
    for engine in engines.values():
        engine.dispose()


@pytest.fixture
def qm(tmp_path: Path) -> Iterator[onceq.QueueManager]:
    with onceq.open(str(tmp_path / "a"), create=True) as made:
        made.create_queue(Q, transactional=True)
        yield made


def bodies(qm: onceq.QueueManager) -> list[str]:
    try:
        return [m.text for m in qm.peek_many(Q)]
    except ReceiveTimeout:
        return []


def test_two_databases_and_a_queue(
    session: Session, server: Postgres, qm: onceq.QueueManager
) -> None:
    for x, good in ((1, True), (2, False), (3, True)):
        join(session, qm).send(Q, f"{x}")
        assert join(session, qm) is join(session, qm)
        session.add_all((One(x=x), Two(x=x)))
        (session.commit if good else session.rollback)()
    assert bodies(qm) == ["1", "3"]
    assert server.execute("SELECT x FROM one ORDER BY x", "one") == [(1,), (3,)]
    assert server.execute("SELECT x FROM two ORDER BY x", "two") == [(1,), (3,)]
    assert (server.prepared_ids(), qm.admin.branches()) == ([], [])


def test_a_database_refuses(session: Session, server: Postgres, qm: onceq.QueueManager) -> None:
    join(session, qm).send(Q, "no")
    session.add_all((One(x=50), Two(x=500)))
    with pytest.raises(sqlalchemy.exc.IntegrityError):
        session.commit()
    session.rollback()
    assert bodies(qm) == []
    assert server.execute("SELECT x FROM one WHERE x = 50", "one") == []
    assert (server.prepared_ids(), qm.admin.branches()) == ([], [])


def test_a_session_of_one_phase_is_refused(qm: onceq.QueueManager) -> None:
    with pytest.raises(EnlistRefused, match="twophase"):
        join(Session(), qm)
