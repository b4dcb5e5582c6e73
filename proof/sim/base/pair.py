"""Which computers are copies of one manager, and which of the two a name leads to.

In some worlds (``faults/beside.py``) a copy of one manager runs beside the original, under its
identity. Everywhere else ``identity`` is the computer itself, and nobody is a copy.
"""

from __future__ import annotations

from proof.sim.base.node import Node


class Pair:
    """See the module.

    Attributes:
        of: Index of the manager that is copied; -1: none is.
        twin: The copy, once it was started.
        ended: The one of the two that is off the network for good.
        leads_to_twin: Whether the name of the two leads to the copy now.
        by_address: Whether the copy has taken the original's address along.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes
        self.of = -1
        self.twin: Node | None = None
        self.ended: Node | None = None
        self.leads_to_twin = False
        self.by_address = False

    @property
    def original(self) -> Node:
        """The one that was copied."""
        return self._nodes[self.of]

    @property
    def both(self) -> tuple[Node, ...]:
        """Both copies; empty as long as there is one only."""
        return (self.original, self.twin) if self.twin is not None else ()

    def identity(self, node: int) -> int:
        """The computer under whose name and GUID one speaks."""
        return self.of if self.twin is not None and node == self.twin.index else node

    def other(self, node: int) -> int:
        """The other one of the two."""
        assert self.twin is not None
        return self.of if node == self.twin.index else self.twin.index

    def reached(self, found: Node | None, address: str) -> Node | None:
        """Who is reached where a name, an address or a GUID leads to one of the two."""
        if found is None or self.twin is None or found.guid != self.twin.guid:
            return found
        # Where the two have queues, others reach them by an address, too, which the copy has taken
        # along; what it is called by for itself, nobody else knows.
        own = self.twin.ip if self.by_address else found.ip
        if address not in (own, self.twin.name.casefold()):
            found = self.twin if self.leads_to_twin else self.original
        return None if found is self.ended else found
