"""From bodies to packets: the headers once for a batch, the changing fields once for a message.

``encode_run`` puts the headers of a batch before every body and fills in sizes,
message numbers and sequence numbers. This is the one place where each outgoing message costs Python
time, so C code joins bodies with their headers, in blocks that stay in the processor's cache, and
the numbers are then written column by column: byte k of all of them at once.

Also here:

* The headers of a batch: what its packets have in common, made once.
* Fields of many equally long headers at once: byte k of all of them is a column.

Upholds: I7 and I8 as far as bytes go (number and previous number are where they were given).
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise, repeat
from operator import add
from struct import Struct, pack
from typing import Final

from onceq.errors import BodyTooLarge, IllegalPropertyValue, LabelTooLong
from onceq.model.identity import NO_GUID
from onceq.model.limits import LABEL_CHARS_MAX, PACKET_BYTES_MAX
from onceq.model.message import PRIORITY_DEFAULT, Delivery, Journal, Properties
from onceq.model.record import Record, settle
from onceq.model.run import LENGTH_TYPE, Buffer, Run, alike, largest_of, starts_of, total_of
from onceq.packet import address as at
from onceq.packet.address import NOWHERE, PADDING, Address, MultiNames

# ---- templates -----------------------------------------------------------------------------------


HASH_SHA1: Final = 0x8004
CIPHER_RC4: Final = 0x6801
"""What Windows writes into messages that are neither signed nor encrypted (MS-MQMQ 2.2.19.3)."""

ORDER: Final = struct.Struct("<IQII")
"""The TransactionHeader: flags, stream, number and the number before."""
PROPERTIES: Final = struct.Struct("<BBH20sIIIIIIII")
"""Fixed part of the MessagePropertiesHeader."""
_USER = struct.Struct("<16s16sIIII")
_DEBUG = struct.Struct("<HH")
_BASE = struct.Struct("<BBH4sII")


class Template(Record, frozen=True):
    """The headers of every packet of one batch.

    A batch shares destination and properties, so nearly all bytes of its headers are the same. A
    ``Template`` holds them, with zeros where messages differ; ``encode_run`` puts it before every
    body.

    Attributes:
        head: Everything before the body, with zeros where messages differ.
        transaction: Offset of the TransactionHeader; 0 if there is none.
        properties: Offset of the MessagePropertiesHeader.
        flags: Those of every TransactionHeader.
        tail: Headers that follow the body and its padding.
        overhead: Bytes of headers in each packet; derived from the others.
        body_max: Bytes of the largest body that fits into a packet; also derived.
    """

    head: bytes
    transaction: int
    properties: int
    flags: int = 0
    tail: bytes = b""
    overhead: int = 0
    body_max: int = 0

    def __post_init__(self) -> None:
        head, tail = len(self.head), len(self.tail)
        settle(self, "overhead", head + tail)
        settle(self, "body_max", (PACKET_BYTES_MAX - tail & ~3) - head)

    def packet_bytes(self, body: int) -> int:
        """Return the size of the packet of a body of ``body`` bytes, padding included."""
        return (len(self.head) + body + 3 & ~3) + len(self.tail)


def template(
    *,
    source: bytes,
    destination: Address,
    destination_manager: bytes = NO_GUID,
    admin: Address = NOWHERE,
    response: Address = NOWHERE,
    properties: Properties,
    sent_time: int,
    transactional: bool,
    message_class: int = 0,
    time_to_reach_queue: int | None = None,
    multi: MultiNames | None = None,
    report_queue: bytes = b"",
    hash_algorithm: int = HASH_SHA1,
) -> Template:
    """Make the headers for one destination.

    Transactional messages are always recoverable and of priority 0 (Q-6, Q-23), and ask for a final
    acknowledgment if a journal or dead-letter copy may be due (EOD-39).

    Args:
        destination_manager: GUID; zero for direct names.
        sent_time: Seconds since 1970 UTC.
        time_to_reach_queue: Seconds; None: as in the properties.
        multi: Names of all destinations of the send, if it has several.
        report_queue: GUID of the public queue for reports on a traced message; empty: none.
        hash_algorithm: Of a signature (ALG_ID); it is passed on, and nothing here is signed.

    Raises:
        LabelTooLong, IllegalPropertyValue: The label does not fit into a packet.
    """
    flags = at.BASE_TRACE | at.BASE_DEBUG if properties.trace else 0
    if not transactional:
        flags |= PRIORITY_DEFAULT if properties.priority is None else properties.priority
    head = bytearray(
        _BASE.pack(
            at.VERSION, 0, flags, at.SIGNATURE, 0,
            properties.time_to_reach_queue if time_to_reach_queue is None else time_to_reach_queue,
        )
    )  # fmt: skip
    user = bytearray(
        _USER.pack(
            source, destination_manager, properties.time_to_be_received, sent_time, 0,
            _user_flags(properties, transactional, (destination, admin, response), multi),
        )
    )  # fmt: skip
    for address in (destination, admin, response):
        user += address.pack(len(user))
    head += user
    transaction, tx_flags = 0, 0
    if transactional:
        transaction = len(head)
        tx_flags = at.TX_FINAL_ACK if properties.journal else 0
        head += ORDER.pack(tx_flags, 0, 0, 0)
    offset = len(head)
    label = label_bytes(properties.label) if properties.label else b""
    head += PROPERTIES.pack(
        int(properties.acknowledge), len(label) // 2, message_class, properties.correlation_id,
        properties.body_type, properties.app_specific, 0, 0, 0, hash_algorithm, CIPHER_RC4,
        len(properties.extension),
    )  # fmt: skip
    head += label + properties.extension
    tail = multi.pack() if multi is not None else b""
    if properties.trace:
        tail = _DEBUG.pack(1 if report_queue else 0, 0) + report_queue + tail
    return Template(bytes(head), transaction, offset, tx_flags, tail)


def one_rest(templates: Sequence[Template]) -> bool:
    """Return whether the packets of a message for several places, with these headers, are equal
    from their properties on."""
    if len(templates) < 2:
        return False
    first = templates[0]
    rest, tail = first.head[first.properties :], first.tail
    return all(one.tail == tail and one.head[one.properties :] == rest for one in templates[1:])


def _user_flags(
    properties: Properties,
    transactional: bool,
    addresses: tuple[Address, Address, Address],
    multi: MultiNames | None,
) -> int:
    destination, admin, response = addresses
    flags = at.USER_PROPERTIES
    flags |= destination.kind << at.USER_DESTINATION_SHIFT
    flags |= admin.kind << at.USER_ADMIN_SHIFT | response.kind << at.USER_RESPONSE_SHIFT
    if transactional or properties.delivery == Delivery.RECOVERABLE:
        flags |= at.USER_RECOVERABLE
    if transactional:
        flags |= at.USER_TRANSACTION
    if properties.journal & Journal.DEADLETTER:
        flags |= at.USER_DEADLETTER
    if properties.journal & Journal.JOURNAL:
        flags |= at.USER_JOURNAL
    if multi is not None:
        flags |= at.USER_MULTIQUEUE
    return flags


def label_bytes(text: str) -> bytes:
    """Return a label with its terminator; characters outside the basic plane count twice."""
    if "\0" in text:
        raise IllegalPropertyValue("a label ends at its first NUL character; this one contains one")
    raw = text.encode("utf-16-le", "surrogatepass")
    if len(raw) // 2 > LABEL_CHARS_MAX:
        raise LabelTooLong(
            f"the label has {len(raw) // 2} UTF-16 characters; at most {LABEL_CHARS_MAX} fit"
        )
    return raw + b"\0\0"


# ---- columns -------------------------------------------------------------------------------------


_NUMBER: Final = 4
_WORD: Final = memoryview(b"").cast("I").itemsize
_PAGE: Final = 1 << 16
"""Consecutive numbers are made in pieces in which their upper halves are alike."""
_LOWEST: Final = bytes(range(256)) * 256
_SECOND: Final = b"".join(bytes((value,)) * 256 for value in range(256))
"""The two lower bytes of all numbers of a page, as columns."""
_TOGETHER: Final = 1 << 10
"""Pieces that one format cuts; it takes some dozens of bytes for each."""
_AS_STORED: Final = sys.byteorder == "little" and array("I").itemsize == _NUMBER
"""Whether this processor stores numbers in the byte order of messages."""


def spread(out: bytearray, place: int, stride: int, raw: bytes | bytearray, size: int) -> None:
    """Write one field of ``size`` bytes into each of several headers.

    Writing a column costs a nanosecond or two for each header, and writing a field of one header a
    hundred times as much. So headers that differ in some fields are made as one piece of bytes, of
    which columns are set, and cut apart at the end.

    Args:
        out: The headers, one every ``stride`` bytes.
        place: Where in each header the field begins.
        raw: The fields, one after another.
    """
    if (place | stride | size | len(out)) % _WORD:
        for k in range(size):
            out[place + k :: stride] = raw[k::size]
        return
    # The same by columns of four bytes, in any order.
    with memoryview(out) as view, view.cast("I") as words:
        columns = memoryview(raw).cast("I")
        for k in range(size // _WORD):
            words[place // _WORD + k :: stride // _WORD] = columns[k :: size // _WORD]


def move(
    out: bytearray, place: int, stride: int, of: bytes, origin: int, step: int, size: int
) -> None:
    """Copy one field of each of several headers from its place in another piece of bytes.

    Args:
        out, place, stride: As for ``spread``.
        of: One field every ``step`` bytes; the first one begins at ``origin``.
        size: Bytes of the field.
    """
    for k in range(size):
        out[place + k :: stride] = of[origin + k :: step]


def gathered(of: bytes | bytearray, origin: int, step: int, size: int, count: int) -> bytearray:
    """Return one field of ``size`` bytes of each of ``count`` headers, one after another."""
    out = bytearray(size * count)
    for k in range(size):
        out[k::size] = of[origin + k :: step]
    return out


def spread_numbers(
    out: bytearray, place: int, stride: int, numbers: Iterable[int], count: int
) -> None:
    """Write one 32-bit number into each of ``count`` headers."""
    spread(out, place, stride, _raw(numbers, count), _NUMBER)


def _raw(numbers: Iterable[int], count: int) -> bytes | bytearray:
    """Return numbers one after another in the byte order of messages."""
    if isinstance(numbers, range) and numbers.step == 1:
        return consecutive(numbers.start, count)
    if _AS_STORED and isinstance(numbers, array) and numbers.typecode == "I":
        return numbers.tobytes()
    return pack(f"<{count}I", *numbers)


def consecutive(first: int, count: int) -> bytearray:
    """Return ``count`` 32-bit numbers from ``first`` on, also made by columns."""
    raw = bytearray(_NUMBER * count)
    done = 0
    while done < count:
        at = (first + done) % _PAGE
        here = min(count - done, _PAGE - at)
        upper = (first + done) // _PAGE
        start, stop = _NUMBER * done, _NUMBER * (done + here)
        raw[start:stop:_NUMBER] = _LOWEST[at : at + here]
        raw[start + 1 : stop : _NUMBER] = _SECOND[at : at + here]
        raw[start + 2 : stop : _NUMBER] = bytes((upper % 256,)) * here
        raw[start + 3 : stop : _NUMBER] = bytes((upper // 256,)) * here
        done += here
    return raw


def cut(data: Buffer, size: int, *, skip: int = 0, rest: int = 0) -> Sequence[bytes]:
    """Return pieces of one size.

    Args:
        skip, rest: Bytes before and behind each piece that belong to none.
    """
    stride = skip + size + rest
    count = len(data) // stride if stride else 0
    if count > _TOGETHER:
        view = memoryview(data)
        return [bytes(view[at : at + size]) for at in range(skip, len(data), stride)]
    # One format for all of them takes a fifth of the time of single slices.
    return _pieces(size, skip, rest, count).unpack_from(data)


@lru_cache(maxsize=64)
def _pieces(size: int, skip: int, rest: int, count: int) -> Struct:
    return Struct(f"{skip}x{size}s{rest}x" * count)


# ---- encode --------------------------------------------------------------------------------------


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
            messages of their transaction they are (``packet/survey.py``).
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
        largest = largest_of(lengths)
        if largest > PACKET_BYTES_MAX:
            index = first + lengths.index(largest)
            raise BodyTooLarge(
                f"message {index} of the batch makes a packet of {largest} bytes, and "
                f"{PACKET_BYTES_MAX} is the most; send it in parts"
            )
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
