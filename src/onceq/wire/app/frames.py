"""Frames between an application and its queue manager.

    size u32 | request u32 | code u16 | zero u16 | head size u32 | head | data

``size`` counts what follows it. ``head`` is MessagePack of the request or answer; ``data`` holds
message bytes: for n messages a table of n lengths (u32), then the bytes one after another. So a
batch crosses as one piece, and neither side builds an object for each message of it. The protocol
is described in ``docs/reference/formats/client-protocol.md``; ``wire/app/codec.py`` has the
requests.

All input from outside is checked for its type and its size; anything else is a MalformedPacket,
after which the connection is closed and nothing of the frame has happened.

Upholds: I24 (nothing that is received makes memory grow past CLIENT_FRAME_BYTES_MAX).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

import msgspec

from onceq.errors import MalformedPacket, OnceqError, every
from onceq.model.limits import CLIENT_FRAME_BYTES_MAX, OUTCOME_AGE_S
from onceq.model.run import LENGTH_TYPE, Buffer, Run, total_of

VERSION: Final = 2
"""The version of client and queue manager: another one is refused (UnknownVersion)."""
HEADER = struct.Struct("<IIHHI")
"""Size of what follows, request, code, zero, head size."""
VIEW_BYTES_MIN: Final = 1 << 18
"""From this size on the messages of a frame stay in the buffer that they were read into."""


class Code(IntEnum):
    """Codes of frames that are no request of the core; the classes of ``model/requests`` have the
    other codes. Answers repeat a code with ANSWER or FAILED added."""

    HELLO = 1
    LIFE = 41
    PROVE = 42


ANSWER: Final = 0x100
FAILED: Final = 0x200


class Prove(msgspec.Struct, array_like=True):
    """First frame of a client that has a token: its name, and the client's random value."""

    token: str
    nonce: bytes


class Known(msgspec.Struct, array_like=True):
    """The answer to ``Prove``: the salt that was hashed with the secret, the queue manager's random
    value, and the proof that it knows the secret's digest (``model/tokens.py``)."""

    salt: bytes
    nonce: bytes
    proof: bytes


class Hello(msgspec.Struct, array_like=True):
    """First frame of a client without a token, or the next of one that has proven its own: its
    version, and in hexadecimal the proof of its identity.

    Later versions may add fields, so fields behind the known ones are skipped: a client of another
    version gets UnknownVersion, not a malformed frame. ``person``: the person for whom the program
    works, by its own word (``model/rights.py``).
    """

    version: int
    program: str = ""
    proof: str = ""
    person: str = ""

    def __repr__(self) -> str:
        """Return the fields without the proof."""
        return f"Hello({self.version}, {self.program!r})"


class Welcome(msgspec.Struct, array_like=True):
    """The answer to ``Hello``: the manager, the second by its clock, and its limits and memory."""

    version: int
    name: str
    id: bytes
    now_s: int
    frame_bytes_max: int = CLIENT_FRAME_BYTES_MAX
    outcome_age_s: int = OUTCOME_AGE_S


class HandedHead(msgspec.Struct, array_like=True):
    """Answer to a receive: the number of messages; their numbers as tables of u64, u32, u32.

    A queue manager of a later version may add fields, here and in a Failure: a client skips those
    behind the fields that it knows.

    ``moves``: (index, how often, second of the last) of those moved between subqueues.
    ``scanned``: the position that a search has reached. ``notes``: (index, note) of dead letters.
    ``failures``: (index, how often, why) of those whose receives failed at places before.
    """

    count: int
    lookups: bytes
    arrived: bytes
    aborts: bytes
    moves: list[tuple[int, int, int]] = []
    scanned: int = 0
    notes: list[tuple[int, int]] = []
    failures: list[tuple[int, int, str]] = []


class Failure(msgspec.Struct, array_like=True):
    """Answer to a request that was refused."""

    code: str
    text: str


SENSELESS = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
"""Errors of decoding: for wrong types, broken text, dates out of range, and deep nesting."""
_ERRORS: Final = every()
_encoder = msgspec.msgpack.Encoder()
_answer_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {}
"""By kind of answer, made when first needed."""


def frame(request: int, code: int, head: object, *data: Buffer) -> list[Buffer]:
    """Return the pieces of a frame."""
    raw = _encoder.encode(head)
    size = HEADER.size - 4 + len(raw)
    if not data:
        return [HEADER.pack(size, request, code, 0, len(raw)) + raw]
    size += sum(map(len, data))
    return [HEADER.pack(size, request, code, 0, len(raw)) + raw, *data]


def pack_runs(runs: Sequence[Run]) -> list[Buffer]:
    """Return the data of a frame with messages: one table of lengths, then the bytes."""
    # Nearly every frame has one run: 0.2 us instead of 1.0.
    if len(runs) == 1:
        return [runs[0].lengths.tobytes(), runs[0].data]
    return [*(run.lengths.tobytes() for run in runs), *(run.data for run in runs)]


def unpack_run(data: memoryview, count: int) -> Run:
    """Return the messages in a frame's data, all of it; raises MalformedPacket.

    The bytes are not copied if they are most of what was read with them; small ones are, so that a
    few of them do not keep a whole chunk of other frames in memory.
    """
    table = 4 * count
    if count < 0 or table > len(data):
        raise MalformedPacket(f"a frame says that it has {count} messages in {len(data)} bytes")
    lengths = array(LENGTH_TYPE)
    lengths.frombytes(data[:table])
    if total_of(lengths) != len(data) - table:
        raise MalformedPacket("the lengths in a frame do not add up to its data")
    bodies = data[table:] if table else data
    return Run(bodies if len(bodies) >= VIEW_BYTES_MIN else bytes(bodies), lengths)


class Parser:
    """Cuts a byte stream into frames: (request, code, head bytes, data)."""

    __slots__ = ("_chunks", "_have", "_need")

    def __init__(self) -> None:
        self._chunks: list[Buffer] = []
        self._have = 0
        self._need = HEADER.size

    @property
    def wanted(self) -> int:
        """Return how many bytes the frame under way still lacks."""
        return self._need - self._have

    @property
    def idle(self) -> bool:
        """Return whether no frame is under way."""
        return not self._have

    def feed(self, data: Buffer) -> list[tuple[int, int, memoryview, memoryview]]:
        """Add bytes; return the whole frames that they complete. Raises MalformedPacket."""
        self._chunks.append(bytes(data))
        self._have += len(data)
        if self._have < self._need:
            return []
        joined = b"".join(self._chunks) if len(self._chunks) > 1 else self._chunks[0]
        view = memoryview(joined)
        found: list[tuple[int, int, memoryview, memoryview]] = []
        at, total = 0, len(joined)
        self._need = HEADER.size
        while total - at >= HEADER.size:
            size, request, code, zero, head = HEADER.unpack_from(joined, at)
            # Before waiting for the rest of it: no peer can make this side keep more than a legal
            # frame.
            if zero or not HEADER.size - 4 + head <= size <= CLIENT_FRAME_BYTES_MAX:
                raise MalformedPacket(
                    f"a frame of {size} bytes with a head of {head}; at most "
                    f"{CLIENT_FRAME_BYTES_MAX} are legal"
                )
            end = at + 4 + size
            if end > total:
                self._need = 4 + size
                break
            start = at + HEADER.size
            found.append((request, code, view[start : start + head], view[start + head : end]))
            at = end
        # Cut off, so that the beginning of a frame does not keep those before it in memory.
        rest = joined[at:]
        self._chunks = [rest] if rest else []
        self._have = len(rest)
        return found


def decode_head(head: Buffer, kind: Any) -> Any:
    """Return the head of an answer or a hello, as ``kind``; raises MalformedPacket."""
    try:
        decoder = _answer_decoders.get(kind)
        if decoder is None:
            decoder = _answer_decoders[kind] = msgspec.msgpack.Decoder(kind)
        return decoder.decode(head)
    except SENSELESS as error:
        raise MalformedPacket(f"an answer makes no sense: {error}") from None


def failure(head: Buffer) -> OnceqError:
    """Return the error in an answer."""
    said = decode_head(head, Failure)
    kind = _ERRORS.get(said.code, OnceqError)
    return kind(said.text)


def known_fields(head: Buffer, count: int) -> bytes:
    """Return the head of an answer without the fields that a later version has added; raises
    MalformedPacket if it is no list."""
    fields: list[msgspec.Raw] = decode_head(head, list[msgspec.Raw])
    return _encoder.encode(fields[:count])


def tables(lookups: bytes, arrived: bytes, aborts: bytes) -> tuple[array[int], ...]:
    """Return the number tables of a HandedHead; raises MalformedPacket."""
    found = []
    for kind, raw in (("Q", lookups), ("I", arrived), ("I", aborts)):
        values = array(kind)
        try:
            values.frombytes(raw)
        except ValueError:
            raise MalformedPacket("a table of numbers is cut off") from None
        found.append(values)
    return tuple(found)
