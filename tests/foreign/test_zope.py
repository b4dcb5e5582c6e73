"""Zope's transaction manager decides for queues, beside a data manager without a real vote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import transaction

import onceq
from onceq.errors import ReceiveTimeout
from onceq.foreign.zope import join

Q = r"private$\q"


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


class Voter:
    """A partner that refuses, and notes what it is told."""

    def __init__(self, *, refuse: bool) -> None:
        self.refuse = refuse
        self.told: list[str] = []

    def sortKey(self) -> str:
        return "~voter"

    def tpc_vote(self, txn: Any) -> None:
        self.told.append("vote")
        if self.refuse:
            raise ValueError("no")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith(("tpc_", "commit", "abort")):
            raise AttributeError(name)
        return lambda txn: self.told.append(name)


def test_commit_abort_and_again(qm: onceq.QueueManager) -> None:
    manager = transaction.TransactionManager()
    manager.begin()
    join(qm, manager).send(Q, "1")
    assert join(qm, manager) is join(qm, manager)
    join(qm, manager).send(Q, "2")
    assert bodies(qm) == []
    manager.commit()
    manager.begin()
    join(qm, manager).send(Q, "aborted")
    manager.abort()
    with manager:
        assert join(qm, manager).receive(Q, timeout=0).text == "1"
    with manager:
        join(qm, manager)
    assert bodies(qm) == ["2"]
    assert qm.admin.branches() == []


def test_somebody_else_votes_against_it(qm: onceq.QueueManager) -> None:
    """The queue manager has voted before, and undoes it."""
    manager = transaction.TransactionManager()
    manager.begin()
    join(qm, manager).send(Q, "no")
    voter = Voter(refuse=True)
    manager.get().join(voter)
    with pytest.raises(ValueError, match="no"):
        manager.commit()
    assert "tpc_abort" in voter.told
    manager.abort()
    assert bodies(qm) == []
    assert qm.admin.branches() == []


def test_two_queue_managers(qm: onceq.QueueManager, tmp_path: Path) -> None:
    with onceq.open(str(tmp_path / "b"), create=True) as other:
        other.create_queue(Q, transactional=True)
        with transaction.manager:
            join(qm).send(Q, "x")
            join(other).send(Q, "y")
        assert (bodies(qm), bodies(other)) == (["x"], ["y"])
