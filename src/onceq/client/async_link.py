"""A connection to a daemon for tasks of an event loop, and how a task gets what another thread has.

A signal handler may raise at any line that the event loop runs, also at the first one of what
brings a result. The loop reports that error and goes on, and forgets what it was to bring. So the
thread that has a result puts it down itself, and schedules twice what brings it: one of them may be
lost.

Upholds: what has come for a task is not lost, and ends its wait (findings K5 and R20).
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import ssl
import time
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar, cast

from onceq import errors
from onceq.client.address import ManagerAddress
from onceq.client.connecting import UNGREETED, check_timeout, judge_ungreeted, kept_s
from onceq.client.credentials import ClientHello, Credentials, check_protocol
from onceq.client.link import Greeting, LinkRequest, drop_descriptor, of_parent, overdue, own
from onceq.model import requests
from onceq.model.run import Buffer
from onceq.sockets import both_ends
from onceq.wire.app import frames
from onceq.wire.app.frames import FrameCode, decode, failure, written

P = ParamSpec("P")
T = TypeVar("T")
TIMES = 2
"""So often it is scheduled that a result is brought."""


class Handover:
    """A place for one result. It belongs to the loop in which it is made."""

    __slots__ = ("_came", "_future", "_given_up", "_loop", "_missed")

    def __init__(self, missed: Callable[[object], None]) -> None:
        """
        Args:
            missed: Is called in the loop with what comes after it was given up.
        """
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self._loop.create_future()
        self._came: list[object] = []
        self._given_up = False
        self._missed = missed

    def put(self, result: object) -> None:
        """It has come, in any thread; the first one counts."""
        if self._came:
            return
        self._came.append(result)
        with contextlib.suppress(RuntimeError):  # The loop may be gone; the others' are not.
            for _ in range(TIMES):
                self._loop.call_soon_threadsafe(self._bring)

    def put_here(self, result: object) -> None:
        """The same in the thread of its loop."""
        if not self._came:
            self._came.append(result)
        self._bring()  # once more if it was interrupted

    @property
    def awaited(self) -> bool:
        """Whether nothing has come, and it was not given up."""
        return not (self._came or self._given_up)

    def _bring(self) -> None:
        """In the loop: end the wait. It does nothing the second time."""
        if not self._given_up:
            if not self._future.done():
                self._future.set_result(None)
        elif self._came:
            self._missed(self._came[0])
            self._came.clear()

    async def take(self) -> object:
        """Wait for it."""
        await self._future
        return self._came[0]

    async def give_up(self, cancel: Callable[[], None], seconds: float) -> None:
        """Nobody takes it any more: end the wait, and let it count as missed when it comes.

        Args:
            cancel: Asks the other side to end it; not called if it has come.
            seconds: So long it is awaited, so that it is missed before this returns.
        """
        try:
            if not self._came:
                cancel()
                self._future = self._loop.create_future()
                await asyncio.wait([self._future], timeout=seconds)
        finally:
            self._given_up = True
            self._loop.call_soon(self._bring)
            self._bring()


async def in_thread(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """``asyncio.to_thread``, whose result is not lost."""
    done: list[T] = []
    place = Handover(lambda result: None)

    def carry_out() -> None:
        try:
            done.append(work(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001
            place.put(error)
        else:
            place.put(None)

    asyncio.get_running_loop().run_in_executor(None, carry_out)
    failed = await place.take()
    if isinstance(failed, BaseException):
        raise failed
    return done[0]


CANCEL_S_MAX = 1.0
"""How long a cancelled receive waits for the manager to hear of it."""
LOOK_TURNS = 3
"""The loop reads the end of a connection in one turn and tells of it in the next."""
WRITE_BYTES_MAX = 4 << 20
"""Requests waiting in the transport; calls wait above."""


class AsyncLink(asyncio.Protocol):
    """A connection to a daemon for tasks. Belongs to the loop that made it."""

    def __init__(self, address: ManagerAddress, credentials: Credentials | None = None) -> None:
        self._address = address
        self._shown = credentials or Credentials()
        self._hello: ClientHello | None = None
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:  # It was the parent's: this process was forked inside of it.
            raise errors.WrongProcess(
                "this process was forked inside of a running event loop, which goes on in the "
                "parent alone; fork before asyncio.run, and connect in what the child runs with it"
            ) from None
        self._parser = frames.Parser()
        self._transport: asyncio.Transport | None = None
        self._plain: socket.socket | None = None
        """What the transport writes to; it may have been closed there."""
        self._waiting: dict[int, tuple[Handover, LinkRequest, float | None]] = {}
        self._held: list[Buffer] = []
        self._number = 0
        self._lost: errors.OnceqError | None = None
        self._poll = select.poll()
        self._watch: asyncio.TimerHandle | None = None
        """Looks when the next answer is overdue, or the manager silent for long."""
        self._heard_s = 0.0
        """When something has come last while an answer was awaited, by the loop's clock."""
        self._writable = asyncio.Event()
        self._writable.set()
        self._greeted: asyncio.Future[Greeting | errors.OnceqError] = self._loop.create_future()
        self.greeting = Greeting("", b"", 0)
        own(self)

    def forked(self) -> None:
        """Give up what is the parent's. The loop is the parent's as well, and stays untouched."""
        self._transport = None
        self._lost = of_parent("this call")
        self._poll = select.poll()
        if self._plain is not None:
            drop_descriptor(self._plain.fileno())
        waiting, self._waiting = self._waiting, {}
        for place, _, _ in waiting.values():
            with contextlib.suppress(RuntimeError):  # the loop is over, or another thread's
                place.put_here(of_parent("this call"))

    @classmethod
    async def connect(
        cls, address: ManagerAddress, timeout: float, *, credentials: Credentials | None = None
    ) -> AsyncLink:
        """Connect and greet; raises ServiceNotAvailable, UnknownVersion, AccessDenied.

        Args:
            credentials: What it shows; None: what the environment says.
        """
        check_timeout(timeout)
        link = cls(address, credentials)
        until = time.monotonic() + timeout
        try:
            context = link._shown.context() if address.tls else None
            async with asyncio.timeout(timeout - kept_s(address, timeout)):
                if address.path:
                    await link._loop.create_unix_connection(lambda: link, address.path)
                else:
                    await link._loop.create_connection(
                        lambda: link, address.host, address.port, ssl=context
                    )
                said = await link._greeted
        except (OSError, TimeoutError) as error:
            there = link._transport is not None
            link.close()
            why = "no answer" if isinstance(error, TimeoutError) else ""
            found = address.unreachable(error, why)
            if there:
                found = await in_thread(partial(judge_ungreeted, address, found, until))
            raise found from error
        except BaseException:
            link.close()
            raise
        if isinstance(said, errors.OnceqError):
            link.close()
            if isinstance(said, UNGREETED):
                said = await in_thread(partial(judge_ungreeted, address, said, until))
            raise said
        link.greeting = said
        return link

    # ---- whether it lives -----------------------------------------------------------------

    def check_loop(self, *, leaving: bool = False) -> None:
        """Raise WrongLoop where it cannot be used from the loop that runs (finding K6)."""
        if self._of_parent or (leaving and self._loop.is_closed()):
            return
        if asyncio.get_running_loop() is not self._loop:
            raise errors.WrongLoop(
                f"this connection to {self._address} belongs to "
                f"{_describe_loop(self._loop)}, and this is another event loop; "
                "connect in each, inside what asyncio.run runs"
            )

    @property
    def _of_parent(self) -> bool:
        return isinstance(self._lost, errors.WrongProcess)

    @property
    def alive(self) -> bool:
        """Whether requests can be made, as far as is known."""
        return self._lost is None

    async def check_alive(self) -> bool:
        """Return the same, after a check whether the connection broke while it was idle.

        If bytes can be read, a few turns of the loop let this link notice that the other side has
        closed, or has announced its stop.
        """
        if self._lost is None and self._poll.poll(0):
            for _ in range(LOOK_TURNS):
                await asyncio.sleep(0)
        return self._lost is None

    def _lose(self, text: str, kind: type[errors.ServiceNotAvailable] = errors.LinkLost) -> None:
        """Note that the connection is lost, and end every wait with the error."""
        if self._lost is None:
            self._lost = kind(text)
        self._poll = select.poll()  # its descriptor may be another connection's soon
        if self._watch is not None:
            self._watch.cancel()
        self._writable.set()
        waiting, self._waiting = self._waiting, {}
        for place, _, _ in waiting.values():
            place.put_here(kind(text))
        if not self._greeted.done():
            self._greeted.set_result(errors.ManagerAway(text))
        if self._transport is not None:
            self._transport.close()

    def _ungreeted(self, error: Exception | None) -> None:
        """The other side has ended the connection; perhaps before it said who it is."""
        if self._greeted.done():
            return
        said: errors.OnceqError
        if isinstance(error, ssl.SSLError):
            said = self._address.unreachable(error)
        else:
            said = self._address.broke_at_once(error) if error else self._address.closed_at_once()
        self._greeted.set_result(said)

    def close(self) -> None:
        """Leave."""
        if not self._loop.is_closed():
            self._lose("this side closed the connection")
            return
        # Nothing can be done through its loop any more, but to end the connection.
        self._lost = self._lost or errors.LinkLost("the event loop of this connection was closed")
        self._transport = None
        if self._plain is not None:
            with contextlib.suppress(OSError):
                self._plain.shutdown(socket.SHUT_RDWR)

    # ---- calling --------------------------------------------------------------------------

    async def call(self, request: LinkRequest) -> object:
        """Ask and wait for the result; errors are raised."""
        if request.ticket is None:
            if not self._writable.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(both_ends.SILENT_S):
                        await self._writable.wait()
                if not self._writable.is_set():
                    self._lose(f"the queue manager at {self._address} takes nothing any more")
            if self._of_parent:
                raise of_parent("this call")
            if self._lost is not None or self._transport is None:
                raise errors.ManagerAway(str(self._lost))
            self._write(request)
            if not request.waits:
                return None
        place: Handover = request.ticket[1]
        try:
            result = await place.take()
        except GeneratorExit:
            raise  # The loop is over.
        except BaseException:
            # The answer may bring messages, which must not be lost with the task.
            if (given_up := request.to_give_up) is not None:
                await self._give_up(given_up)
            raise
        finally:
            request.ticket = None  # Asked again, it is sent again.
        if isinstance(result, errors.OnceqError):
            raise result
        return result

    def _write(self, request: LinkRequest) -> None:
        pieces = self._numbered(request)
        if request.behind is not None:
            pieces += self._numbered(request.behind)
        self._held += pieces
        if not request.lazy and self._transport is not None:
            held, self._held = self._held, []
            self._transport.writelines(held)

    def _numbered(self, request: LinkRequest) -> list[Buffer]:
        """A request as bytes; if it waits, its answer will be found by its ticket."""
        if not request.waits:
            return written(0, request.asked)
        number = self._number = self._number % 0xFFFF_FFFF + 1
        pieces = written(number, request.asked)
        place = Handover(request.missed)
        request.ticket = number, place
        now = self._loop.time()
        if not self._waiting:
            self._heard_s = now
        due = request.due(now)
        self._waiting[number] = (place, request, due)
        look = now + both_ends.SILENT_S / 2 if due is None else due
        if self._watch is None or self._watch.when() > look:
            self._look_at(look)
        return pieces

    # ---- a manager that is silent ---------------------------------------------------------

    def _look_at(self, when: float) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = self._loop.call_at(when, self._look_after)

    def _look_after(self) -> None:
        """Give up what is overdue; ask for a sign of life, and give up the connection without."""
        self._watch, now = None, self._loop.time()
        if self._lost is not None or not self._waiting:
            return
        for place, request, due in list(self._waiting.values()):
            if due is not None and now >= due and place.awaited:
                # Messages that it brings at last are kept for the next receive.
                place.put_here(errors.AnswerOverdue(overdue(self._address)))
                if request.late is None:
                    self._lose(overdue(self._address))
                    return
        pause_s = both_ends.SILENT_S / 2
        if now >= self._heard_s + 2 * pause_s:
            self._lose(f"the queue manager at {self._address} gave no answer in time")
            return
        if now >= self._heard_s + pause_s and self._transport is not None:
            number = self._number = self._number % 0xFFFF_FFFF + 1
            self._transport.writelines(frames.frame(number, FrameCode.LIFE, ()))
            looks = [self._heard_s + 2 * pause_s]
        else:
            looks = [self._heard_s + pause_s]
        looks += [due for place, _, due in self._waiting.values()
                  if due is not None and place.awaited]  # fmt: skip
        self._look_at(min(looks))

    async def _give_up(self, request: LinkRequest) -> None:
        """The task that receives was cancelled: end the wait at the manager too.

        It is awaited, so that what had been taken by then is back in reach of the next receive
        when the cancelling is over. A manager that does not answer is not waited for.
        """
        number, place = request.ticket

        def cancel() -> None:
            self._write(LinkRequest(requests.CancelReceive(number), waits=False))

        await place.give_up(cancel, CANCEL_S_MAX)

    # ---- asyncio --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport of a connection that was made (asyncio)."""
        own = self._transport = cast(asyncio.Transport, transport)
        if self._lost is not None:
            own.abort()
            return
        own.set_write_buffer_limits(high=WRITE_BYTES_MAX)
        plain = self._plain = own.get_extra_info("socket")
        self._poll.register(plain.fileno(), select.POLLIN)
        if not self._address.path:
            both_ends.watch(plain)
        try:
            tls = own.get_extra_info("ssl_object")
            if tls is not None:
                check_protocol(self._address, tls.selected_alpn_protocol())
            self._hello = self._shown.hello(self._address, plain, tls)
        except errors.OnceqError as error:
            self._greeted.set_result(error)
            own.abort()
            return
        except OSError as error:
            self._greeted.set_result(self._address.broke_at_once(error))
            own.abort()
            return
        own.writelines(self._hello.first)

    def data_received(self, data: bytes) -> None:
        """Take bytes that arrived (asyncio)."""
        self._heard_s = self._loop.time()
        try:
            for number, code, head, rest in self._parser.feed(data):
                self._take(number, code, head, rest)
        except errors.OnceqError as error:
            self._lose(f"the connection to {self._address} broke: {error}")
        except BaseException:
            # Of a signal handler. The loop goes on, and nobody else will hear of this answer.
            self._lose("the taking of an answer on this connection was interrupted")
            raise

    def _take(self, number: int, code: int, head: memoryview, rest: memoryview) -> None:
        if not self._greeted.done():  # What answers the hello, or comes before that.
            assert self._hello is not None, "it was said"
            assert self._transport is not None, "it was said there"
            try:
                said = self._hello.read_answer(code, head)
            except errors.OnceqError as refused:
                self._greeted.set_result(refused)
                return
            if isinstance(said, Greeting):
                self._greeted.set_result(said)
            else:
                self._transport.writelines(said)
            return
        if number == 0:
            error = failure(head)
            if isinstance(error, errors.ServiceNotAvailable):
                self._lose(error.text, errors.ManagerAway)  # behind the last answer
            else:
                self._lose(f"the queue manager ended the connection: {error}")
            return
        place, request, _ = self._waiting.get(number, (None, None, None))
        if place is None or request is None:
            return
        try:
            result = decode(request.kind, code, head, rest)
        except errors.OnceqError as error:
            result = error
        if place.awaited:
            place.put_here(result)
        else:
            request.missed(result)
        self._waiting.pop(number, None)  # Last: its caller hears of what comes between.

    def pause_writing(self) -> None:
        """Hold writes back: too much is unsent (asyncio)."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let writes go on (asyncio)."""
        self._writable.set()

    def eof_received(self) -> None:
        """Note that the other side has closed the connection (asyncio)."""
        self._ungreeted(None)
        self._lose(f"the queue manager at {self._address} closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection broke (asyncio)."""
        self._ungreeted(exc)
        self._lose(f"the connection to {self._address} broke" + (f": {exc}" if exc else ""))


def _describe_loop(loop: asyncio.AbstractEventLoop) -> str:
    """Return a phrase that names a loop and its state, for an error."""
    how = "is closed" if loop.is_closed() else "runs" if loop.is_running() else "does not run now"
    return f"the event loop that it was made in ({type(loop).__name__}, which {how})"
