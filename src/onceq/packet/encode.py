"""From bodies to packets: the headers once for a batch, the changing fields once for a message.

``encode_run`` puts the headers of a batch (``templates.py``) before every body and fills in sizes,
message numbers and sequence numbers. This is the one place where each outgoing message costs Python
time, so C code joins bodies with their headers, in blocks that stay in the processor's cache, and
the numbers are then written column by column: byte k of all of them at once.

Upholds: I7 and I8 as far as bytes go (number and previous number are where they were given).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise, repeat
from operator import add
from typing import Final

from onceq.errors import BodyTooLarge
from onceq.model.limits import PACKET_BYTES_MAX
from onceq.model.run import LENGTH_TYPE, Buffer, Run, alike, largest_of, starts_of, total_of
from onceq.packet import layout as at
from onceq.packet.address import PADDING
from onceq.packet.columns import cut, move, spread_numbers
from onceq.packet.templates import ORDER, Template

NUMBER_MAX: Final = 0xFFFF_FFFF
MESSAGE_NUMBERS: Final = 1 << 32
COLUMNS_FROM: Final = 8
"""From this number of packets on, writing numbers by columns is faster than one by one."""
BLOCK_MESSAGES: Final = 1_000
_BLOCK_BYTES: Final = 1 << 18
"""Bytes that are cut apart and joined again at once, so that they stay in the processor's cache in
between."""
_VIEW_FROM: Final = 4_096
"""Bytes of a body from which on a view of it costs less than a copy."""
_ENDS: Final = {
    (False, False): 0,
    (True, False): at.TX_FIRST,
    (False, True): at.TX_LAST,
    (True, True): at.TX_FIRST | at.TX_LAST,
}
"""Flags by whether a packet is the first, and the last, of its transaction to its queue."""
_SIZES = struct.Struct("<II")


def encode_run(
    made: Template,
    bodies: Run,
    *,
    first_message: int,
    stream: int = 0,
    first_number: int = 0,
    transaction: int = 0,
    here: tuple[int, int] = (0, 0),
    first: bool = False,
    last: bool = False,
    own: Run | None = None,
) -> Run:
    """Turn bodies into packets.

    Args:
        first_message: Message number of the first; the others follow, 1 after 2^32 - 1.
        stream, first_number: Their position in their stream; zeros for none. The previous number
            of each is the number before its own.
        transaction: 20-bit number of the sending transaction.
        here: Replaces number and previous number if there is no stream, the same in all: which
            messages of their transaction they are (``packet/heads.py``).
        first, last: Whether the first and the last of them are so in their transaction to this
            queue (SND-10).
        own: Headers of the messages' own (``own.py``), checked, one for each body.

    Returns:
        The packets; their bytes must not be changed.

    Raises:
        BodyTooLarge: One packet would be larger than PACKET_BYTES_MAX.
    """
    lengths = bodies.lengths
    count = len(lengths)
    if not count:
        return Run(b"", array(LENGTH_TYPE))
    assert not stream or 0 < first_number <= NUMBER_MAX - count + 1, "numbers are 1 to 2^32 - 1"
    if count == 1 and own is None:
        flags = (transaction << at.TX_NUMBER_SHIFT) | _ENDS[first, last]
        return _one(made, bodies, first_message, stream, first_number, flags, here)
    if own is None:
        _check_sizes(made, lengths)
    head = bytearray(made.head)
    if made.transaction:
        flags = made.flags | transaction << at.TX_NUMBER_SHIFT
        ORDER.pack_into(head, made.transaction, flags, stream, *here)
    messages = _messages(first_message, count)
    if own is not None:
        out, packets = _join_own(made, head, bodies, own, messages)
    else:
        join = _join_equal if alike(lengths) else _join
        out, packets = join(made, head, bodies)
        _write_numbers(out, packets, at.OFF_MESSAGE_NUMBER, messages)
    if made.transaction:
        _write_order(out, packets, made.transaction, stream, first_number, first=first, last=last)
    return Run(out, packets)


def encode_fronts(
    made: Template,
    lengths: array[int],
    *,
    first_message: int,
    stream: int = 0,
    first_number: int = 0,
    transaction: int = 0,
    here: tuple[int, int] = (0, 0),
    first: bool = False,
    last: bool = False,
) -> Run:
    """Return the packets of ``encode_run`` up to their properties, without the rest.

    Args:
        lengths: Sizes of the whole packets.
    """
    count, front = len(lengths), made.properties
    head = bytearray(made.head[:front])
    if made.transaction:
        flags = made.flags | transaction << at.TX_NUMBER_SHIFT
        ORDER.pack_into(head, made.transaction, flags, stream, *here)
    out, fronts = head * count, array(LENGTH_TYPE, (front,)) * count
    _write_numbers(out, fronts, at.OFF_PACKET_SIZE, lengths)
    _write_numbers(out, fronts, at.OFF_MESSAGE_NUMBER, _messages(first_message, count))
    if made.transaction:
        _write_order(out, fronts, made.transaction, stream, first_number, first=first, last=last)
    return Run(out, lengths)


def _write_order(
    out: bytearray, packets: array[int], header: int, stream: int, first_number: int, *,
    first: bool, last: bool,
) -> None:  # fmt: skip
    """Write the positions of packets in their stream and their transaction; ``header``: offset of
    the TransactionHeader."""
    count = len(packets)
    if stream:
        numbers = range(first_number, first_number + count)
        _write_numbers(out, packets, header + at.TX_NUMBER, numbers)
        before = range(first_number - 1, first_number + count - 1)
        _write_numbers(out, packets, header + at.TX_PREVIOUS, before)
    if first:
        out[header] |= at.TX_FIRST
    if last:
        out[len(out) - packets[-1] + header] |= at.TX_LAST


def _one(
    made: Template, bodies: Run, message: int, stream: int, number: int, flags: int,
    here: tuple[int, int],
) -> Run:  # fmt: skip
    """Return a single packet, as in many transactions: no columns, no tables, and 1.9 us instead of
    5.8."""
    head, size = bytearray(made.head), bodies.lengths[0]
    padding = PADDING[(len(head) + size) % 4]
    packet = len(head) + size + len(padding) + len(made.tail)
    if packet > PACKET_BYTES_MAX:
        _check_sizes(made, bodies.lengths)
    at.U32.pack_into(head, at.OFF_PACKET_SIZE, packet)
    at.U32.pack_into(head, at.OFF_MESSAGE_NUMBER, message)
    _SIZES.pack_into(head, made.properties + at.OFF_BODY_SIZE, size, size)
    if made.transaction:
        place = (number, number - 1) if stream else here
        ORDER.pack_into(head, made.transaction, made.flags | flags, stream, *place)
    whole = b"".join((head, bodies.data, padding, made.tail))
    return Run(whole, array(LENGTH_TYPE, (packet,)))


def _check_sizes(made: Template, lengths: array[int]) -> None:
    largest = largest_of(lengths)
    if largest > made.body_max:
        raise BodyTooLarge(
            f"message {lengths.index(largest)} of the batch: a body of {largest} bytes with "
            f"{made.overhead} bytes of headers is larger than the {PACKET_BYTES_MAX} bytes of a "
            "packet; send it in parts"
        )


def _set_size(head: bytearray, made: Template, size: int) -> None:
    at.U32.pack_into(head, at.OFF_PACKET_SIZE, made.packet_bytes(size))
    _SIZES.pack_into(head, made.properties + at.OFF_BODY_SIZE, size, size)


def _join_equal(made: Template, head: bytearray, bodies: Run) -> tuple[bytearray, array[int]]:
    """Join bodies of one length, each with its headers before it."""
    size, count = bodies.lengths[0], len(bodies)
    _set_size(head, made, size)
    after = PADDING[(len(head) + size) % 4] + made.tail
    packets = array(LENGTH_TYPE, (made.packet_bytes(size),)) * count
    between, view = bytes(after + head), memoryview(bodies.data)
    out = bytearray(head)
    if size:
        step = size * min(BLOCK_MESSAGES, _BLOCK_BYTES // size + 1)
        for start in range(0, len(view), step):
            out += between.join(cut(view[start : start + step], size))
            out += between
        del out[-len(between) :]
    else:
        out += between * (count - 1)
    out += after
    return out, packets


def _join(made: Template, head: bytearray, bodies: Run) -> tuple[bytearray, array[int]]:
    """Join bodies of several lengths."""
    parts: list[Buffer] = []
    packets = array(LENGTH_TYPE)
    view, end, size, after, packet = memoryview(bodies.data), 0, -1, b"", 0
    lead = b""
    for length in bodies.lengths:
        if length != size:
            size = length
            _set_size(head, made, size)
            lead = bytes(head)
            after = PADDING[(len(head) + size) % 4] + made.tail
            packet = made.packet_bytes(size)
        start, end = end, end + size
        parts += (lead, view[start:end], after)
        packets.append(packet)
    return bytearray().join(parts), packets


def _join_own(
    made: Template, head: bytearray, bodies: Run, own: Run, messages: Sequence[int]
) -> tuple[bytearray, array[int]]:
    """Join bodies with their own headers, and write the common fields and the message numbers."""
    count = len(bodies)
    out, packets = bytearray(), array(LENGTH_TYPE)
    body, header = memoryview(bodies.data), memoryview(own.data)
    small = len(body) < _VIEW_FROM * count
    step = BLOCK_MESSAGES if small else count
    for first in range(0, count, step):
        here = slice(first, first + step)
        sizes, heads = bodies.lengths[here], own.lengths[here]
        size, length = total_of(sizes), total_of(heads)
        some = Run(bytes(body[:size]) if small else body[:size], sizes)
        parts, lengths = _own_parts(made, head, some, Run(header[:length], heads), messages[here])
        _check_packets(lengths, first)
        if first:
            out += b"".join(parts)
        else:
            out = bytearray().join(parts)
        packets += lengths
        body, header = body[size:], header[length:]
    return out, packets


def _own_parts(
    made: Template, head: bytearray, bodies: Run, own: Run, messages: Sequence[int]
) -> tuple[list[Buffer], array[int]]:
    """Return the pieces of packets with headers of their own, and the length of each packet."""
    before, count, data = made.properties, len(bodies), bytes(own.data)
    fixed = at.PROPERTIES_HEADER
    lead = before + fixed
    leads = bytearray(bytes(head[:lead]) * count)
    starts = starts_of(own.lengths)
    heads, stride = data, own.lengths[0]
    if not alike(own.lengths):
        starts = list(starts)
        heads, stride = b"".join([data[a : a + fixed] for a in starts[:-1]]), fixed
    for place, size in at.OWN_FIELDS:
        move(leads, before + place, lead, heads, place, stride, size)
    tails, packets = _behind_each(made, own.lengths, bodies.lengths)
    for place, numbers in (
        (at.OFF_PACKET_SIZE, packets), (at.OFF_MESSAGE_NUMBER, messages),
        (before + at.OFF_BODY_SIZE, bodies.lengths),
        (before + at.OFF_BODY_SIZE + at.U32.size, bodies.lengths),
    ):  # fmt: skip
        spread_numbers(leads, place, lead, numbers, count)
    parts: list[Buffer] = [b""] * (4 * count)
    parts[0::4] = cut(bytes(leads), lead)
    if stride == fixed:
        parts[1::4] = [data[a + fixed : b] for a, b in pairwise(starts)]
    else:
        parts[1::4] = cut(data, stride - fixed, skip=fixed)
    parts[2::4] = _apart(bodies)
    parts[3::4] = tails
    return parts, packets


def _apart(bodies: Run) -> Sequence[Buffer]:
    """Return each body; views if they are given as a view."""
    if isinstance(bodies.data, bytes) and alike(bodies.lengths) and bodies.data:
        return cut(bodies.data, bodies.lengths[0])
    return [bodies.data[a:b] for a, b in pairwise(starts_of(bodies.lengths))]


def _behind_each(
    made: Template, heads: array[int], bodies: array[int]
) -> tuple[list[bytes], array[int]]:
    """Return what follows each body, and each packet's length; ``heads``: lengths of headers."""
    before, count = made.properties, len(bodies)
    if alike(heads) and alike(bodies):
        size = before + heads[0] + bodies[0]
        tail = _behind(made, size)
        return [tail] * count, array(LENGTH_TYPE, (size + len(tail),)) * count
    sizes = list(map(add, heads, bodies))
    forms = {size: _behind(made, before + size) for size in set(sizes)}
    tails = [forms[size] for size in sizes]
    return tails, array(LENGTH_TYPE, map(add, map(add, sizes, repeat(before)), map(len, tails)))


def _behind(made: Template, size: int) -> bytes:
    """Return what follows the body in packets with ``size`` bytes up to its end."""
    return PADDING[size % 4] + made.tail


def _check_packets(packets: array[int], first: int) -> None:
    largest = largest_of(packets)
    if largest > PACKET_BYTES_MAX:
        index = first + packets.index(largest)
        raise BodyTooLarge(
            f"message {index} of the batch makes a packet of {largest} bytes, and "
            f"{PACKET_BYTES_MAX} is the most; send it in parts"
        )


def _messages(first: int, count: int) -> Sequence[int]:
    """Return message numbers from ``first`` on; 0 means "not assigned" and is left out."""
    if first + count <= MESSAGE_NUMBERS:
        return range(first, first + count)
    return [(first + i - 1) % NUMBER_MAX + 1 for i in range(count)]


def _write_numbers(
    out: bytearray, packets: array[int], offset: int, numbers: Iterable[int]
) -> None:
    """Write one 32-bit number into each packet, ``offset`` bytes from its start."""
    count, size = len(packets), packets[0]
    if count >= COLUMNS_FROM and size * count == len(out) and alike(packets):
        spread_numbers(out, offset, size, numbers, count)
        return
    put = at.U32.pack_into
    for length, number in zip(packets, numbers, strict=True):
        put(out, offset, number)
        offset += length
