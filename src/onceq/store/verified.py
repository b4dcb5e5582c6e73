"""Read the log so that nothing is handed out that was not written.

Every read of a file of the log goes through here, and is compared with checksums: those of the
blocks that it touches (``framing``), or all of a record where it is small or was written in format
1. A large record of format 1 is read whole once, and remembered as verified.

To find the frame of an address, the headers of its segment are walked once, from a few remembered
places on; a damaged header makes a gap up to the next whole frame.

Upholds: I23. ``read`` and ``look`` may be called from any thread.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from onceq.errors import DamagedPiece, DamagedRecord, StorageFailure
from onceq.model.log import BLOCK_BYTES, FRAME_ALIGN, FRAME_HEADER, padded
from onceq.model.run import Buffer
from onceq.store.files import Files
from onceq.store.framing import Frame, Framing, Table, block_place, table_of
from onceq.store.scan import SEGMENT_HEADER, Segment

MAPS_MAX: Final = 256
"""Segments whose frames have remembered places."""
STEP_BYTES: Final = 4096
"""Distance of remembered frames: among nearer ones, one is remembered."""
WALK_BYTES: Final = 8192
"""Bytes read at once when headers are walked."""
TABLES_MAX: Final = 64
"""Large frames whose checksums are remembered."""
AHEAD_BYTES: Final = 512 << 10
"""Bytes read and verified at once where small parts of a large frame are read in sequence."""
PASSED_OVER: Final = 512
"""Bytes that may lie between small parts that are read in sequence: the front of a packet of
which only the rest is read."""
WRONG: Final = "what stands there is not what was written"
CUT_SHORT: Final = "the file was cut short"
WHOLE_MAX: Final = 4096
"""Large frames of format 1 that are remembered as verified."""


_Read = tuple[int, Buffer]
"""Address and bytes of a verified read."""
NOTHING: Final[_Read] = (-1 << 62, b"")
"""Far before the log, so that nothing follows it."""


def _follows(one: _Read, address: int) -> bool:
    return one[0] <= address <= one[0] + len(one[1]) + PASSED_OVER


@dataclass(slots=True)
class _Map:
    """Where frames of a segment begin, one every few kilobytes; and where headers are damaged,
    with the place of the next whole frame."""

    places: array[int]
    gaps: dict[int, int] = field(default_factory=dict)
    found: Frame | None = None
    """The frame of the last read: most reads go on in it."""


@dataclass(slots=True)
class VerifiedPart:
    """The result of verifying a part of a segment.

    Attributes:
        position: Where the next frame begins.
        frames, payload_bytes: Whole frames.
    """

    position: int
    frames: int = 0
    payload_bytes: int = 0
    damaged: list[DamagedPiece] = field(default_factory=list)


class VerifiedLog:
    """Verified reads of one log."""

    def __init__(self, files: Files, framing: Framing) -> None:
        self._files = files
        self._framing = framing
        self._maps: OrderedDict[int, _Map] = OrderedDict()
        self._tables: OrderedDict[int, Table] = OrderedDict()
        self._whole: OrderedDict[int, Frame] = OrderedDict()
        self._last: tuple[_Read, _Read] = (NOTHING, NOTHING)
        """The last verified reads of frames with blocks, the newest first, each not much larger
        than AHEAD_BYTES. Two, because packets in two parts (``InTwoParts``) are read in two
        places in turn."""
        self._lock = threading.Lock()

    def read(self, segment: Segment, address: int, size: int) -> Buffer:
        """Return bytes of a record that are what was written.

        Raises:
            DamagedRecord: They are not, or cannot be read; ``pieces`` says which.
        """
        # Without the lock: one tuple is taken, and one is put, in one step each.
        before = self._last
        for known, data in before:
            if known <= address and address + size <= known + len(data):
                return memoryview(data)[address - known : address - known + size]
        frame = self._frame(segment, address)
        if frame.blocks <= 1:
            return self._plain(segment, frame, address, size)
        head = self._table(segment, frame).head
        if address < frame.payload + head:
            return self._plain(segment, frame, address, size)
        first = _block_of(frame, address)
        blocks = range(first, _block_of(frame, address + max(size, 1) - 1) + 1)
        start = _block(frame, first)[0]
        data = b""
        parts = AHEAD_BYTES // max(size, 1)
        # It begins where another read ended, as when messages of a run are received one by one.
        newest, older = (_follows(one, address) for one in before)
        if parts > 1 and (newest or older):
            # The next ones will have this size, too: the last of them shall not be read in part.
            last = _block_of(frame, address + parts * max(size, 1) - 1)
            data = self._read_ahead(segment, frame, range(first, last + 1))
        if not data:
            data, wrong = self._read_blocks(segment, frame, blocks)
            if wrong:
                if self._lies(segment, frame):
                    return self.read(segment, address, size)
                short = 0 < len(data) < sum(_block(frame, blocks[-1])) - start
                places = [block_place(frame, at, head) for at in wrong]
                raise _damaged(segment, places, CUT_SHORT if short else WRONG)
        whole = memoryview(data)
        unseen = frame.payload + head - start
        if unseen > 0:
            whole, start = whole[unseen:], start + unseen
        # A large read is not kept in memory for the sake of a next one.
        if len(data) <= AHEAD_BYTES + 2 * frame.block_bytes:
            self._last = (start, whole), before[1] if newest else before[0]
        return whole[address - start : address - start + size]

    def forget(self, base: int, end: int) -> None:
        """Forget a segment that is given back."""
        with self._lock:
            self._maps.pop(base, None)
            newest, older = (NOTHING if base <= one[0] < end else one for one in self._last)
            self._last = newest, older
            for known in (self._tables, self._whole):
                for position in [p for p in known if base <= p < end]:
                    del known[position]

    # ---- one read -----------------------------------------------------------------------------

    def _read_ahead(self, segment: Segment, frame: Frame, blocks: range) -> bytes:
        """Read the requested blocks and blocks behind them, if the frame has them; return nothing
        if any is wrong: then the caller reads the requested ones alone."""
        some = range(blocks.start, min(blocks.stop, frame.blocks))
        start, (last, size) = _block(frame, some.start)[0], _block(frame, some[-1])
        try:
            data = self._files.read(segment.file, segment.offset(start), last + size - start)
            wrong = self._wrong(data, self._table(segment, frame), frame, some)
        except StorageFailure:
            return b""
        return b"" if wrong else data

    def _read_blocks(
        self, segment: Segment, frame: Frame, blocks: range
    ) -> tuple[bytes, list[int]]:
        """Read some blocks, and return which of them are wrong or cannot be read."""
        start, (last, size) = _block(frame, blocks.start)[0], _block(frame, blocks[-1])
        table = self._table(segment, frame)
        try:
            data = self._files.read(segment.file, segment.offset(start), last + size - start)
            return data, self._wrong(data, table, frame, blocks)
        except StorageFailure:
            # One unreadable sector fails the whole read: only single reads show which blocks it
            # costs.
            return b"", self._one_by_one(segment, frame, table, blocks)

    def _wrong(self, data: bytes, table: Table, frame: Frame, blocks: range) -> list[int]:
        return self._framing.wrong_blocks(data, table, frame, blocks)

    def _one_by_one(self, segment: Segment, frame: Frame, table: Table, blocks: range) -> list[int]:
        """Return the blocks that cannot be read, or are not what was written."""
        bad = []
        for at in blocks:
            place, size = _block(frame, at)
            try:
                data = self._files.read(segment.file, segment.offset(place), size)
            except StorageFailure:
                bad.append(at)
            else:
                bad += self._wrong(data, table, frame, range(at, at + 1))
        return bad

    def _table(self, segment: Segment, frame: Frame) -> Table:
        known = self._tables.get(frame.position)
        if known is not None:
            return known
        size = frame.end - frame.table
        try:
            raw = self._files.read(segment.file, segment.offset(frame.table), size)
        except StorageFailure as error:
            raise _damaged(segment, [_payload(frame)], error.text) from error
        if len(raw) < size:
            raise _damaged(segment, [_payload(frame)], CUT_SHORT)
        table = table_of(raw, frame)
        with self._lock:
            self._tables[frame.position] = table
            while len(self._tables) > TABLES_MAX:
                self._tables.popitem(last=False)
        return table

    def _plain(self, segment: Segment, frame: Frame, address: int, size: int) -> Buffer:
        """Read from a record that is verified as a whole."""
        offset = segment.offset(frame.position)
        wanted = frame.end - frame.position if frame.blocks else FRAME_HEADER + frame.size
        try:
            if frame.position in self._whole:
                return self._files.read(segment.file, segment.offset(address), size)
            data = self._files.read(segment.file, offset, wanted)
        except StorageFailure as error:
            raise _damaged(segment, [_payload(frame)], error.text) from error
        sound = self._framing.sound(data, 0, position=frame.position)
        if sound is None:
            if self._lies(segment, frame):
                return self.read(segment, address, size)
            raise _damaged(segment, [_payload(frame)], CUT_SHORT if len(data) < wanted else WRONG)
        places = [
            (at, length) for at, length in sound.places()
            if at < address + max(size, 1) and at + length > address
        ]  # fmt: skip
        if places:
            raise _damaged(segment, places)
        if frame.size > BLOCK_BYTES and not frame.blocks:
            with self._lock:
                self._whole[frame.position] = frame
                while len(self._whole) > WHOLE_MAX:
                    self._whole.popitem(last=False)
        at = address - frame.position
        return memoryview(data)[at : at + size]

    # ---- finding frames -------------------------------------------------------------------------

    def _frame(self, segment: Segment, address: int) -> Frame:
        """Return the frame of an address, according to its header."""
        with self._lock:
            # The lock is held while headers are read: two walks at once would add the same places
            # twice.
            known = self._maps.get(segment.base)
            found = known.found if known is not None else None
            if found is not None and found.position <= address < found.end:
                return found
            if known is None:
                known = _Map(array("Q", (segment.base,)))
                self._maps[segment.base] = known
                while len(self._maps) > MAPS_MAX:
                    self._maps.popitem(last=False)
            else:
                self._maps.move_to_end(segment.base)
            try:
                known.found = self._walk(segment, known, address)
                return known.found
            except StorageFailure as error:
                if isinstance(error, DamagedRecord):
                    raise
                raise _damaged(segment, [(address, 1)], error.text) from error

    def _walk(self, segment: Segment, known: _Map, address: int) -> Frame:
        """Go from header to header until the frame with that address is reached."""
        position = known.places[bisect_right(known.places, address) - 1]
        data, start = b"", position
        before: Frame | None = None
        while True:
            at = position - start
            if at + FRAME_HEADER > len(data):
                size = min(WALK_BYTES, segment.size - segment.offset(position))
                data = self._files.read(segment.file, segment.offset(position), size)
                start, at = position, 0
            frame = self._framing.head(data, at, position=position)
            if frame is None or frame.end > segment.limit or position in known.gaps:
                if before is not None:
                    place, size = segment.offset(before.position), before.end - before.position
                    whole = self._files.read(segment.file, place, size)
                    if self._framing.parse(whole, 0, position=before.position) is None:
                        # Not this header is wrong, but the size in the one before.
                        position = start = before.position
                        data, before = b"", None
                        self._gap(segment, known, position)
                        continue
                following, before = self._gap(segment, known, position), None
                if address < following:
                    raise _damaged(segment, [(position, following - position)])
            elif address < frame.end:
                return frame
            else:
                following, before = frame.end, frame
            if position - known.places[-1] >= STEP_BYTES:
                known.places.append(position)
            position = following

    def _gap(self, segment: Segment, known: _Map, position: int) -> int:
        """Return where the next whole frame begins behind a header that is damaged."""
        end = known.gaps.get(position)
        if end is None:
            end = known.gaps[position] = self._next_whole(segment, position)
        return end

    def _next_whole(self, segment: Segment, position: int) -> int:
        data = self._files.read(segment.file, 0, segment.offset(segment.end))
        begin = segment.offset(position) + FRAME_ALIGN
        buried = self._framing.find(data, begin, offset=segment.base - SEGMENT_HEADER)
        return buried.frames[0].position if buried.frames else max(segment.end, position + 1)

    def _lies(self, segment: Segment, frame: Frame) -> bool:
        """Return True if a frame that is not whole claims to reach over the one behind it: then
        its header is damaged, and counts for nothing from now on."""
        try:
            following = self._next_whole(segment, frame.position)
        except StorageFailure:
            return False
        if following >= frame.end:
            return False
        with self._lock:
            known = self._maps.get(segment.base)
            if known is not None:
                known.gaps[frame.position] = following
                known.found = None
                # They were found by trusting the size in that header.
                while known.places[-1] > frame.position:
                    known.places.pop()
        return known is not None

    # ---- looking through everything -------------------------------------------------------------

    def verify(self, segment: Segment, position: int, end: int, most: int) -> VerifiedPart:
        """Verify frames from one on, up to a position or until ``most`` bytes were read.

        Args:
            position: Where a frame begins; everything from there to ``end`` is durable.
        """
        looked = VerifiedPart(position)
        while looked.position < min(end, position + most):
            try:
                frame = self._frame(segment, looked.position)
            except DamagedRecord as error:
                looked.damaged += error.pieces
                behind = max(piece.address + piece.size for piece in error.pieces)
                looked.position = padded(max(behind, looked.position + 1))
                continue
            wrong = self._look_at(segment, frame)
            if self._given_up(segment, frame):
                continue  # its header is damaged: once more, as a gap
            looked.damaged += [_piece(segment, *place) for place in wrong]
            if not wrong:
                looked.frames += 1
                looked.payload_bytes += frame.size
            looked.position = frame.end
        return looked

    def _given_up(self, segment: Segment, frame: Frame) -> bool:
        known = self._maps.get(segment.base)
        return known is not None and frame.position in known.gaps

    def _look_at(self, segment: Segment, frame: Frame) -> list[tuple[int, int]]:
        """Return the damaged places of one frame."""
        try:
            offset = segment.offset(frame.position)
            data = self._files.read(segment.file, offset, frame.end - frame.position)
        except StorageFailure:
            if not frame.blocks:
                return [_payload(frame)]
            table = self._table(segment, frame)
            wrong = self._one_by_one(segment, frame, table, range(frame.blocks))
            return [block_place(frame, at, table.head) for at in wrong]
        sound = self._framing.sound(data, 0, position=frame.position)
        if sound is not None:
            return sound.places()
        if self._lies(segment, frame) or not frame.blocks or len(data) < frame.end - frame.position:
            return [_payload(frame)]
        with memoryview(data) as view:
            wrong = self._framing.damaged(view, frame)
            head = table_of(view[frame.table - frame.position :], frame).head
        # With no block wrong only header, head or table are: the checksums of the blocks still
        # hold, and the content of the head is in the checkpoint.
        return [block_place(frame, at, head) for at in wrong] or [(frame.position, FRAME_HEADER)]


def _block_of(frame: Frame, address: int) -> int:
    """Return the index of the block of an address."""
    return (address - frame.payload) // frame.block_bytes


def _block(frame: Frame, at: int) -> tuple[int, int]:
    """Return address and size of a block, including its part of the head."""
    return block_place(frame, at)


def _payload(frame: Frame) -> tuple[int, int]:
    return frame.position + FRAME_HEADER, max(frame.size, 1)


def _piece(segment: Segment, address: int, size: int) -> DamagedPiece:
    return DamagedPiece(address, size, segment.path, segment.offset(address))


def _damaged(segment: Segment, places: list[tuple[int, int]], reason: str = WRONG) -> DamagedRecord:
    """Return an error that names file and byte of the damage."""
    pieces = tuple(_piece(segment, *place) for place in places)
    return DamagedRecord(f"{segment.path} is damaged at byte {pieces[0].offset}: {reason}", pieces)
