"""The mark of a message that is not to be received before a time.

It stands behind the extension of the message (PROPID_M_EXTENSION), and behind the mark of a message
that was returned (``model/returned.py``), because that is the one place of a packet which every
queue manager passes on and none reads. A queue manager that does not know it would hand the message
out at once. So a message that is marked is transmitted only to queue managers that have said, when
the session was made, that they know what it means (``wire/mqqb/internal.py``); what is not marked
is as it always was.

The time is a whole second since 1970 UTC. A part of one is rounded up, so that nothing is early.
"""

from __future__ import annotations

import struct
from typing import Final

from onceq.model.time import NEVER_S

DELAYED: Final = "delayed"
"""Subqueue in which messages wait for their time."""
DELAYED_MARK: Final = b"OQdelay\0"
_TRAILER = struct.Struct("<I8s")
TRAILER_BYTES: Final = _TRAILER.size


def trailer(due_s: int) -> bytes:
    """What stands behind the extension of a message that is due then."""
    return _TRAILER.pack(due_s, DELAYED_MARK)


def delayed(extension: bytes, due_s: int) -> bytes:
    """An extension with the mark behind it, in place of one that is there."""
    return undelayed(extension)[0] + trailer(due_s)


def undelayed(extension: bytes) -> tuple[bytes, int]:
    """An extension without the mark, and the second in which the message is due; 0: at once."""
    due_s = due_of(extension[-TRAILER_BYTES:])
    return (extension[:-TRAILER_BYTES], due_s) if due_s else (extension, 0)


def due_of(end: bytes) -> int:
    """The second that the last bytes of an extension name; 0 if they are not the mark, or name no
    time that comes."""
    if len(end) != TRAILER_BYTES or not end.endswith(DELAYED_MARK):
        return 0
    due_s: int = _TRAILER.unpack(end)[0]
    return due_s if due_s < NEVER_S else 0
