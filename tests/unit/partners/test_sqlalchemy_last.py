"""SQLAlchemy over SQLite as the last agent: what its sessions and connections may do meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import Engine, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker
from sqlalchemy.orm import scoped_session as scoped

import onceq
from onceq.errors import EnlistRefused, InDoubt, PartnerLost, PartnerRefused, RolledBack
from onceq.partners.contract import Row
from onceq.partners.drivers import last_agent_for
from onceq.partners.finding import partner_for
from onceq.partners.sqlalchemy import SQLAlchemyLast, SQLAlchemyPartner
from onceq.partners.sqlite import SqliteLast

Q = r"private$\q"
INSERT = "INSERT INTO t VALUES (:x)"


class Base(DeclarativeBase):
    """Of the tables here."""


class Thing(Base):
    __tablename__ = "t"
    x: Mapped[str] = mapped_column(primary_key=True)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/a.db")
    Base.metadata.create_all(made)
    yield made
    made.dispose()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[onceq.QueueManager]:
    with onceq.open(str(tmp_path / "qm"), create=True) as made:
        made.create_queue(Q, transactional=True)
        yield made


def kept(engine: Engine) -> list[str]:
    with closing(sqlite3.connect(str(engine.url.database))) as db:
        return [x for (x,) in db.execute("SELECT x FROM t ORDER BY x")]


KINDS: dict[str, Callable[[Engine], Any]] = {
    "session": Session,
    "scoped session": lambda engine: scoped(sessionmaker(engine)),
    "connection": lambda engine: engine.connect(),
    "engine": lambda engine: engine,
}


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_messages_are_committed_together(
    manager: onceq.QueueManager, engine: Engine, kind: str, wrapped: bool
) -> None:
    what = KINDS[kind](engine)
    for x, good in (("a", True), ("b", False), ("c", True)):
        tx = manager.transaction()
        work = tx.enlist(SQLAlchemyLast(what) if wrapped else what)
        work.execute(text(INSERT), {"x": x})
        tx.send(Q, x)
        if good:
            tx.commit()
        else:
            tx.abort()
        assert kind == "engine" or not work.in_transaction()
    assert kept(engine) == ["a", "c"]
    assert [manager.receive(Q, timeout=5).text for _ in range(2)] == ["a", "c"]
    assert manager.admin.branches() == []
    if kind != "engine":
        work.close() if kind != "scoped session" else what.remove()
    assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]


def test_a_session_is_flushed_and_expired(manager: onceq.QueueManager, engine: Engine) -> None:
    with Session(engine) as session:
        for messages in (0, 1):
            with manager.transaction() as tx:
                tx.enlist(session)
                session.add(Thing(x=f"flushed {messages}"))
                if messages:
                    tx.send(Q, "a")
        found = session.get(Thing, "flushed 1")
        assert found is not None
        session.rollback()
        with pytest.raises(RolledBack, match="cannot be flushed"), manager.transaction() as tx:
            tx.enlist(session)
            session.add(Thing(x="new"))
            session.flush()
            session.expunge_all()
            session.add(Thing(x="flushed 1"))
            tx.send(Q, "b")
        assert not session.in_transaction()
        with manager.transaction() as tx:
            tx.enlist(session)
            session.add(Thing(x="later"))
    assert kept(engine) == ["flushed 0", "flushed 1", "later"]
    assert manager.queue(Q).messages == 1


@pytest.mark.parametrize("kind", ["session", "connection"])
def test_the_application_does_not_commit_it(
    manager: onceq.QueueManager, engine: Engine, kind: str
) -> None:
    """What comes after would be taken for the same transaction."""
    with KINDS[kind](engine) as work:
        with pytest.raises(PartnerRefused, match="do not commit it"), manager.transaction() as tx:
            tx.enlist(work)
            work.execute(text(INSERT), {"x": "a"})
            tx.send(Q, "a")
            work.commit()
        assert kept(engine) == []
        with manager.transaction() as tx:
            tx.enlist(work)
            work.execute(text(INSERT), {"x": "b"})
            tx.send(Q, "b")
        work.execute(text(INSERT), {"x": "c"})
        work.commit()
    assert kept(engine) == ["b", "c"]
    assert manager.receive(Q, timeout=5).text == "b"


@pytest.mark.parametrize("end", ["rollback", "close"])
@pytest.mark.parametrize("kind", ["session", "connection"])
@pytest.mark.parametrize("messages", [0, 1])
def test_what_went_back_to_the_pool_is_not_touched(
    manager: onceq.QueueManager, engine: Engine, kind: str, end: str, messages: int
) -> None:
    """Somebody else may be at work on it."""
    work = KINDS[kind](engine)
    with pytest.raises(RolledBack, match="was rolled back by"), manager.transaction() as tx:
        tx.enlist(work)
        work.execute(text(INSERT), {"x": "a"})
        if messages:
            tx.send(Q, "a")
        getattr(work, end)()
        if end == "rollback" and kind == "connection":
            work.execute(text(INSERT), {"x": "more"})
        else:
            other = engine.connect()
            other.execute(text(INSERT), {"x": "other"})
    if end == "close" or kind == "session":
        other.commit()
        other.close()
        assert kept(engine) == ["other"]
    else:
        assert kept(engine) == []
    work.close()
    assert manager.queue(Q).messages == 0
    assert manager.admin.branches() == []


def test_a_row_that_is_refused_undoes_the_session(
    manager: onceq.QueueManager, engine: Engine
) -> None:
    class Refusing(SqliteLast):
        def record(self, row: Row) -> None:
            self.connection.rollback()
            raise PartnerRefused("no")

    with Session(engine) as session:
        with pytest.raises(RolledBack, match="no"), manager.transaction() as tx:
            tx.enlist(SQLAlchemyLast(session, Refusing))
            session.add(Thing(x="a"))
            tx.send(Q, "a")
        assert not session.in_transaction()
        session.add(Thing(x="b"))
        session.commit()
    assert kept(engine) == ["b"]


def test_an_answer_that_is_lost_invalidates_the_session(
    manager: onceq.QueueManager, engine: Engine
) -> None:
    class Losing(SqliteLast):
        def record(self, row: Row) -> None:
            super().record(row)
            raise PartnerLost("no answer")

    manager._recovering.look_after_rows = lambda last: False  # type: ignore[method-assign]
    with Session(engine) as session:
        last = SQLAlchemyLast(session, Losing)
        with pytest.raises(InDoubt, match="recovery will ask"), manager.transaction() as tx:
            tx.enlist(last)
            session.add(Thing(x="a"))
            tx.send(Q, "a")
        agent = last.agent()
    assert agent is not None
    recovery = manager.recovery()
    recovery.add_agent(agent)
    assert len(recovery.step(0.0).committed) == 1
    recovery.close()
    assert manager.receive(Q, timeout=5).text == "a"
    with Session(engine) as session:
        session.add(Thing(x="b"))
        session.commit()
    assert kept(engine) == ["a", "b"]


def test_who_is_asked(engine: Engine) -> None:
    assert isinstance(partner_for(engine), SQLAlchemyLast)
    with Session() as unbound:
        assert isinstance(partner_for(unbound), SQLAlchemyPartner)
        with pytest.raises(PartnerRefused, match="several databases"):
            partner_for(unbound).check()
    with Session(engine) as session:
        promising = SQLAlchemyPartner(session, partner_for)
        with pytest.raises(EnlistRefused, match="cannot promise"):
            promising.check()
        assert not session.in_transaction()
        session.execute(text("SELECT 1"))
        with pytest.raises(PartnerRefused, match="in a transaction already"):
            partner_for(session).check()
    with pytest.raises(EnlistRefused, match="cannot be a last agent"):
        last_agent_for(5)
