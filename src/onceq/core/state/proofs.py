"""Which queue managers have proven who they are, and which one each plain address is.

A queue manager that has once shown a certificate is believed with one alone from then on, and an
address that is believed without proof (``plain_peers``) is the queue manager that it first said to
be (``model/identification.py`` judges by both). Durable tables of ``State``, changed by ``apply``
only.

Upholds: I24 (so many, not more), I28.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from onceq.core.state.setups import AddressBound, PeerProven, Setup
from onceq.model.identity import NO_GUID
from onceq.model.limits import BOUND_NAMES_MAX

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
