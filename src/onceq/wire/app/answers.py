"""Answers as frames, and back; the class of a request gives the type of its answer.

A queue manager encodes the answers of its core; the client library decodes them into the same
classes. So a connection to a daemon and a queue manager in the same process give equal answers.
Views cross as maps of field names to values: a client skips a field that it does not know, and a
field that a queue manager leaves out keeps its default.

Upholds: I24 (an invalid answer is a MalformedPacket, and nothing else).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Final

from onceq.errors import InsufficientResources, MalformedPacket, OnceqError
from onceq.model.limits import CLIENT_FRAME_BYTES_MAX
from onceq.model.requests import Messages
from onceq.model.results import Opened, Promised, Sent
from onceq.model.run import Buffer
from onceq.model.views.view import plain
from onceq.packet.batch import Batch
from onceq.wire.app import frames
from onceq.wire.app.frames import ANSWER, FAILED, failure
from onceq.wire.app.handed import batch_of

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
    """Return an answer as a frame; one that is too large for a frame becomes an error."""
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
        return frames.frame(request, code | ANSWER, result)
    if isinstance(result, Batch):
        head = frames.HandedHead(
            len(result), result.lookup_ids.tobytes(), result.arrived_times.tobytes(),
            result.abort_counts.tobytes(), result.moves, result.scanned,
            list(result.notes.items()),
            [(index, *failure) for index, failure in result.failures.items()],
        )  # fmt: skip
        return frames.frame(request, code | ANSWER, head, *frames.pack_runs((result.run,)))
    if isinstance(result, OnceqError):
        failure = frames.Failure(result.code, result.text[:TEXT_CHARS_MAX])
        return frames.frame(request, code | FAILED, failure)
    return frames.frame(request, code | ANSWER, plain(result))


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
        result: object = frames.decode_head(head, kind)
    except MalformedPacket:
        if kind not in _FIELDS:
            raise
        result = frames.decode_head(frames.known_fields(head, _FIELDS[kind]), kind)
    return result
