"""A connection to a daemon for threads: the caller that waits is the one that reads.

There is no reader thread, so a single caller pays for no switch. If several wait, one of them
reads for all and hands the reading on when its own answer has come: to one that waits for it, and
never to one that is still writing, because the manager may want its answers read before it reads
on itself.
"""

from __future__ import annotations

import contextlib
import math
import socket
import struct
import threading
import time
from collections.abc import Iterable, Sequence

from onceq import errors
from onceq.client.address import ManagerAddress
from onceq.client.connecting import READ_BYTES_MIN, Socket, connected, greet
from onceq.client.credentials import Credentials
from onceq.client.link import LinkRequest, PartlyWritten, drop_descriptor, of_parent, overdue, own
from onceq.client.stopping import acquire, wait_readable
from onceq.model.requests import Receive
from onceq.model.run import Buffer
from onceq.sockets import both_ends
from onceq.wire.app import frames
from onceq.wire.app.frames import FrameCode, decode, failure, written

READ_BYTES_MAX = 1 << 20
PIECES_MAX = 64
CLOSE_S = 1.0
"""A connection that somebody still uses then is ended, and its descriptor goes with the object."""


class _Slot:
    """Where one caller waits for its answer."""

    __slots__ = ("done", "due", "given_up", "lock", "request", "result", "waits")

    def __init__(self, request: LinkRequest) -> None:
        self.request = request
        self.done = False
        self.waits = False
        self.given_up = False
        self.due: float | None = None
        self.result: object = None
        self.lock = threading.Lock()
        self.lock.acquire()

    def nudge(self) -> None:
        """Wake the caller, once or more."""
        with contextlib.suppress(RuntimeError):
            self.lock.release()

    def put(self, result: object) -> None:
        """The answer, unless there is one."""
        if self.done:
            return
        if self.given_up:
            self.request.missed(result)
        self.result = result
        self.done = True
        self.nudge()


class SocketLink:
    """A connection to a daemon for threads. Any thread may call."""

    def __init__(
        self,
        address: ManagerAddress,
        timeout: float,
        answer_timeout: float | None = None,
        *,
        credentials: Credentials | None = None,
    ) -> None:
        """Connect and greet; raises ServiceNotAvailable, UnknownVersion, AccessDenied.

        Args:
            timeout: Seconds for that.
            answer_timeout: Seconds for each answer afterwards; None: no limit.
            credentials: What it shows; None: what the environment says.
        """
        self._address = address
        self._answer_timeout = answer_timeout
        shown = credentials or Credentials()
        since = time.monotonic()
        self._socket: Socket = connected(address, timeout, shown)
        self._parser = frames.Parser()
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._slots: dict[int, _Slot] = {}
        self._held: list[Buffer] = []
        self._number = 0
        self._lost: errors.OnceqError | None = None
        try:
            self.greeting = greet(
                self._socket, address, self._parser, shown, since=since, timeout=timeout
            )
            self._socket.settimeout(None)
            # By the kernel: a timeout of Python's would let ``look`` wait as well. (What is read is
            # waited for in ``_received``.)
            seconds = both_ends.SILENT_S if answer_timeout is None else answer_timeout
            span = struct.pack("@ll", *divmod(round(seconds * 1_000_000), 1_000_000))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, span)
        except BaseException:
            self._socket.close()
            raise
        own(self)

    def forked(self) -> None:
        """Give up what is the parent's. A call of this thread hears whose its answer is."""
        self._lost = of_parent("this call")
        if isinstance(self._socket, socket.socket):
            drop_descriptor(self._socket.fileno())
        else:
            self._socket.forked()
        self._writing, self._reading = threading.Lock(), threading.Lock()
        slots, self._slots = self._slots, {}
        for slot in slots.values():
            slot.put(of_parent("this call"))

    # ---- whether it lives -----------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether requests can be made, as far as is known."""
        return self._lost is None

    def check_alive(self) -> bool:
        """Return the same, after a check whether the connection broke while it was idle.

        The end of the connection can be read without taking anything.
        """
        if self._lost is not None:
            return False
        try:
            # Looked at and left there: what has come belongs to the thread that reads.
            data = self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError as error:
            self._lose(f"the connection to {self._address} broke: {error}")
            return self._lost is None
        if not data:
            self._lose(f"the queue manager at {self._address} closed the connection")
        elif all(slot.given_up for slot in list(self._slots.values())):
            # Something came although nobody waits: the queue manager says that it stops, or answers
            # what was given up.
            reading = self._reading
            if reading.acquire(blocking=False):
                try:
                    self._read(wait=False)
                finally:
                    reading.release()
                    self._hand_on()
        return self._lost is None

    def _lose(self, text: str, kind: type[errors.ServiceNotAvailable] = errors.LinkLost) -> None:
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

    def interrupt(self) -> None:
        """Begin to leave, in the middle of a call of this thread: that ends, and then leaves."""
        self._lose("this side closed the connection")

    def close(self) -> None:
        """Leave."""
        self.interrupt()
        # When nobody uses it any more: the number of a closed descriptor may be another file's at
        # once. Everybody has been woken; but this thread may itself be in the middle of a look.
        if self._writing.acquire(timeout=CLOSE_S):
            try:
                if self._reading.acquire(timeout=CLOSE_S):
                    try:
                        self._socket.close()
                    finally:
                        self._reading.release()
            finally:
                self._writing.release()

    # ---- calling --------------------------------------------------------------------------

    def call(self, request: LinkRequest) -> object:
        """Ask and wait for the result; errors are raised."""
        slot: _Slot = request.ticket or _Slot(request)
        try:
            if request.ticket is None:
                self._send(slot)
            if not request.waits:
                return None
            self._wait(slot)
            if not slot.done:
                # Messages that the answer brings at last are kept for the next receive; anything
                # else that it says is dropped, and the connection is given up, so that the manager
                # undoes what is open there.
                slot.waits = False
                slot.given_up = True
                text = overdue(self._address)
                if request.late is None:
                    self._lose(text)
                raise errors.AnswerOverdue(text)
        except errors.OnceqError:
            raise
        except BaseException as error:
            # Interrupted anywhere between the first byte written and the last one read: what
            # comes next in the connection is no longer known.
            self._lose("a call on this connection was interrupted")
            error.add_note("onceq: this came in the middle of a call, which may have happened")
            raise
        finally:
            request.ticket = None  # Asked again, it is sent again.
        if isinstance(slot.result, errors.OnceqError):
            raise slot.result
        return slot.result

    def _check(self) -> None:
        """Raises ManagerAway if the connection is lost, WrongProcess if it is the parent's."""
        if isinstance(self._lost, errors.WrongProcess):
            raise of_parent("this call")
        if self._lost is not None:
            raise errors.ManagerAway(str(self._lost))

    def _send(self, slot: _Slot) -> None:
        request = slot.request
        if self._lost is not None:  # A call that was interrupted may have kept the lock.
            self._check()
        with self._writing:
            self._check()
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
                    self._check()
            pieces = _few(pieces)
            try:
                done = self._socket.sendmsg(pieces)
            except PartlyWritten as error:
                self._lose(f"the connection to {self._address} broke: {error}")
                return
            except OSError as error:
                # Nothing of a frame could be written, so that its request has not happened. The
                # threads that wait for other answers read on: these may be there, or the reason
                # why they are not.
                text = f"the connection to {self._address} broke: {error}"
                self._forget(slots)
                if self._slots:
                    self._lost = self._lost or errors.LinkLost(text)
                else:
                    self._lose(text)
                if slots:
                    raise errors.ManagerAway(text) from error
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
            request = slot.request
            if request.until is not None or isinstance(request.asked, Receive):
                slot.due = request.due(time.monotonic())
        return written(number, slot.request.asked)

    def _forget(self, slots: Iterable[int]) -> None:
        for number in slots:
            self._slots.pop(number, None)

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
        """Until its answer is there, or overdue."""
        slot.waits = True
        while not slot.done and (slot.due is None or time.monotonic() < slot.due):
            reading = self._reading
            if reading.acquire(blocking=False):
                try:
                    while not slot.done and (slot.due is None or time.monotonic() < slot.due):
                        self._read(until=slot.due)
                finally:
                    reading.release()
                    self._hand_on()
            else:
                acquire(slot.lock, slot.due)

    def _hand_on(self) -> None:
        """Let another waiting thread read."""
        if not self._slots:
            return
        for slot in list(self._slots.values()):
            if slot.waits and not slot.done:
                slot.nudge()
                return

    def _take_farewell(self, error: errors.OnceqError) -> None:
        """Lose the connection, which the queue manager ends with the reason ``error``."""
        if isinstance(error, errors.ServiceNotAvailable):
            # It stops in order, and this comes behind the last answer.
            self._lose(error.text, errors.ManagerAway)
        else:
            self._lose(f"the queue manager at {self._address} ended the connection: {error}")

    def _read(self, *, wait: bool = True, until: float | None = None) -> None:
        """Hand out what has come; if nothing has, wait for it, until then at most."""
        size = min(max(self._parser.wanted, READ_BYTES_MIN), READ_BYTES_MAX)
        try:
            data = (
                self._received(size, until)
                if wait
                else self._socket.recv(size, socket.MSG_DONTWAIT)
            )
            if not data:
                raise ConnectionError("the queue manager closed it")
            answers = self._parser.feed(data)
            for number, code, head, rest in answers:
                if number == 0:
                    self._take_farewell(failure(head))
                    return
                slot = self._slots.get(number)
                if slot is not None:
                    slot.put(_result(slot.request, code, head, rest))
                    self._slots.pop(number, None)  # Last: what comes between tells its caller.
        except BlockingIOError:
            if wait and not (until is not None and time.monotonic() >= until):
                self._lose(f"the queue manager at {self._address} gave no answer in time")
        except (OSError, errors.OnceqError) as error:
            self._lose(f"the connection to {self._address} broke: {error}")

    def _received(self, size: int, until: float | None) -> bytes:
        """What has come, or comes; raises BlockingIOError if nothing comes in time."""
        with contextlib.suppress(BlockingIOError):
            return self._socket.recv(size, socket.MSG_DONTWAIT)
        now = time.monotonic()
        lost = now + (self._answer_timeout or math.inf)
        ask = now + both_ends.SILENT_S / 2
        while True:
            left = min(lost, ask, math.inf if until is None else until) - time.monotonic()
            if left <= 0 and ask > time.monotonic():
                raise BlockingIOError
            if left <= 0:
                self._ask_for_life()
                lost, ask = min(lost, ask + both_ends.SILENT_S / 2), math.inf
            elif wait_readable(self._socket.fileno(), None if left == math.inf else left):
                # What has come over TLS may be TLS's own.
                with contextlib.suppress(BlockingIOError):
                    return self._socket.recv(size, socket.MSG_DONTWAIT)

    def _ask_for_life(self) -> None:
        """Let the manager say anything at all; a call that is still writing notices by itself."""
        writing = self._writing
        if writing.acquire(blocking=False):
            try:
                number = self._number = self._number % 0xFFFF_FFFF + 1
                with contextlib.suppress(OSError):
                    self._socket.sendall(b"".join(frames.frame(number, FrameCode.LIFE, ())))
            finally:
                writing.release()


def _few(pieces: list[Buffer]) -> list[Buffer]:
    """Not more pieces than the system takes at once."""
    return [b"".join(pieces)] if len(pieces) > PIECES_MAX else pieces


def _result(request: LinkRequest, code: int, head: memoryview, rest: memoryview) -> object:
    try:
        return decode(request.kind, code, head, rest)
    except errors.OnceqError as error:
        return error
