"""What is durable of external transactions: prepared branches, groups of them, and decisions.

A prepared branch keeps all that its commit needs: what it sends, checked and resolved to its
destinations, with the headers of the packets and the bodies; and what it has received, which stays
locked. So the promise to commit does not depend on a directory that can be reached, on a quota that
has room, or on the process that made it (I20). It is one record; a commit or a roll-back is a
change with a mark that the branch is over. Where all that a branch sends goes to queues of this
manager, nothing in its packets waits for the commit: they are *laid*, written into the record of
the prepare as they will be received, and the commit only says where they lie
(``core/send.py``).

A group is committed by one record (``group``), which names the branches in their order; the changes
that follow it in the log carry that out. A log that ends between these records still has the
decision: recovery carries out what is left (``core/transaction/second_phase.py``).

A database that is a last agent keeps its rows until they are removed in bulk, and may be set back
to an earlier state: its rows are then missing, although branches were committed for them. To notice
that, the manager counts rows. ``mark`` says up to which number rows are to be looked for. When they
were found, the database gets a note with the number of the mark (``partners/shares.py``), which
is ``kept`` from then on, and the rows before it may be removed. The note is younger than all rows
that were found for it: a state of the database without one of these has no note either. Branches
end in any order: a branch whose number is not above the mark may be committed after the mark was
set. These few are listed one by one (``late``) until the next mark is set, and looked for
(``looked``) until the rows up to that were found. A row that is counted and was never written makes
the database look as if it had been set back, so what is known of a database has an owner: who was
the first to commit a branch by its rows. Others need a right for it
(``core/rights.py``).

The byte forms are described in ``docs/reference/formats/records.md``.

Upholds: I2 (a group is all or nothing), I4 (a version once), I20 (a promise is kept), I21 (a
database that was set back is recognised), I22 (the same tables while running and after a
restart).
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
from onceq.core.state.client_memory import Read
from onceq.core.state.job_table import JobMark
from onceq.core.state.setups import GroupCommitted, GroupForgotten, Setup, read_row, row_of
from onceq.errors import DamagedRecord
from onceq.model import record
from onceq.model.branches import Phase, Xid, agent_of, anchored, group_of, partner_name
from onceq.model.record import MutableRecord, Record
from onceq.model.run import LENGTH_TYPE, Buffer, Run, total_of
from onceq.model.shares import OwnerCounts

_OLD_NUMBERS: Final = 4
"""Behind the first one, in checkpoints of versions that wrote no notes."""


class DatabaseRows(MutableRecord):
    """Of one database.

    Attributes:
        kept: Up to this number only late rows are looked for; 0: nothing is known.
        noted: Whether there must be a note of that number.
        mark: Up to which number rows are to be looked for now; 0: none are.
        before: How many branches with numbers above ``kept``, up to ``mark``, were committed before
            the mark was set.
        behind: How many with numbers above ``mark``, or above ``kept`` if there is none.
        last: The highest number that was committed.
        late: Numbers up to ``mark``, or ``kept``, that were committed since the mark was set.
        looked: Those that were late when it was set.
        by: The actor that has committed first by its rows; empty: the account that runs the
            manager, or an older version.
        missing: Whether a search did not find all rows that must be there.
    """

    kept: int = 0
    noted: bool = False
    mark: int = 0
    before: int = 0
    behind: int = 0
    last: int = 0
    late: list[int] = record.field(default_factory=list)
    looked: list[int] = record.field(default_factory=list)
    by: str = ""
    missing: bool = False


class SeenRows:
    """Of all databases, by name."""

    __slots__ = ("_by_name", "set_back")

    def __init__(self) -> None:
        self._by_name: dict[str, DatabaseRows] = {}
        self.set_back: set[str] = set()
        """Names of the databases that lack rows."""

    def get(self, name: str) -> DatabaseRows:
        """The rows of a database; an empty entry if it is unknown."""
        return self._by_name.get(name) or DatabaseRows()

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def owner(self, name: str) -> str | None:
        """Whose one is; None: nothing is known of it."""
        rows = self._by_name.get(name)
        return rows.by if rows is not None else None

    def committed(self, name: str, number: int, by: str) -> None:
        """A branch, which ``by`` has promised, was committed because its row is there."""
        rows = self._by_name.get(name)
        if rows is None:
            rows = self._by_name[name] = DatabaseRows(by=by)
        if number > (rows.mark or rows.kept):
            rows.behind += 1
        else:
            rows.late.append(number)
        rows.last = max(rows.last, number)

    def marked(self, name: str) -> None:
        """Rows up to the last one are to be looked for."""
        rows = self._by_name[name]
        rows.mark, rows.before, rows.behind = rows.last, rows.before + rows.behind, 0
        rows.looked, rows.late = rows.looked + rows.late, []

    def found(self, name: str, *, noted: bool) -> None:
        """They are there.

        Args:
            noted: The database has the note. Older versions wrote none, and may have removed rows
                that are late.
        """
        rows = self._by_name[name]
        rows.kept, rows.noted, rows.mark, rows.before, rows.looked = rows.mark, noted, 0, 0, []
        rows.missing = False
        self.set_back.discard(name)
        if not noted:
            rows.late = []

    def miss(self, name: str, *, missing: bool) -> None:
        """Not all of them are there; or they are there again."""
        self._by_name[name].missing = missing
        (self.set_back.add if missing else self.set_back.discard)(name)

    def forget(self, name: str) -> None:
        """Accept the present rows of the database: no rows up to the last are asked for again."""
        rows = self.get(name)
        if rows.last:
            self._by_name[name] = DatabaseRows(kept=rows.last, last=rows.last, by=rows.by)
            self.set_back.discard(name)

    def dump(self) -> list[list[Any]]:
        """The rows of a checkpoint."""
        return [[name, *row_of(rows)] for name, rows in self._by_name.items()]

    def load(self, rows: list[list[Any]]) -> None:
        """Take the rows of a checkpoint; those of older versions have no lists or owners, and know
        of no note."""
        for name, kept, *others in rows:
            if len(others) == _OLD_NUMBERS:
                others.insert(0, False)
            found = self._by_name[name] = read_row(DatabaseRows, [kept, *others])
            if found.missing:
                self.set_back.add(name)


class Group(Record, frozen=True):
    """The last group that an application has committed.

    Attributes:
        query: The life of the application; empty: it did not say.
        version: Number of the batch.
        prefix: The branches of the batch begin with it.
        at_s: Second since 1970.
        target, digest: Destination and digest of the batch; empty: it did not say.
        by: The owner of the application, the actor that has committed first under its name;
            empty: the account that runs the manager, or an older version.
    """

    query: str
    version: int
    prefix: bytes
    at_s: int
    target: str = ""
    digest: str = ""
    by: str = ""


class GroupTable:
    """One entry for each application.

    Attributes:
        named_by: Whose the entries are.
        pending: Numbers of the branches of the last group, in order, that are still prepared: they
            are to be committed before anything else happens.
    """

    __slots__ = ("_last", "named_by", "pending")

    def __init__(self) -> None:
        self._last: dict[str, Group] = {}
        self.named_by = OwnerCounts()
        self.pending: list[int] = []

    def __iter__(self) -> Iterator[tuple[str, Group]]:
        return iter(self._last.items())

    def __len__(self) -> int:
        return len(self._last)

    def get(self, app: str) -> Group | None:
        """What an application has committed last."""
        return self._last.get(app)

    def apply(self, setup: GroupForgotten) -> None:
        """Apply a setup."""
        self.forget(setup.app)

    def committed(self, group: GroupCommitted, prepared: Iterable[int]) -> None:
        """A record says that a group is committed; these branches of it are still prepared."""
        self.forget(group.app)  # The one that is used last stands last.
        self._keep(
            group.app,
            Group(group.query, group.version, group.prefix.encode(), group.at, group.target,
                  group.digest, group.by),
        )  # fmt: skip
        self.pending = list(prepared)

    def carried_out(self, branch: int) -> None:
        """A change says that a branch has taken effect."""
        if branch in self.pending:
            self.pending.remove(branch)

    def forget(self, app: str) -> None:
        """A record says that an application is forgotten."""
        known = self._last.pop(app, None)
        if known is not None:
            self.named_by.drop(known.by)

    def _keep(self, app: str, group: Group) -> None:
        self._last[app] = group
        self.named_by.add(group.by)

    def oldest(self) -> tuple[str, Group] | None:
        """The application that has not committed for the longest time."""
        return next(iter(self._last.items()), None)

    def dump(self) -> list[list[Any]]:
        """For a checkpoint, which is never made in the middle of a group."""
        assert not self.pending, "a checkpoint in the middle of a group"
        return [
            [app, g.query, g.version, g.prefix.decode(), g.at_s, g.target, g.digest, g.by]
            for app, g in self
        ]

    def load(self, values: list[list[Any]]) -> None:
        """From a checkpoint."""
        # Behind the time stands what later versions have added.
        for app, query, version, prefix, at_s, *more in values:
            self._keep(app, Group(query, version, prefix.encode(), at_s, *more))


if TYPE_CHECKING:
    from onceq.core.state.log_space import Space

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
class PreparedBranch:
    """One prepared branch.

    Attributes:
        number: Of this manager; changes that end it name it.
        prepared_s: Second since 1970.
        sends: For each batch what ``core/transaction/xa_branch.py`` has noted of it.
        receives: Ranges that it holds, each as the fields of ``HeldRange`` in their order, ``op``
            first.
        bodies: For each batch its messages, as ``core/transaction/xa_branch.py`` keeps them;
            empty if they are laid.
        laid: For each batch and each of its targets the packets, if they are laid.
        next_message, next_transaction: Counters behind what these have taken; 0: unchanged.
        by_hand: COMMITTED or ROLLED_BACK once an operator has decided it.
        decides: Global identifier of the transaction whose other partners follow it; empty: none.
        partners: These.
        by: The actor that has promised it; empty: the account that runs the manager, or an older
            version.
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
            "xid": [self.xid.format_id, self.xid.gtrid.hex(), self.xid.bqual.hex()],
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


def decode_branch(payload: memoryview, address: int = 0) -> PreparedBranch:
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
        format_id, gtrid, bqual = head["xid"]
        xid = Xid(format_id, bytes.fromhex(gtrid), bytes.fromhex(bqual))
        return PreparedBranch(
            head["number"], xid, head["at"], head["sends"], head["receives"],
            bodies, laid, message, transaction,
            Phase[head["by_hand"]] if head["by_hand"] else None, bytes.fromhex(decides),
            tuple(partners), head.get("by", ""),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise DamagedRecord(f"a prepared branch makes no sense: {error!r}") from error


def _table(payload: memoryview, at: int, count: int) -> tuple[array[int], int]:
    """Return a table of ``count`` lengths, and the position behind it."""
    lengths = array(LENGTH_TYPE)
    end = at + count * lengths.itemsize
    lengths.frombytes(payload[at:end])
    if len(lengths) != count:
        raise DamagedRecord("a prepared branch is cut short")
    return lengths, end


@dataclass(slots=True)
class PartnerDecision:
    """A commit that partners are to be told of.

    Attributes:
        by: The actor that has decided it, and says when all have carried it out; empty: the
            account that runs the manager, or an older version.
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
        partners: To be told of that decision; without ``gtrid``: the database whose row has
            committed the branch (with ``gtrid``, the branch's identifier names it).
        reads: The readers of the messages that it removes (``core/state/client_memory.py``).
        by: The actor that has decided about ``gtrid``; empty: the account that runs the manager.
        job: Its progress for a job (``core/state/job_table.py``).
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
        self._by_xid: dict[Xid, PreparedBranch] = {}
        self._by_number: dict[int, PreparedBranch] = {}
        self._groups: dict[bytes, dict[int, PreparedBranch]] = {}
        """Prepared branches that belong to groups, by prefix and number."""
        self._attempts: dict[bytes, dict[int, PreparedBranch]] = {}
        """The same, by global identifier, which the branches of one attempt have in common."""
        self.rows = SeenRows()
        self.decisions: dict[bytes, PartnerDecision] = {}
        """Commits that not all partners are known to have carried out, by global identifier; only
        ``_decide`` and ``carried_out`` change it."""
        self.held_by, self.decided_by = OwnerCounts(), OwnerCounts()
        """Whose the branches and the decisions are."""

    def __iter__(self) -> Iterator[PreparedBranch]:
        return iter(self._by_xid.values())

    def __len__(self) -> int:
        return len(self._by_xid)

    def get(self, xid: Xid) -> PreparedBranch | None:
        """The branch, if it is prepared or was decided by hand."""
        return self._by_xid.get(xid)

    def add(self, branch: PreparedBranch) -> None:
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
            self._decide(marks.gtrid, PartnerDecision(marks.partners, wall_s, marks.by))

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
                self._decide(xid.gtrid, PartnerDecision(partners, at_s, by))

    def _decide(self, gtrid: bytes, made: PartnerDecision) -> None:
        self.carried_out(gtrid)
        self.decisions[gtrid] = made
        self.decided_by.add(made.by)

    def carried_out(self, gtrid: bytes) -> None:
        """All partners have carried out a decision."""
        made = self.decisions.pop(gtrid, None)
        if made is not None:
            self.decided_by.drop(made.by)

    def drop(self, branch: PreparedBranch) -> None:
        """It is over."""
        self.held_by.drop(branch.by)
        self._leave_group(branch)
        self._let_go(branch)
        del self._by_xid[branch.xid], self._by_number[branch.number]

    def _let_go(self, branch: PreparedBranch) -> None:
        """What it has laid is kept no longer for its sake: queues may have taken it over."""
        for laid in branch.laid:
            self._space.sub(laid.address, laid.size)

    def _leave_group(self, branch: PreparedBranch) -> None:
        tables = ((self._groups, group_of(branch.xid)), (self._attempts, branch.xid.gtrid))
        for table, key in tables:
            group = table.get(key, {})
            group.pop(branch.number, None)
            if not group:
                table.pop(key, None)

    def of_group(self, prefix: bytes) -> list[PreparedBranch]:
        """Prepared branches of a group, in the order of their numbers."""
        return list(self._groups.get(prefix, {}).values())

    def attempt(self, gtrid: bytes) -> PreparedBranch | None:
        """The first branch that is prepared of an attempt at a group; None: there is none."""
        return next(iter(self._attempts.get(gtrid, {}).values()), None)

    def is_prepared(self, number: int) -> bool:
        """Whether a branch of that number waits for its decision."""
        branch = self._by_number.get(number)
        return branch is not None and branch.by_hand is None

    def numbered(self, number: int) -> PreparedBranch:
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
            self._decide(bytes.fromhex(gtrid), PartnerDecision(tuple(partners), at_s, *more))
        self.rows.load(values.get("rows", []))
        at = len(data) - sum(values["sizes"])
        for size in values["sizes"]:
            self.add(decode_branch(data[at : at + size]))
            at += size
