"""PEP 249's two-phase calls, driven together with those of psycopg on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import onceq
from onceq.errors import BranchState, DuplicateBranch, InvalidParameter, ReceiveTimeout
from onceq.foreign.tpc import Connection
from tests.servers import Postgres, postgres

pytestmark = pytest.mark.slow
Q = r"private$\q"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as made:
        made.execute("CREATE TABLE t (x int PRIMARY KEY)")
        yield made


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


def coordinate(connections: list[Any], gtrid: str, *, commit: bool, work: Any) -> None:
    """What any coordinator does that speaks PEP 249."""
    for index, connection in enumerate(connections):
        connection.tpc_begin(connection.xid(7, gtrid, str(index)))
    work()
    for connection in connections:
        connection.tpc_prepare()
    for connection in connections:
        (connection.tpc_commit if commit else connection.tpc_rollback)()


def test_with_a_database(server: Postgres, qm: onceq.QueueManager) -> None:
    ours = Connection(qm)
    with psycopg.connect(server.where()) as theirs:
        for number, commit in ((1, True), (2, False), (3, True)):

            def work(number: int = number) -> None:
                ours.work.send(Q, f"{number}")
                theirs.execute("INSERT INTO t VALUES (%s)", (number,))

            coordinate([ours, theirs], f"g{number}", commit=commit, work=work)
    assert bodies(qm) == ["1", "3"]
    assert server.execute("SELECT x FROM t ORDER BY x") == [(1,), (3,)]
    assert qm.admin.branches() == []


def test_recover_after_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    with onceq.open(path, create=True) as qm:
        qm.create_queue(Q, transactional=True)
        for name in ("keep", "drop"):
            ours = Connection(qm)
            ours.tpc_begin(ours.xid(7, name, "q"))
            ours.work.send(Q, name)
            ours.tpc_prepare()
    with onceq.open(path) as qm:
        ours = Connection(qm)
        keep, drop = ours.tpc_recover()
        assert keep == ours.xid(7, "keep", "q")
        ours.tpc_commit(keep)
        ours.tpc_rollback(drop)
        assert ours.tpc_recover() == []
        assert bodies(qm) == ["keep"]


def test_one_phase_and_read_only(qm: onceq.QueueManager) -> None:
    ours = Connection(qm)
    ours.tpc_begin(ours.xid(7, "one", ""))
    ours.work.send(Q, "one")
    ours.tpc_commit()
    ours.tpc_begin(ours.xid(7, "nothing", ""))
    ours.tpc_prepare()
    ours.tpc_commit()
    ours.tpc_begin(ours.xid(7, "undone", ""))
    ours.work.send(Q, "undone")
    ours.close()
    assert bodies(qm) == ["one"]
    assert qm.admin.branches() == []


def test_calls_in_the_wrong_order(qm: onceq.QueueManager) -> None:
    ours = Connection(qm)
    for call in (ours.tpc_prepare, ours.tpc_commit, ours.tpc_rollback, lambda: ours.work):
        with pytest.raises(BranchState):
            call()
    ours.commit()
    ours.rollback()
    xid = ours.xid(7, "g", "b")
    ours.tpc_begin(xid)
    for call in (ours.commit, ours.rollback, lambda: ours.tpc_begin(xid),
                 lambda: ours.tpc_commit(xid), lambda: ours.tpc_rollback(xid)):  # fmt: skip
        with pytest.raises(BranchState):
            call()
    with pytest.raises(DuplicateBranch):
        Connection(qm).tpc_begin(xid)
    with pytest.raises(InvalidParameter):
        ours.xid(7, "", "")
    ours.tpc_rollback()
