# Made from client/tasks/running.py by tools/faces.py: edit that, and run `make format`.
"""What an object needs of its queue manager: it carries plans out, on any connection or on one
that the object keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from onceq.client.link import Session, ThreadLink
from onceq.client.plans.plan import Plan
from onceq.model.record import MutableRecord
from onceq.partners.procedures import describe

if TYPE_CHECKING:
    from onceq.partners.contract import AnyPartner, LastAgent, Partner

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class Runner(Protocol):
    """Carries plans out; a queue manager is one."""

    @property
    def _state(self) -> Session:
        """Of the application with it."""

    def live(self) -> ThreadLink:
        """Its connection, made again if it broke."""

    def _run(self, plan: Plan[T], on: Pinned | None = None) -> T:
        """Carry a plan out: on this connection and no other; None: on any."""


class Home(Runner, Protocol):
    """A queue manager whose transactions may have partners."""

    @property
    def id(self) -> str:
        """Its GUID."""

    def partner_for(self, connection: object) -> Partner:
        """What takes part for a connection."""

    def look_after(self, partner: AnyPartner) -> None:
        """Recover the resource of a partner from now on."""

    def look_after_rows(self, last: LastAgent) -> bool:
        """Recover branches that rows in the database of a last agent decide from now on."""

    def recover_soon(self) -> None:
        """Recover now."""


class Pinned(MutableRecord):
    """One connection, which is taken when something is first asked on it.

    Attributes:
        link: That connection, once it was taken.
    """

    link: ThreadLink | None = None

    def check_alive(self) -> bool:
        """Whether it lives, as far as can be known without asking."""
        return self.link is not None and self.link.check_alive()

    @property
    def alive(self) -> bool:
        """See Link."""
        return self.link is not None and self.link.alive


def opening(
    operation: Callable[Concatenate[Session, P], Plan[T]], make: Callable[[Home, Pinned, T], R]
) -> Callable[Concatenate[Home, P], R]:
    """An operation whose result lives as long as the connection that it was carried out on."""

    def call(self: Home, /, *args: P.args, **kwargs: P.kwargs) -> R:
        on = Pinned()
        return make(self, on, self._run(operation(self._state, *args, **kwargs), on))

    describe(call, operation, make.__qualname__.partition(".")[0])
    return call
