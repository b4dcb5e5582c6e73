"""Where records lie in the log: arithmetic that the core and the store must agree on.

The log is one endless sequence of frames. A *position* is a logical byte offset in it; it only
grows and is never reused, however files come and go. A frame is a header of FRAME_HEADER bytes,
the payload of one record, and padding to a multiple of FRAME_ALIGN. So the core, which knows the
sizes of the records it decides on, knows where every message will lie before it is written, and
the engine checks that the store agrees.
"""

from __future__ import annotations

FRAME_HEADER = 32
"""Bytes before the payload of every record."""

FRAME_ALIGN = 8
"""Frames begin at multiples of this many bytes."""


def frame_size(payload_size: int) -> int:
    """Bytes that a record with this payload takes in the log."""
    return FRAME_HEADER + (payload_size + FRAME_ALIGN - 1) // FRAME_ALIGN * FRAME_ALIGN
