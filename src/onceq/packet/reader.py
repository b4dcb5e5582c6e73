"""A cursor over bytes from outside: it cannot step outside them, and reports where they are wrong.

Every size that a packet declares is compared with the remaining bytes before anything is taken, so
that nothing is allocated without them. ``need`` does it; the others compare by themselves first and
call ``need`` for its error: a packet has some fifteen fields, and a call for each was an eighth of
the cost of a received message.

Upholds: I24 (no buffer grows by a number that a remote party wrote).
"""

from __future__ import annotations

import struct
from typing import Any

from onceq.errors import MalformedPacket
from onceq.model.run import Buffer


class Reader:
    """Reads one packet from front to back; every fault is a MalformedPacket with its offset.

    Attributes:
        at: Offset of the next byte.
        paddings: The padding bytes stepped over so far, piece by piece.
    """

    __slots__ = ("at", "data", "end", "paddings")

    def __init__(self, data: Buffer, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end
        self.paddings: list[bytes] = []

    def fault(self, what: str) -> MalformedPacket:
        """Return an error that names this place."""
        return MalformedPacket(f"{what}, at byte {self.at} of a packet of {self.end}")

    def need(self, size: int, what: str) -> int:
        """Step over ``size`` bytes; return where they begin."""
        start = self.at
        if size > self.end - start:
            raise self.fault(f"{what} needs {size} bytes, {self.end - start} are left")
        self.at = start + size
        return start

    def take(self, size: int, what: str) -> bytes:
        """Return the next bytes."""
        start = self.at
        if size > self.end - start:
            self.need(size, what)
        self.at = end = start + size
        return bytes(self.data[start:end])

    def unpack(self, form: struct.Struct, what: str) -> tuple[Any, ...]:
        """Return the next fields."""
        start = self.at
        if form.size > self.end - start:
            self.need(form.size, what)
        self.at = start + form.size
        return form.unpack_from(self.data, start)

    def wide(self, size: int, what: str) -> str:
        """Return the UTF-16 text of the next ``size`` bytes, without the NUL that ends it.

        Half surrogates are kept unchanged: the field is an array of 16-bit characters, and a label
        that is not quite text is no reason to stop a stream of messages.
        """
        start = self.at
        if size > self.end - start:
            self.need(size, what)
        self.at = end = start + size
        raw = bytes(self.data[start:end])
        if size % 2 or raw[-2:] != b"\0\0":
            raise self.fault(f"{what} is not terminated")
        return raw[:-2].decode("utf-16-le", "surrogatepass")

    def align(self, start: int, what: str) -> None:
        """Step to the next multiple of 4 counted from ``start``; what is skipped is kept."""
        skipped = self.at
        end = skipped + (start - skipped) % 4
        if end > self.end:
            self.need(end - skipped, f"padding of {what}")
        self.at = end
        self.paddings.append(bytes(self.data[skipped:end]))
