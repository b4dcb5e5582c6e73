"""Identifiers: of queue managers, messages, streams and transactions.

A queue manager is known by a GUID, kept as the 16 bytes that packets contain (first three
fields little-endian, MS-MQMQ 2.2.18.1.1). A message is known by the manager that sent it and a
number (PRP-3). A transaction of a client is known by the client's session and a number, so that
its outcome can be asked for after a crash (I3a).

Also here:

* Numbers in texts from outside: identifiers, ports, places of a list, options.
* Who a queue manager is.

Upholds: I24 (no value from outside makes the core fail).
"""

from __future__ import annotations

import re
import struct
from typing import Final

from onceq.model.record import Record

# ---- numbers -------------------------------------------------------------------------------------


NUMBER_MAX: Final = (1 << 64) - 1
DIGITS_MAX: Final = 20
"""Of NUMBER_MAX."""


def read_number(text: str, most: int = NUMBER_MAX, least: int = 0) -> int | None:
    """The number that a text is: 1 to DIGITS_MAX digits of ASCII and nothing else.

    Python counts many characters as digits that are none here, and gives up on a text of some
    thousands of digits with an error that is not ours (finding R1). So each such text is read here.

    Returns:
        None: it is none, or it is below ``least`` or above ``most``.
    """
    if not 0 < len(text) <= DIGITS_MAX or not (text.isascii() and text.isdigit()):
        return None
    found = int(text)
    return found if least <= found <= most else None


# ---- identity ------------------------------------------------------------------------------------


GUID_BYTES = 16
NO_GUID = bytes(GUID_BYTES)

_GUID_TEXT = re.compile(
    r"\{?([0-9a-fA-F]{8})-([0-9a-fA-F]{4})-([0-9a-fA-F]{4})-([0-9a-fA-F]{4})-([0-9a-fA-F]{12})\}?"
)


def guid_text(raw: bytes) -> str:
    """Print 16 wire bytes as ``xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx``."""
    if len(raw) != GUID_BYTES:
        raise ValueError(f"a GUID has {GUID_BYTES} bytes, not {len(raw)}")
    head = raw[3::-1] + raw[5:3:-1] + raw[7:5:-1]
    text = (head + raw[8:]).hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def guid_bytes(text: str) -> bytes:
    """Parse the text form into 16 wire bytes; raises ValueError."""
    match = _GUID_TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"not a GUID: {text!r}")
    a, b, c, d, e = (bytes.fromhex(part) for part in match.groups())
    return a[::-1] + b[::-1] + c[::-1] + d + e


class MessageId(Record, frozen=True, order=True):
    """Source queue manager and message number; all copies of one send share it (FN-14)."""

    source: bytes
    number: int

    def __str__(self) -> str:
        return f"{{{guid_text(self.source)}}}\\{self.number}"

    def __repr__(self) -> str:
        return f"MessageId.parse({str(self)!r})"

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Read the form that ``str`` prints; raises ValueError."""
        guid, separator, number = text.replace("/", "\\").rpartition("\\")
        found = read_number(number, 0xFFFF_FFFF)
        if not separator or found is None:
            raise ValueError(f"not a message identifier: {text!r}")
        return cls(guid_bytes(guid), found)

    def pack(self) -> bytes:
        """The 20 bytes of PROPID_M_MSGID and of correlation identifiers."""
        return self.source + self.number.to_bytes(4, "little")

    @classmethod
    def unpack(cls, raw: bytes) -> MessageId:
        """From 20 bytes; raises ValueError."""
        if len(raw) != GUID_BYTES + 4:
            raise ValueError(f"a message identifier has 20 bytes, not {len(raw)}")
        return cls(bytes(raw[:GUID_BYTES]), int.from_bytes(raw[GUID_BYTES:], "little"))


class TransactionId(Record, frozen=True, order=True, array_like=True, forbid_unknown_fields=True):
    """One commit of one client session: the key for asking what became of it (I3a).

    Numbers rise by one with every commit that a session asks for, starting at 1.
    """

    session: bytes
    number: int

    def __str__(self) -> str:
        return f"{self.session.hex()}-{self.number}"

    def __repr__(self) -> str:
        return f"TransactionId.parse({str(self)!r})"

    @classmethod
    def parse(cls, text: str) -> TransactionId:
        """Read the form that ``str`` prints; raises ValueError."""
        session, separator, number = text.partition("-")
        found = read_number(number)
        if not separator or len(session) != 2 * GUID_BYTES or found is None:
            raise ValueError(f"not a transaction identifier: {text!r}")
        return cls(bytes.fromhex(session), found)


# ---- manager identity ----------------------------------------------------------------------------


class Identity(Record, frozen=True):
    """The permanent identity of a queue manager: given at ``init`` and kept in the store."""

    guid: bytes
    name: str
    installed_s: int

    def pack(self) -> bytes:
        """Bytes for the store."""
        return self.guid + struct.pack("<I", self.installed_s) + self.name.encode()

    @classmethod
    def unpack(cls, raw: bytes) -> Identity:
        """From the bytes of ``pack``; raises ValueError."""
        if len(raw) < 21:
            raise ValueError("an identity has at least 21 bytes")
        return cls(bytes(raw[:16]), bytes(raw[20:]).decode(), struct.unpack_from("<I", raw, 16)[0])
