"""The mark of a message that is not to be received before a time.

It stands behind the extension of the message (PROPID_M_EXTENSION), and behind the mark of a message
that was returned (``marked``), because that is the one place of a packet which every queue manager
passes on and none reads. A queue manager that does not know it would hand the message out at once.
So a message that is marked is transmitted only to queue managers that have said, when the session
was made, that they know what it means (``wire/mqqb/internal.py``); what is not marked is as it
always was.

The time is a whole second since 1970 UTC. A part of one is rounded up, so that nothing is early.

Also here:

* Time in the form that the core takes: two clocks that are never mixed.
* The mark of a message that belongs to a trace: the ``traceparent`` of W3C Trace Context.
* The mark of a message that was returned from a dead-letter queue: how often it was.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from onceq.errors import IllegalPropertyValue

# ---- time ----------------------------------------------------------------------------------------


SECOND_US = 1_000_000
DAY_S = 86_400
NEVER_S = 0xFFFF_FFFF
"""A lifetime or a deadline in wire seconds that never ends."""
FOR_EVER_US = 1 << 62
"""A monotonic time that never comes."""


class Now:
    """One reading of both clocks, in integer microseconds. Nobody changes it.

    ``wall_us`` is what people and packets mean (it may jump); ``mono_us`` is what timers mean (it
    never goes back while the process runs, and starts anywhere).

    Attributes:
        wall_s: Whole seconds since 1970-01-01 UTC, as packets carry them. It is kept, because the
            rules ask for it several times for each message.
    """

    __slots__ = ("mono_us", "wall_s", "wall_us")

    def __init__(self, wall_us: int, mono_us: int) -> None:
        self.wall_us = wall_us
        self.mono_us = mono_us
        self.wall_s = wall_us // SECOND_US

    def __repr__(self) -> str:
        return f"Now({self.wall_us}, {self.mono_us})"


# ---- delayed -------------------------------------------------------------------------------------


DELAYED: Final = "delayed"
"""Subqueue in which messages wait for their time."""
DELAYED_MARK: Final = b"OQdelay\0"
_DELAY = struct.Struct("<I8s")
DELAY_BYTES: Final = _DELAY.size


def delay_trailer(due_s: int) -> bytes:
    """What stands behind the extension of a message that is due then."""
    return _DELAY.pack(due_s, DELAYED_MARK)


def delayed(extension: bytes, due_s: int) -> bytes:
    """An extension with the mark behind it, in place of one that is there."""
    return undelayed(extension)[0] + delay_trailer(due_s)


def undelayed(extension: bytes) -> tuple[bytes, int]:
    """An extension without the mark, and the second in which the message is due; 0: at once."""
    due_s = due_of(extension[-DELAY_BYTES:])
    return (extension[:-DELAY_BYTES], due_s) if due_s else (extension, 0)


def due_of(end: bytes) -> int:
    """The second that the last bytes of an extension name; 0 if they are not the mark, or name no
    time that comes."""
    if len(end) != DELAY_BYTES or not end.endswith(DELAYED_MARK):
        return 0
    due_s: int = _DELAY.unpack(end)[0]
    return due_s if due_s < NEVER_S else 0


# ---- traced --------------------------------------------------------------------------------------


TRACED_MARK: Final = b"OQtrace\0"
_TRACE = struct.Struct("<B16s8sB2s8s")
"""Version, trace, parent, flags, two zeros and the mark."""
TRACE_BYTES: Final = _TRACE.size
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


def trace_trailer(traceparent: str) -> bytes:
    """What stands behind the extension of a message of that trace.

    It follows the extension of the message (PROPID_M_EXTENSION), and the mark of a message that was
    returned (``marked``); the mark of a delayed message (``delayed``) stays the last. The client
    library adds and removes it, and no queue manager reads it. It leaves only in sessions whose
    other end has said that it knows such marks: it is cut out of messages to anybody else
    (``packet/headers.py``), since a trace is no promise, and never a reason to refuse a message.

    ``tracestate`` is left out: it has no bound that every vendor keeps, and a trace is whole
    without it (W3C Trace Context 3.3.1.4 allows to discard it).

    The mark has a multiple of four bytes, so that the padding of a packet is the same without it.

    A later version than 00 is written as 00, with the fields that this has, as W3C Trace Context
    3.2.4 asks for.

    Raises:
        IllegalPropertyValue: It is no ``traceparent``.
    """
    found = None
    if isinstance(traceparent, str) and len(traceparent) <= TEXT_CHARS_MAX:
        found = _TEXT.fullmatch(traceparent)
    if found is None or found[1] == _NO_VERSION or (found[1] == _VERSION and found[5]):
        shown = repr(traceparent)
        if len(shown) > 2 * TEXT_CHARS:
            shown = f"{shown[: 2 * TEXT_CHARS]}..."
        raise IllegalPropertyValue(
            "traceparent is text as W3C Trace Context has it, "
            "00-<32 hexadecimal digits>-<16 of them>-<2 of them>, in lower case and not all "
            f"of them 0, and not {shown}; leave it out where there is no trace"
        )
    trace, parent, flags = (bytes.fromhex(found[k]) for k in (2, 3, 4))
    return _TRACE.pack(0, trace, parent, flags[0], _ZEROS, TRACED_MARK)


def untraced(extension: bytes) -> tuple[bytes, str]:
    """An extension, without the mark of a delayed message, without the mark of its trace; and its
    ``traceparent``, "" if there is none."""
    traceparent = _text_of(extension[-TRACE_BYTES:])
    return (extension[:-TRACE_BYTES], traceparent) if traceparent else (extension, "")


def without_trace(extension: bytes) -> bytes:
    """Return an extension for a receiver that knows of no traces: of onceq's marks, only the
    trace's mark is removed."""
    start, end = place_of(extension)
    return extension[:start] + extension[end:]


def place_of(extension: bytes) -> tuple[int, int]:
    """Return the place of the trace's mark in an extension, or of several marks in a row; an empty
    place if there is none."""
    end = len(extension)
    if due_of(extension[-DELAY_BYTES:]):
        end -= DELAY_BYTES
    start = end
    while _text_of(extension[max(start - TRACE_BYTES, 0) : start]):
        start -= TRACE_BYTES
    return start, end


def _text_of(end: bytes) -> str:
    """The ``traceparent`` that the last bytes of an extension name; "" if they are not the mark, or
    not as ``trailer`` makes it: they are then a part of the extension, from any sender."""
    if len(end) != TRACE_BYTES or not end.endswith(TRACED_MARK):
        return ""
    version, trace, parent, flags, zeros, _ = _TRACE.unpack(end)
    if version or zeros != _ZEROS or not any(trace) or not any(parent):
        return ""
    return f"{_VERSION}-{trace.hex()}-{parent.hex()}-{flags:02x}"


# ---- returned ------------------------------------------------------------------------------------


RETURNED_MARK: Final = b"OQreturn"
_RETURNS = struct.Struct("<I8s")
RETURNS_MAX: Final = 0xFFFF_FFFF
"""Largest count that the mark holds."""


def marked(extension: bytes, count: int) -> bytes:
    """An extension with the mark behind it, in place of one that is there.

    It stands behind the extension of the message (PROPID_M_EXTENSION), because that is the one
    place of a packet which every queue manager passes on and none reads. onceq takes it off again
    before an application sees the extension; other readers see 12 bytes more.
    """
    plain, _ = unmarked(extension)
    return plain + _RETURNS.pack(min(count, RETURNS_MAX), RETURNED_MARK) if count else plain


def unmarked(extension: bytes) -> tuple[bytes, int]:
    """An extension without the mark, and how often the message was returned."""
    if len(extension) < _RETURNS.size or not extension.endswith(RETURNED_MARK):
        return extension, 0
    count, _ = _RETURNS.unpack(extension[-_RETURNS.size :])
    return extension[: -_RETURNS.size], count
