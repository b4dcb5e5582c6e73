"""The fields of many packets at once: where they stand, and what stands there.

A batch of packets is one piece of bytes and a table of lengths. Every field stands at an offset
that a few others decide (names, a transaction, a label), so the offsets of all packets are
computed as arrays, and a field is taken out of all of them by one gather. Parts of different size
(labels, bodies) leave as Arrow arrays: their places become the offsets of an array that has what
lies between them as elements, too, and every second element is the answer. No object is made for
a packet.

Packets were checked when they arrived. They may be cut short (``picking`` of the service): whoever
asks for what is not there is told so (``CutShort``), and reads again.

Upholds: I24 (nothing is made larger than what came).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from onceq.packet import layout as at
from onceq.packet.address import DIRECT
from onceq.packet.decode import NAME_BYTES

if TYPE_CHECKING:
    from array import array

    from onceq.model.run import Buffer, Run

Places = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
Mask = npt.NDArray[np.bool_]

NAME_SHIFTS: Final = (at.USER_DESTINATION_SHIFT, at.USER_ADMIN_SHIFT, at.USER_RESPONSE_SHIFT)
_NAME_BYTES: Final = np.array([*NAME_BYTES, 0], np.int64)
"""By type; the last one, direct names, have a length of their own."""
_SECURITY_SIZES: Final = ((2, 2), (4, 2), (6, 2), (8, 4), (12, 4))
"""Offset and width of the sizes in a SecurityHeader."""


class CutShort(Exception):
    """A packet was cut before what is asked for; it must be read again, with more of it."""


def sizes_of(run: Run) -> Words:
    """The size of each packet of a run, cut or not, in bytes."""
    packets = Packets(run.data, run.lengths)
    return packets.top(at.OFF_PACKET_SIZE)


class Packets:
    """The packets of one run.

    Attributes:
        count: How many.
        starts, ends: Where each begins and ends in the bytes of the run.
    """

    def __init__(self, data: Buffer, lengths: array[int]) -> None:
        self.count = len(lengths)
        self.bytes = np.frombuffer(data, np.uint8)
        sizes = np.frombuffer(lengths, np.uint32).astype(np.int64)
        self.ends: Places = np.cumsum(sizes)
        self.starts: Places = self.ends - sizes
        self._aligned = not bool((self.starts & 3).any())
        whole = len(self.bytes) & ~3
        self._words = self.bytes[:whole].view("<u4")

    # ---- gathers ----------------------------------------------------------------------------

    def u32(self, places: Places) -> Words:
        """The 32-bit field at a place of each packet; the places are multiples of 4 inside it."""
        if self._aligned:
            found: Words = self._words[places >> 2]
            return found
        four = self.bytes[places[:, None] + np.arange(4)]
        return np.ascontiguousarray(four).view("<u4")[:, 0]

    def u16(self, places: Places) -> Words:
        """The same for 16 bits."""
        low, high = self.bytes[places], self.bytes[places + 1]
        return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(8)

    def u8(self, places: Places) -> Words:
        """The same for 8 bits."""
        return self.bytes[places].astype(np.uint32)

    def cut(self, first: Places, last: Places) -> pa.BinaryArray:
        """The bytes of each packet from one place up to another; never across its end."""
        if bool((last > self.ends).any()):
            raise CutShort
        edges = np.empty(2 * len(first), np.int32)
        edges[0::2], edges[1::2] = first, last
        every = pa.BinaryArray.from_buffers(
            pa.binary(), max(len(edges) - 1, 0), [None, pa.py_buffer(edges), self._buffer]
        )
        return pc.take(every, self._evens, boundscheck=False)

    @cached_property
    def _evens(self) -> pa.Array:
        return pa.array(np.arange(0, 2 * self.count, 2, dtype=np.int32))

    @cached_property
    def _buffer(self) -> Any:
        return pa.py_buffer(self.bytes)

    @cached_property
    def sources(self) -> npt.NDArray[np.uint8]:
        """GUID of the sending queue manager, a row of 16 bytes for each packet."""
        first = self.starts + at.OFF_SOURCE
        found = np.frombuffer(self.cut(first, first + 16).buffers()[2], np.uint8)
        return found[: 16 * self.count].reshape(self.count, 16)

    @cached_property
    def peers(self) -> pa.DictionaryArray:
        """GUIDs of the sending and the receiving queue manager, one after the other."""
        first, last = self.starts + at.OFF_SOURCE, self.starts + at.OFF_TIME_TO_BE_RECEIVED
        return self.cut(first, last).dictionary_encode()

    def need(self, places: Places) -> None:
        """Raises CutShort if a packet ends before its place."""
        if bool((places > self.ends).any()):
            raise CutShort

    def top(self, offset: int) -> Words:
        """The 32-bit field at the same offset of every packet."""
        self.need(self.starts + offset + 4)
        return self.u32(self.starts + offset)

    # ---- where things stand -----------------------------------------------------------------

    @cached_property
    def flags(self) -> Words:
        """Of the UserHeader."""
        return self.top(at.OFF_USER_FLAGS)

    @cached_property
    def names_end(self) -> Places:
        """Where the three names of the UserHeader end, counted from the start of the packet."""
        end = np.full(self.count, at.OFF_NAMES, np.int64)
        for shift in NAME_SHIFTS:
            kinds = (self.flags >> shift & 7).astype(np.int64)
            direct = np.flatnonzero(kinds == DIRECT)
            end += _NAME_BYTES[kinds]
            if len(direct):
                places = self.starts[direct] + end[direct]
                if bool((places + 2 > self.ends[direct]).any()):
                    raise CutShort
                end[direct] = end[direct] + 2 + self.u16(places) + 3 & ~3
        self.need(self.starts + end)
        return end

    @cached_property
    def transactional(self) -> Mask:
        """Whether each has a TransactionHeader."""
        found: Mask = (self.flags & at.USER_TRANSACTION) != 0
        return found

    @cached_property
    def _user_end(self) -> Places:
        return self.starts + self.names_end + np.where(self.flags & at.USER_CONNECTOR, 16, 0)

    def transaction(self, offset: int) -> Words:
        """A 32-bit field of the TransactionHeader; 0 where there is none."""
        where = np.flatnonzero(self.transactional)
        found = np.zeros(self.count, np.uint32)
        if len(where):
            places = self._user_end[where] + offset
            if bool((places + 4 > self.ends[where]).any()):
                raise CutShort
            found[where] = self.u32(places)
        return found

    @cached_property
    def tx_flags(self) -> Words:
        """Of the TransactionHeader; 0 where there is none."""
        return self.transaction(at.TX_FLAGS)

    @cached_property
    def _transaction_end(self) -> Places:
        end = self._user_end + np.where(self.transactional, at.TX_HEADER, 0)
        end += np.where(self.tx_flags & at.TX_CONNECTOR, 16, 0)
        return end

    @cached_property
    def _secured(self) -> tuple[Any, Places]:
        """Which packets have a SecurityHeader, and where these begin."""
        secured = np.flatnonzero(self.flags & at.USER_SECURITY)
        places: Places = self._transaction_end[secured]
        if bool((places + at.SECURITY_HEADER > self.ends[secured]).any()):
            raise CutShort
        return secured, places

    @cached_property
    def encrypted(self) -> Mask:
        """Whether the body of each is."""
        secured, places = self._secured
        found = np.zeros(self.count, np.bool_)
        found[secured] = (self.u16(places) & at.SECURITY_ENCRYPTED) != 0
        return found

    @cached_property
    def properties(self) -> Places:
        """Where the MessagePropertiesHeader of each begins."""
        end = self._transaction_end.copy()
        secured, places = self._secured
        if len(secured):
            size = np.full(len(secured), at.SECURITY_HEADER, np.int64)
            for offset, width in _SECURITY_SIZES:
                field = self.u16 if width == 2 else self.u32
                size += field(places + offset).astype(np.int64) + 3 & ~3
            end[secured] += size
        self.need(end + at.PROPERTIES_HEADER)
        return end

    @cached_property
    def label(self) -> tuple[Places, Places]:
        """From where to where the label of each stands, its terminator included."""
        first = self.properties + at.PROPERTIES_HEADER
        return first, first + 2 * self.u8(self.properties + at.PROP_LABEL_CHARS)

    @cached_property
    def extension(self) -> tuple[Places, Places]:
        """From where to where the extension stands."""
        first = self.label[1]
        return first, first + self.u32(self.properties + at.OFF_EXTENSION_SIZE)

    @cached_property
    def body(self) -> tuple[Places, Places]:
        """From where to where the body stands."""
        first = self.extension[1]
        return first, first + self.u32(self.properties + at.OFF_BODY_SIZE)
