"""Bodies as an application hands them over, as runs: joined once, their lengths in a table.

For a batch of n bodies this costs two calls into C, not n calls of Python.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from operator import add
from typing import Any, Final

from onceq.errors import BodyTooLarge, InvalidParameter
from onceq.model.json_body import BODY_TYPE, encoded, encoded_each
from onceq.model.limits import PACKET_BYTES_MAX
from onceq.model.run import LENGTH_TYPE, Run, largest_of, total_of

Body = bytes | bytearray | memoryview | str


class Nothing(Enum):
    """What stands in a signature where nothing was given, and None would be a value."""

    NOTHING = 0

    def __repr__(self) -> str:
        return self.name


NOTHING: Final = Nothing.NOTHING

PART_BYTES_MAX: Final = 16 << 20
"""Bodies of one frame; a frame may have 64 MiB (CLIENT_FRAME_BYTES_MAX)."""
PART_MESSAGES_MAX: Final = 250_000


Bodies = Iterable[Body | Nothing] | Nothing


def raw(body: Body | Nothing) -> bytes:
    """The bytes of a body; text becomes UTF-8. Raises InvalidParameter."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        try:
            return body.encode()
        except UnicodeEncodeError as error:
            raise InvalidParameter(f"this text cannot be encoded: {error.reason}") from None
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    if body is NOTHING:
        raise InvalidParameter("there is no body: say one, or json=value")
    raise InvalidParameter(f"a body is bytes or text, not {type(body).__name__}")


def json_body(body: Body | Nothing, value: object, properties: Any) -> bytes:
    """The body that a value becomes; its body type says what it is, if none was given.

    Args:
        properties: Of the message, as a map that belongs to the call.

    Raises:
        InvalidParameter: There is a body too, or the value cannot be said in JSON.
    """
    _alone(body, properties)
    return encoded(value)


def json_bodies(bodies: object, values: Iterable[object], properties: Any) -> list[bytes]:
    """The same for each value of a batch."""
    _alone(bodies, properties)
    return encoded_each(values)


def _alone(body: object, properties: Any) -> None:
    if body is not NOTHING:
        raise InvalidParameter("say a body, or json=value, not both")
    if properties.get("body_type") is None:
        properties["body_type"] = BODY_TYPE


def run_of(bodies: Bodies) -> Run:
    """Bodies as one run; a run of bodies is taken as it is, and belongs to the library then.

    Raises:
        InvalidParameter: Something among them is no body.
        BodyTooLarge: One is larger than a packet.
    """
    if isinstance(bodies, Run):
        if total_of(bodies.lengths) != len(bodies.data):
            raise InvalidParameter("the lengths of a run do not add up to its bytes")
        return _fitting(bodies)
    if bodies is NOTHING:
        raise InvalidParameter("there are no bodies: say them, or json=values")
    if isinstance(bodies, (str, bytes, bytearray, memoryview)):
        raise InvalidParameter("several bodies are wanted here, in a list; send takes a single one")
    items: Sequence[Body | Nothing] = bodies if isinstance(bodies, (list, tuple)) else list(bodies)
    # 1.1 us instead of 2.2: most sends are of one.
    if len(items) == 1 and type(items[0]) is bytes and len(items[0]) <= PACKET_BYTES_MAX:
        return Run(items[0], array(LENGTH_TYPE, (len(items[0]),)))
    try:
        run = Run(b"".join(items), array(LENGTH_TYPE, map(len, items)))  # type: ignore[arg-type]
    except (TypeError, BufferError, OverflowError):
        run = Run.of([raw(body) for body in items])
    if total_of(run.lengths) != len(run.data):
        # Views of items wider than a byte: their length is not their size.
        run = Run.of([raw(body) for body in items])
    return _fitting(run)


def _fitting(run: Run) -> Run:
    largest = largest_of(run.lengths)
    if largest > PACKET_BYTES_MAX:
        raise BodyTooLarge(
            f"a body of {largest} bytes is larger than the {PACKET_BYTES_MAX} bytes of a packet "
            "with its headers; send it in parts"
        )
    return run


def parts(run: Run, own: Run | None = None) -> Iterator[tuple[Run, Run | None]]:
    """Bodies, and headers of their own, in pieces that fit into a frame each; or as they are."""
    size = len(run.data) + (0 if own is None else len(own.data))
    if size <= PART_BYTES_MAX and len(run) <= PART_MESSAGES_MAX:
        yield run, own
        return
    sizes = run.lengths if own is None else array(LENGTH_TYPE, map(add, run.lengths, own.lengths))
    first = held = 0
    for index, size in enumerate(sizes):
        full = held + size > PART_BYTES_MAX or index - first >= PART_MESSAGES_MAX
        if full and index > first:
            yield _part(run, own, first, index)
            first, held = index, 0
        held += size
    yield _part(run, own, first, len(sizes))


def _part(run: Run, own: Run | None, first: int, end: int) -> tuple[Run, Run | None]:
    return run.part(first, end - first), None if own is None else own.part(first, end - first)
