"""What is durable of external transactions: branches that are prepared, and decisions.

A prepared branch keeps all that its commit needs: what it sends, checked and resolved to its
destinations, with the headers of the packets and the bodies; and what it has received, which stays
locked. So the promise to commit does not rest on a directory that can be reached, on a quota that
has room, or on the process that made it (I20). It is one record; a commit or a roll-back is a
change with a mark that the branch is over.

The byte forms are described in ``docs/reference/formats/records.md``.

Upholds: I20 (a promise is kept), I22 (the same tables while running and after a restart).
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from onceq.errors import DamagedRecord
from onceq.model.branch import Phase
from onceq.model.run import LENGTH_TYPE, Buffer, Run
from onceq.model.xid import TAG_BYTES, Xid, group_of

KIND_PREPARE: Final = 3
VERSION: Final = 1
_TOKEN_CHARS: Final = 2 * TAG_BYTES
_HEAD = struct.Struct("<BBHI")
"""Kind, version, zero, size of the JSON."""


@dataclass(slots=True)
class Branch:
    """One prepared branch.

    Attributes:
        number: Of this manager; changes that end it name it.
        prepared_s: Second since 1970.
        sends: For each batch what ``core/keeping.py`` has noted of it.
        receives: Ranges that it holds: holder, lane, first, count, to, reason, keep.
        bodies: For each batch its messages, as ``core/keeping.py`` keeps them.
        by_hand: COMMITTED or ROLLED_BACK once an operator has decided it.
    """

    number: int
    xid: Xid
    prepared_s: int
    sends: list[dict[str, Any]]
    receives: list[list[Any]]
    bodies: list[Run] = field(default_factory=list)
    by_hand: Phase | None = None

    def encode(self) -> list[Buffer]:
        """Bytes of the record that prepares it; also its form in a checkpoint."""
        head = json.dumps(
            {
                "number": self.number,
                "xid": _dump_xid(self.xid),
                "at": self.prepared_s,
                "sends": self.sends,
                "receives": self.receives,
                "counts": [len(run) for run in self.bodies],
                "by_hand": self.by_hand.name if self.by_hand else "",
            },
            separators=(",", ":"),
            sort_keys=True,
        ).encode()
        parts: list[Buffer] = [_HEAD.pack(KIND_PREPARE, VERSION, 0, len(head)), head]
        for run in self.bodies:
            parts += (run.lengths.tobytes(), bytes(run.data))
        return parts


def decode_branch(payload: memoryview) -> Branch:
    """Read one back; raises DamagedRecord."""
    try:
        _, _, _, size = _HEAD.unpack_from(payload)
        at = _HEAD.size + size
        head = json.loads(bytes(payload[_HEAD.size : at]))
        bodies: list[Run] = []
        for count in head["counts"]:
            lengths = array(LENGTH_TYPE)
            end = at + count * lengths.itemsize
            lengths.frombytes(payload[at:end])
            at = end + sum(lengths)
            if len(lengths) != count or at > len(payload):
                raise DamagedRecord("a prepared branch is cut short")
            bodies.append(Run(bytes(payload[end:at]), lengths))
        if at != len(payload):
            raise DamagedRecord(f"{len(payload) - at} bytes behind the end of a branch")
        return Branch(
            head["number"], _load_xid(head["xid"]), head["at"], head["sends"], head["receives"],
            bodies, Phase[head["by_hand"]] if head["by_hand"] else None,
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise DamagedRecord(f"a prepared branch makes no sense: {error!r}") from error


@dataclass(slots=True)
class Decided:
    """A commit that partners are to be told of."""

    partners: tuple[str, ...]
    at_s: int


@dataclass(frozen=True, slots=True)
class Marks:
    """What a change says of external transactions.

    Attributes:
        branch: Number of the prepared branch that it ends; 0: none.
        by_hand: How an operator has ended it; None: its coordinator has.
        gtrid: Of the transaction that it decides to commit; empty: none.
        partners: To be told of that.
    """

    branch: int = 0
    by_hand: Phase | None = None
    gtrid: bytes = b""
    partners: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """As JSON."""
        values = [
            self.branch,
            self.by_hand.name if self.by_hand else "",
            self.gtrid.hex(),
            list(self.partners),
        ]
        return json.dumps(values, separators=(",", ":")).encode()


def decode_marks(raw: bytes) -> Marks:
    """Read them back; raises DamagedRecord."""
    try:
        branch, by_hand, gtrid, partners = json.loads(raw)
        return Marks(
            branch, Phase[by_hand] if by_hand else None, bytes.fromhex(gtrid), tuple(partners)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedRecord(f"the marks of a change make no sense: {error!r}") from error


class Branches:
    """All prepared branches and all decisions of a manager."""

    __slots__ = ("_by_number", "_by_xid", "_groups", "decisions")

    def __init__(self) -> None:
        self._by_xid: dict[Xid, Branch] = {}
        self._by_number: dict[int, Branch] = {}
        self._groups: dict[bytes, dict[int, Branch]] = {}
        """Prepared branches that belong to groups, by prefix and number."""
        self.decisions: dict[bytes, Decided] = {}
        """Commits that not all partners are known to have carried out, by global identifier."""

    def __iter__(self) -> Iterator[Branch]:
        return iter(self._by_xid.values())

    def __len__(self) -> int:
        return len(self._by_xid)

    def get(self, xid: Xid) -> Branch | None:
        """The branch, if it is prepared or was decided by hand."""
        return self._by_xid.get(xid)

    def add(self, branch: Branch) -> None:
        """It is prepared."""
        self._by_xid[branch.xid] = self._by_number[branch.number] = branch
        prefix = group_of(branch.xid)
        if prefix and branch.by_hand is None:
            self._groups.setdefault(prefix, {})[branch.number] = branch

    def mark(self, marks: Marks, wall_s: int) -> None:
        """What a change says."""
        if marks.branch:
            branch = self._by_number[marks.branch]
            if marks.by_hand is None:
                self.drop(branch)
            else:
                self._leave_group(branch)
                branch.by_hand = marks.by_hand
                branch.sends, branch.receives, branch.bodies = [], [], []
        if marks.gtrid:
            self.decisions[marks.gtrid] = Decided(marks.partners, wall_s)

    def drop(self, branch: Branch) -> None:
        """It is over."""
        self._leave_group(branch)
        del self._by_xid[branch.xid], self._by_number[branch.number]

    def _leave_group(self, branch: Branch) -> None:
        prefix = group_of(branch.xid)
        group = self._groups.get(prefix, {})
        group.pop(branch.number, None)
        if not group:
            self._groups.pop(prefix, None)

    def of_group(self, prefix: bytes) -> list[Branch]:
        """Prepared branches of a group, in the order of their numbers."""
        return list(self._groups.get(prefix, {}).values())

    def in_group(self, gtrid: bytes) -> bool:
        """Whether a branch of the group of that transaction is prepared."""
        return gtrid[:-_TOKEN_CHARS] in self._groups

    def numbered(self, number: int) -> Branch:
        """The branch of a record; raises KeyError."""
        return self._by_number[number]

    def dump(self) -> dict[str, Any]:
        """Decisions, and the sizes of the branches whose bytes stand behind the tables."""
        return {
            "decisions": [[g.hex(), list(d.partners), d.at_s] for g, d in self.decisions.items()],
            "sizes": [sum(map(len, branch.encode())) for branch in self],
        }

    def load(self, values: dict[str, Any], data: memoryview) -> None:
        """From a checkpoint; ``data`` ends with the branches."""
        for gtrid, partners, at_s in values["decisions"]:
            self.decisions[bytes.fromhex(gtrid)] = Decided(tuple(partners), at_s)
        at = len(data) - sum(values["sizes"])
        for size in values["sizes"]:
            self.add(decode_branch(data[at : at + size]))
            at += size


def _dump_xid(xid: Xid) -> list[Any]:
    return [xid.format_id, xid.gtrid.hex(), xid.bqual.hex()]


def _load_xid(values: list[Any]) -> Xid:
    format_id, gtrid, bqual = values
    return Xid(format_id, bytes.fromhex(gtrid), bytes.fromhex(bqual))
