"""TLS before a scripted manager: what comes in is decrypted, and goes on to its Unix socket.

So every test of a link can be run over TLS, with the manager's end in the hands of the test as
before.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from pathlib import Path

import trustme

from onceq.client.address import ManagerAddress
from onceq.client.credentials import Tls
from onceq.tls.contexts import IdentityFiles, server_context


class Authority:
    """Signs certificates; its files lie in a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder, self._authority = folder, trustme.CA()
        self.file = str(folder / f"{name}.pem")
        self._authority.cert_pem.write_to_path(self.file)

    def issue(self, *hosts: str, common_name: str = "") -> str:
        """File with a certificate and its key."""
        made = self._authority.issue_cert(*hosts, common_name=common_name or None)
        file = str(self._folder / f"{common_name or hosts[0]}.pem")
        made.private_key_and_cert_chain_pem.write_to_path(file)
        return file

    def server(self, *hosts: str) -> ssl.SSLContext:
        """What a queue manager of these names takes applications with."""
        own = self.issue(*hosts)
        return server_context(IdentityFiles(own, "", self.file), peers=False)

    def client(self, name: str = "") -> Tls:
        """Files of an application, with a certificate of that name."""
        return Tls(self.file, self.issue("app.example", common_name=name) if name else "")


class Door:
    """Listens at a port of its own; a thread carries what comes in and goes out."""

    def __init__(self, behind: str, context: ssl.SSLContext) -> None:
        self._behind, self._context = behind, context
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.shown: list[object] = []
        """The certificates of those who came."""
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(20)

    def close(self) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(20)

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(
            self._take, "127.0.0.1", 0, ssl=self._context, limit=1 << 16
        )
        self.address = ManagerAddress(
            host="127.0.0.1", port=server.sockets[0].getsockname()[1], tls=True
        )
        self._ready.set()
        await self._over.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.shown.append(writer.get_extra_info("ssl_object").getpeercert())
        inner, outer = await asyncio.open_unix_connection(self._behind, limit=1 << 16)
        for source, sink in ((reader, outer), (inner, writer)):
            task = asyncio.create_task(_carry(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    sink.close()
