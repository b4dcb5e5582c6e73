"""To whom a client belongs: one process, and in it one thread of control at a time.

What is made in a process belongs to it. In a child that was forked from it (the default of
``multiprocessing`` on Linux until Python 3.13; gunicorn with ``preload``, Celery) connections are
dropped without a word, because the bytes in them are the parent's: no shutdown, no farewell. A
manager then takes a new session and connects at its next call; what was open (transactions, queues
held open, cursors, branches) is refused by name.

A signal handler, ``__del__`` or the callback of a weak reference may run at any line of a call of
its thread, which holds locks there and has written half of something. So a call that comes in the
middle of another one on the same manager is refused (finding K5).

Upholds: I3a (an outcome is told only to who has made the commit), I4 (what the parent sends or
receives its child does not do again).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from functools import partial, wraps
from types import CodeType
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

from onceq.errors import CallInCall, NotCarriedOut, WrongProcess

FORKED: Final = (
    "was made before this process was forked, and belongs to the parent; in a child the queue "
    "manager itself can be used: begin anew with it"
)


class StaysHere:
    """What cannot be pickled or copied: it is one end of a connection of this process."""

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            f"{type(self).__name__} cannot be pickled or copied: it belongs to this process and "
            "its connection; hand on where the queue manager is, and connect there"
        )


class ForTasks(StaysHere):
    """What tasks use, in an ``async with``."""

    def __enter__(self) -> NoReturn:
        """Raises NotCarriedOut: nobody would wait for the end of the block."""
        raise NotCarriedOut(f"{type(self).__name__} is for tasks; write async with, not with")

    def __exit__(self, *exc: object) -> None:
        """Python looks for it before it enters."""


class Owned(Protocol):
    """Something of this process."""

    def forked(self) -> None:
        """This is a child now: give up what is the parent's, and touch none of it."""


_OWNED: Final[WeakSet[Owned]] = WeakSet()


def own(one: Owned) -> None:
    """Tell it of a fork from now on."""
    _OWNED.add(one)


def of_parent(what: str) -> WrongProcess:
    """The error for something that was made before a fork."""
    return WrongProcess(f"{what} {FORKED}")


def is_inside(one: object, codes: tuple[CodeType, ...]) -> bool:
    """Whether the caller was itself called, directly or not, from one of these methods of an
    object; looked up in the stack of this thread, and so true however a call was left before."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code in codes and frame.f_locals.get("self") is one:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def refuse_inside(name: str) -> CallInCall:
    """The error for a call in the middle of another one."""
    return CallInCall(
        f"a call of queue manager {name} came in the middle of another one of the same thread (in "
        "a signal handler, in __del__, or in a callback of a weak reference), and did nothing; "
        "only note there what is to be done: onceq.stopping() does so for signals. close() can be "
        "called"
    )


P = ParamSpec("P")
L = TypeVar("L")


def after_call(
    method: Callable[Concatenate[L, P], None],
) -> Callable[Concatenate[L, P], None]:
    """A method that gives something back. The garbage collector may call it in the middle of
    another call of its thread: then that call does it when it is over.

    Args:
        method: Of an object with a ``_manager``.
    """

    @wraps(method)
    def leave(self: L, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except CallInCall:
            one: Any = self
            one._manager._afterwards(partial(leave, self, *args, **kwargs))

    return leave


def drop_descriptor(number: int) -> None:
    """Let go of a parent's connection in its child, with nothing said on it.

    An empty file takes its number, so that a later close of the number closes that.
    """
    if number < 0:  # It was closed.
        return
    with contextlib.suppress(OSError):
        empty = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        if empty != number:
            os.dup2(empty, number, inheritable=False)
            os.close(empty)


def _after_fork() -> None:
    failed: list[Exception] = []
    for one in list(_OWNED):
        try:
            one.forked()
        except Exception as error:  # noqa: BLE001 - raised below
            failed.append(error)
    if failed:  # The interpreter prints it, and goes on.
        raise ExceptionGroup("connections of the parent could not be given up", failed)


os.register_at_fork(after_in_child=_after_fork)
