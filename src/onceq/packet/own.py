"""Properties that each message of a batch has for itself.

A batch shares its destination and all that queue managers decide by. Properties that only the
receiver reads may differ from message to message: label, correlation identifier, application
number, body type and extension. Then every message brings its own header with them, made where it
is sent, so that a manager copies bytes instead of making a batch of each message. Fields of the
whole batch (acknowledgments, class) or of the body (sizes) are zero in it, and filled in when the
packet is made.

Upholds: I24 (a received header is checked field by field before anything is stored).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from operator import add
from typing import Any, Final

from onceq.errors import IllegalPropertySize, IllegalPropertyValue, LabelTooLong, OnceqError
from onceq.model.limits import EXTENSION_BYTES_MAX, LABEL_CHARS_MAX
from onceq.model.message import CORRELATION_BYTES
from onceq.model.run import LENGTH_TYPE, Buffer, Run, alike, total_of
from onceq.packet import address as at
from onceq.packet.encode import (
    BLOCK_MESSAGES,
    CIPHER_RC4,
    HASH_SHA1,
    PROPERTIES,
    cut,
    gathered,
    label_bytes,
    spread,
    spread_numbers,
)

LABEL_UNITS_MAX: Final = LABEL_CHARS_MAX + 1
"""With the terminator."""
_UNIT: Final = 2
"""Bytes of a character of UTF-16."""
_END: Final = bytes(_UNIT)
_EMPTY: Final = PROPERTIES.pack(0, 0, 0, b"", 0, 0, 0, 0, 0, HASH_SHA1, CIPHER_RC4, 0)
"""A header in which no property is set."""
_WANTED: Final = tuple(
    (k, value)
    for k, value in enumerate(_EMPTY)
    if not any(place <= k < place + size for place, size in at.OWN_FIELDS)
)
"""The bytes that are equal in all messages' own headers: acknowledgments, class, and the fields
about the body."""
_COLUMNS_MAX: Final = 512
"""Bytes of label and extension up to which writing them by columns is the faster way."""


def own_headers(count: int, values: Mapping[str, Sequence[Any]]) -> Run:
    """Return a header for each of ``count`` messages.

    Args:
        values: For properties of ``OWN`` their value in each message; the others are not set.

    Raises:
        LabelTooLong, IllegalPropertyValue: A label does not fit into a packet.
    """
    values = {name: column for name, column in values.items() if column}
    data: list[Buffer] = []
    lengths = array(LENGTH_TYPE)
    for first in range(0, count, BLOCK_MESSAGES):
        here = slice(first, min(first + BLOCK_MESSAGES, count))
        some = {name: column[here] for name, column in values.items()}
        made = _headers(here.stop - first, some)
        data.append(made.data)
        lengths += made.lengths
    return Run(b"".join(data), lengths)


def _headers(count: int, values: Mapping[str, Sequence[Any]]) -> Run:
    fixed = at.PROPERTIES_HEADER
    labels, label_sizes = b"", [0] * count
    if "label" in values:  # With their terminators, one after another; empty ones have none.
        texts = values["label"]
        joined, chars = "\0".join(texts) + "\0", list(map(len, texts))
        # Without characters outside the basic plane a label has as many units as characters.
        plain = joined.isascii() and joined.count("\0") == len(texts)
        if plain and min(chars) and max(chars) <= LABEL_CHARS_MAX:
            labels, label_sizes = joined.encode("utf-16-le"), [_UNIT * (n + 1) for n in chars]
        else:
            found = [label_bytes(text) if text else b"" for text in texts]
            labels, label_sizes = b"".join(found), list(map(len, found))
    extensions = values.get("extension", ())
    extras = list(map(len, extensions)) or [0] * count
    rest = label_sizes[0] + extras[0]
    even = rest <= _COLUMNS_MAX and all(s.count(s[0]) == count for s in (label_sizes, extras))
    # If all headers have one size, labels and extensions are columns of them like the others.
    stride = fixed + rest if even else fixed
    heads = bytearray((_EMPTY + bytes(stride - fixed)) * count)
    heads[at.PROP_LABEL_CHARS :: stride] = bytes([size // _UNIT for size in label_sizes])
    if "correlation_id" in values:
        raw = b"".join(values["correlation_id"])
        assert len(raw) == CORRELATION_BYTES * count, "they were checked before"
        spread(heads, at.PROP_CORRELATION, stride, raw, CORRELATION_BYTES)
    for place, numbers in (
        (at.PROP_BODY_TYPE, values.get("body_type")),
        (at.PROP_APP_SPECIFIC, values.get("app_specific")),
        (at.OFF_EXTENSION_SIZE, extras if extensions else None),
    ):
        if numbers:
            spread_numbers(heads, place, stride, numbers, count)
    if even:
        spread(heads, fixed, stride, labels, label_sizes[0])
        spread(heads, fixed + label_sizes[0], stride, b"".join(extensions), extras[0])
        return Run(heads, array(LENGTH_TYPE, (stride,)) * count)
    parts: list[bytes] = [b""] * (3 * count)
    parts[0::3] = cut(bytes(heads), fixed)
    parts[1::3] = [labels[a:b] for a, b in pairwise(accumulate(label_sizes, initial=0))]
    if extensions:
        parts[2::3] = extensions
    sizes = [fixed + size + extra for size, extra in zip(label_sizes, extras, strict=True)]
    return Run(b"".join(parts), array(LENGTH_TYPE, sizes))


def check_own(own: Run) -> None:
    """Refuse headers that ``own_headers`` does not make.

    Raises:
        LabelTooLong, IllegalPropertySize, IllegalPropertyValue: One of them is invalid.
    """
    view = memoryview(own.data)
    for first in range(0, len(own), BLOCK_MESSAGES):
        lengths = own.lengths[first : first + BLOCK_MESSAGES]
        size = total_of(lengths)
        data, view = bytes(view[:size]), view[size:]
        if not _sound(data, lengths):
            raise _first_wrong(Run(data, lengths), first)


def _sound(data: bytes, lengths: array[int]) -> bool:
    """Return whether headers are as ``own_headers`` makes them, checked by columns."""
    fixed, count = at.PROPERTIES_HEADER, len(lengths)
    if min(lengths) < fixed:
        return False
    if alike(lengths):
        heads, stride = data, lengths[0]
        starts: Sequence[int] = range(0, len(data), stride)
    else:
        # The fixed parts one after another: each of their bytes is then a column.
        starts = list(accumulate(lengths[:-1], initial=0))
        heads, stride = b"".join([data[start : start + fixed] for start in starts]), fixed
    # Fields of the batch or the body.
    if not all(heads[k::stride].count(value) == count for k, value in _WANTED):
        return False
    units = heads[at.PROP_LABEL_CHARS :: stride]
    extras = gathered(heads, at.OFF_EXTENSION_SIZE, stride, at.U32.size, count)
    if stride != fixed and units.count(units[0]) == count:
        size = _UNIT * units[0]
        left = stride - fixed - size
        if left < 0 or left > EXTENSION_BYTES_MAX or extras != at.U32.pack(left) * count:
            return False
        if not size:
            return True
        text = b"".join(cut(data, size, skip=fixed, rest=left))
        ended = not any(text[k::size].strip(b"\0") for k in (size - 2, size - 1))
        return _good_labels(text, count, ended=ended, longest=size)
    sizes = [_UNIT * unit for unit in units]
    more = [size for (size,) in at.U32.iter_unpack(extras)]
    if max(more) > EXTENSION_BYTES_MAX:
        return False
    if [length - fixed for length in lengths] != list(map(add, sizes, more)):
        return False
    places = zip(starts, sizes, strict=True)
    labels = [data[start + fixed : start + fixed + size] for start, size in places if size]
    ended = all(label.endswith(_END) for label in labels)
    return _good_labels(b"".join(labels), len(labels), ended=ended, longest=max(sizes))


def _good_labels(raw: bytes, count: int, *, ended: bool, longest: int) -> bool:
    """Return whether each of some labels (none of them empty) ends at its only NUL character.

    Args:
        raw, count: All of them one after another, and their number.
        ended: Whether each of them ends with that character.
        longest: Bytes of the longest.
    """
    try:
        # Pairs of surrogates are not made across labels: a terminator is between them.
        text = raw.decode("utf-16-le")
    except UnicodeDecodeError:
        return False
    return ended and text.count("\0") == count and longest <= _UNIT * LABEL_UNITS_MAX


def _first_wrong(own: Run, first: int) -> OnceqError:
    """Return what is wrong with the first invalid header; ``first``: its index in the batch."""
    fixed = at.PROPERTIES_HEADER
    for index, raw in enumerate(map(bytes, own), first):
        if len(raw) < fixed:
            return _wrong(index, f"has {len(raw)} bytes, and {fixed} is the least")
        if any(raw[k] != value for k, value in _WANTED):
            return _wrong(index, "says what belongs to the batch, or to the body")
        extra: int = at.U32.unpack_from(raw, at.OFF_EXTENSION_SIZE)[0]
        size = _UNIT * raw[at.PROP_LABEL_CHARS]
        if len(raw) != fixed + size + extra:
            return _wrong(index, "has sizes that do not add up")
        if extra > EXTENSION_BYTES_MAX:
            return IllegalPropertySize(
                f"message {index} of the batch: an extension has at most {EXTENSION_BYTES_MAX} "
                "bytes"
            )
        label = raw[fixed : fixed + size]
        if size > _UNIT * LABEL_UNITS_MAX:
            return LabelTooLong(
                f"message {index} of the batch: the label has {size // _UNIT - 1} characters; at "
                f"most {LABEL_CHARS_MAX} fit"
            )
        try:
            text = label.decode("utf-16-le")
        except UnicodeDecodeError:
            return _wrong(index, "has a label with half a surrogate pair")
        if label and text.find("\0") != len(text) - 1:
            return _wrong(index, "has a label that does not end at its only NUL character")
    raise AssertionError("a header was refused in which nothing is wrong")


def _wrong(index: int, what: str) -> IllegalPropertyValue:
    return IllegalPropertyValue(f"message {index} of the batch: its own header {what}")


def with_trailer(own: Run, trailer: bytes) -> Run:
    """Return their own headers, each with more bytes behind its extension."""
    made: list[bytes] = []
    for raw in map(bytearray, own):
        (size,) = at.U32.unpack_from(raw, at.OFF_EXTENSION_SIZE)
        at.U32.pack_into(raw, at.OFF_EXTENSION_SIZE, size + len(trailer))
        made.append(bytes(raw) + trailer)
    return Run.of(made)


def joined(own: Run | None, bodies: Run) -> Run:
    """Return headers and bodies as one run, headers first; only the bodies if there are none."""
    if own is None:
        return bodies
    return Run(b"".join((own.data, bodies.data)), own.lengths + bodies.lengths)


def parted(run: Run) -> tuple[Run, Run]:
    """Return headers and bodies of one run."""
    count = len(run) // 2
    return run.part(0, count), run.part(count, count)
