"""Identifiers of transaction branches, as XA has them (XTX-15).

A global transaction has one ``gtrid``; each of its branches, one for each partner, has a ``bqual``
beside it. Those that onceq makes are printable, because databases keep them as text: ``gtrid`` is
``onceq-`` with the GUID of the decider (32 hexadecimal digits) and a number, which it draws;
``bqual`` is a short name of the partner.

Branches that are committed as one *group* (``core/transaction/second_phase.py``) carry the identity
of the manager on which they are, and ``group.`` at the front of their ``bqual``. The number in
their ``gtrid`` is 12 hexadecimal digits that all attempts at one batch have in common, and 13
characters that one attempt has for itself: a token, and a mark of whom the manager has made it for.
The mark needs a key, which stands beside the store and is told to nobody; so another one that has
read an identifier begins no branch under it. (Identifiers of before have 12 digits and no mark:
what was prepared under them is decided as ever.)

A group may decide for branches at other managers, too. These have the same ``gtrid``, and so the
identity of the manager that decides. There an *anchor* with that ``gtrid`` stands for them: a
branch with nothing in it, whose ``bqual`` is ``group.for.`` with the GUID of the other manager.

A branch whose outcome is a row in a database, its *last agent* (``partners/procedures.py``), has an
``r`` before the number, so that nobody takes it for one that a queue manager decides, and its
``bqual`` is ``row.`` with the name of the database.

Also here:

* What callers see of branches of external transactions, and the words of XA for them.
"""

from __future__ import annotations

import re
from enum import Enum, IntEnum
from typing import Final

from onceq.errors import InvalidParameter
from onceq.model.identity import GUID_BYTES, guid_text, read_number
from onceq.model.record import Record

# ---- xid -----------------------------------------------------------------------------------------


XID_BYTES_MAX: Final = 64
"""Bytes of each of the two parts (XA: MAXGTRIDSIZE, MAXBQUALSIZE)."""
FORMAT_MAX: Final = 0x7FFF_FFFF
ONCEQ_FORMAT: Final = 0x6F6E6371
"""Format of identifiers that onceq makes: the letters ``oncq``."""
PREFIX: Final = "onceq-"

TAG_BYTES: Final = 6
"""Of each half of the number of a group's branch: what the batch is, and which attempt."""
NUMBER_BYTES: Final = 12
"""Of the number of a transaction that decides for partners: nobody draws the same one again."""
_DIGITS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_ATTEMPT_CHARS: Final = 13
_MARK_BITS: Final = 30
"""Of its 78: an attacker without the key can guess once at each identifier it has read."""
GROUP_MARK: Final = b"group."
"""At the front of the branch qualifier of a group's branch."""

ANCHOR_MARK: Final = GROUP_MARK + b"for."
"""At the front of the branch qualifier of an anchor."""

ROW_MARK: Final = b"row."
"""At the front of the branch qualifier of a branch that a row in a database decides."""

_OURS = re.compile(rb"onceq-([0-9a-f]{32})-([0-9a-f]{1,24})")
_GROUP = re.compile(rb"(onceq-[0-9a-f]{32}-[0-9a-f]{12})([0-9a-f]{12}|[0-9A-Za-z_-]{13})")
_ANCHOR = re.compile(re.escape(ANCHOR_MARK) + rb"([0-9a-f]{32})")
_BY_ROW = re.compile(rb"onceq-([0-9a-f]{32})-r([0-9a-f]{1,24})")
_TAG = re.compile(rb"[0-9a-f]{12}")
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./$@+=")
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})|([^%:])")


class Xid(Record, frozen=True, order=True, array_like=True, forbid_unknown_fields=True):
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
        format_id = read_number(parts[0])
        if len(parts) != 3 or format_id is None:
            raise InvalidParameter(
                f"not a branch: {text!r}; it has the form format:transaction:branch"
            )
        return cls(format_id, _bytes(parts[1]), _bytes(parts[2]))


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


def decider_of(gtrid: bytes) -> bytes | None:
    """GUID of the queue manager that decides it; None if it is not one of ours."""
    if _OURS.fullmatch(gtrid) is None and _GROUP.fullmatch(gtrid) is None:
        return None
    at = len(PREFIX)
    return bytes.fromhex(gtrid[at : at + 2 * GUID_BYTES].decode())


def group_prefix(manager: bytes, tag: bytes) -> bytes:
    """What the ``gtrid`` of every branch of one batch begins with.

    Args:
        manager: GUID of the queue manager on which they are, and which decides.
        tag: Which batch it is: TAG_BYTES.
    """
    assert len(manager) == GUID_BYTES
    assert len(tag) == TAG_BYTES
    return f"{PREFIX}{manager.hex()}-{tag.hex()}".encode()


def attempt_of(prefix: bytes, token: bytes, by: str, key: bytes) -> bytes:
    """The ``gtrid`` of all branches of one attempt at a batch.

    Args:
        token: Tells attempts apart: TAG_BYTES.
        by: For whom it is made (``Step.known_by``).
        key: The manager's own.
    """
    assert len(token) == TAG_BYTES
    import hashlib  # which loads OpenSSL

    whole = b"\0".join((prefix, token.hex().encode(), by.encode()))
    digest = hashlib.blake2b(whole, key=key, digest_size=8).digest()
    mark = int.from_bytes(digest, "big") >> (64 - _MARK_BITS)
    number = int.from_bytes(token, "big") << _MARK_BITS | mark
    return prefix + bytes(
        _DIGITS[number >> 6 * at & 0x3F] for at in reversed(range(_ATTEMPT_CHARS))
    )


def is_attempt_for(gtrid: bytes, by: str, key: bytes) -> bool:
    """Whether a ``gtrid`` is one of ``attempt_of``, made for somebody with that key."""
    match = _GROUP.fullmatch(gtrid)
    if match is None or len(match[2]) != _ATTEMPT_CHARS:
        return False
    number = 0
    for digit in match[2]:
        number = number << 6 | _DIGITS.index(digit)
    token = number >> _MARK_BITS
    if token >> 8 * TAG_BYTES:
        return False
    from hmac import compare_digest

    made = attempt_of(match[1], token.to_bytes(TAG_BYTES, "big"), by, key)
    return compare_digest(made, gtrid)


def group_xid(gtrid: bytes, name: str) -> Xid:
    """A branch of an attempt; ``name`` tells those of one attempt apart."""
    return Xid(ONCEQ_FORMAT, gtrid, GROUP_MARK + name.encode())


def anchor_xid(gtrid: bytes, manager: bytes) -> Xid:
    """The anchor of an attempt's branches at another manager (a GUID)."""
    assert len(manager) == GUID_BYTES
    return group_xid(gtrid, f"for.{manager.hex()}")


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


# ---- branch --------------------------------------------------------------------------------------


class Vote(Enum):
    """What a partner answers to prepare.

    A branch is what this manager does in a transaction that somebody else decides (XTX-3). Its
    identifier is an ``Xid``.
    """

    PREPARED = "prepared"
    """It can commit and roll back, through any crash (I20)."""
    READ_ONLY = "read-only"
    """It has nothing to decide, and is out of it (XA_RDONLY)."""


class Phase(Enum):
    """Where a branch is."""

    __hash__ = object.__hash__  # Enum's own is a call of Python, for each table that is read

    ACTIVE = "active"
    """Work is added to it."""
    SUSPENDED = "suspended"
    """Its work goes on later (TMSUSPEND)."""
    ENDED = "ended"
    """All its work is done; it waits to be prepared."""
    PREPARED = "prepared"
    """It waits for its outcome, in doubt, through any crash (XTX-4)."""
    COMMITTED = "committed by hand"
    """An operator has committed it before its outcome was known (XTX-8)."""
    ROLLED_BACK = "rolled back by hand"


class Join(IntEnum):
    """How work is associated with a branch (xa_start)."""

    NEW = 0
    JOIN = 1
    RESUME = 2


class Leave(IntEnum):
    """How it is dissociated (xa_end)."""

    SUCCESS = 0
    FAIL = 1
    SUSPEND = 2


class DecisionState(Enum):
    """What a manager that decides for a transaction knows of it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """There is no record of a commit, and there will be none (presumed abort)."""
    OPEN = "open"
    """Its application is at work: it is not decided yet, or its partners are being told."""
