"""Groups of branches through the client library: any connection, any process, lost answers."""

from __future__ import annotations

import asyncio
import json
import subprocess
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq import aio
from onceq.errors import BodyTooLarge, GroupIncomplete, GroupOfAnotherQuery, UsageError
from onceq.model.branches import Xid
from onceq.model.run import LENGTH_TYPE, Run
from tests import nursery
from tests.daemon.applications import Daemon
from tests.daemon.shell import ONCEQ

Q = r"private$\q"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path / "a") as made:
        with onceq.connect(made.where) as qm:
            qm.create_queue(Q, transactional=True)
        yield made


def tasks(where: str, app: str, version: int, count: int = 3) -> list[Xid]:
    """Each on a connection of its own, which is over before the group is committed."""
    xids = []
    for task in range(count):
        with onceq.connect(where) as qm:
            xids.append(qm.groups.attempt(app, version).branch(f"{task}"))
            with qm.branch(xids[-1]) as work:
                work.send_many(Q, [b"%d.%d" % (version, task)] * 2)
                work.prepare()
    return xids


def bodies(qm: Any) -> list[bytes]:
    try:
        return list(qm.peek_many(Q, 10_000, timeout=0.0).bodies())
    except onceq.ReceiveTimeout:
        return []


def sent(*versions: int) -> list[bytes]:
    return [b"%d.%d" % (v, task) for v in versions for task in range(3) for _ in range(2)]


def test_a_group_is_committed_once_through_kills(daemon: Daemon) -> None:
    with onceq.connect(daemon.where) as qm:
        first = tasks(daemon.where, "app", 0)
        assert bodies(qm) == []
        done = qm.groups.commit("app", 0, first, query="q")
        assert (done.already, done.messages, done.rolled_back) == (False, 6, 0)
        second = tasks(daemon.where, "app", 1)
        daemon.kill()
        daemon.start()
        assert qm.groups.commit("app", 1, second, query="q").messages == 6
        daemon.kill()
        daemon.start()
        again = tasks(daemon.where, "app", 1)
        done = qm.groups.commit("app", 1, again, query="q")
        assert (done.already, done.rolled_back) == (True, 3)
        assert bodies(qm) == sent(0, 1)
        (group,) = qm.groups.list()
        assert (group["app"], group["query"], group["version"]) == ("app", "q", 1)
        assert qm.admin.branches() == []


def test_refusals_have_their_errors(daemon: Daemon) -> None:
    with onceq.connect(daemon.where) as qm:
        qm.groups.commit("app", 3, tasks(daemon.where, "app", 3), query="q")
        xids = tasks(daemon.where, "app", 4)
        with pytest.raises(GroupOfAnotherQuery, match="for query q"):
            qm.groups.commit("app", 4, xids, query="other")
        qm.xa.rollback(xids[2])
        with pytest.raises(GroupIncomplete):
            qm.groups.commit("app", 4, xids, query="q")
        assert qm.groups.rollback("app", 4) == 2
        assert qm.groups.rollback("app", 4) == 0
        for app, version in (("", 1), ("a" * 201, 1), ("a\n", 1), ("app", -1), ("app", 1 << 63)):
            with pytest.raises(onceq.OnceqError):
                qm.groups.commit(app, version, [])
        with pytest.raises(UsageError):
            qm.groups.forget("nobody")
        qm.groups.forget("app")
        assert qm.groups.list() == []
        assert bodies(qm) == sent(3)


def test_two_attempts_never_share_a_branch(daemon: Daemon) -> None:
    with onceq.connect(daemon.where) as qm:
        made = {qm.groups.attempt("app", 7).branch("0") for _ in range(100)}
        assert len(made) == 100
        assert len({xid.gtrid[:-13] for xid in made}) == 1
        other = qm.groups.attempt("app", 8).branch("0")
        assert other.gtrid[:-13] not in {xid.gtrid[:-13] for xid in made}


def test_bodies_that_stand_in_one_buffer_are_sent_as_they_are(daemon: Daemon) -> None:
    with onceq.connect(daemon.where) as qm:
        data = memoryview(b"onetwothree")
        with qm.transaction() as tx:
            tx.send_many(Q, Run(data[:6], array(LENGTH_TYPE, (3, 3))))
            tx.send_many(Q, Run(data[6:], array(LENGTH_TYPE, (5,))))
            with pytest.raises(onceq.OnceqError, match="do not add up"):
                tx.send_many(Q, Run(data, array(LENGTH_TYPE, (5,))))
            with pytest.raises(BodyTooLarge):
                tx.send_many(Q, Run(bytes(5 << 20), array(LENGTH_TYPE, (5 << 20,))))
        assert bodies(qm) == [b"one", b"two", b"three"]


def test_tasks_have_groups_too(daemon: Daemon) -> None:
    async def work() -> None:
        async with await aio.connect(daemon.where) as qm:
            xid = (await qm.groups.attempt("aio", 0)).branch("0")
            async with await qm.branch(xid) as branch:
                await branch.send(Q, b"0.0")
                await branch.prepare()
            assert (await qm.groups.commit("aio", 0, [xid])).messages == 1
            assert (await qm.groups.commit("aio", 0, [xid])).already
            assert await qm.groups.rollback("aio", 0) == 0
            assert [g["app"] for g in await qm.groups.list()] == ["aio"]
            await qm.groups.forget("aio")
            assert await qm.groups.list() == []

    asyncio.run(work())


def test_the_desk_shows_groups_and_forgets_them(daemon: Daemon) -> None:
    def tx(*arguments: str, code: int = 0) -> str:
        done = nursery.run(
            [*ONCEQ, "-q", daemon.where, "tx", *arguments],
            capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert "nobody has committed a group" in tx("groups")
    with onceq.connect(daemon.where) as qm:
        qm.groups.commit("app", 5, tasks(daemon.where, "app", 5), query="q9")
        tasks(daemon.where, "app", 6, 1)
        assert "of a group" in tx("list")
        assert "nothing was left prepared" not in tx("recover", "-o", daemon.where, code=1)
        assert "left alone" in tx("recover", "-o", daemon.where, code=1)
        assert len(qm.admin.branches()) == 1, "recovery leaves a batch to its application"
        assert json.loads(tx("groups", "--json"))[0]["version"] == 5
        assert "q9" in tx("groups")
        assert "no version is remembered" in tx("forget-group", "ap", "-y", code=2)
        assert "would be forgotten: version 5" in tx("forget-group", "app", "--dry-run")
        assert "not a terminal: confirm with --yes" in tx("forget-group", "app", code=2)
        assert "forgotten: version 5 of app" in tx("forget-group", "app", "--yes")
        assert "nobody has committed a group" in tx("groups")
