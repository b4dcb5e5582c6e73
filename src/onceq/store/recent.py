"""The last appended records, in memory: they are what will be read first.

One thread adds; any thread reads without a lock. That is safe because a reader takes the whole
state in one step, lists only grow at their end, and trimming makes new lists.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

TRIM_AT: Final = 4_096
"""Forgotten entries that are worth copying the lists for."""


class Recent:
    """Payloads by address: all unwritten ones, and others up to ``bytes_max``."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._forgotten = 0
        self.first = 0
        """Everything that was added from this address on is remembered."""
        self._state: tuple[list[int], list[bytes]] = ([], [])

    def add(self, address: int, payload: bytes, *, written: int) -> None:
        """Remember a payload; those wholly before ``written`` may be forgotten for it."""
        places, payloads = self._state
        # The payload before its place: a reader in another thread looks a place up, and then takes
        # the payload of the same index.
        payloads.append(payload)
        places.append(address)
        self._bytes += len(payload)
        while self._bytes > self._bytes_max and places[self._forgotten] < written:
            self._bytes -= len(payloads[self._forgotten])
            # Emptied, not removed: readers hold indexes into these lists.
            payloads[self._forgotten] = b""
            self._forgotten += 1
            self.first = places[self._forgotten]
        if self._forgotten > TRIM_AT and self._forgotten * 2 > len(places):
            self._state = (places[self._forgotten :], payloads[self._forgotten :])
            self._forgotten = 0

    def read(self, address: int, size: int) -> memoryview | None:
        """Return the bytes at an address if they are remembered."""
        places, payloads = self._state
        index = bisect_right(places, address) - 1
        if index < 0:
            return None
        at = address - places[index]
        piece = memoryview(payloads[index])[at : at + size]
        return piece if len(piece) == size else None

    @property
    def bytes(self) -> int:
        """Return the number of remembered payload bytes."""
        return self._bytes
