"""Which queue manager answers under which name: learned when a name is first connected to.

A format name such as ``DIRECT=OS:BETA\\private$\\q`` says where to connect, not who is there. The
GUID of the manager that answered first is remembered, durably, so that only its word counts about
what was transmitted to that name (``core/peers/trust.py``), also after a restart and when it comes
on another session. Durable tables of ``State``, changed by ``apply`` only.

Upholds: I10, I24 (so many names, not more).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from onceq.core.state.queues import TRANSACTIONAL_LANE, OutgoingQueue
from onceq.core.state.rows import read_row, row_of
from onceq.model.limits import BOUND_NAMES_MAX, OWNERS_MAX
from onceq.model.record import Record


class Binding(Record, frozen=True):
    """Who answers under a name.

    Attributes:
        guid: Of the manager.
        since_s: Second since which it is so.
        by_hand: An operator has said so.
    """

    guid: bytes
    since_s: int
    by_hand: bool = False


class Bindings:
    """Managers by the name that is connected to, such as ``os:beta``
    (``OutgoingQueue.bound_name``)."""

    def __init__(self) -> None:
        self._names: dict[str, Binding] = {}
        self._count: Counter[bytes] = Counter()

    def __len__(self) -> int:
        return len(self._names)

    def get(self, name: str) -> Binding | None:
        """Who answers under a name; None: nobody has yet."""
        return self._names.get(name)

    def guid_of(self, name: str) -> bytes:
        """The same as a GUID; empty if nobody has."""
        found = self._names.get(name)
        return found.guid if found is not None else b""

    def named(self, guid: bytes) -> list[str]:
        """Names under which a manager answers."""
        return [name for name, binding in self._names.items() if binding.guid == guid]

    def items(self) -> Iterable[tuple[str, Binding]]:
        """Every name."""
        return self._names.items()

    @property
    def full(self) -> bool:
        """Whether no further name is remembered."""
        return len(self._names) >= BOUND_NAMES_MAX

    def bind(self, name: str, binding: Binding) -> bytes:
        """Remember it; gives the GUID that was bound before, or an empty one."""
        before = self.guid_of(name)
        if before:
            self.forget(name)
        self._names[name] = binding
        self._count[binding.guid] += 1
        return before

    def known(self, guid: bytes) -> bool:
        """Whether a manager answers under any name."""
        return guid in self._count

    def forget(self, name: str) -> None:
        """Whoever answers next is bound."""
        gone = self._names.pop(name, None)
        if gone is not None:
            self._count[gone.guid] -= 1
            if not self._count[gone.guid]:
                del self._count[gone.guid]

    def dump(self) -> list[list[Any]]:
        """The rows of a checkpoint."""
        return [[name, *row_of(binding)] for name, binding in self._names.items()]

    def load(self, rows: Iterable[list[Any]]) -> None:
        """Take the rows of a checkpoint."""
        for name, *row in rows:
            self.bind(name, read_row(Binding, row))


def holders(outgoing: OutgoingQueue, now: bytes, counter: int | None = None) -> tuple[bytes, ...]:
    """The managers that a message of an outgoing queue may have been transmitted to; none if nobody
    was known to answer there, or it is reached over HTTP.

    Args:
        now: The one that answers under its name; empty if nobody does.
        counter: Of the message; None: any message.
    """
    if outgoing.over_http:
        return ()
    if not outgoing.bound_name:
        return (outgoing.name.guid,)
    found = [
        guid
        for guid, first, end in outgoing.served_before
        if counter is None or first <= counter < end
    ]
    if now and (counter is None or counter >= outgoing.served_from):
        found.append(now)
    return tuple(dict.fromkeys(found))


def hand_over(outgoing: OutgoingQueue, before: bytes, sent: int | None) -> None:
    """Another manager serves an outgoing queue from now on.

    Of what was transmitted until now the one before may still tell; of what is not acknowledged,
    and of all that comes, the new one.

    Args:
        sent: The last counter that was transmitted, where that is less than all.
    """
    lane = outgoing.lanes.get(TRANSACTIONAL_LANE)
    if lane is None:
        return
    outgoing.served_before = (
        *outgoing.served_before[1 - OWNERS_MAX :],
        (before, outgoing.served_from, lane.next if sent is None else sent + 1),
    )
    outgoing.served_from = lane.first_available()
