"""Bodies out of packets: what is remembered of one packet is never taken for another's layout."""

from __future__ import annotations

import pytest

from onceq.errors import MalformedPacket
from onceq.model.message import PLAIN, Properties
from onceq.model.run import Run
from onceq.packet import address as at
from onceq.packet.address import Address
from onceq.packet.decode import bodies
from onceq.packet.encode import encode_run, template

SHORT = Address(7, direct="OS:BETA\\private$\\s")
LONG = Address(7, direct="OS:BETA\\private$\\a_much_longer_name")
LABELLED = Properties(label="a label")
EXTENDED = Properties(extension=b"more")


def packet(
    body: bytes, to: Address = SHORT, properties: Properties = PLAIN, transactional: bool = True
) -> bytes:
    made = template(
        source=bytes(16), destination=to, properties=properties, sent_time=1,
        transactional=transactional,
    )  # fmt: skip
    return bytes(encode_run(made, Run.of([body]), first_message=1).data)


KINDS = [
    packet(b"one"), packet(b"two", LONG), packet(b"three", SHORT, LABELLED), packet(b""),
    packet(b"four", SHORT, EXTENDED), packet(b"five", transactional=False), packet(b"six"),
]  # fmt: skip
WORDS = [b"one", b"two", b"three", b"", b"four", b"five", b"six"]


def test_one_by_one_every_kind_after_every_other() -> None:
    for before, first in zip(KINDS, WORDS, strict=True):
        for after, second in zip(KINDS, WORDS, strict=True):
            assert bodies(Run.of([before])) == [first]
            assert bodies(Run.of([after])) == [second]
            assert bodies(Run.of([before, after, before])) == [first, second, first]


@pytest.mark.parametrize(
    ("offset", "raw"),
    [
        (0, b"\x11"),
        (at.OFF_SIGNATURE, b"LION"),
        (at.OFF_PACKET_SIZE, b"\x08\x00\x00\x00"),
        (at.OFF_USER_FLAGS, b"\xff\xff\xff\xff"),
    ],
)
def test_what_is_broken_is_refused_also_after_its_like(offset: int, raw: bytes) -> None:
    good = packet(b"fine")
    broken = bytearray(good)
    broken[offset : offset + len(raw)] = raw
    assert bodies(Run.of([good])) == [b"fine"]
    with pytest.raises(MalformedPacket):
        bodies(Run.of([bytes(broken)]))
    with pytest.raises(MalformedPacket):
        bodies(Run.of([good, bytes(broken)]))


def test_a_size_that_reaches_beyond_the_packet_is_refused_also_after_its_like() -> None:
    good = packet(b"fine")
    place = good.index((4).to_bytes(4, "little") * 2)
    broken = good[:place] + (9_999).to_bytes(4, "little") * 2 + good[place + 8 :]
    assert bodies(Run.of([good])) == [b"fine"]
    with pytest.raises(MalformedPacket):
        bodies(Run.of([broken]))
