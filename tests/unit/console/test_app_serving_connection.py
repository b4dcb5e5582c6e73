"""Connections with the console: requests come whole and in time, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn

from onceq.console import app as serving
from onceq.console.app import TimedConnection

HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\n\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Reads a request, and answers it."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-length", b"2")]})  # fmt: skip
    await send({"type": "http.response.body", "body": b"ok"})


Open = Callable[[bytes], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


def serve(work: Callable[[Open], Awaitable[None]]) -> None:
    async def whole() -> None:
        config = uvicorn.Config(
            app, port=0, http=TimedConnection, ws="none", lifespan="off", log_level="error"
        )
        server = uvicorn.Server(config)
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup()
        port = server.servers[0].sockets[0].getsockname()[1]
        made: list[asyncio.StreamWriter] = []

        async def connect(data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            made.append(writer)
            writer.write(data)
            return reader, writer

        try:
            await work(connect)
        finally:
            for writer in made:
                writer.close()
            await server.shutdown()

    asyncio.run(whole())


async def over(reader: asyncio.StreamReader) -> bytes:
    """What comes until the other side has closed."""
    try:
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionResetError:
        return b""


HALVES = {
    "nothing": b"",
    "a word": b"G",
    "half a head": HEAD,
    "half a body": POST + b"ab",
    "a body that does not come": POST,
}


@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES)
def test_half_a_request_has_a_time(half: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "REQUEST_S_MAX", 0.2)

    async def work(connect: Open) -> None:
        reader, _ = await connect(half)
        assert await over(reader) == b""

    serve(work)


def test_half_a_second_request_has_a_time_and_waiting_for_one_has_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(connect: Open) -> None:
        # With the time of the first one still running, nothing would cut the second one.
        reader, writer = await connect(HEAD + b"\r\n")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")
        monkeypatch.setattr(serving, "REQUEST_S_MAX", 0.1)
        other, own = await connect(HEAD)
        assert await over(other) == b""
        writer.write(HEAD + b"\r\n")
        assert await reader.readuntil(b"ok"), "it has waited longer than that, in order"
        writer.write(HEAD)
        assert await over(reader) == b""
        own.close()

    serve(work)


def test_those_that_have_said_nothing_whole_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "SILENT_MAX", 3)

    async def work(connect: Open) -> None:
        first, _ = await connect(HEAD)
        kept = [await connect(HEAD) for _ in range(3)]
        assert await over(first) == b"", "the oldest makes room"
        for reader, writer in kept:
            writer.write(b"\r\n")
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")
        more = [await connect(HEAD) for _ in range(9)]
        for reader, writer in kept:
            writer.write(HEAD + b"\r\n")
            assert await reader.readuntil(b"ok"), "who speaks is not among them"
        del more

    serve(work)
