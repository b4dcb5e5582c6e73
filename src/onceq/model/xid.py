"""Identifiers of transaction branches, as XA has them (XTX-15).

A global transaction has one ``gtrid``; each of its branches, one for each partner, has a ``bqual``
beside it. Those that onceq makes are printable, because databases keep them as text: ``gtrid`` is
``onceq-`` with the GUID of whoever decides (32 hexadecimal digits) and a number; ``bqual`` is a
short name of the partner.

Branches that are committed as one *group* (``core/transaction/groups.py``) carry the identity of
the manager on which they are, and ``group.`` at the front of their ``bqual``. The number in their
``gtrid`` is 12 hexadecimal digits that all attempts at one batch have in common, and 12 that one
attempt has for itself.

A group may decide for branches at other managers, too. These have the same ``gtrid``, and so the
identity of the manager that decides. There an *anchor* with that ``gtrid`` stands for them: a
branch with nothing in it, whose ``bqual`` is ``group.for.`` with the GUID of the other manager.

A branch whose outcome is a row in a database, its *last agent* (``partners/last_agent.py``), has an
``r`` before the number, so that nobody takes it for one that a queue manager decides, and its
``bqual`` is ``row.`` with the name of the database.
"""

from __future__ import annotations

import re
from typing import Final

from onceq.errors import InvalidParameter
from onceq.model.identity import GUID_BYTES, guid_text
from onceq.model.record import Record

XID_BYTES_MAX: Final = 64
"""Bytes of each of the two parts (XA: MAXGTRIDSIZE, MAXBQUALSIZE)."""
FORMAT_MAX: Final = 0x7FFF_FFFF
ONCEQ_FORMAT: Final = 0x6F6E6371
"""Format of identifiers that onceq makes: the letters ``oncq``."""
PREFIX: Final = "onceq-"

TAG_BYTES: Final = 6
"""Of each half of the number of a group's branch: what the batch is, and which attempt."""
GROUP_MARK: Final = b"group."
"""At the front of the branch qualifier of a group's branch."""

ANCHOR_MARK: Final = GROUP_MARK + b"for."
"""At the front of the branch qualifier of an anchor."""

ROW_MARK: Final = b"row."
"""At the front of the branch qualifier of a branch that a row in a database decides."""

_OURS = re.compile(rb"onceq-([0-9a-f]{32})-([0-9a-f]{1,24})")
_GROUP = re.compile(rb"(onceq-[0-9a-f]{32}-[0-9a-f]{12})[0-9a-f]{12}")
_ANCHOR = re.compile(re.escape(ANCHOR_MARK) + rb"([0-9a-f]{32})")
_BY_ROW = re.compile(rb"onceq-([0-9a-f]{32})-r([0-9a-f]{1,24})")
_TAG = re.compile(rb"[0-9a-f]{12}")
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./$@+=")
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})|([^%:])")


class Xid(Record, frozen=True, order=True):
    """One branch of one global transaction; raises InvalidParameter if it cannot be.

    Attributes:
        format_id: How the rest is to be read: 0 to 2**31 - 1.
        gtrid: The global transaction: 1 to 64 bytes.
        bqual: The branch: up to 64 bytes.
    """

    format_id: int
    gtrid: bytes
    bqual: bytes = b""

    def __post_init__(self) -> None:
        if not 0 <= self.format_id <= FORMAT_MAX:
            raise InvalidParameter(f"a format identifier is 0 to {FORMAT_MAX}: {self.format_id}")
        if not 0 < len(self.gtrid) <= XID_BYTES_MAX or len(self.bqual) > XID_BYTES_MAX:
            raise InvalidParameter(
                f"a global transaction identifier has 1 to {XID_BYTES_MAX} bytes and a branch "
                f"qualifier up to {XID_BYTES_MAX}, not {len(self.gtrid)} and {len(self.bqual)}"
            )

    def __str__(self) -> str:
        return f"{self.format_id}:{_text(self.gtrid)}:{_text(self.bqual)}"

    @classmethod
    def parse(cls, text: str) -> Xid:
        """Read the form that ``str`` prints; raises InvalidParameter."""
        parts = text.split(":")
        if len(parts) != 3 or not parts[0].isdecimal() or len(parts[0]) > 10:
            raise InvalidParameter(
                f"not a branch: {text!r}; it has the form format:transaction:branch"
            )
        return cls(int(parts[0]), _bytes(parts[1]), _bytes(parts[2]))


def _text(raw: bytes) -> str:
    return "".join(chr(b) if b in _PLAIN else f"%{b:02x}" for b in raw)


def _bytes(text: str) -> bytes:
    found = bytearray()
    at = 0
    while at < len(text):
        match = _ESCAPE.match(text, at)
        if match is None or (match[2] and not match[2].isascii()):
            raise InvalidParameter(f"not a part of a branch: {text!r} at character {at + 1}")
        found += bytes.fromhex(match[1]) if match[1] else match[2].encode()
        at = match.end()
    return bytes(found)


def make_gtrid(decider: bytes, number: int) -> bytes:
    """The identifier of a transaction that ``decider`` (a GUID) decides."""
    return f"{PREFIX}{decider.hex()}-{number:x}".encode()


def decider_of(gtrid: bytes) -> tuple[bytes, int] | None:
    """GUID and number out of ``make_gtrid``; None if it is not one of ours."""
    match = _OURS.fullmatch(gtrid)
    if match is None:
        return None
    decider = bytes.fromhex(match[1].decode())
    assert len(decider) == GUID_BYTES
    return decider, int(match[2], 16)


def group_prefix(manager: bytes, tag: bytes) -> bytes:
    """What the ``gtrid`` of every branch of one batch begins with.

    Args:
        manager: GUID of the queue manager on which they are, and which decides.
        tag: Which batch it is: TAG_BYTES.
    """
    assert len(manager) == GUID_BYTES
    assert len(tag) == TAG_BYTES
    return f"{PREFIX}{manager.hex()}-{tag.hex()}".encode()


def group_xid(prefix: bytes, token: bytes, name: str) -> Xid:
    """A branch of a batch; ``token`` tells attempts apart, ``name`` the branches of one attempt."""
    assert len(token) == TAG_BYTES
    return Xid(ONCEQ_FORMAT, prefix + token.hex().encode(), GROUP_MARK + name.encode())


def anchor_xid(prefix: bytes, token: bytes, manager: bytes) -> Xid:
    """The anchor of an attempt's branches at another manager (a GUID)."""
    assert len(manager) == GUID_BYTES
    return group_xid(prefix, token, f"for.{manager.hex()}")


def anchored(xid: Xid) -> bytes:
    """GUID of the manager for whose branches an anchor stands; empty if it is none."""
    match = _ANCHOR.fullmatch(xid.bqual)
    return bytes.fromhex(match[1].decode()) if match is not None and group_of(xid) else b""


def partner_name(manager: bytes) -> str:
    """How a queue manager (a GUID) is called where it takes part in what another one decides."""
    return f"onceq:{guid_text(manager)}"


def group_of(xid: Xid) -> bytes:
    """The ``group_prefix`` of a branch; empty if it belongs to no group."""
    if not xid.bqual.startswith(GROUP_MARK):
        return b""
    match = _GROUP.fullmatch(xid.gtrid)
    return match[1] if match is not None else b""


def is_group_prefix(raw: bytes, manager: bytes) -> bool:
    """Whether it is the prefix of batches of that queue manager."""
    tag = raw.removeprefix(f"{PREFIX}{manager.hex()}-".encode())
    return len(tag) == 2 * TAG_BYTES == len(raw) - len(PREFIX) - 2 * GUID_BYTES - 1 and (
        _TAG.fullmatch(tag) is not None
    )


def xid_by_row(manager: bytes, number: int, agent: str) -> Xid:
    """The branch at ``manager`` (a GUID) whose outcome is a row in the database ``agent``."""
    gtrid = f"{PREFIX}{manager.hex()}-r{number:x}".encode()
    return Xid(ONCEQ_FORMAT, gtrid, ROW_MARK + agent.encode("ascii"))


def agent_of(xid: Xid) -> str:
    """The database whose row decides a branch; empty if none does."""
    if xid.format_id != ONCEQ_FORMAT or not xid.bqual.startswith(ROW_MARK):
        return ""
    if _BY_ROW.fullmatch(xid.gtrid) is None:
        return ""
    return xid.bqual.removeprefix(ROW_MARK).decode("ascii", "replace")
