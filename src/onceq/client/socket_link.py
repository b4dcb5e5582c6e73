"""A connection to a daemon for threads: the caller that waits is the one that reads.

There is no reader thread, so a single caller pays for no switch. If several wait, one of them
reads for all and hands the reading on when its own answer has come: to one that waits for it, and
never to one that is still writing, because the manager may want its answers read before it reads
on itself.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Collection, Iterable, Sequence

from onceq.client.address import Address
from onceq.client.connecting import READ_BYTES_MIN, Socket, connected, greet
from onceq.client.credentials import Credentials
from onceq.client.link import Request
from onceq.client.partly_written import PartlyWritten
from onceq.client.pause import acquire, wait_readable
from onceq.errors import LinkLost, ManagerAway, OnceqError, ServiceNotAvailable
from onceq.model.run import Buffer
from onceq.wire.app import frames
from onceq.wire.app.answers import decode
from onceq.wire.app.frames import failure
from onceq.wire.app.requests import written

READ_BYTES_MAX = 1 << 20
PIECES_MAX = 64


class _Slot:
    """Where one caller waits for its answer."""

    __slots__ = ("done", "lock", "request", "result", "waits")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.done = False
        self.waits = False
        self.result: object = None
        self.lock = threading.Lock()
        self.lock.acquire()

    def nudge(self) -> None:
        """Wake the caller, once or more."""
        with contextlib.suppress(RuntimeError):
            self.lock.release()

    def put(self, result: object) -> None:
        """The answer."""
        self.result = result
        self.done = True
        self.nudge()


class SocketLink:
    """See the module. Any thread may call."""

    def __init__(
        self,
        address: Address,
        timeout: float,
        answer_timeout: float | None = None,
        *,
        credentials: Credentials | None = None,
    ) -> None:
        """Connect and greet; raises ServiceNotAvailable, UnknownVersion, AccessDenied.

        Args:
            timeout: Seconds for that.
            answer_timeout: Seconds for each answer afterwards; None: for ever.
            credentials: What it shows; None: what the environment says.
        """
        self._address = address
        self._answer_timeout = answer_timeout
        shown = credentials or Credentials()
        self._socket: Socket = connected(address, timeout, shown)
        self._parser = frames.Parser()
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._slots: dict[int, _Slot] = {}
        self._held: list[Buffer] = []
        self._number = 0
        self._lost: ServiceNotAvailable | None = None
        try:
            self.greeting = greet(self._socket, address, self._parser, shown)
            self._socket.settimeout(None)
            if answer_timeout is not None:
                # By the kernel: a timeout of Python's would let ``look`` wait as well. (What is
                # read is waited for in ``_received``.)
                span = struct.pack("@ll", *divmod(round(answer_timeout * 1_000_000), 1_000_000))
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, span)
        except BaseException:
            self._socket.close()
            raise

    # ---- whether it lives -----------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """See Link."""
        return self._lost is None

    def look(self) -> bool:
        """See Link. The end of the connection can be read without taking anything."""
        if self._lost is None:
            try:
                # Looked at and left there: what has come belongs to whoever reads.
                data = self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except OSError as error:
                self._lose(f"the connection to {self._address} broke: {error}")
            else:
                if not data:
                    self._lose(f"the queue manager at {self._address} closed the connection")
                elif not self._slots:
                    self._overhear()
        return self._lost is None

    def _overhear(self) -> None:
        """Something came although nobody waits: the queue manager says that it stops."""
        if self._reading.acquire(blocking=False):
            try:
                self._read(wait=False)
            finally:
                self._reading.release()
                self._hand_on()

    def _lose(self, text: str, kind: type[ServiceNotAvailable] = LinkLost) -> None:
        """Nobody will ever get an answer on this connection any more.

        Args:
            kind: LinkLost: what was asked may have happened. ManagerAway: it has not.
        """
        if self._lost is None:
            self._lost = kind(text)
        while self._slots:
            with contextlib.suppress(KeyError):
                self._slots.popitem()[1].put(kind(text))
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """See Link."""
        self._lose("this side closed the connection")
        # When nobody uses it any more: the number of a closed descriptor may be another file's at
        # once.
        with self._writing, self._reading:
            self._socket.close()

    # ---- calling --------------------------------------------------------------------------

    def call(self, request: Request) -> object:
        """See Link."""
        slot: _Slot = request.ticket or _Slot(request)
        try:
            if request.ticket is None:
                self._send(slot)
            if not request.waits:
                return None
            self._wait(slot)
        except OnceqError:
            raise
        except BaseException:
            # Interrupted anywhere between the first byte written and the last one read: what
            # stands in the connection is no longer known.
            self._lose("a call on this connection was interrupted")
            raise
        finally:
            request.ticket = None  # Asked again, it is sent again.
        if isinstance(slot.result, OnceqError):
            raise slot.result
        return slot.result

    def _send(self, slot: _Slot) -> None:
        request = slot.request
        with self._writing:
            if self._lost is not None:
                raise ManagerAway(str(self._lost))
            slots: dict[int, _Slot] = {}
            pieces = self._numbered(slot, slots)
            if request.behind is not None:
                request.behind.ticket = behind = _Slot(request.behind)
                pieces += self._numbered(behind, slots)
            self._held += pieces
            if request.lazy:
                return
            pieces, self._held = self._held, []
            if slots:
                # Before the first byte goes out: the answer may be there before `sendmsg` returns.
                self._slots |= slots
                if self._lost is not None:  # It broke before the slot could be seen.
                    self._forget(slots)
                    raise ManagerAway(str(self._lost))
            pieces = _few(pieces)
            try:
                done = self._socket.sendmsg(pieces)
            except PartlyWritten as error:
                self._lose(f"the connection to {self._address} broke: {error}")
                return
            except OSError as error:
                self._unsent(slots, f"the connection to {self._address} broke: {error}")
                return
            try:
                self._write_rest(pieces, done)
            except OSError as error:
                self._lose(f"the connection to {self._address} broke: {error}")

    def _numbered(self, slot: _Slot, slots: dict[int, _Slot]) -> list[Buffer]:
        """A request as bytes; if it waits it has a number, under which its slot is to be found."""
        number = 0
        if slot.request.waits:
            number = self._number = self._number % 0xFFFF_FFFF + 1
            slots[number] = slot
        return written(number, slot.request.asked)

    def _forget(self, slots: Iterable[int]) -> None:
        for number in slots:
            self._slots.pop(number, None)

    def _unsent(self, slots: Collection[int], text: str) -> None:
        """Nothing of a frame could be written, so that its request has not happened. Whoever
        waits for other answers reads on: they may be there, or the reason why they are not."""
        self._forget(slots)
        if self._slots:
            self._lost = self._lost or LinkLost(text)
        else:
            self._lose(text)
        if slots:
            raise ManagerAway(text)

    def _write_rest(self, pieces: Sequence[Buffer], done: int) -> None:
        if done == sum(map(len, pieces)):
            return
        for piece in pieces:
            size = len(piece)
            if done < size:
                self._socket.sendall(memoryview(piece)[done:] if done else piece)
                done = 0
            else:
                done -= size

    # ---- reading --------------------------------------------------------------------------

    def _wait(self, slot: _Slot) -> None:
        slot.waits = True
        while not slot.done:
            if self._reading.acquire(blocking=False):
                try:
                    while not slot.done:
                        self._read()
                finally:
                    self._reading.release()
                    self._hand_on()
            else:
                acquire(slot.lock)

    def _hand_on(self) -> None:
        """Let another waiting thread read."""
        if not self._slots:
            return
        for slot in list(self._slots.values()):
            if slot.waits and not slot.done:
                slot.nudge()
                return

    def _told(self, error: OnceqError) -> None:
        """The queue manager ends the connection, and says why."""
        if isinstance(error, ServiceNotAvailable):
            # It stops in order, and this comes behind the last answer.
            self._lose(error.text, ManagerAway)
        else:
            self._lose(f"the queue manager at {self._address} ended the connection: {error}")

    def _read(self, *, wait: bool = True) -> None:
        """Hand out what has come; if nothing has, wait for it."""
        size = min(max(self._parser.wanted, READ_BYTES_MIN), READ_BYTES_MAX)
        try:
            data = self._received(size) if wait else self._socket.recv(size, socket.MSG_DONTWAIT)
            if not data:
                raise ConnectionError("the queue manager closed it")
            answers = self._parser.feed(data)
            for number, code, head, rest in answers:
                if number == 0:
                    self._told(failure(head))
                    return
                slot = self._slots.pop(number, None)
                if slot is not None:
                    slot.put(_result(slot.request, code, head, rest))
        except BlockingIOError:
            if wait:
                self._lose(f"the queue manager at {self._address} gave no answer in time")
        except (OSError, OnceqError) as error:
            self._lose(f"the connection to {self._address} broke: {error}")

    def _received(self, size: int) -> bytes:
        """What has come, or comes; raises BlockingIOError if nothing comes in time."""
        with contextlib.suppress(BlockingIOError):
            return self._socket.recv(size, socket.MSG_DONTWAIT)
        until = None
        if self._answer_timeout is not None:
            until = time.monotonic() + self._answer_timeout
        while True:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise BlockingIOError
            if wait_readable(self._socket.fileno(), left):
                # What has come over TLS may be TLS's own.
                with contextlib.suppress(BlockingIOError):
                    return self._socket.recv(size, socket.MSG_DONTWAIT)


def _few(pieces: list[Buffer]) -> list[Buffer]:
    """Not more pieces than the system takes at once."""
    return [b"".join(pieces)] if len(pieces) > PIECES_MAX else pieces


def _result(request: Request, code: int, head: memoryview, rest: memoryview) -> object:
    try:
        return decode(request.kind, code, head, rest)
    except OnceqError as error:
        return error
