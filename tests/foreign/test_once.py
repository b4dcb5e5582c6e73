"""Effect once without two-phase commit: on SQLite, through a crash at each step."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import onceq
from onceq.errors import InvalidParameter, ReceiveTimeout
from onceq.foreign.tpc import Done

Q = r"private$\q"


class Crash(Exception):
    pass


def work(qm: onceq.QueueManager, db: sqlite3.Connection, crash: str = "") -> bool:
    """Add one message to the sum; False if none is there."""
    done = Done(db, "sums")
    try:
        with qm.transaction() as tx:
            message = tx.receive(Q, timeout=0)
            if done.first(message):
                db.execute("UPDATE s SET total = total + ?", (int(message.text),))
            if crash == "before":
                db.rollback()
                raise Crash
            db.commit()
            if crash == "after":
                raise Crash
    except ReceiveTimeout:
        return False
    except Crash:
        return True
    return True


@pytest.mark.parametrize("remote", [False, True])
def test_each_message_counts_once(tmp_path: Path, remote: bool) -> None:
    db = sqlite3.connect(tmp_path / "db")
    db.execute("CREATE TABLE s (total int)")
    db.execute("INSERT INTO s VALUES (0)")
    db.commit()
    with onceq.open(str(tmp_path / "b"), name="B", listen="127.0.0.1:0", create=True) as qm:
        qm.create_queue(Q, transactional=True)
        if remote:
            at = qm._link._host.peers_at  # type: ignore[attr-defined]
            with onceq.open(str(tmp_path / "a"), name="A", peers={"B": at}, create=True) as sender:
                for number in range(1, 7):
                    sender.send(f"DIRECT=OS:B\\{Q}", f"{number}", transactional=True)
                last = 0
                while last < 6:
                    last = len(qm.peek_many(Q, timeout=30))
        else:
            for number in range(1, 7):
                qm.send(Q, f"{number}", transactional=True)
        crashes = iter(["before", "after", "after", "", "before", "after"])
        while work(qm, db, next(crashes, "")):
            pass
    assert db.execute("SELECT total FROM s").fetchall() == [(21,)]
    assert db.execute("SELECT count(*) FROM onceq_done").fetchall() == [(1,)]
    db.close()


def test_consumers_have_places_of_their_own_and_limits(tmp_path: Path) -> None:
    db = sqlite3.connect(":memory:")
    with onceq.open(str(tmp_path / "a"), create=True) as qm:
        qm.create_queue(Q, transactional=True)
        qm.create_queue(r"private$\plain")
        qm.send(Q, "1", transactional=True)
        message = qm.receive(Q, timeout=0)
        assert Done(db, "one").first(message)
        assert not Done(db, "one").first(message)
        assert Done(db, "two").first(message)
        qm.send(r"private$\plain", "x")
        with pytest.raises(InvalidParameter, match="order"):
            Done(db, "one").first(qm.receive(r"private$\plain", timeout=0))
    for consumer, style in (("", "qmark"), ("x" * 101, "qmark"), ("x", "named")):
        with pytest.raises(InvalidParameter):
            Done(db, consumer, paramstyle=style)
    db.close()
