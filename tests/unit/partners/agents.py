"""What every agent of recovery must do with the rows of a manager, whatever the database."""

from __future__ import annotations

from collections.abc import Callable

from onceq.model.branches import Xid
from onceq.model.views.looks import BranchView
from onceq.partners.contract import Agent, Row

MANAGER = "0" * 32


class NoRows:
    """A manager that decides, and has no branches that rows decide."""

    def promises(self) -> list[BranchView]:
        return []

    def rows(self, agent: str, found: int = 0) -> None:
        raise AssertionError(f"nobody asks for rows of {agent}")

    def commit(self, xid: Xid) -> None:
        raise AssertionError(f"nobody commits {xid}")

    def rollback(self, xid: Xid) -> None:
        raise AssertionError(f"nobody rolls {xid} back")


def check_rows(agent: Agent, commit: Callable[[Row], None]) -> None:
    """Rows are counted, noted and removed. Afterwards 2, 5 (with its note), 6 and 7 are there.

    Args:
        agent: Of a database without rows.
        commit: A transaction with that row.
    """
    assert agent.count(MANAGER, 0, 9, (), (), 0) == 0
    assert agent.count(MANAGER, 4, 9, (), (), 4) == -1
    assert agent.count(MANAGER, 0, 9, (), (4,), 0) == -1
    for number in range(1, 7):
        commit(Row(MANAGER, number, "1"))
    commit(Row("1" * 32, 2, "1"))
    assert agent.settle(Row(MANAGER, 7, "1")) is False
    assert agent.count(MANAGER, 0, 7, (3,), (), 0) == 5
    assert agent.count(MANAGER, 1, 7, (3,), (), 1) == -1, "a row is no note"
    for _ in range(2):
        agent.note(MANAGER, 1)
    assert agent.count(MANAGER, 1, 7, (3,), (), 1) == 4
    assert agent.count(MANAGER, 1, 3, (2, 5), (2, 5), 1) == 1
    assert agent.count(MANAGER, 1, 3, (2,), (2, 7), 1) == -1, "it was never committed"
    agent.note(MANAGER, 5)
    agent.remove(MANAGER, 5, (2,))
    agent.close()
