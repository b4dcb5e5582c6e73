"""What an object needs of its queue manager: it carries plans out, on any connection or on one
that the object keeps."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from onceq.client.link import AsyncAsking, Session
from onceq.client.plans.plan import Plan
from onceq.model.record import MutableRecord
from onceq.partners.procedures import describe

if TYPE_CHECKING:
    from onceq.client.recovering import RecoveryThread
    from onceq.partners.contract import AsyncPartner

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class Runner(Protocol):
    """Carries plans out; a queue manager is one."""

    @property
    def _state(self) -> Session:
        """Of the application with it."""

    async def _live(self) -> AsyncAsking:
        """Its connection, made again if it broke."""

    async def _run(self, plan: Plan[T], on: Pinned | None = None) -> T:
        """Carry a plan out: on this connection and no other; None: on any."""


class Home(Runner, Protocol):
    """A queue manager whose transactions may have partners."""

    @property
    def id(self) -> str:
        """Its GUID."""

    def _partner_for(self, connection: object) -> AsyncPartner:
        """What takes part for a connection."""

    @property
    def _recovering(self) -> RecoveryThread:
        """What recovers resources of partners."""


class Pinned(MutableRecord):
    """One connection, which is taken when something is first asked on it.

    Attributes:
        link: That connection, once it was taken.
    """

    link: AsyncAsking | None = None

    async def check_alive(self) -> bool:
        """Whether it lives, as far as can be known without asking."""
        return self.link is not None and await self.link.check_alive()

    @property
    def alive(self) -> bool:
        """Whether requests can be made, as far as is known."""
        return self.link is not None and self.link.alive


def opening(
    operation: Callable[Concatenate[Session, P], Plan[T]], make: Callable[[Home, Pinned, T], R]
) -> Callable[Concatenate[Home, P], Coroutine[Any, Any, R]]:
    """An operation whose result lives as long as the connection that it was carried out on."""

    async def call(self: Home, /, *args: P.args, **kwargs: P.kwargs) -> R:
        on = Pinned()
        return make(self, on, await self._run(operation(self._state, *args, **kwargs), on))

    describe(call, operation, make.__qualname__.partition(".")[0])
    return call


class AsyncManagerPart:
    """Operations of one queue manager on one subject."""

    def __init__(self, manager: Runner) -> None:
        self._manager = manager
        self._state = manager._state

    async def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out (for the classes of this package)."""
        return await self._manager._run(plan)
