"""Whose an identifier of a transaction is, to a real daemon: who has read that of another one
commits nothing under it.

Upholds: I21, I28.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import onceq
from onceq import aio
from onceq.errors import OnceqError, RolledBack
from onceq.file_access import ATTEMPT_KEY_FILE
from onceq.model.branches import DecisionState, Vote
from tests.daemon.applications import Daemon

pytestmark = pytest.mark.slow
THERE = bytes(range(16))


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path / "a", tcp=True) as made:
        yield made


@pytest.fixture
def other(daemon: Daemon) -> Iterator[onceq.QueueManager]:
    """Somebody who has a name, and no right."""
    with onceq.connect(daemon.where) as admin:
        token = admin.tokens.create("other").token
    with onceq.connect(daemon.tcp, token=token) as made:
        yield made


def test_an_attempt_that_was_rolled_back_is_nobody_elses(
    daemon: Daemon, other: onceq.QueueManager
) -> None:
    """Its parts at other queue managers wait, and there its identifier is shown."""
    with onceq.connect(daemon.where) as games:
        anchor = games.groups.attempt("games", 1).anchor(THERE)
        with games.branch(anchor) as work:
            assert work.prepare() is Vote.PREPARED
        assert games.groups.rollback("games", 1) == 1
        with pytest.raises(RolledBack, match="of somebody else"):
            other.branch(anchor)
        with pytest.raises(OnceqError):
            other.groups.commit("games", 1, [anchor])
        assert games.decision(anchor.gtrid) is DecisionState.ABORTED


def test_an_attempt_goes_on_when_the_queue_manager_is_started_again(daemon: Daemon) -> None:
    """A task of Spark begins its branch again; without the key the attempt is over."""
    with onceq.connect(daemon.where) as games:
        attempt = games.groups.attempt("games", 1)
        first = attempt.anchor(THERE)
        with games.branch(first) as work:
            work.prepare()
    daemon.kill()
    daemon.start()
    with onceq.connect(daemon.where) as games, games.branch(attempt.branch("late")) as work:
        assert work.prepare() is Vote.READ_ONLY
    daemon.kill()
    (Path(daemon.where) / ATTEMPT_KEY_FILE).unlink()
    daemon.start()
    with onceq.connect(daemon.where) as games:
        with pytest.raises(RolledBack, match="begin another one"):
            games.branch(attempt.branch("later"))
        assert not games.groups.commit("games", 1, [first]).already


def test_tasks_begin_attempts_that_are_their_own(daemon: Daemon, other: onceq.QueueManager) -> None:
    async def work() -> None:
        async with await aio.connect(daemon.where) as games:
            anchor = (await games.groups.attempt("games", 1)).anchor(THERE)
            with pytest.raises(RolledBack, match="of somebody else"):
                other.branch(anchor)
            async with await games.branch(anchor) as branch:
                assert await branch.prepare() is Vote.PREPARED

    asyncio.run(work())
