"""Why a connection was not made, in words."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from onceq.service.peer_transports import describe_error


def test_one_that_hangs_up_in_the_handshake_gives_a_reason() -> None:
    """What the event loop raises then has no text."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    async def work() -> OSError:
        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ConnectionResetError) as found:
                await asyncio.open_connection("127.0.0.1", port, ssl=context)
        return found.value

    assert "in the handshake of TLS" in describe_error(asyncio.run(work()))


@pytest.mark.parametrize("error", [ConnectionAbortedError(), ConnectionError(), OSError()])
def test_a_reason_is_never_empty(error: OSError) -> None:
    assert describe_error(error)
