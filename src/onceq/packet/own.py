"""Properties that each message of a batch has for itself.

A batch shares its destination and all that queue managers decide by. What only the receiver looks
at may differ from message to message: label, correlation identifier, application number, body type
and extension. Then every message brings the header of its own in which they stand, made where it is
sent, so that a manager copies bytes where it would else make a batch of each message. What belongs
to the whole batch (acknowledgments, class) or to the body (sizes) is zero in it, and filled in when
the packet is made.

Upholds: I24 (a header that anybody sends is checked field by field before anything is stored).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import add
from typing import Any, Final

from onceq.errors import IllegalPropertySize, IllegalPropertyValue, LabelTooLong, OnceqError
from onceq.model.limits import EXTENSION_BYTES_MAX, LABEL_CHARS_MAX
from onceq.model.message import CORRELATION_BYTES
from onceq.model.run import LENGTH_TYPE, Run
from onceq.packet import layout as at
from onceq.packet.columns import cut, spread, spread_numbers
from onceq.packet.encode import CIPHER_RC4, HASH_SHA1, PROPERTIES, label_bytes

LABEL_UNITS_MAX: Final = LABEL_CHARS_MAX + 1
"""With the terminator."""
_UNIT: Final = 2
"""Bytes of a character of UTF-16."""
_NO_CLASS: Final = bytes(2)
_OF_THE_BODY: Final = struct.pack("<5I", 0, 0, 0, HASH_SHA1, CIPHER_RC4)
"""Its size, room and privacy, hash and cipher in a header of a message's own."""
_EMPTY: Final = PROPERTIES.pack(0, 0, 0, b"", 0, 0, 0, 0, 0, HASH_SHA1, CIPHER_RC4, 0)
"""A header in which no property is set."""


def own_headers(count: int, values: Mapping[str, Sequence[Any]]) -> Run:
    """A header for each of ``count`` messages.

    Args:
        values: For properties of ``OWN`` their value in each message; others are as if not set.

    Raises:
        LabelTooLong, IllegalPropertyValue: A label does not fit into a packet.
    """
    fixed = at.PROPERTIES_HEADER
    heads = bytearray(_EMPTY * count)
    labels = _labels(values["label"]) if values.get("label") else [b""] * count
    heads[at.PROP_LABEL_CHARS :: fixed] = bytes([len(label) // _UNIT for label in labels])
    if values.get("correlation_id"):
        raw = b"".join(values["correlation_id"])
        assert len(raw) == CORRELATION_BYTES * count, "they were checked before"
        spread(heads, at.PROP_CORRELATION, fixed, raw, CORRELATION_BYTES)
    extensions = values.get("extension") or [b""] * count
    for place, numbers in (
        (at.PROP_BODY_TYPE, values.get("body_type")),
        (at.PROP_APP_SPECIFIC, values.get("app_specific")),
        (at.OFF_EXTENSION_SIZE, list(map(len, extensions))),
    ):
        if numbers:
            spread_numbers(heads, place, fixed, numbers, count)
    parts: list[bytes] = [b""] * (3 * count)
    parts[0::3] = cut(bytes(heads), fixed)
    parts[1::3], parts[2::3] = labels, extensions
    sizes = [fixed + len(label) + len(more) for label, more in zip(labels, extensions, strict=True)]
    return Run(b"".join(parts), array(LENGTH_TYPE, sizes))


def _labels(texts: Sequence[str]) -> list[bytes]:
    """Labels with their terminators; those that are empty have none."""
    joined = "\0".join(texts) + "\0"
    # Without characters outside the basic plane a label has as many units as characters.
    longest = max(map(len, texts))
    if joined.count("\0") != len(texts) or not joined.isascii() or longest > LABEL_CHARS_MAX:
        return [label_bytes(text) if text else b"" for text in texts]
    raw = joined.encode("utf-16-le")
    ends = accumulate([_UNIT * (len(text) + 1) for text in texts])
    begin, found = 0, []
    for end in ends:
        found.append(raw[begin:end] if end - begin > _UNIT else b"")
        begin = end
    return found


def check_own(own: Run) -> None:
    """Refuse headers that ``own_headers`` does not make.

    Raises:
        LabelTooLong, IllegalPropertySize, IllegalPropertyValue: One of them cannot be.
    """
    data, lengths = bytes(own.data), own.lengths
    fixed = at.PROPERTIES_HEADER
    starts = list(accumulate(lengths, initial=0))
    starts.pop()
    # The fixed parts one after another: each of their bytes is then a column, looked at as one.
    heads = b"".join([data[start : start + fixed] for start in starts])
    short = min(lengths, default=fixed) < fixed
    if short or not _common_parts(heads, len(lengths)):
        raise _first_wrong(own)
    sizes = [_UNIT * units for units in heads[at.PROP_LABEL_CHARS :: fixed]]
    raw = bytearray(at.U32.size * len(lengths))
    for k in range(at.U32.size):
        raw[k :: at.U32.size] = heads[at.OFF_EXTENSION_SIZE + k :: fixed]
    extras = [size for (size,) in at.U32.iter_unpack(raw)]
    rest = [length - fixed for length in lengths]
    if max(extras, default=0) > EXTENSION_BYTES_MAX or rest != list(map(add, sizes, extras)):
        raise _first_wrong(own)
    if any(sizes):
        labels = [data[start + fixed : start + fixed + size] for start, size in
                  zip(starts, sizes, strict=True)]  # fmt: skip
        _check_labels(labels)


def _common_parts(heads: bytes, count: int) -> bool:
    """Whether what belongs to the batch or the body is as ``own_headers`` makes it."""
    fixed = at.PROPERTIES_HEADER
    wanted = {0: 0, **dict(enumerate(_NO_CLASS, at.PROP_CLASS))}
    wanted |= dict(enumerate(_OF_THE_BODY, at.OFF_BODY_SIZE))
    return all(heads[k::fixed].count(value) == count for k, value in wanted.items())


def _first_wrong(own: Run) -> OnceqError:
    """What is wrong with the first header that cannot be."""
    for index, raw in enumerate(map(bytes, own)):
        if len(raw) < at.PROPERTIES_HEADER:
            return _wrong(index, f"has {len(raw)} bytes, and {at.PROPERTIES_HEADER} is the least")
        if (
            raw[0]
            or raw[at.PROP_CLASS : at.PROP_CORRELATION] != _NO_CLASS
            or raw[at.OFF_BODY_SIZE : at.OFF_EXTENSION_SIZE] != _OF_THE_BODY
        ):
            return _wrong(index, "says what belongs to the batch, or to the body")
        extra: int = at.U32.unpack_from(raw, at.OFF_EXTENSION_SIZE)[0]
        if len(raw) != at.PROPERTIES_HEADER + _UNIT * raw[at.PROP_LABEL_CHARS] + extra:
            return _wrong(index, "has sizes that do not add up")
        if extra > EXTENSION_BYTES_MAX:
            return IllegalPropertySize(
                f"message {index} of the batch: an extension has at most {EXTENSION_BYTES_MAX} "
                "bytes"
            )
    raise AssertionError("a header was refused in which nothing is wrong")


def _check_labels(labels: list[bytes]) -> None:
    """All at once: each ends at the only NUL character that it has."""
    there = [label for label in labels if label]
    try:
        # Pairs of surrogates are not made across labels: a terminator stands between them.
        text = b"".join(there).decode("utf-16-le")
    except UnicodeDecodeError:
        text = ""
    ended = all(label.endswith(b"\0\0") for label in there)
    longest = max(map(len, there), default=0)
    if ended and text.count("\0") == len(there) and longest <= _UNIT * LABEL_UNITS_MAX:
        return
    for index, label in enumerate(labels):
        _check_label(index, label)


def _check_label(index: int, raw: bytes) -> None:
    if len(raw) > _UNIT * LABEL_UNITS_MAX:
        raise LabelTooLong(
            f"message {index} of the batch: the label has {len(raw) // _UNIT - 1} characters; at "
            f"most {LABEL_CHARS_MAX} fit"
        )
    try:
        text = raw.decode("utf-16-le")
    except UnicodeDecodeError:
        raise _wrong(index, "has a label with half a surrogate pair") from None
    if raw and text.find("\0") != len(text) - 1:
        raise _wrong(index, "has a label that does not end at its only NUL character")


def _wrong(index: int, what: str) -> IllegalPropertyValue:
    return IllegalPropertyValue(f"message {index} of the batch: its own header {what}")


def joined(own: Run | None, bodies: Run) -> Run:
    """Headers and bodies as one run, headers first; the bodies alone where there are none."""
    if own is None:
        return bodies
    return Run(b"".join((own.data, bodies.data)), own.lengths + bodies.lengths)


def parted(run: Run) -> tuple[Run, Run]:
    """Headers and bodies out of one run."""
    count = len(run) // 2
    return run.part(0, count), run.part(count, count)
