"""Answers as frames, and back; the class of a request says of which type its answer is.

A queue manager encodes what its core answers; the client library decodes it into the same class.
So a connection to a daemon and a queue manager in the same process give equal answers. Views cross
as maps of field names to values: a field that a client does not know is passed over, one that a
queue manager does not say keeps its default.

Upholds: I24 (an answer that makes no sense is a MalformedPacket, and nothing else).
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
"""What is encoded as it is."""
_FIELDS: Final[Mapping[object, int]] = {
    Sent: len(Sent._fields),
    Sent | None: len(Sent._fields),
    Opened: len(Opened._fields),
    Promised | None: len(Promised._fields),
}
"""Answers that cross as lists, with how many fields are known of them here. The decoder refuses a
tuple that is longer, and a queue manager of a later version may say more."""


# ---- to a client -------------------------------------------------------------------------------


def encode(request: int, code: int, result: object) -> list[Buffer]:
    """An answer as a frame; one that is too large for a frame becomes an error."""
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
    """The result in an answer frame; an OnceqError instance is to be raised.

    Args:
        kind: Its type (``Request.answer_type``).

    Raises:
        MalformedPacket: It makes no sense.
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
