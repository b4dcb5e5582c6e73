"""One operation, two methods: for threads and for tasks.

An operation (``client/plans``) is a generator about something: a session, a unit of work, an open
queue. The objects that applications hold, its faces, have that as ``_state``, and carry plans out
with ``_run``. ``purge = threads(queues.purge)`` in a class for threads is a method with the
docstring, the parameters and the result of the operation; ``tasks(queues.purge)`` in a class for
tasks is the same, awaited.

What is more than one plan, such as a commit with partners, is a generator of calls on a face, and
becomes a function or method by ``in_threads`` and ``in_tasks`` of ``partners/procedures.py``.

The ``with`` block of a transaction makes it the current one until the block ends
(MQ_MTS_TRANSACTION, SND-25); blocks may be nested. Threads and tasks started inside inherit what
was current then, as context variables do.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from onceq.client.plans.plan import Plan
from onceq.partners.procedures import describe

if TYPE_CHECKING:
    from onceq.client.plans.unit_of_work import Unit

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")
State = TypeVar("State", covariant=True)


class ThreadsFace(Protocol[State]):
    """An object for threads."""

    @property
    def _state(self) -> State:
        """What its operations are about."""

    def _run(self, plan: Plan[T], /) -> T:
        """Carry a plan out."""


class TasksFace(Protocol[State]):
    """An object for tasks."""

    @property
    def _state(self) -> State:
        """What its operations are about."""

    async def _run(self, plan: Plan[T], /) -> T:
        """Carry a plan out."""


class Debts(Protocol):
    """A unit of work.

    Attributes:
        owed: What was called in it and has not been awaited to its end.
    """

    owed: list[str]


class HasDebts(Protocol):
    """A transaction for tasks."""

    @property
    def _state(self) -> Debts: ...


Owing = TypeVar("Owing", bound=HasDebts)


def threads(
    operation: Callable[Concatenate[S, P], Plan[T]],
) -> Callable[Concatenate[ThreadsFace[S], P], T]:
    """An operation as a method of a class for threads."""

    def call(self: ThreadsFace[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(operation(self._state, *args, **kwargs))

    describe(call, operation)
    return call


def tasks(
    operation: Callable[Concatenate[S, P], Plan[T]],
) -> Callable[Concatenate[TasksFace[S], P], Coroutine[Any, Any, T]]:
    """An operation as a method of a class for tasks."""

    async def call(self: TasksFace[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(operation(self._state, *args, **kwargs))

    describe(call, operation)
    return call


def counted(
    method: Callable[Concatenate[Owing, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Owing, P], Coroutine[Any, Any, T]]:
    """A method of a transaction for tasks, which is owed from its call until it was awaited."""
    name = method.__name__

    async def carry_out(self: Owing, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(self, *args, **kwargs)
        finally:
            self._state.owed.remove(name)

    carry_out.__qualname__ = method.__qualname__  # Python names it where it is never awaited.

    @wraps(method)
    def call(self: Owing, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        self._state.owed.append(name)
        return carry_out(self, *args, **kwargs)

    return call


Ambient = tuple[Any, object, "Unit", "Ambient"] | None
"""The innermost transaction, its queue manager and unit of work, and what is around it."""

_AMBIENT: Final[ContextVar[Ambient]] = ContextVar("onceq transactions", default=None)

get_ambient: Final[Callable[[], Ambient]] = _AMBIENT.get
"""What is around a block that begins."""
set_ambient: Final[Callable[[Ambient], object]] = _AMBIENT.set
"""A block begins, or what was around it is put back when it ends."""


def current_transaction(manager: object) -> Any:
    """Return the innermost open transaction of this queue manager, or None."""
    ambient = _AMBIENT.get()
    while ambient is not None:
        transaction, its_manager, unit, ambient = ambient
        if its_manager is manager and not unit.over:
            return transaction
    return None
