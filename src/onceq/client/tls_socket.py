"""A connection in TLS that reads and writes as a plain socket does, in two threads at once.

It also has plain sockets of greenlets, below which nothing blocks.

One thread may block in a write while another one reads, as ``SocketLink`` needs it: TLS works in
memory under a lock, and no thread holds that lock while it waits for the network. A peek at the
connection takes nothing out of it.

Some records are TLS's own (an alert, new keys) and carry nothing for the reader: it waits on.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
from collections.abc import Sequence
from typing import Any, Final

from onceq.client.link import PartlyWritten, drop_descriptor
from onceq.model.run import Buffer

# ---- tls socket ----------------------------------------------------------------------------------


WRITE_BYTES: Final = 1 << 18
"""Encrypted at once: nobody reads meanwhile."""
READ_BYTES_MIN: Final = 1 << 15
"""More than one record."""


class TlsSocket:
    """A connection in TLS, for one reader and one writer at a time.

    Attributes:
        tls: What is spoken, and with whom.
    """

    def __init__(
        self, plain: socket.socket | GreenSocket, context: ssl.SSLContext, host: str
    ) -> None:
        """Shake hands, within the timeout of the socket, which belongs to this one if that works.

        Raises:
            OSError: It does not (``ssl.SSLError``: the other side is not who it should be).
        """
        self._plain = plain
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_hostname=host)
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._broken: ssl.SSLError | None = None
        """What was wrong with what came behind the last that was whole."""
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._feed(plain.recv(READ_BYTES_MIN))
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    self._flush()  # why, for the other side
                raise
            else:
                break
        self._flush()

    def protocol(self) -> str | None:
        """What is spoken in it, as both sides have agreed."""
        return self.tls.selected_alpn_protocol()

    # ---- as a plain socket has them ---------------------------------------------------------

    def fileno(self) -> int:
        """Its descriptor."""
        return self._plain.fileno()

    def getpeername(self) -> tuple[str, int]:
        """Address of the other side; raises OSError."""
        host, port, *_ = self._plain.getpeername()
        return host, port

    def settimeout(self, seconds: float | None) -> None:
        """For each call; None: no limit."""
        self._plain.settimeout(seconds)

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        """An option of the plain socket."""
        self._plain.setsockopt(level, option, value)

    def shutdown(self, how: int) -> None:
        """End it, and wake the threads that wait for it."""
        self._plain.shutdown(how)

    def close(self) -> None:
        """Give it up."""
        self._plain.close()

    def forked(self) -> None:
        """This is a child now: nothing more is said on it, and nobody else holds its locks."""
        drop_descriptor(self._plain.fileno())
        self._lock, self._sending = threading.Lock(), threading.Lock()

    def sendall(self, data: Buffer) -> None:
        """Write all of it; raises OSError."""
        self.sendmsg((data,))

    def sendmsg(self, pieces: Sequence[Buffer]) -> int:
        """Write all of them, and return how many bytes that are.

        Raises:
            PartlyWritten: Some of it may be on its way.
            OSError: Nothing of it is.
        """
        size, begun = 0, False
        with self._sending:
            for piece in pieces:
                view = memoryview(piece).cast("B")
                for at in range(0, len(view), WRITE_BYTES):
                    with self._lock:
                        self.tls.write(view[at : at + WRITE_BYTES])
                        raw = self._out.read()
                    try:
                        done = 0 if begun else self._plain.send(raw)
                        begun = True
                        if done < len(raw):
                            self._plain.sendall(memoryview(raw)[done:])
                    except OSError as error:
                        if not begun:
                            raise
                        raise PartlyWritten(*error.args) from error
                size += len(view)
        return size

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return the bytes of whole records that have arrived; b"" at the end.

        Raises:
            BlockingIOError: Nothing, and the flags say not to wait (MSG_DONTWAIT). With MSG_PEEK
                one byte says that something is there, though maybe nothing for the reader.
        """
        if flags & socket.MSG_PEEK:
            lock = self._lock
            if not lock.acquire(blocking=False):  # maybe by this thread, in the middle of a call
                raise BlockingIOError
            try:
                there = self.tls.pending() or self._in.pending
            finally:
                lock.release()
            return b"\0" if there else self._plain.recv(1, flags)
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                return self._decrypted(size)
            self._feed(self._plain.recv(max(size, READ_BYTES_MIN), flags))

    # ---- TLS in memory --------------------------------------------------------------------

    def _decrypted(self, size: int) -> bytes:
        """All that is there, up to a size; raises SSLWantReadError if nothing is whole yet."""
        found: list[bytes] = []
        try:
            with self._lock:
                while size > 0:
                    try:
                        piece = self.tls.read(size)
                    except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                        break
                    except ssl.SSLWantReadError:
                        if not found:
                            raise
                        break
                    except ssl.SSLError as error:
                        self._broken = self._broken or error
                        break
                    if not piece:
                        break
                    found.append(piece)
                    size -= len(piece)
                if self._broken is not None and not found:
                    raise self._broken
            return b"".join(found)
        finally:
            # An answer to the other side's TLS; who writes takes it along, and hears of it if that
            # does not work.
            sending = self._sending
            if self._out.pending and sending.acquire(blocking=False):
                try:
                    with contextlib.suppress(OSError):
                        self._flush()
                finally:
                    sending.release()

    def _feed(self, raw: bytes) -> None:
        with self._lock:
            if raw:
                self._in.write(raw)
            else:
                self._in.write_eof()

    def _flush(self) -> None:
        with self._lock:
            raw = self._out.read()
        if raw:
            self._plain.sendall(raw)


# ---- green socket --------------------------------------------------------------------------------
#
# A connection whose socket is one of greenlets, such as `gevent.monkey.patch_all` makes all.


class GreenSocket:
    """A plain socket of greenlets; everything else is as the socket has it."""

    def __init__(self, plain: socket.socket) -> None:
        self._plain = plain

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def recv(self, size: int, flags: int = 0) -> bytes:
        """What has come; raises BlockingIOError if nothing has, and the flags say not to wait."""
        if flags & socket.MSG_DONTWAIT:
            poll = select.poll()
            poll.register(self._plain.fileno(), select.POLLIN)
            if not poll.poll(0):
                raise BlockingIOError
        return self._plain.recv(size, flags)

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        """An option; the time-out of writes is the one of the socket, as no read waits in it."""
        if (level, option) == (socket.SOL_SOCKET, socket.SO_SNDTIMEO) and isinstance(value, bytes):
            seconds, microseconds = struct.unpack("@ll", value)
            self._plain.settimeout(seconds + microseconds / 1_000_000)
        else:
            self._plain.setsockopt(level, option, value)

    def forked(self) -> None:
        """This is a child now: nothing more is said on it."""
        drop_descriptor(self._plain.fileno())
