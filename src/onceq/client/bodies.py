"""Bodies as an application hands them over, as runs: joined once, their lengths in a table.

For a batch of n bodies this costs two calls into C, not n calls of Python.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from operator import add
from typing import Final

from onceq.errors import BodyTooLarge, InvalidParameter
from onceq.model.limits import PACKET_BYTES_MAX
from onceq.model.run import LENGTH_TYPE, Run, largest_of, total_of

Body = bytes | bytearray | memoryview | str

PART_BYTES_MAX: Final = 16 << 20
"""Bodies of one frame; a frame may have 64 MiB (CLIENT_FRAME_BYTES_MAX)."""
PART_MESSAGES_MAX: Final = 250_000


def raw(body: Body) -> bytes:
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
    raise InvalidParameter(f"a body is bytes or text, not {type(body).__name__}")


def run_of(bodies: Iterable[Body]) -> Run:
    """Bodies as one run; a run of bodies is taken as it is, and belongs to the library then.

    Raises:
        InvalidParameter: Something among them is no body.
        BodyTooLarge: One is larger than a packet.
    """
    if isinstance(bodies, Run):
        if total_of(bodies.lengths) != len(bodies.data):
            raise InvalidParameter("the lengths of a run do not add up to its bytes")
        return _fitting(bodies)
    if isinstance(bodies, (str, bytes, bytearray, memoryview)):
        raise InvalidParameter("several bodies are wanted here, in a list; send takes a single one")
    items: Sequence[Body] = bodies if isinstance(bodies, (list, tuple)) else list(bodies)
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
