"""Samples of packets: one with few headers, one with each that exists, and lists of names."""

from __future__ import annotations

import struct
from dataclasses import replace

from onceq.model.message import PLAIN, Journal, Properties
from onceq.model.names import parse_format_name
from onceq.model.run import Run
from onceq.packet import address as at
from onceq.packet.address import DIRECT, Address, Element, MultiNames
from onceq.packet.decode import headers
from onceq.packet.encode import Template, encode_run, template
from onceq.packet.headers import DebugHeader, PacketHeaders, SecurityHeader

SOURCE = bytes(range(16))
STOCK = Address(7, direct="OS:BETA\\private$\\stock")
GUID = "00112233-4455-6677-8899-aabbccddeeff"


def made(properties: Properties = PLAIN, *, transactional: bool = True, **more: object) -> Template:
    return template(
        source=SOURCE, destination=STOCK, properties=properties, sent_time=1_700_000_000,
        transactional=transactional, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def elements(text: str) -> tuple[Element, ...]:
    return tuple(map(Element.of, parse_format_name(text)))


def packet(*, transactional: bool = True, body: bytes = b"body!", label: str = "label") -> bytes:
    made = template(
        source=SOURCE, destination=Address(DIRECT, direct="OS:B\\q"),
        admin=Address(DIRECT, direct="OS:ADMIN\\acks"), response=Address(5, b"r" * 16),
        properties=Properties(label=label, journal=Journal.DEADLETTER, extension=b"xyz"),
        sent_time=7, transactional=transactional,
    )  # fmt: skip
    run = encode_run(made, Run.of([body]), first_message=3, stream=transactional * 5,
                     first_number=transactional * 9)  # fmt: skip
    return bytes(run.data)


def every_header() -> PacketHeaders:
    """A packet with each header that exists."""
    parts = headers(packet())
    flags = (
        parts.user.flags | at.USER_SECURITY | at.USER_SOAP | at.USER_MULTIQUEUE | at.USER_CONNECTOR
    )
    assert parts.transaction is not None
    soap = struct.pack("<HHI", 0x320, 0, 3) + b"a\0b\0\0\0" + b"\0\0"
    soap += struct.pack("<HHI", 0x384, 0, 1) + b"\0\0" + b"\0\0"
    return replace(
        parts,
        base=replace(parts.base, flags=at.BASE_DEBUG, reserved=0x5A),
        user=replace(parts.user, flags=flags, connector=b"c" * 16),
        transaction=replace(
            parts.transaction, flags=parts.transaction.flags | at.TX_CONNECTOR, connector=b"C" * 16
        ),
        security=SecurityHeader(1, b"s" * 5, b"k", b"", b"cert", b"p" * 7),
        debug=DebugHeader(1, 0, b"q" * 16),
        soap=soap,
        multi=MultiNames((Element(3, direct="OS:A\\q"),)).pack(),
        trailing=b"trailing",
        paddings=(),
    )


NAMES = MultiNames(
    elements(f"DIRECT=OS:A\\q,PRIVATE={GUID}\\7,DL={GUID},DIRECT=TCP:10.0.0.1\\private$\\qq"),
    elements("DIRECT=OS:ADMIN\\a"),
)
