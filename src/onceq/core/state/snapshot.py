"""The durable state as the bytes of a checkpoint, and back; with the records behind it, a recovery.

A head in JSON holds everything that is rare; behind it follow the tables of all positions as they
are in memory, so that a million messages take some milliseconds and not some seconds. But the head
has a row for each queue and stream, and, where each of a million messages has a class or a sender
that wants to know how it ends, for each of these. So a snapshot is taken first and made into bytes
later, beside the work of the manager: it copies of each row what can change.

Upholds: I22 (the same ``apply`` while running and at recovery).
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, Final, TypeVar

from onceq.core.state.audit_trail import ReportRequest, ReportRequests
from onceq.core.state.branch_table import PreparedBranch
from onceq.core.state.in_doubt_table import UNNAMED
from onceq.core.state.log_space import DueTimes
from onceq.core.state.peer_table import Progress, Reset
from onceq.core.state.position_block import PositionBlock
from onceq.core.state.positions import Positions
from onceq.core.state.queues import AnyQueue
from onceq.core.state.records import Change, decode
from onceq.core.state.setups import (
    Setup,
    dump_properties,
    encode_rows,
    read_row,
    restore_properties,
    row_of,
)
from onceq.core.state.state import State
from onceq.errors import DamagedRecord
from onceq.model.log import FRAME_HEADER
from onceq.model.names import parse_format_name
from onceq.model.rights import SharedRights, dump_grants, load_grants
from onceq.model.run import LENGTH_TYPE, Buffer
from onceq.model.views.managers import Restored
from onceq.packet.acks import StreamMemory

CHECKPOINT_VERSION = 1
CHECKPOINT_VERSION_FRONTS = 2
"""Of one with packets that lie in two parts."""
CHECKPOINT_VERSION_DUE = 3
"""Of one with messages that are delayed."""
CHECKPOINT_VERSION_PLACES = 4
"""Of one of a life that has places of its own."""
CHECKPOINT_VERSION_TORN = 5
"""Of one with jobs that have torn transactions."""
_KNOWN: Final = range(CHECKPOINT_VERSION, CHECKPOINT_VERSION_TORN + 1)
ROWS_AT_ONCE: Final = 512
"""Rows of the head that are made into bytes in one step."""

TABLES_AT_ONCE: Final = 8
"""Chunks whose tables are copied in one step."""
LANES_AT_ONCE: Final = 64
"""Lanes with nothing in them that are made into bytes in one step..."""
LONG_PIECE: Final = 1_000
"""... and characters of any other one."""
_EMPTY_LANE: Final = ',"aborts":[],"classes":[],"notes":[],"moved":[],"chunks":[],"wanting":[]}'

T = TypeVar("T")
_Member = tuple[str, Sequence[Any] | dict[str, Any], Callable[[Any], list[Any] | dict[str, Any]]]
"""A member of the head: its name, what was taken of each row (or all of one that has no rows), and
what makes the row of that."""

_of_outgoing = attrgetter("number", "name", "stream", "base", "paused_s", "fence", "moved_to")
_of_progress = attrgetter(
    "source", "key", "stream", "last", "last_access_s", "since", "passed", "vague", "message"
)


class StateSnapshot:
    """The durable state of one moment, taken along at once, and made into bytes in the end.

    Of the messages only their states are copied. The other tables are shared with the state, which
    only adds rows to them, or makes tables of its own (``PositionBlock.unshare``). So later changes
    touch none of it, and another thread may ``encode``.
    """

    def __init__(self, state: State) -> None:
        self._version = CHECKPOINT_VERSION
        self._lanes: list[_Lane] = []
        self._tables: list[_Tables | Buffer] = []
        for queue, index, lane in state.all_lanes():
            blocks = lane.blocks()
            self._lanes.append(_Lane(queue, index, lane, blocks))
            if lane.due:
                self._needs(CHECKPOINT_VERSION_DUE)
            for block in blocks:
                self._tables.append(_Tables(block))
                if block.rests is not None:
                    self._needs(CHECKPOINT_VERSION_FRONTS)
        for branch in state.branches:
            self._tables += branch.encode()
            if branch.delayed:
                self._needs(CHECKPOINT_VERSION_DUE)
        if state.first_place > 1:
            self._needs(CHECKPOINT_VERSION_PLACES)
        if any(job.torn for job in state.jobs):
            self._needs(CHECKPOINT_VERSION_TORN)
        self._head = encode_rows(_head(state))
        self._long = _long(state)

    def _needs(self, version: int) -> None:
        self._version = max(self._version, version)

    def encode(self, pause: Callable[[], object] = lambda: None) -> list[Buffer]:
        """The bytes, for ``restore``.

        Args:
            pause: Called after each of many small steps, so that other threads have their turns.
        """
        pieces = [self._head[:-1]]
        for name, rows, dump in self._long:
            if isinstance(rows, dict):
                pieces.append(f',"{name}":{encode_rows(rows)}')
                continue
            for piece in _rows(name, rows, dump):
                pieces.append(piece)
                pause()
        before = ',"lanes":['
        for number, lane in enumerate(self._lanes):
            pieces.append(before)
            before = ","
            for piece in lane.pieces():
                pieces.append(piece)
                if number % LANES_AT_ONCE == 0 or len(piece) > LONG_PIECE:
                    pause()
        pieces.append("]}" if self._lanes else f"{before}]}}")
        head = "".join(pieces).encode()
        behind: list[Buffer] = []
        for at, tables in enumerate(self._tables):
            if isinstance(tables, _Tables):
                behind += tables.pieces()
                if at % TABLES_AT_ONCE == 0:
                    pause()
            else:
                behind.append(tables)
        return [struct.pack("<II", self._version, len(head)), head, *behind]


class _Tables:
    """The tables of a chunk, as they are now."""

    __slots__ = ("_count", "_parts", "_rows", "_states")

    def __init__(self, block: PositionBlock) -> None:
        block.shared = True
        self._states = bytes(block.states)
        self._rows = (block.addresses, block.lengths, block.arrived, block.expires)
        self._count = 0
        self._parts: tuple[array[int], ...] = ()
        if block.rests is not None and block.fronts is not None:
            self._count, self._parts = len(block.rests), (block.rests, block.fronts)

    def pieces(self) -> Iterator[Buffer]:
        """Their bytes; rows that were added meanwhile are left out."""
        # A slice is a copy: a view of the table itself would forbid to add rows to it.
        for rows in self._rows:
            yield memoryview(rows[: len(self._states)]).cast("B")
        yield self._states
        for rows in self._parts:
            yield memoryview(rows[: self._count]).cast("B")


class _Lane:
    """What a lane has beside its tables, and the tables' sizes."""

    __slots__ = ("_begins", "_beside", "_blocks", "_due", "_failures", "_moved", "_wanting")

    def __init__(
        self, queue: AnyQueue, index: int, lane: Positions, blocks: list[PositionBlock]
    ) -> None:
        self._begins = (queue.number, index, lane.next)
        self._beside: tuple[dict[int, int], ...] | None = None
        wanting = queue.wants(index)
        known = lane.aborts or lane.classes or lane.notes or lane.moved or lane.failures
        if blocks or known or wanting:
            self._beside = (lane.aborts.copy(), lane.classes.copy(), lane.notes.copy())
            self._moved = lane.moved.copy()
            self._failures = lane.failures.copy()
            self._due = lane.due.dump() if lane.due is not None else []
            self._blocks = [
                (c.base, len(c.states), tuple(c.express or ()), len(c.rests or ())) for c in blocks
            ]
            self._wanting = wanting.taken()

    def pieces(self) -> Iterator[str]:
        """Its JSON, a bounded amount at a time."""
        number, index, behind = self._begins
        begins = f'{{"holder":{number},"lane":{index},"next":{behind}'
        if self._beside is None:
            yield begins + _EMPTY_LANE
            return
        yield begins
        for name, table in zip(("aborts", "classes", "notes"), self._beside, strict=True):
            yield from _rows(name, table.items(), list)
        yield from _rows("moved", self._moved.items(), lambda row: [row[0], *row[1]])
        if self._failures:
            yield from _rows("failures", self._failures.items(), lambda row: [row[0], *row[1]])
        if self._due:
            yield from _rows("due", self._due, list)
        yield from _rows(
            "chunks",
            self._blocks,
            lambda row: [*row[:2], sorted(row[2]), *(row[3:] if row[3] else ())],
        )
        yield from _rows("wanting", self._wanting, lambda w: [
            w.first, w.count, w.source.hex(), w.stream, w.number, w.message, w.flags, w.confirm_by,
            w.dead_letter_queue,
        ])  # fmt: skip
        yield "}"


def _rows(name: str, rows: Iterable[T], dump: Callable[[T], object]) -> Iterator[str]:
    """A member of an object that is a long list."""
    left, between = iter(rows), f',"{name}":['
    while some := [dump(row) for row in islice(left, ROWS_AT_ONCE)]:
        yield between + encode_rows(some)[1:-1]
        between = ","
    yield "]" if between == "," else f"{between}]"


TABLES: Final = {
    "bound": "bindings", "proofs": "proofs", "ahead": "clocks_ahead", "outcomes": "outcomes",
    "receipts": "receipts", "groups": "groups", "readings": "readings", "rights": "policy",
    "tokens": "tokens", "jobs": "jobs", "trail": "trail", "heads": "heads", "damages": "damages",
}  # fmt: skip
"""Members of the head, and the tables of ``State`` that dump and load them without the others."""


def _head(state: State) -> dict[str, Any]:
    """The members that are never long."""
    outgoing, policy = state.outgoing.values(), state.policy
    return {
        "stamp": state.stamp,
        "life": state.lives.dump(),
        "places": state.first_place,
        "ceiling": state.number_ceiling,
        "offline": state.offline_s,
        "next": [
            state.next_number, state.next_message, state.next_ordinal, state.next_transaction,
        ],
        "subqueues": [
            [q.number, q.parent.number, q.sub] for q in state.subqueues.values() if q.parent
        ],
        "elsewhere": [[o.number, list(o.elsewhere.items())] for o in outgoing if o.elsewhere],
        "aliases": [[o.number, name] for o in outgoing for name in o.also.values()],
        "answering": list(state.answering),
        "homes_kept": state.homes_kept,
        "homes": [[o.number, sorted(o.homes)] for o in outgoing if o.homes is not None],
        "answers": [o.number for o in outgoing if o.answers and o.homes is None],
        "served": [
            [o.number, o.served_from, o.served_before]
            for o in outgoing if o.served_from or o.served_before
        ],
        "resets": [
            [p.source, p.key, *row_of(p.reset)] for p in state.progress.values() if p.reset
        ],
        "doubts": state.doubts.dump(),
        "doubts_given": state.doubts.dump_given(),
        "branches": state.branches.dump(),
        "restored": state.restored,
        "undone": [[guid, what, at] for (guid, what), at in state.undone.items()],
        "rights_book": [policy.shared.id, policy.shared.number],
        "next_job": state.jobs.next,
        "trail_chain": state.trail.dump_chain(),
        "regions": [base for base, _ in state.space.dump()],
    }  # fmt: skip


def _long(state: State) -> list[_Member]:
    """The members with a row for each of something that there can be very many of."""
    outgoing, memories = state.outgoing.values(), state.memories
    left = [
        (source, key, m.stream, m.since, m.last, m.passed, memories.claimed(source, key, m.stream))
        for (source, key, _), m in memories
    ]
    members: list[_Member] = [
        ("queues", [q.properties for q in state.queues.values() if not q.system], dump_properties),
        ("outgoing", [(_of_outgoing(o), o.old.items()) for o in outgoing], _dump_outgoing),
        ("marks", [(o.number, list(o.left.items())) for o in outgoing if o.left_known], list),
        ("endings", [(o.number, o.endings.dump()) for o in outgoing if len(o.endings)], list),
        ("late", [(o.number, o.endings.dump_late()) for o in outgoing if o.endings.late], list),
        ("drained", list(state.drained.items()), list),
        ("heard", list(state.first_heard.items()), list),
        ("progress", list(map(_of_progress, state.progress.values())), list),
        ("left", left, list),
        ("forgotten", list(memories.forgotten.items()), lambda row: [*row[0], row[1]]),
        ("seen", list(state.seen.items()), lambda row: [*row[0][:3], row[1], row[0][3]]),
        ("refused", list(state.refused), list),
        ("makers", state.makers.dump(), list),
        ("rights_shared", dump_grants(state.policy.shared.grants), list),
    ]
    for name, attribute in TABLES.items():
        members.append((name, getattr(state, attribute).dump(), lambda row: row))
    return members


def _dump_outgoing(row: tuple[tuple[Any, ...], list[tuple[int, int]]]) -> list[Any]:
    (number, name, stream, base, paused_s, fence, moved_to), old = row
    return [number, str(name), stream, base, old, paused_s, fence, moved_to]


def snapshot(state: State) -> list[Buffer]:
    """The whole state as bytes, at once."""
    return StateSnapshot(state).encode()


def restore(state: State, checkpoint: bytes) -> None:
    """Load what ``snapshot`` gave; only into a new State."""
    version, size = struct.unpack_from("<II", checkpoint)
    if version not in _KNOWN:
        raise DamagedRecord(f"a checkpoint of version {version}")
    head = json.loads(checkpoint[8 : 8 + size])
    state.stamp = head["stamp"]
    if "life" in head:
        state.lives.load(head["life"])
    # Before there are queues: each begins there what it makes later.
    state.begin_places(head.get("places", 1))
    state.number_ceiling = head["ceiling"]
    state.offline_s = head["offline"]
    for properties in head["queues"]:
        state.make_queue(restore_properties(properties))
    for number, parent, name in head["subqueues"]:
        state.make_subqueue(number, parent, name)
    for number, name, stream, base, old, paused_s, *more in head["outgoing"]:
        outgoing = state.make_outgoing(number, parse_format_name(name)[0])
        outgoing.fence, outgoing.moved_to = more or (0, 0)
        outgoing.stream, outgoing.base, outgoing.paused_s = stream, base, paused_s
        # Until ``marks`` says otherwise: checkpoints of older versions have none.
        outgoing.left_known = False
        for earlier, its_base in old:
            outgoing.old.add(earlier, its_base)
        for known in (*outgoing.old, *((stream,) if stream else ())):
            state.streams[known] = outgoing
    for name, attribute in TABLES.items():
        # Older checkpoints lack what came later.
        if name in head:
            getattr(state, attribute).load(head[name])
    for number in head.get("answering", ()):
        state.answers_only(state.outgoing_numbered(number))
    # Older stores do not tell: a sender that has a stream there is no stranger.
    heard = head.get("heard") or [[source, 0] for source, *_ in head["progress"]]
    state.first_heard = {bytes.fromhex(source): at_s for source, at_s in heard}
    for number, first, before in head.get("served", ()):
        served = state.outgoing_numbered(number)
        served.served_from = first
        served.served_before = tuple((bytes.fromhex(g), a, b) for g, a, b in before)
    for number, lanes in head.get("marks", ()):
        marked = state.outgoing_numbered(number)
        marked.left, marked.left_known = dict(map(tuple, lanes)), True
    for number, lanes in head.get("elsewhere", ()):
        state.outgoing_numbered(number).elsewhere = dict(map(tuple, lanes))
    for number, name in head.get("aliases", ()):
        state.join_outgoing(number, name)
    (state.next_number, state.next_message, state.next_ordinal,
     state.next_transaction) = head["next"]  # fmt: skip
    _restore_streams(state, head)
    state.doubts.load(head["doubts"], head.get("doubts_given"), state.served)
    # The sum of one value, or of none in checkpoints of older versions.
    for source, key, number, at, *sent in head["seen"]:
        state.seen[bytes.fromhex(source), key, number, sum(sent)] = at
    for base in head["regions"]:
        state.space.restore(base)
    _restore_tables(state, head)
    if head.get("restored") is not None:
        state.restored = read_row(Restored, head["restored"])
    for guid, what, at in head.get("undone", ()):
        state.undone[bytes.fromhex(guid), what] = at
    if "branches" in head:
        state.branches.load(head["branches"], memoryview(checkpoint))
    _restore_lanes(state, head["lanes"], memoryview(checkpoint)[8 + size :])
    state.space.prune()


def _restore_tables(state: State, head: dict[str, Any]) -> None:
    """What keeps a table of its own; older checkpoints lack what came later."""
    for stream, refused in head.get("refused", ()):
        state.refuse(stream, refused)
    state.homes_kept = head.get("homes_kept", False)
    for number, homes in head.get("homes", ()):
        outgoing = state.outgoing_numbered(number)
        outgoing.homes, outgoing.answers = frozenset(homes), True
    for number in head.get("answers", ()):
        state.outgoing_numbered(number).answers = True
    for number, who in head.get("makers", ()):
        state.makers.note_maker(state.all_queues[number], who)
    if "makers" not in head:
        for grant in state.policy:
            if grant.owner:
                owned = state.queues.get(str(grant.pattern.name))
                state.makers.owned(owned, grant.queue, str(grant.who.name))
    book, number = head.get("rights_book", ("", 0))
    shared = load_grants(head.get("rights_shared", ()))
    state.policy.shared = SharedRights(bytes.fromhex(book), number, shared)
    state.jobs.next = head.get("next_job", 1)
    state.trail.load_chain(head.get("trail_chain"))
    for number, rows in head.get("endings", ()):
        state.outgoing_numbered(number).endings.load(rows)
    for number, rows in head.get("late", ()):
        state.outgoing_numbered(number).endings.load_late(rows)
    state.drained = dict(map(tuple, head.get("drained", ())))


def _restore_streams(state: State, head: dict[str, Any]) -> None:
    """What is known of incoming streams."""
    for name in ("progress", "resets", "left", "forgotten"):
        head[name] = [row for row in head.get(name, ()) if row[1] != UNNAMED]
    for source, key, stream, last, access, since, passed, vague, *message in head["progress"]:
        raw = bytes.fromhex(source)
        state.progress[raw, key] = Progress(
            raw, key, stream=stream, last=last, last_access_s=access, since=since,
            passed=tuple(map(tuple, passed)), vague=vague, message=sum(message),
        )  # fmt: skip
        state.makers.streams.add(source)
    for source, key, *reset in head["resets"]:
        state.progress[bytes.fromhex(source), key].reset = read_row(Reset, reset)
    for source, key, stream, since, last, passed, *claimed in head["left"]:
        memory = StreamMemory(stream, since, last, True, tuple(map(tuple, passed)))
        state.memories.load(bytes.fromhex(source), key, memory, sum(claimed))
    for source, key, stream in head["forgotten"]:
        state.memories.forgotten[bytes.fromhex(source), key] = stream


def _restore_lanes(state: State, lanes: list[dict[str, Any]], tables: memoryview) -> None:
    at = 0

    def table(kind: str, count: int) -> array[int]:
        nonlocal at
        values = array(kind)
        size = count * values.itemsize
        values.frombytes(tables[at : at + size])
        at += size
        return values

    for values in lanes:
        queue = state.all_queues[values["holder"]]
        index = values["lane"]
        lane = queue.lanes[index]
        lane.next = values["next"]
        lane.aborts = dict(map(tuple, values["aborts"]))
        lane.classes = dict(map(tuple, values["classes"]))
        lane.notes = dict(map(tuple, values.get("notes", ())))
        lane.moved = {counter: (moves, at_s) for counter, moves, at_s in values["moved"]}
        lane.failures = {at: (times, why) for at, times, why in values.get("failures", ())}
        if "due" in values:
            lane.due = DueTimes()
            lane.due.load(map(tuple, values["due"]))
        if values["wanting"]:
            queue.wanting[index] = ReportRequests(
                ReportRequest(first, count, bytes.fromhex(source), *rest)
                for first, count, source, *rest in values["wanting"]
            )
        for base, count, express, *more in values["chunks"]:
            block = PositionBlock(base)
            block.addresses = table("Q", count)
            block.lengths = table(LENGTH_TYPE, count)
            block.arrived = table("I", count)
            block.expires = table("I", count)
            block.states = bytearray(tables[at : at + count])
            at += count
            block.express = set(express) or None
            for in_two_parts in more:
                block.rests = table("Q", in_two_parts)
                block.fronts = table(LENGTH_TYPE, in_two_parts)
            lane.restore(block)
        lane.find_head()
        state.expires_by(queue.number, index)
        state.due_by(queue.number, index)


def replay(
    state: State, checkpoint: bytes | None, records: Iterable[tuple[int, memoryview]]
) -> None:
    """Load what is durable into a new State.

    Args:
        checkpoint: What ``snapshot`` gave, or None: the records are all that there ever were.
        records: Position and payload of every record after it, in order.

    Raises:
        DamagedRecord: The records do not fit together.
    """
    if checkpoint is not None:
        restore(state, checkpoint)
    for at, payload in records:
        apply(state, decode(payload, at + FRAME_HEADER), at)


def apply(state: State, record: tuple[Change, list[int]] | Setup | PreparedBranch, at: int) -> None:
    """Change a State as a record says; raises DamagedRecord where it does not fit."""
    if isinstance(record, Setup):
        state.apply_setup(record)
    elif isinstance(record, PreparedBranch):
        state.apply_branch(record, at)
    else:
        change, offsets = record
        try:
            state.apply(change, at, offsets)
        except (AssertionError, KeyError, IndexError) as error:
            raise DamagedRecord(f"the record at {at} does not fit: {error!r}") from error
