"""A cursor over bytes from outside: it cannot step outside them, and says where they are wrong."""

from __future__ import annotations

import struct

from onceq.errors import MalformedPacket
from onceq.model.run import Buffer


class Reader:
    """Reads one packet from front to back; every fault is a MalformedPacket with its offset."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: Buffer, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end

    def fault(self, what: str) -> MalformedPacket:
        """An error that names this place."""
        return MalformedPacket(f"{what}, at byte {self.at} of a packet of {self.end}")

    def need(self, size: int, what: str) -> int:
        """Step over ``size`` bytes; returns where they begin."""
        start = self.at
        if size > self.end - start:
            raise self.fault(f"{what} needs {size} bytes, {self.end - start} are left")
        self.at = start + size
        return start

    def take(self, size: int, what: str) -> bytes:
        """The next bytes."""
        start = self.need(size, what)
        return bytes(self.data[start : start + size])

    def unpack(self, form: struct.Struct, what: str) -> tuple[int, ...]:
        """The next fields."""
        start = self.need(form.size, what)
        return form.unpack_from(self.data, start)

    def text(self, size: int, what: str) -> str:
        """UTF-16 text of so many bytes with its terminator; returned without it."""
        raw = self.take(size, what)
        if size % 2 or size < 2 or raw[-2:] != b"\0\0":
            raise self.fault(f"{what} is not terminated")
        try:
            text = raw[:-2].decode("utf-16-le")
        except UnicodeDecodeError:
            raise self.fault(f"{what} is not UTF-16") from None
        if "\0" in text:
            raise self.fault(f"{what} ends before its length")
        return text

    def align(self, start: int, what: str) -> None:
        """Step to the next multiple of 4 counted from ``start``."""
        self.need(-(self.at - start) % 4, what)
