"""A connection to a queue manager for threads, made again when it breaks.

A call that finds the connection broken connects again; what was open on the old one is over
(transactions abort), and a commit whose answer was lost says so with ``InDoubt``.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from types import CodeType
from typing import ClassVar, Self, TypeVar

from onceq.client import link as settings
from onceq.client.link import (
    Session,
    StaysHere,
    ThreadLink,
    is_inside,
    of_parent,
    own,
    refuse_inside,
)
from onceq.client.plans.plan import Plan
from onceq.client.stopping import pause
from onceq.client.threads.running import Pinned, Runner
from onceq.errors import OnceqError, ServiceNotAvailable, WrongProcess
from onceq.model.identity import guid_text

T = TypeVar("T")


class Connected(StaysHere):
    """What carries plans out (``Runner``)."""

    def __init__(self, connect: Callable[[], ThreadLink], *, again: bool) -> None:
        """Connect.

        Args:
            again: Whether to connect again when the connection broke.
        """
        self._connect = connect
        self._again = again
        self._lock = threading.Lock()
        self._closed = False
        self._at_work: set[int] = set()
        """Threads that are in a call; also some that are not, if one was left in a strange way."""
        self._put_off: deque[Callable[[], object]] = deque()
        self._link: ThreadLink = connect()
        self._state = Session(self._link.greeting)
        own(self)

    def forked(self) -> None:
        """Give up what is the parent's: this is a child now.

        This application of a child is another one than its parent's.
        """
        self._lock = threading.Lock()
        self._state.forked()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def name(self) -> str:
        """Computer name of the queue manager, as format names have it."""
        return self._state.name

    @property
    def id(self) -> str:
        """Its GUID."""
        return guid_text(self._state.source)

    @property
    def _manager(self) -> Runner:
        """Itself, as what it makes knows it."""
        return self

    def close(self) -> None:
        """Leave a daemon; stop an embedded manager in order. Open transactions abort.

        In the middle of a call of the same thread (a signal handler) that call ends, and does it.
        """
        self._closed = True
        if threading.get_ident() in self._at_work and is_inside(self, self._calls):
            self._link.interrupt()
        else:
            self._link.close()

    def _afterwards(self, do: Callable[[], object]) -> None:
        """Do something when the call is over in the middle of which it was wanted."""
        self._put_off.append(do)

    def _go_home(self) -> None:
        """A call is over: do what was wanted in the middle of it."""
        while self._put_off:
            with contextlib.suppress(OnceqError, IndexError):
                self._put_off.popleft()()
        if self._closed:
            self._link.close()

    def _live(self) -> ThreadLink:
        """The link, connected again if it broke."""
        me = threading.get_ident()
        if me in self._at_work and is_inside(self, self._calls):
            raise refuse_inside(self.name)
        try:
            self._at_work.add(me)
            return self._find_link()
        finally:
            self._at_work.discard(me)
            if self._closed:
                self._go_home()

    def _find_link(self) -> ThreadLink:
        link = self._link
        if link.check_alive():
            return link
        with self._lock:
            if self._closed:
                raise ServiceNotAvailable("this queue manager was closed")
            if not self._link.alive:
                if not self._again:
                    raise ServiceNotAvailable(
                        "the embedded queue manager has stopped, or the connection was lost"
                    )
                self._link = self._reconnect()
            return self._link

    def _reconnect(self) -> ThreadLink:
        waits = iter(settings.RECONNECT_S)
        until = time.monotonic() + sum(settings.RECONNECT_S)
        while True:
            try:
                link = self._connect()
                break
            except ServiceNotAvailable:
                wait = next(waits, None)
                if wait is None or self._closed or time.monotonic() > until:
                    raise  # One that is silent takes all of the time for connecting each time.
                pause(wait)
        try:
            self._state.note_greeting(link.greeting)
        except ServiceNotAvailable:
            link.close()
            raise
        if self._closed:
            link.close()
        return link

    def _run(self, plan: Plan[T], on: Pinned | None = None) -> T:
        """Carry a plan out (for the classes of this package). It needs no connection until it
        asks something, and hears of it if there is none.

        Args:
            on: On this connection and no other; None: on any, and on another one if that breaks.
        """
        me = threading.get_ident()
        if me in self._at_work and is_inside(self, self._calls):
            raise refuse_inside(self.name)
        life = self._state.life
        repeats = 0 if on is not None else settings.REPEATS_MAX
        link: ThreadLink | None = None
        try:
            self._at_work.add(me)
            request = next(plan)
            while True:
                try:
                    if link is None:
                        link = on.link if on is not None else None
                    if link is None:
                        link = self._link if self._link.check_alive() else self._find_link()
                        if on is not None:
                            on.link = link
                    if self._state.life is not life:  # A fork came in the middle of this call.
                        raise of_parent("this call")
                except (ServiceNotAvailable, WrongProcess) as error:
                    request = plan.throw(error)
                    continue
                try:
                    result = link.call(request)
                except ServiceNotAvailable as error:
                    if repeats and request.repeatable(error):
                        repeats -= 1
                        link = None
                    else:
                        request = plan.throw(error)
                except BaseException as error:  # noqa: BLE001 - a plan sees every error
                    request = plan.throw(error)
                else:
                    request = plan.send(result)
        except StopIteration as stop:
            value: T = stop.value
            return value
        finally:
            self._at_work.discard(me)
            if self._closed or self._put_off:
                self._go_home()

    _calls: ClassVar[tuple[CodeType, ...]] = (_live.__code__, _run.__code__)
