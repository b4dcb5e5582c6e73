"""Shares of owners at a real daemon, with the limits that it has: one fills, another works.

Upholds: I24.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

import onceq
from onceq import aio
from onceq.errors import InsufficientResources, OnceqError
from onceq.model.shares import TABLE, Thing
from tests.daemon.applications import Daemon

pytestmark = pytest.mark.slow
Q = r"private$\orders"
AT_ONCE = 200
RIGHTS = "send,receive,peek,set-rights,create"
One = Callable[[aio.AsyncQueueManager, int], Awaitable[object]]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("shares") / "a") as made:
        with onceq.connect(made.where) as qm:
            qm.create_queue(Q, transactional=True)
        yield made


def token(daemon: Daemon, name: str, whole: str = "") -> str:
    with onceq.connect(daemon.where) as admin:
        grants = {r"private$\*": RIGHTS, "": whole} if whole else {r"private$\*": RIGHTS}
        return admin.tokens.create(name, grants=grants).token


async def fill(qm: aio.AsyncQueueManager, one: One, thing: Thing) -> tuple[int, OnceqError]:
    """Add until one is refused: how many there were, and why there are no more."""
    count = 0
    while count <= TABLE[thing].whole:
        some = (one(qm, count + at) for at in range(AT_ONCE))
        answers = await asyncio.gather(*some, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, OnceqError)]
        count += len(answers) - len(refused)
        if refused:
            return count, refused[0]
    raise AssertionError("it is never refused")


async def subqueue(qm: aio.AsyncQueueManager, number: int) -> object:
    return await qm.open_queue(f"{Q};s{number}", access="receive")


async def opened(qm: aio.AsyncQueueManager, number: int) -> object:
    return await qm.open_queue(Q, access="peek")


async def cursor(qm: aio.AsyncQueueManager, number: int) -> object:
    return await (await qm.open_queue(Q, access="peek")).cursor()


@pytest.mark.parametrize(
    ("thing", "one"),
    [(Thing.SUBQUEUES, subqueue), (Thing.HANDLES, opened), (Thing.CURSORS, cursor)],
    ids=["subqueues", "handles", "cursors"],
)
def test_one_account_fills_and_another_works(daemon: Daemon, thing: Thing, one: One) -> None:
    name = thing.name.lower()
    greedy, other = token(daemon, f"{name}-1"), token(daemon, f"{name}-2")
    runs = token(daemon, f"{name}-3", "administer")

    async def work() -> None:
        async with (
            await aio.connect(daemon.where, token=greedy) as first,
            await aio.connect(daemon.where, token=greedy) as again,
            await aio.connect(daemon.where, token=other) as second,
            await aio.connect(daemon.where, token=runs) as admin,
            await aio.connect(daemon.where) as runner,
        ):
            count, refused = await fill(first, one, thing)
            assert count == TABLE[thing].share
            assert isinstance(refused, InsufficientResources)
            for said in (f"token:{name}-1 has {count:,} {thing}", TABLE[thing].cure):
                assert said in str(refused)
            with pytest.raises(InsufficientResources):
                await one(again, TABLE[thing].whole + 1)
            for at, qm in enumerate((second, admin, runner), TABLE[thing].whole + 2):
                await one(qm, at)

    asyncio.run(work())
