"""A connection to a daemon for threads: the caller that waits is the one that reads.

There is no reader thread, so a single caller pays for no switch. If several wait, one of them
reads for all and hands the reading on when its own answer has come.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence

from onceq.client.address import Address
from onceq.client.link import Greeting, LinkLost, Request, failure, result_of
from onceq.errors import OnceqError, ServiceNotAvailable
from onceq.model.run import Buffer
from onceq.wire.app import frames
from onceq.wire.app.frames import ANSWER, FAILED, Code

READ_BYTES = 1 << 20
PIECES_MAX = 64


class _Slot:
    __slots__ = ("done", "lock", "result")

    def __init__(self) -> None:
        self.done = False
        self.result: object = None
        self.lock = threading.Lock()
        self.lock.acquire()

    def nudge(self) -> None:
        with contextlib.suppress(RuntimeError):
            self.lock.release()

    def put(self, result: object) -> None:
        self.result = result
        self.done = True
        self.nudge()


class SocketLink:
    """See the module. Any thread may call."""

    def __init__(self, address: Address, timeout: float) -> None:
        """Connect and greet; raises ServiceNotAvailable, UnknownVersion."""
        self._address = address
        try:
            if address.path:
                self._socket = socket.socket(socket.AF_UNIX)
                self._socket.settimeout(timeout)
                self._socket.connect(address.path)
            else:
                self._socket = socket.create_connection((address.host, address.port), timeout)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise ServiceNotAvailable(
                f"no queue manager answers at {address} ({error.strerror or error}); is it "
                "running? 'onceq qm run' starts one"
            ) from error
        self._parser = frames.Parser()
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._slots: dict[int, _Slot] = {}
        self._request = 1
        self._lost: OnceqError | None = None
        self.greeting = self._greet()
        self._socket.settimeout(None)

    def _greet(self) -> Greeting:
        hello = frames.Hello(frames.VERSION, "onceq")
        try:
            self._socket.sendall(b"".join(frames.frame(1, Code.HELLO, hello)))
            while True:
                data = self._socket.recv(READ_BYTES)
                if not data:
                    raise ServiceNotAvailable(f"{self._address} closed the connection at once")
                for _, code, head, _ in self._parser.feed(data):
                    if code & FAILED:
                        raise failure(head)
                    if code == Code.HELLO | ANSWER:
                        said = frames.decode_head(head, frames.Welcome)
                        return Greeting(said.name, said.id, said.now_s)
        except OSError as error:
            raise ServiceNotAvailable(f"{self._address} does not answer: {error}") from error

    @property
    def alive(self) -> bool:
        """Whether requests can be made."""
        return self._lost is None

    def call(self, request: Request) -> object:
        """Ask and wait for the result; errors are raised, LinkLost if nobody knows."""
        slot = _Slot()
        number = self._send(request, slot if request.waits else None)
        if not request.waits:
            return None
        try:
            self._wait(slot)
        except BaseException:
            if request.code == Code.RECEIVE and not slot.done:
                with contextlib.suppress(OnceqError):
                    self._send(Request(Code.CANCEL, frames.Number(number)), None)
            raise
        if isinstance(slot.result, OnceqError):
            raise slot.result
        return slot.result

    def _send(self, request: Request, slot: _Slot | None) -> int:
        data = frames.pack_runs(list(request.runs)) if request.runs else []
        with self._writing:
            if self._lost is not None:
                raise ServiceNotAvailable(str(self._lost))
            number = self._request
            self._request = number % 0xFFFF_FFFF + 1
            if slot is not None:
                self._slots[number] = slot
            try:
                self._write(frames.frame(number, request.code, request.head, *data))
            except OSError as error:
                self._lose(f"the connection to {self._address} broke: {error}")
        return number

    def _write(self, pieces: Sequence[Buffer]) -> None:
        if len(pieces) > PIECES_MAX:
            pieces = [b"".join(pieces)]
        size = sum(map(len, pieces))
        done = self._socket.sendmsg(pieces)
        if done < size:
            self._socket.sendall(memoryview(b"".join(pieces))[done:])

    def _wait(self, slot: _Slot) -> None:
        while not slot.done:
            if self._reading.acquire(blocking=False):
                try:
                    while not slot.done and self._lost is None:
                        self._read()
                finally:
                    self._reading.release()
                    self._hand_on()
                if self._lost is not None and not slot.done:
                    raise LinkLost(str(self._lost))
            else:
                slot.lock.acquire()

    def _hand_on(self) -> None:
        """Let another waiting thread read."""
        for slot in list(self._slots.values()):
            if not slot.done:
                slot.nudge()
                return

    def _read(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
            if not data:
                raise ConnectionError("the queue manager closed it")
            answers = self._parser.feed(data)
        except (OSError, OnceqError) as error:
            self._lose(f"the connection to {self._address} broke: {error}")
            return
        for number, code, head, rest in answers:
            if number == 0:
                self._lose(f"the queue manager ended the connection: {failure(head)}")
                return
            slot = self._slots.pop(number, None)
            if slot is not None:
                try:
                    slot.put(result_of(code, head, rest))
                except OnceqError as error:
                    slot.put(error)

    def _lose(self, text: str) -> None:
        """Nobody will ever get an answer on this connection any more."""
        if self._lost is None:
            self._lost = LinkLost(text)
            slots, self._slots = self._slots, {}
            for slot in slots.values():
                slot.put(LinkLost(text))
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Leave; open transactions abort."""
        self._lose("this side closed the connection")
        with contextlib.suppress(OSError):
            self._socket.close()
