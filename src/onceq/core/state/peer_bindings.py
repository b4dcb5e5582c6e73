"""Which queue manager answers under which name or address, and which have proven who they are.

A format name such as ``DIRECT=OS:BETA\\private$\\q`` says where to connect, not which manager is
there. The GUID of the manager that answered first is remembered, so that only its word counts about
what was transmitted to that name (``core/peers/trust.py``), also after a restart and on another
session. A manager that has once shown a certificate is believed with a certificate alone from then
on. An address that is believed without proof (``plain_peers``) is the manager that it first claimed
to be (``model/identification.py`` judges by both).

Upholds: I10, I24 (BOUND_NAMES_MAX), I28.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queues import TRANSACTIONAL_LANE
from onceq.core.state.setups import AddressBound, PeerProven, Setup, read_row, row_of
from onceq.model.identity import NO_GUID
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


PREFIX: Final = "address:"
"""Before an address, among the names of managers."""


class Proofs:
    """See the module."""

    def __init__(self) -> None:
        self._proven: dict[bytes, None] = {}
        self._addresses: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._proven) + len(self._addresses)

    def proven(self, guid: bytes) -> bool:
        """Whether a queue manager has ever shown a certificate here."""
        return guid in self._proven

    def at(self, address: str) -> bytes:
        """The queue manager that an address is; empty: it has said nothing yet."""
        return self._addresses.get(address, b"")

    @property
    def addresses(self) -> Mapping[str, bytes]:
        """All addresses that are somebody."""
        return self._addresses

    @property
    def full(self) -> bool:
        """Whether no further one is remembered."""
        return len(self) >= BOUND_NAMES_MAX

    def apply(self, setup: Setup) -> None:
        """Apply a setup."""
        match setup:
            case PeerProven(guid):
                self.prove(guid)
            case AddressBound(address, guid) if guid == NO_GUID:
                self.forget(address)
            case AddressBound(address, guid):
                self.bind(address, guid)

    def prove(self, guid: bytes) -> None:
        """A queue manager has shown its certificate."""
        self._proven[guid] = None

    def bind(self, address: str, guid: bytes) -> None:
        """An address is that queue manager from now on."""
        self._addresses[address] = guid

    def forget(self, address: str) -> None:
        """The next one that speaks there is it."""
        self._addresses.pop(address, None)

    def dump(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {
            "proven": list(self._proven),
            "addresses": list(self._addresses.items()),
        }

    def load(self, values: Mapping[str, Any]) -> None:
        """From a checkpoint; older ones have nothing of it."""
        proven: Iterable[str] = values.get("proven", ())
        addresses: Iterable[tuple[str, str]] = values.get("addresses", ())
        self._proven = {bytes.fromhex(guid): None for guid in proven}
        self._addresses = {address: bytes.fromhex(guid) for address, guid in addresses}
