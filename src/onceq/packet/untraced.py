"""Remove the marks of traces from packets for a queue manager that has not announced traces.

A message keeps its mark where it is stored (``model/traced.py``), as another session may carry it
to a manager that knows marks. Outgoing packets are checked here, by one search for the mark in all
of them; packets that contain it are copied without it. Nothing else in them changes: the mark has a
multiple of four bytes, so even the padding is the same.

Upholds: no byte of a trace goes to a foreign queue manager.
"""

from __future__ import annotations

import re
from typing import Final

from onceq.errors import PeerError
from onceq.model.run import Buffer
from onceq.model.traced import TRACED_MARK, place_of
from onceq.packet import layout as at
from onceq.packet.headers import headers

_MARK: Final = re.compile(re.escape(TRACED_MARK))


def untraced_packets(data: Buffer) -> Buffer:
    """Return user packets one after another, without the marks of traces; ``data`` itself if there
    are none."""
    if _MARK.search(data) is None:
        return data
    view = memoryview(data)
    made: list[Buffer] = []
    start = 0
    while start < len(view):
        end = start + at.packet_size(view, start)
        packet = view[start:end]
        made.append(_untraced(bytes(packet)) if _MARK.search(packet) is not None else packet)
        start = end
    return b"".join(made)


def _untraced(packet: bytes) -> bytes:
    try:
        parts = headers(packet)
    except PeerError:
        # An unreadable packet is none of ours, and has no mark.
        return packet
    first, last = place_of(parts.properties.extension)
    if first == last:
        return packet
    properties = parts.offsets[1]
    extension = properties + at.PROPERTIES_HEADER + 2 * parts.properties.label_chars
    changed = bytearray(packet)
    at.U32.pack_into(changed, at.OFF_PACKET_SIZE, len(packet) - (last - first))
    size = len(parts.properties.extension) - (last - first)
    at.U32.pack_into(changed, properties + at.OFF_EXTENSION_SIZE, size)
    del changed[extension + first : extension + last]
    return bytes(changed)
