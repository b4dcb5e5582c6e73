"""Who has met both of two copies that run side by side (``faults/beside.py``).

A manager that has met one life, another one, and the first one again, knows that they are two: no
restart of one manager looks like that. Before it has, it takes what either of them says for the
word of the one, and may. It knows no longer than its process lives.
"""

from __future__ import annotations

from collections import defaultdict

from onceq.core.inputs import SessionOpened
from proof.sim.base.node import Node
from proof.sim.base.pair import Pair


class Meetings:
    """See the module."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self._opened: dict[tuple[int, int], list[tuple[int, bytes]]] = defaultdict(list)
        """By computer and process: sessions with the two, and the life that each was with."""
        self._spoke: set[tuple[int, int, int]] = set()
        """Computer, process, session: something came on it."""

    def opened(self, node: Node, item: SessionOpened) -> None:
        """A session is open."""
        if self.pair.twin is not None and item.peer == self.pair.twin.guid and item.life:
            self._opened[node.index, node.life].append((item.session, item.life))

    def spoke(self, node: Node, session: int) -> None:
        """Something has come on a session."""
        if self.pair.twin is not None:
            self._spoke.add((node.index, node.life, session))

    def with_both(self, node: Node) -> bool:
        """Whether the running process of a manager has met one life, another one, and the first
        one again: nobody can take that for one manager that was restarted."""
        who = node.index, node.life
        lives = [life for session, life in self._opened[who] if (*who, session) in self._spoke]
        return any(
            lives[at] in lives[:first] for first in range(len(lives))
            for at in range(first + 1, len(lives)) if lives[first] != lives[at]
        )  # fmt: skip
