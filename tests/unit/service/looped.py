"""A network on a real loop, with a scripted core behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from onceq.model.rights import Grant, Right, actor_pattern
from onceq.model.settings import Settings
from onceq.service import admission
from onceq.service.admission import Budget
from onceq.service.network import AsyncNetwork
from onceq.wire.app import frames
from onceq.wire.app.frames import FrameCode
from tests.unit.service.fakes import House

BUDGET = admission.budget(4096, embedded=False)


class Host:
    """A gate on one loop, with a scripted core behind it."""

    def __init__(self, peers: dict[str, str] | None = None, budget: Budget = BUDGET) -> None:
        self.loop = asyncio.get_running_loop()
        self.network = AsyncNetwork(self.loop, self, peers or {}, budget=budget)
        self.house = House(settings=Settings(disk_reserve_bytes=0), said=self.network.say).start()
        self.house.engine.sessions.network = self.network
        self.network.attach(self.house.engine)
        self.failures: list[BaseException] = []

    def run(self, work: Callable[[], None]) -> None:
        """As a daemon does: what is said without the engine's word goes out before the pump."""
        work()
        if self.house.engine.unsaid:
            self.network.say()
        self.house.engine.pump()

    def failed(self, error: BaseException) -> None:
        self.failures.append(error)

    def admit_nobody(self) -> Host:
        """Applications over TCP, which prove nothing here, have a right."""
        grant = Grant(actor_pattern("nobody"), frozenset((Right.MONITOR,)))
        self.house.core.state.policy.grant(grant)
        return self

    def seen(self, kind: type) -> list[Any]:
        return [item for item in self.house.core.seen if isinstance(item, kind)]


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0)


async def ended(reader: asyncio.StreamReader) -> bool:
    """Whether the other side ends the connection, one way or another."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


def run(work: Callable[[], Any]) -> None:
    asyncio.run(work())


async def greeted(where: list[str]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection of an application that has been welcomed."""
    reader, writer = await asyncio.open_connection(*where)
    hello = frames.frame(1, FrameCode.HELLO, frames.Hello(frames.VERSION, "test"))
    writer.writelines(list(map(bytes, hello)))
    assert await reader.read(1)
    return reader, writer


class Sink(asyncio.Transport):
    """Takes what it is given."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.data = b""
        self.closed = self.aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def writelines(self, list_of_data: Any) -> None:
        self.data += b"".join(list_of_data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True
