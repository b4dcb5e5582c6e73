"""What was appended last, in memory: it is what will be read first.

A payload is remembered in one piece or in several, one behind the other; nobody changes them.

One thread adds; any thread reads without a lock. That is safe because a reader takes the whole
state in one step, lists only grow at their end, and trimming makes new lists.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

TRIM_AT: Final = 4_096
"""Forgotten entries that are worth copying the lists for."""


class Recent:
    """Payloads by address, at least as many as are not written yet, at most ``bytes_max`` else."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._forgotten = 0
        self.first = 0
        """Everything that was added from this address on is remembered."""
        self._state: tuple[list[int], list[bytes | bytearray]] = ([], [])

    def add(self, address: int, payload: bytes | bytearray, *, written: int) -> None:
        """Remember a payload, or a piece of one; those wholly before ``written`` may be forgotten
        for it."""
        places, payloads = self._state
        payloads.append(payload)
        places.append(address)
        self._bytes += len(payload)
        while self._bytes > self._bytes_max and places[self._forgotten] < written:
            self._bytes -= len(payloads[self._forgotten])
            payloads[self._forgotten] = b""
            self._forgotten += 1
            self.first = places[self._forgotten]
        if self._forgotten > TRIM_AT and self._forgotten * 2 > len(places):
            self._state = (places[self._forgotten :], payloads[self._forgotten :])
            self._forgotten = 0

    def read(self, address: int, size: int) -> memoryview | None:
        """The bytes at an address if they are remembered."""
        places, payloads = self._state
        index = bisect_right(places, address) - 1
        if index < 0:
            return None
        at = address - places[index]
        piece = memoryview(payloads[index])[at : at + size]
        if len(piece) == size:
            return piece
        return _across(places, payloads, index, at, size) if len(piece) else None

    @property
    def bytes(self) -> int:
        """Payload bytes remembered."""
        return self._bytes


def _across(
    places: list[int], payloads: list[bytes | bytearray], index: int, at: int, size: int
) -> memoryview | None:
    """Bytes that begin at ``at`` in one piece and go on in those behind it."""
    found: list[memoryview] = []
    end = places[index]
    while size and index < len(places) and places[index] == end and payloads[index]:
        piece = memoryview(payloads[index])
        found.append(piece[at : at + size])
        size -= len(found[-1])
        end += len(piece)
        index, at = index + 1, 0
    return memoryview(b"".join(found)) if not size else None
