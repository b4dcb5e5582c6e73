"""What is durable of external transactions: branches that are prepared, and decisions.

A prepared branch keeps all that its commit needs: what it sends, checked and resolved to its
destinations, with the headers of the packets and the bodies; and what it has received, which stays
locked. So the promise to commit does not rest on a directory that can be reached, on a quota that
has room, or on the process that made it (I20). It is one record; a commit or a roll-back is a
change with a mark that the branch is over.

Where all that a branch sends goes to queues of this manager, nothing in its packets waits for the
commit: they are *laid*, written into the record of the prepare as they will be received, and the
commit only says where they lie (``core/send/packets_at_prepare.py``).

The byte forms are described in ``docs/reference/formats/records.md``.

Upholds: I20 (a promise is kept), I22 (the same tables while running and after a restart).
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, field
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any, Final

from onceq.core.state import setups
from onceq.core.state.job_table import JobMark
from onceq.core.state.readings import Read
from onceq.core.state.seen_rows import SeenRows
from onceq.core.state.setups import Setup
from onceq.errors import DamagedRecord
from onceq.model.branch import Phase
from onceq.model.record import Record
from onceq.model.run import LENGTH_TYPE, Buffer, Run, total_of
from onceq.model.shares import OwnerCounts
from onceq.model.xid import Xid, agent_of, anchored, group_of, partner_name

if TYPE_CHECKING:
    from onceq.core.state.live_bytes import Space

KIND_PREPARE: Final = 3
VERSION: Final = 1
VERSION_LAID: Final = 2
"""Of one whose packets are laid, each table of lengths before its packets."""
VERSION_TABLES: Final = 4
"""Of one whose packets are laid behind all tables of lengths."""
VERSION_DUE: Final = 7
"""The same, and some of what it sends is delayed (``core/state/records.py``)."""
_BEHIND: Final = (VERSION_TABLES, VERSION_DUE)
_HEAD = struct.Struct("<BBHI")
"""Kind, version, zero, size of the JSON."""
_JSON: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True, check_circular=False)
"""Made once: ``json.dumps`` makes one each time, which is a third of what it takes."""


@dataclass(slots=True)
class StoredPackets:
    """Packets of one batch for one queue, which the record of a prepare brings.

    Attributes:
        lengths: Of the packets.
        size: Of all of them, in bytes.
        address: Log address of the first; they lie one after another.
        data: Their bytes, until they are on record.
    """

    lengths: array[int]
    size: int
    address: int = 0
    data: Buffer = b""


@dataclass(slots=True)
class Branch:
    """One prepared branch.

    Attributes:
        number: Of this manager; changes that end it name it.
        prepared_s: Second since 1970.
        sends: For each batch what ``core/transaction/prepared_codec.py`` has noted of it.
        receives: Ranges that it holds: queue, lane, first, count, to, reason, keep.
        bodies: For each batch its messages, as ``core/transaction/prepared_codec.py`` keeps them;
            empty if they are laid.
        laid: For each batch and each of its targets the packets, if they are laid.
        next_message, next_transaction: Counters behind what these have taken; 0: unchanged.
        by_hand: COMMITTED or ROLLED_BACK once an operator has decided it.
        decides: Global identifier of the transaction whose other partners follow it; empty: none.
        partners: These.
        by: Who has promised it; empty: whoever runs the manager, or an older version.
    """

    number: int
    xid: Xid
    prepared_s: int
    sends: list[dict[str, Any]]
    receives: list[list[Any]]
    bodies: list[Run] = field(default_factory=list)
    laid: list[StoredPackets] = field(default_factory=list)
    next_message: int = 0
    next_transaction: int = 0
    by_hand: Phase | None = None
    decides: bytes = b""
    partners: tuple[str, ...] = ()
    by: str = ""

    @property
    def delayed(self) -> bool:
        """Whether something that it sends is delayed."""
        return any("deliver_at" in send.get("properties", ()) for send in self.sends)

    def record(self, address: int) -> tuple[bytes, int]:
        """Bytes of the record that prepares it, to be put at that log address, and how many of
        them come before the packets that it brings (0: it brings none).

        What it has laid lies there from now on.
        """
        parts = self._parts(address)
        for laid in self.laid:
            parts.append(laid.lengths.tobytes())
        head = sum(map(len, parts))
        at = address + head
        for laid in self.laid:
            parts.append(laid.data)
            laid.address, laid.data = at, b""
            at += laid.size
        return b"".join(parts), head if at > address + head else 0

    def encode(self) -> list[Buffer]:
        """Its form in a checkpoint: of what it has laid only where it lies."""
        return [*self._parts(0), *(laid.lengths.tobytes() for laid in self.laid)]

    def _parts(self, own: int) -> list[Buffer]:
        """All but what is laid.

        Args:
            own: Log address of the record that brings what is laid; 0: it was brought before.
        """
        values = {
            "number": self.number,
            "xid": _dump_xid(self.xid),
            "at": self.prepared_s,
            "sends": self.sends,
            "receives": self.receives,
            "counts": list(map(len, self.bodies)),
            "by_hand": self.by_hand.name if self.by_hand else "",
        }
        if self.decides:
            values["decides"] = [self.decides.hex(), list(self.partners)]
        if self.by:
            values["by"] = self.by
        if self.laid:
            # In the record that brings them they lie behind the tables, and need no address.
            values["laid"] = [[len(laid.lengths), 0 if own else laid.address] for laid in self.laid]
            values["next"] = [self.next_message, self.next_transaction]
        head = _JSON.encode(values).encode()
        version = VERSION_TABLES if self.laid else VERSION
        # As ``delayed`` has it, without a call: every prepare comes here.
        for send in self.sends:
            if "deliver_at" in send.get("properties", ()):
                version = VERSION_DUE
        parts: list[Buffer] = [_HEAD.pack(KIND_PREPARE, version, 0, len(head)), head]
        for run in self.bodies:
            parts += (run.lengths.tobytes(), run.data)
        return parts


def decode_branch(payload: memoryview, address: int = 0) -> Branch:
    """Read one back.

    Args:
        address: Log address at which the payload lies; 0: in a checkpoint.

    Raises:
        DamagedRecord: It cannot be.
    """
    try:
        _, version, _, size = _HEAD.unpack_from(payload)
        at = _HEAD.size + size
        head = json.loads(bytes(payload[_HEAD.size : at]))
        bodies: list[Run] = []
        for count in head["counts"]:
            lengths, at = _table(payload, at, count)
            end = at + total_of(lengths)
            bodies.append(Run(bytes(payload[at:end]), lengths))
            at = end
        laid: list[StoredPackets] = []
        for count, place in head.get("laid", ()):
            lengths, at = _table(payload, at, count)
            laid.append(StoredPackets(lengths, total_of(lengths), place or address + at))
            at += 0 if place or version in _BEHIND else laid[-1].size
        if version in _BEHIND:
            for one, (_, place) in zip(laid, head.get("laid", ()), strict=True):
                one.address = place or address + at
                at += 0 if place else one.size
        if at != len(payload):
            raise DamagedRecord(f"a branch ends at {at}, its record at {len(payload)}")
        message, transaction = head.get("next", (0, 0))
        decides, partners = head.get("decides", ("", ()))
        return Branch(
            head["number"], _load_xid(head["xid"]), head["at"], head["sends"], head["receives"],
            bodies, laid, message, transaction,
            Phase[head["by_hand"]] if head["by_hand"] else None, bytes.fromhex(decides),
            tuple(partners), head.get("by", ""),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise DamagedRecord(f"a prepared branch makes no sense: {error!r}") from error


def _table(payload: memoryview, at: int, count: int) -> tuple[array[int], int]:
    """A table of so many lengths, and where it ends."""
    lengths = array(LENGTH_TYPE)
    end = at + count * lengths.itemsize
    lengths.frombytes(payload[at:end])
    if len(lengths) != count:
        raise DamagedRecord("a prepared branch is cut short")
    return lengths, end


@dataclass(slots=True)
class Decided:
    """A commit that partners are to be told of.

    Attributes:
        by: Who has decided it, and says when all have carried it out; empty: whoever runs the
            manager, or an older version.
    """

    partners: tuple[str, ...]
    at_s: int
    by: str = ""


class Marks(Record, frozen=True):
    """What a change says of external transactions.

    Attributes:
        branch: Number of the prepared branch that it ends; 0: none.
        by_hand: How an operator has ended it; None: its coordinator has.
        gtrid: Of the transaction that it decides to commit; empty: none.
        partners: To be told of that; without ``gtrid``: the database whose row has committed the
            branch (with it, that stands in the branch's identifier).
        reads: Who has read what it removes (``core/state/readings.py``).
        by: Whose decision about ``gtrid`` it is; empty: of whoever runs the manager.
        job: What it does for a job (``core/state/job_table.py``).
    """

    branch: int = 0
    by_hand: Phase | None = None
    gtrid: bytes = b""
    partners: tuple[str, ...] = ()
    reads: tuple[Read, ...] = ()
    by: str = ""
    job: JobMark | None = None

    @property
    def later(self) -> bool:
        """Whether they have what older versions do not know."""
        return bool(self.reads or self.by or self.job)

    def encode(self) -> bytes:
        """As JSON."""
        partners = ",".join(map(encode_basestring_ascii, self.partners))
        by_hand = self.by_hand.name if self.by_hand is not None else ""
        more = f",{json.dumps(list(map(astuple, self.reads)))}" if self.later else ""
        if self.by:
            more += f",{encode_basestring_ascii(self.by)}"
        if self.job is not None:
            more += "," if self.by else ',"",'
            more += json.dumps(self.job.dump())
        text = f'[{self.branch},"{by_hand}","{self.gtrid.hex()}",[{partners}]{more}]'
        return text.encode("ascii")


def decode_marks(raw: bytes) -> Marks:
    """Read them back; raises DamagedRecord."""
    try:
        branch, by_hand, gtrid, partners, *more = json.loads(raw)
        reads = tuple(Read(*values) for values in (more[0] if more else ()))
        by = more[1] if len(more) > 1 else ""
        if not isinstance(by, str):
            raise DamagedRecord(f"the marks of a change name nobody: {by!r}")
        job = JobMark.load(more[2]) if len(more) > 2 else None
        return Marks(
            branch, Phase[by_hand] if by_hand else None, bytes.fromhex(gtrid), tuple(partners),
            reads, by, job,
        )  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedRecord(f"the marks of a change make no sense: {error!r}") from error


class Branches:
    """All prepared branches and all decisions of a manager."""

    __slots__ = ("_attempts", "_by_number", "_by_xid", "_groups", "_space", "decided_by",
                 "decisions", "held_by", "rows")  # fmt: skip

    def __init__(self, space: Space) -> None:
        self._space = space
        self._by_xid: dict[Xid, Branch] = {}
        self._by_number: dict[int, Branch] = {}
        self._groups: dict[bytes, dict[int, Branch]] = {}
        """Prepared branches that belong to groups, by prefix and number."""
        self._attempts: dict[bytes, dict[int, Branch]] = {}
        """The same, by global identifier, which the branches of one attempt have in common."""
        self.rows = SeenRows()
        self.decisions: dict[bytes, Decided] = {}
        """Commits that not all partners are known to have carried out, by global identifier; only
        ``_decide`` and ``carried_out`` change it."""
        self.held_by, self.decided_by = OwnerCounts(), OwnerCounts()
        """Whose the branches and the decisions are."""

    def __iter__(self) -> Iterator[Branch]:
        return iter(self._by_xid.values())

    def __len__(self) -> int:
        return len(self._by_xid)

    def get(self, xid: Xid) -> Branch | None:
        """The branch, if it is prepared or was decided by hand."""
        return self._by_xid.get(xid)

    def add(self, branch: Branch) -> None:
        """It is prepared; what it has laid is kept."""
        for laid in branch.laid:
            self._space.add(laid.address, laid.size)
        self._by_xid[branch.xid] = self._by_number[branch.number] = branch
        self.held_by.add(branch.by)
        prefix = group_of(branch.xid)
        if prefix and branch.by_hand is None:
            self._groups.setdefault(prefix, {})[branch.number] = branch
            self._attempts.setdefault(branch.xid.gtrid, {})[branch.number] = branch

    def mark(self, marks: Marks, wall_s: int) -> None:
        """What a change says."""
        if marks.branch:
            branch = self._by_number[marks.branch]
            if marks.by_hand is None:
                self.drop(branch)
                agent = agent_of(branch.xid) if marks.partners else ""
                if agent:
                    self.rows.committed(agent, marks.branch, branch.by)
            else:
                self._leave_group(branch)
                self._let_go(branch)
                branch.by_hand = marks.by_hand
                # It is kept for its coordinator's sake alone: nothing of it is left to be done.
                branch.sends, branch.receives, branch.bodies, branch.laid = [], [], [], []
                branch.next_message = branch.next_transaction = 0
        if marks.gtrid:
            self._decide(marks.gtrid, Decided(marks.partners, wall_s, marks.by))

    def apply(self, setup: Setup) -> None:
        """Apply a setup."""
        match setup:
            case setups.BranchForgotten(number):
                self.drop(self.numbered(number))
            case setups.DecisionCarriedOut(gtrid):
                self.carried_out(gtrid)
            case setups.RowsMarked(agent):
                self.rows.marked(agent)
            case setups.RowsFound(agent, noted):
                self.rows.found(agent, noted=noted)
            case setups.RowsMissing(agent, missing):
                self.rows.miss(agent, missing=missing)
            case setups.RowsForgotten(agent):
                self.rows.forget(agent)

    def decide(self, numbers: Iterable[int], at_s: int, by: str) -> None:
        """Groups are committed: what anchors among these branches stand for is decided, too."""
        for number in numbers:
            xid = self._by_number[number].xid
            guid = anchored(xid)
            if guid:
                known = self.decisions.get(xid.gtrid)
                partners = (*(known.partners if known else ()), partner_name(guid))
                self._decide(xid.gtrid, Decided(partners, at_s, by))

    def _decide(self, gtrid: bytes, made: Decided) -> None:
        self.carried_out(gtrid)
        self.decisions[gtrid] = made
        self.decided_by.add(made.by)

    def carried_out(self, gtrid: bytes) -> None:
        """All partners have carried out a decision."""
        made = self.decisions.pop(gtrid, None)
        if made is not None:
            self.decided_by.drop(made.by)

    def drop(self, branch: Branch) -> None:
        """It is over."""
        self.held_by.drop(branch.by)
        self._leave_group(branch)
        self._let_go(branch)
        del self._by_xid[branch.xid], self._by_number[branch.number]

    def _let_go(self, branch: Branch) -> None:
        """What it has laid is kept no longer for its sake: queues may have taken it over."""
        for laid in branch.laid:
            self._space.sub(laid.address, laid.size)

    def _leave_group(self, branch: Branch) -> None:
        tables = ((self._groups, group_of(branch.xid)), (self._attempts, branch.xid.gtrid))
        for table, key in tables:
            group = table.get(key, {})
            group.pop(branch.number, None)
            if not group:
                table.pop(key, None)

    def of_group(self, prefix: bytes) -> list[Branch]:
        """Prepared branches of a group, in the order of their numbers."""
        return list(self._groups.get(prefix, {}).values())

    def attempt(self, gtrid: bytes) -> Branch | None:
        """The first branch that is prepared of an attempt at a group; None: there is none."""
        return next(iter(self._attempts.get(gtrid, {}).values()), None)

    def is_prepared(self, number: int) -> bool:
        """Whether a branch of that number waits for its decision."""
        branch = self._by_number.get(number)
        return branch is not None and branch.by_hand is None

    def numbered(self, number: int) -> Branch:
        """The branch of a record; raises KeyError."""
        return self._by_number[number]

    def dump(self) -> dict[str, Any]:
        """Decisions, and the sizes of the branches whose bytes stand behind the tables."""
        return {
            "decisions": [[gtrid, d.partners, d.at_s, d.by] for gtrid, d in self.decisions.items()],
            "rows": self.rows.dump(),
            "sizes": [sum(map(len, branch.encode())) for branch in self],
        }

    def load(self, values: dict[str, Any], data: memoryview) -> None:
        """From a checkpoint; ``data`` ends with the branches."""
        # Behind the time stands what later versions have added.
        for gtrid, partners, at_s, *more in values["decisions"]:
            self._decide(bytes.fromhex(gtrid), Decided(tuple(partners), at_s, *more))
        self.rows.load(values.get("rows", []))
        at = len(data) - sum(values["sizes"])
        for size in values["sizes"]:
            self.add(decode_branch(data[at : at + size]))
            at += size


def _dump_xid(xid: Xid) -> list[Any]:
    return [xid.format_id, xid.gtrid.hex(), xid.bqual.hex()]


def _load_xid(values: list[Any]) -> Xid:
    format_id, gtrid, bqual = values
    return Xid(format_id, bytes.fromhex(gtrid), bytes.fromhex(bqual))
