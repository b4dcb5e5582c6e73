"""One database that recovery looks after, at each address where an application has found it.

A standby that was promoted is the same database at another address. The connection string of the
application names both, but a connection tells only where it leads. So recovery keeps each address
that a connection has shown: it goes on with the newest when a new one is shown, and with the next
one when the present one gives no answer.
"""

from __future__ import annotations

from typing import Final, Generic, Protocol, TypeVar

ADDRESSES_MAX: Final = 4
"""Of one database; the one that was shown first goes."""


class Closing(Protocol):
    """A way to a database: a Resource or an Agent."""

    def close(self) -> None:
        """Let go of connections; never raises."""


Way = TypeVar("Way", bound=Closing)


class Addresses(Generic[Way]):
    """The ways to one database.

    Attributes:
        ways: By address; the present one is the first.
    """

    __slots__ = ("ways",)

    def __init__(self, address: str, way: Way) -> None:
        self.ways = {address: way}

    @property
    def present(self) -> Way:
        """The one to ask now."""
        return next(iter(self.ways.values()))

    def __len__(self) -> int:
        return len(self.ways)

    def show(self, address: str, way: Way) -> bool:
        """Ask at a new address from now on; False (and ``way`` is closed) if it is known."""
        if address in self.ways:
            way.close()
            return False
        self.ways = {address: way, **self.ways}
        while len(self.ways) > ADDRESSES_MAX:
            self.ways.popitem()[1].close()
        return True

    def turn(self) -> None:
        """The present one gives no answer: ask at the next one."""
        address = next(iter(self.ways))
        self.ways[address] = self.ways.pop(address)

    def close(self) -> None:
        """Close all."""
        for way in self.ways.values():
            way.close()
