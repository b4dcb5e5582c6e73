"""The mark of a message that belongs to a trace: the ``traceparent`` of W3C Trace Context.

It stands behind the extension of the message (PROPID_M_EXTENSION), and behind the mark of a message
that was returned (``model/returned.py``); that of a delayed one (``model/delayed.py``) stays the
last. The client library puts it there and takes it off, and no queue manager reads it. It leaves
only in sessions whose other end has said that it knows of it: from what goes to anybody else, it is
cut out (``packet/untraced.py``), since a trace is no promise, and never a reason to refuse a
message.

``tracestate`` is left out: it has no bound that every vendor keeps, and a trace is whole without it
(W3C Trace Context 3.3.1.4 allows to discard it).

The mark has a multiple of four bytes, so that the padding of a packet is the same without it.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from onceq.errors import IllegalPropertyValue
from onceq.model.delayed import TRAILER_BYTES as DELAY_BYTES
from onceq.model.delayed import due_of

TRACED_MARK: Final = b"OQtrace\0"
_TRAILER = struct.Struct("<B16s8sB2s8s")
"""Version, trace, parent, flags, two zeros and the mark."""
TRAILER_BYTES: Final = _TRAILER.size
_ZEROS: Final = bytes(2)
_TEXT: Final = re.compile(
    "([0-9a-f]{2})-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL
)
_VERSION: Final = "00"
_NO_VERSION: Final = "ff"
TEXT_CHARS: Final = 55
"""Of a ``traceparent`` of version 00."""
TEXT_CHARS_MAX: Final = 512
"""Characters of a later version that are looked at: it may have more fields behind the four."""


def trailer(traceparent: str) -> bytes:
    """What stands behind the extension of a message of that trace.

    A later version than 00 is written as 00, with the fields that this has, as W3C Trace Context
    3.2.4 asks for.

    Raises:
        IllegalPropertyValue: It is no ``traceparent``.
    """
    found = None
    if isinstance(traceparent, str) and len(traceparent) <= TEXT_CHARS_MAX:
        found = _TEXT.fullmatch(traceparent)
    if found is None or found[1] == _NO_VERSION or (found[1] == _VERSION and found[5]):
        raise IllegalPropertyValue(
            "traceparent is text as W3C Trace Context has it, "
            "00-<32 hexadecimal digits>-<16 of them>-<2 of them>, in lower case and not all "
            f"of them 0, and not {_shown(traceparent)}; leave it out where there is no trace"
        )
    trace, parent, flags = (bytes.fromhex(found[k]) for k in (2, 3, 4))
    return _TRAILER.pack(0, trace, parent, flags[0], _ZEROS, TRACED_MARK)


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 2 * TEXT_CHARS else f"{shown[: 2 * TEXT_CHARS]}..."


def untraced(extension: bytes) -> tuple[bytes, str]:
    """An extension, without the mark of a delayed message, without the mark of its trace; and its
    ``traceparent``, "" if there is none."""
    traceparent = _text_of(extension[-TRAILER_BYTES:])
    return (extension[:-TRAILER_BYTES], traceparent) if traceparent else (extension, "")


def without_trace(extension: bytes) -> bytes:
    """An extension as it may leave to somebody who knows of no traces: of our marks, only that of
    the trace is gone."""
    start, end = place_of(extension)
    return extension[:start] + extension[end:]


def place_of(extension: bytes) -> tuple[int, int]:
    """Where the mark of its trace stands in an extension, or several of them that somebody has put
    one behind the other; an empty place if there is none."""
    end = len(extension)
    if due_of(extension[-DELAY_BYTES:]):
        end -= DELAY_BYTES
    start = end
    while _text_of(extension[max(start - TRAILER_BYTES, 0) : start]):
        start -= TRAILER_BYTES
    return start, end


def _text_of(end: bytes) -> str:
    """The ``traceparent`` that the last bytes of an extension name; "" if they are not the mark, or
    not as ``trailer`` makes it: whoever sent them, they are then a part of the extension."""
    if len(end) != TRAILER_BYTES or not end.endswith(TRACED_MARK):
        return ""
    version, trace, parent, flags, zeros, _ = _TRAILER.unpack(end)
    if version or zeros != _ZEROS or not any(trace) or not any(parent):
        return ""
    return f"{_VERSION}-{trace.hex()}-{parent.hex()}-{flags:02x}"
