"""Somebody between two queue managers who keeps every byte, and can break off what there is."""

from __future__ import annotations

import contextlib
import socket
import threading


class Tap:
    """Passes bytes on to where it is aimed at, and keeps them."""

    def __init__(self) -> None:
        self._to = ("127.0.0.1", 0)
        self.heard = bytearray()
        self.connections = 0
        self._lines: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.where = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def aim(self, to: str) -> None:
        """From now on."""
        host, _, port = to.rpartition(":")
        self._to = (host, int(port))

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._server.accept()
            except OSError:
                return
            try:
                there = socket.create_connection(self._to)
            except OSError:
                here.close()
                continue
            self.connections += 1
            self._lines += [here, there]
            for one, other in ((here, there), (there, here)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(1 << 16):
                self.heard += data
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def cut(self) -> None:
        """Break off what there is."""
        lines, self._lines = self._lines, []
        for line in lines:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.close()
        self.cut()
