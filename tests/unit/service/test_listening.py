"""Connections are accepted as long as the system has descriptors for them."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import pytest

from onceq.service import listening
from onceq.service import network as network_module
from onceq.service.peer_transports import Entrance
from tests.unit.service.looped import Host, greeted, run

PAUSE_S = 0.02


def greets_at(
    kind: type[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Awaitable[None]]:
    """An application is greeted by a network that listens at sockets of that kind."""

    def bound(family: int, address: Any) -> socket.socket:
        own = kind(family, socket.SOCK_STREAM)
        own.bind(address)
        return own

    async def work() -> None:
        monkeypatch.setattr(network_module, "bound", bound)
        host = Host()
        where = await host.network.listen(Entrance.APPLICATIONS, "127.0.0.1:0")
        _, writer = await greeted(where.split(":"))
        writer.close()
        await host.network.shut()

    return work


def test_nobody_is_accepted_for_a_while_when_the_system_has_no_descriptors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One line, and the processor is free; who waits is accepted as soon as there is room."""

    class Short(socket.socket):
        tries = 0
        pauses: ClassVar[list[float]] = []

        def accept(self) -> Any:
            Short.tries += 1
            # There is room after three pauses; whoever tries without one tries for nothing.
            now = asyncio.get_running_loop().time()
            Short.pauses = Short.pauses or [now]
            if now < Short.pauses[0] + 3 * PAUSE_S:
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    monkeypatch.setattr(listening, "ACCEPT_PAUSE_S", PAUSE_S)
    run(greets_at(Short, monkeypatch))
    assert Short.tries <= 6, "it did not try again and again"
    said = {r.message for r in caplog.records if "accepting pauses" in r.message}
    assert said == {'accepting pauses: reason="too many open files"'}


def test_a_connection_that_ended_before_it_was_accepted_keeps_nobody_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Gone(socket.socket):
        tries = 0

        def accept(self) -> Any:
            Gone.tries += 1
            if Gone.tries == 1:
                raise ConnectionAbortedError(errno.ECONNABORTED, "Software caused it")
            return super().accept()

    run(greets_at(Gone, monkeypatch))
