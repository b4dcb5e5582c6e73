"""Bodies of a run of packets, without decoding the rest.

Most packets of a run have the same headers except for sizes and numbers. If the bytes that decide
the layout equal those of the packet before, the body is at the same offset; any other packet is
parsed with all its checks.
"""

from __future__ import annotations

import struct

from onceq.model.run import Run
from onceq.packet import layout as at
from onceq.packet.decode import headers

_SIZES = struct.Struct("<II")

_Layout = tuple[bytes, bytes, bytes, int, int, int]
_layouts: list[_Layout] = [(b"", b"", b"", 0, 0, 0)]
"""Of the packet parsed last: a caller that takes one message at a time finds it here again."""


def bodies(run: Run) -> list[bytes]:
    """Return the body of each packet; raises MalformedPacket."""
    data = run.data if isinstance(run.data, bytes) else bytes(run.data)
    found: list[bytes] = []
    add = found.append
    start = 0
    base, shape, label, names_end, prop, body_at = _layouts[0]
    sizes, u32 = _SIZES.unpack_from, at.U32.unpack_from
    for length in run.lengths:
        known = (
            names_end
            and length >= body_at
            and data[start : start + at.OFF_PACKET_SIZE] == base
            and u32(data, start + at.OFF_PACKET_SIZE)[0] == length
            and data[start + at.OFF_USER_FLAGS : start + names_end] == shape
            and data[start + prop + 1 : start + prop + 2] == label
            and not u32(data, start + prop + at.OFF_EXTENSION_SIZE)[0]
        )
        if known:
            size, allocated = sizes(data, start + prop + at.OFF_BODY_SIZE)
            known = size == allocated and body_at + size <= length
        if known:
            add(data[start + body_at : start + body_at + size])
        else:
            parts = headers(data[start : start + length])
            add(parts.properties.body)
            tx, prop = parts.offsets
            names_end = 0
            tx_part = parts.transaction
            plain = parts.security is None and (tx_part is None or not tx_part.connector)
            if plain and not parts.properties.extension:
                names_end = tx or prop
                shape = data[start + at.OFF_USER_FLAGS : start + names_end]
                label = data[start + prop + 1 : start + prop + 2]
                body_at = prop + at.PROPERTIES_HEADER + 2 * label[0]
                base = data[start : start + at.OFF_PACKET_SIZE]
                _layouts[0] = (base, shape, label, names_end, prop, body_at)
        start += length
    return found
