"""Frames between an application and its queue manager.

    size u32 | request u32 | code u16 | zero u16 | head size u32 | head | data

``size`` counts what follows it. ``head`` is MessagePack of the request or answer; ``data`` holds
message bytes: for n messages a table of n lengths (u32), then the bytes one after another. So a
batch crosses as one piece, and neither side builds an object for each message of it. The protocol
is described in ``docs/reference/formats/client-protocol.md``. Below are the frames, then requests
and answers as their bytes.

All input from outside is checked for its type and its size; anything else is a MalformedPacket,
after which the connection is closed and nothing of the frame has happened.

Upholds: I24 (nothing that is received makes memory grow past CLIENT_FRAME_BYTES_MAX).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, IntEnum
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, cast, get_args, get_type_hints

import msgspec

from onceq.errors import InsufficientResources, InvalidParameter, MalformedPacket, OnceqError, every
from onceq.model.limits import CLIENT_FRAME_BYTES_MAX, OUTCOME_AGE_S
from onceq.model.message import PLAIN
from onceq.model.record import defaults
from onceq.model.requests import KINDS, Messages, Request, SendItem
from onceq.model.requests.request import list_given
from onceq.model.results import Opened, Promised, Sent
from onceq.model.run import LENGTH_TYPE, Buffer, Run, total_of
from onceq.model.views.view import plain
from onceq.packet.arrived import Batch

# ---- frames --------------------------------------------------------------------------------------


VERSION: Final = 2
"""The version of client and queue manager: another one is refused (UnknownVersion)."""
HEADER = struct.Struct("<IIHHI")
"""Size of what follows, request, code, zero, head size."""
VIEW_BYTES_MIN: Final = 1 << 18
"""From this size on the messages of a frame stay in the buffer that they were read into."""


class FrameCode(IntEnum):
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


class ProofAnswer(msgspec.Struct, array_like=True):
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


# ---- codec ---------------------------------------------------------------------------------------
#
# Requests in frames, and back: the classes of `model/requests` as bytes.
#
# A head holds the fields of a request, in the order of the class; fields at its end that have a
# default may be left out. A choice crosses as its value, an identifier as a list of its parts,
# and a batch as an `ItemRow`, whose bodies are in the frame's data.
#
# A head of wrong types is malformed, and its connection is closed. A wrong value is an error of
# the request: of `Request.check`, or an InvalidParameter for an invalid identifier.
#
# Also here:
#
# * Decode the answer to a receive or a peek.
# * Answers as frames, and back; the class of a request gives the type of its answer.
#
# Upholds: I24 (what comes from outside is checked for its type).


# ---- codec ---------------------------------------------------------------------------------------


class FrameRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The head of a request, or a part of it, as it crosses a connection."""


class ItemRow(FrameRow):
    """A batch to send.

    Attributes:
        count: The number of its bodies in the frame's data.
        own: The number of the messages' own headers (``packet/own.py``) before them.
    """

    destination: str
    properties: dict[str, Any]
    age_s: int
    count: int
    own: bool = False


class _Writer(NamedTuple):
    """How a class is written: its code, its values, whether it has only one, and the index of its
    batches (0: it has none)."""

    code: int
    values: Callable[[Request], Any]
    alone: bool
    items_at: int


class _Reader(NamedTuple):
    """How a class is read."""

    kind: type[Request]
    decode: Callable[[Buffer], FrameRow]
    has_items: bool


_WRITERS: Final[dict[type[Request], _Writer]] = {
    kind: _Writer(
        kind.code,
        attrgetter(*list_given(kind)),
        len(list_given(kind)) == 1,
        list_given(kind).index("items") if "items" in list_given(kind) else 0,
    )
    for kind in KINDS.values()
}
_READERS: Final[dict[int, _Reader]] = {}
"""By code, made when the first request with it comes: a client reads none."""


def written(number: int, request: Request) -> list[Buffer]:
    """Return the pieces of a frame with a request.

    Raises:
        InvalidParameter: A value of it cannot be written in a frame.
    """
    code, values, alone, items_at = _WRITERS[type(request)]
    head = values(request)
    try:
        if alone:
            return frame(number, code, (head,))
        if not items_at or not head[items_at]:
            return frame(number, code, head)
        items = head[items_at]
        head = list(head)
        head[items_at] = [
            (one.destination, one.values, one.age_s, len(one.bodies.lengths), one.own is not None)
            for one in items
        ]
        runs = [run for one in items for run in (one.own, one.bodies) if run is not None]
        return frame(number, code, head, *pack_runs(runs))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidParameter(f"a value cannot be sent to a queue manager: {error}") from None


def read(code: int, head: Buffer, data: memoryview) -> Request:
    """Return a frame's request; raises MalformedPacket, or InvalidParameter for a wrong value."""
    kind, decode, has_items = _READERS.get(code) or _reader(code)
    try:
        row: Any = decode(head)
    except SENSELESS as error:
        raise MalformedPacket(f"a frame with code {code} makes no sense: {error}") from None
    if has_items:
        row.items = _items(row.items, data)
    return kind(*msgspec.structs.astuple(row))


def row_of(kind: type[Request]) -> type[FrameRow]:
    """Return the head's class for a class of requests."""
    hints, given = get_type_hints(kind), defaults(kind)
    columns = []
    for name in list_given(kind):
        # Before its request is checked, a choice is a number or a text.
        hint: Any = hints[name]
        if hint == Sequence[SendItem]:
            hint = list[ItemRow]
        elif isinstance(hint, UnionType) and str in get_args(hint):
            hint = str
        elif isinstance(hint, type) and issubclass(hint, Enum):
            hint = int if issubclass(hint, int) else str
        columns.append((name, hint, *((given[name],) if name in given else ())))
    return cast(type[FrameRow], msgspec.defstruct(kind.__name__, columns, bases=(FrameRow,)))


def _reader(code: int) -> _Reader:
    kind = KINDS.get(code)
    if kind is None:
        raise MalformedPacket(f"a frame with unknown code {code}")
    decode = msgspec.msgpack.Decoder(row_of(kind)).decode
    return _READERS.setdefault(code, _Reader(kind, decode, "items" in list_given(kind)))


def _items(rows: Sequence[ItemRow], data: memoryview) -> list[SendItem]:
    given = iter(_split(rows, data))
    items = []
    for row in rows:
        own = next(given) if row.own else None
        items.append(SendItem(row.destination, PLAIN, next(given), row.age_s, own, row.properties))
    return items


def _split(rows: Sequence[ItemRow], data: memoryview) -> list[Run]:
    """Return the runs of several batches: for each its own headers, if any, and its bodies."""
    # Nearly every frame has one batch, and needs no cutting: 2.9 us a frame instead of 4.1.
    if len(rows) == 1 and rows[0].count >= 0 and not rows[0].own:
        return [unpack_run(data, rows[0].count)]
    if any(row.count < 0 for row in rows):
        raise MalformedPacket("a batch of less than no messages")
    counts = [count for row in rows for count in (row.count,) * (2 if row.own else 1)]
    whole = unpack_run(data, sum(counts))
    lengths, view = whole.lengths, memoryview(whole.data)
    runs: list[Run] = []
    first = start = 0
    for count in counts:
        table = lengths[first : first + count]
        end = start + sum(table)
        runs.append(Run(view[start:end], table))
        first, start = first + count, end
    return runs


# ---- handed --------------------------------------------------------------------------------------


def batch_of(head: Buffer, data: memoryview) -> Batch:
    """Return the messages that were handed out; raises MalformedPacket.

    It is separate from the other answers because a command that only peeks needs no more than this:
    to load the table of all answers, with every request and view, takes longer than such a command.
    """
    handed: HandedHead = decode_head(head, HandedHead)
    lookups, arrived, aborts = tables(handed.lookups, handed.arrived, handed.aborts)
    run = unpack_run(data, handed.count)
    if not len(lookups) == len(arrived) == len(aborts) == handed.count:
        raise MalformedPacket("an answer whose tables differ in length")
    return Batch(
        run, lookups, arrived, aborts, handed.moves, handed.scanned, handed.notes, handed.failures
    )


# ---- answers -------------------------------------------------------------------------------------


TEXT_CHARS_MAX: Final = 2_000
"""Of an error's text in an answer."""

_SIMPLE: Final = (NoneType, int, bytes, Sent, Opened, Promised)
"""Types that are encoded unchanged."""
_FIELDS: Final[Mapping[object, int]] = {
    Sent: len(Sent._fields),
    Sent | None: len(Sent._fields),
    Opened: len(Opened._fields),
    Promised | None: len(Promised._fields),
}
"""Answers that cross as lists, with the number of their fields known here. The decoder refuses a
longer tuple, and a queue manager of a later version may add fields."""


# ---- to a client -------------------------------------------------------------------------------


def encode(request: int, code: int, result: object) -> list[Buffer]:
    """Return an answer as a frame; one that is too large for a frame becomes an error.

    A queue manager encodes the answers of its core; the client library decodes them into the same
    classes. So a connection to a daemon and a queue manager in the same process give equal answers.
    Views cross as maps of field names to values: a client skips a field that it does not know, and
    a field that a queue manager leaves out keeps its default.
    """
    pieces = _encode(request, code, result)
    size = sum(map(len, pieces))
    if size > CLIENT_FRAME_BYTES_MAX:
        return _encode(
            request,
            code,
            InsufficientResources(f"the answer has {size} bytes; ask for one item, not for all"),
        )
    return pieces


def _encode(request: int, code: int, result: object) -> list[Buffer]:
    if isinstance(result, _SIMPLE):
        return frame(request, code | ANSWER, result)
    if isinstance(result, Batch):
        head = HandedHead(
            len(result), result.lookup_ids.tobytes(), result.arrived_times.tobytes(),
            result.abort_counts.tobytes(), result.moves, result.scanned,
            list(result.notes.items()),
            [(index, *failure) for index, failure in result.failures.items()],
        )  # fmt: skip
        return frame(request, code | ANSWER, head, *pack_runs((result.run,)))
    if isinstance(result, OnceqError):
        failure = Failure(result.code, result.text[:TEXT_CHARS_MAX])
        return frame(request, code | FAILED, failure)
    return frame(request, code | ANSWER, plain(result))


# ---- at a client -------------------------------------------------------------------------------


def decode(kind: object, code: int, head: Buffer, data: memoryview) -> object:
    """Return the result in an answer frame; an OnceqError instance is to be raised.

    Args:
        kind: Its type (``Request.answer_type``).

    Raises:
        MalformedPacket: It is invalid.
    """
    if code & FAILED:
        return failure(head)
    if kind is Messages:
        return batch_of(head, data)
    try:
        result: object = decode_head(head, kind)
    except MalformedPacket:
        if kind not in _FIELDS:
            raise
        result = decode_head(known_fields(head, _FIELDS[kind]), kind)
    return result
