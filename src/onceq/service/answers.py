"""Memory for the messages that applications are handed, over all connections together.

It reads the messages that are handed out, picks parts of what a peek has found, and verifies bytes
before a decision depends on them.

A receive or a peek may be answered with 32 MiB, and the application may never read that. So room is
reserved before the answer is built. Reservations of this pump, and answers that were built and are
not read yet, stay below one limit; a request that finds no room waits for its turn. One application
holds at most an eighth of what the others leave, so that applications that do not read leave room
for those that do. One pump builds only a limited amount of large answers, so that nobody waits long
behind them.

A request that waits for a message holds nothing. When a message comes, a peek has to find room
again (it can be put off: nothing was taken). What a receive takes out is handed out in any case,
each message once, and counted.

Upholds: I24, I23.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final, Protocol

from onceq.core.decision import Answer, CloseSession, Decision, Handed, Piece, Transmit
from onceq.core.inputs import Input, Spoiled
from onceq.core.manager import Manager
from onceq.errors import DamagedPiece, DamagedRecord
from onceq.model import limits
from onceq.model.marks import Now
from onceq.model.requests import Pick, PickBy, Receive
from onceq.model.run import LENGTH_TYPE, Buffer, Extent, Run, largest_of, starts_of
from onceq.packet.arrived import Batch
from onceq.packet.decode import set_class
from onceq.packet.survey import HEAD, bodiless, first_with_correlation, first_with_id, head_of
from onceq.service.clock import Clock
from onceq.store.contract import Store

# ---- answers -------------------------------------------------------------------------------------


SHARE: Final = 8
"""An application gets at most this part of what is left."""
LOOK_S: Final = 0.05
"""Interval in seconds of the checks whether others have read, while an application waits for
room."""
SECOND: Final = 1_000_000


class Asker(Protocol):
    """A connection of an application."""

    @property
    def unread_bytes(self) -> int:
        """Return the number of bytes sent to it that it has not read yet."""

    def go_on(self) -> None:
        """Continue: there may be room."""

    def cut(self, reason: str) -> None:
        """Cut it, because it has not read for so long that others must not wait for it."""


class _Account:
    """What one asker holds.

    Attributes:
        reserved: By request, for answers that this pump may build.
        built: Bytes of answers that were built, and are not known to have been read.
        idle_us: Since when nothing of that was read.
        moved: Whether something was read after that.
    """

    __slots__ = ("built", "idle_us", "moved", "reserved")

    def __init__(self) -> None:
        self.reserved: dict[int, int] = {}
        self.built = 0
        self.idle_us = 0
        self.moved = False

    @property
    def held(self) -> int:
        return self.built + sum(self.reserved.values())


class Answers:
    """The memory of all answers of one engine. Only the user of the engine may call it."""

    def __init__(self) -> None:
        self._accounts: dict[Asker, _Account] = {}
        self._held = 0
        self._turn_bytes = 0
        self._fresh: list[tuple[Asker, int]] = []
        self._current: list[tuple[Asker, int]] = []
        self._starving: OrderedDict[Asker, None] = OrderedDict()
        """Askers that wait for room, the first first."""
        self._full: dict[Asker, None] = {}
        """Askers that have to read what they have before they get more."""
        self._served: Asker | None = None
        self._looking = False
        self.at_work = False
        """True if a turn has anything to do: nothing while no asker wants memory, and none
        waits."""
        self.later: Callable[[float], None] | None = None
        """Schedules ``look`` after the given seconds: called when an asker has to wait."""

    @property
    def held_bytes(self) -> int:
        """Return the number of bytes that are counted now."""
        return self._held

    @property
    def starving(self) -> bool:
        """Return True if an asker waits for room."""
        return bool(self._starving)

    # ---- asking -----------------------------------------------------------------------------

    def ask(self, asker: Asker, request: int, wanted: int) -> int:
        """Reserve bytes for the answer to a request; return 0 if there are none, ``go_on`` follows
        later.

        At least one message is always handed out, so the largest there may be has to fit.
        """
        self.at_work = True
        account = self._accounts.get(asker)
        if account is not None and account.built:
            self._take_back(asker, account)
            account = self._accounts.get(asker)
        own = account.held if account is not None else 0
        left = limits.ANSWERS_BYTES_MAX - self._held
        share = min(
            max((left + own) // SHARE, limits.PACKET_BYTES_MAX), limits.CLIENT_ANSWERS_BYTES_MAX
        )
        large = self._turn_bytes < limits.ANSWERS_TURN_BYTES
        grant = min(wanted, share - own if large else limits.PACKET_BYTES_MAX)
        room = max(grant, limits.PACKET_BYTES_MAX)
        # It has its share: in the queue of those who wait it would keep others from theirs.
        if own + room > share:
            self._full[asker] = None
            self._look_later()
            return 0
        waits_behind = (
            self._starving and asker is not self._served
            and asker is not next(iter(self._starving))
        )  # fmt: skip
        if waits_behind or left < room:
            self.stand(asker)
            return 0
        self._starving.pop(asker, None)
        if account is None:
            account = self._accounts[asker] = _Account()
        account.reserved[request] = room
        self._held += room
        self._turn_bytes += grant if grant > limits.PACKET_BYTES_MAX else 0
        self._fresh.append((asker, request))
        return max(grant, 1)

    def stand(self, asker: Asker) -> None:
        """Let it wait for its turn: ``go_on`` will be called."""
        self.at_work = True
        self._starving[asker] = None
        self._look_later()

    def _look_later(self) -> None:
        if not self._looking and self.later is not None:
            self._looking = True
            self.later(LOOK_S)

    def takes(self, asker: Asker, request: int, size: int) -> bool:
        """Return True if there is room for the answer to a request that has waited for a
        message."""
        account = self._accounts.get(asker)
        if account is not None and request in account.reserved:
            return True
        own = account.held if account is not None else 0
        if self._starving or own + size > limits.CLIENT_ANSWERS_BYTES_MAX:
            return False
        return self._held + size <= limits.ANSWERS_BYTES_MAX

    def built(self, asker: Asker, request: int, size: int, now_us: int) -> None:
        """Count an answer that was made (0 bytes if there is none)."""
        account = self._accounts.get(asker)
        if account is None:
            if not size:
                return
            account = self._accounts[asker] = _Account()
        self._held += size - account.reserved.pop(request, 0)
        if size and not account.built:
            account.idle_us = now_us
        account.built += size
        self._tidy(asker, account)

    def gone(self, asker: Asker) -> None:
        """Remove a lost application, and release what it had not read."""
        self._starving.pop(asker, None)
        self._full.pop(asker, None)
        account = self._accounts.pop(asker, None)
        if account is not None:
            self._held -= account.held
            self.wake()

    # ---- turns ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a pump with the reservations so far."""
        self._current, self._fresh = self._fresh, []
        self._turn_bytes = 0

    def end(self) -> None:
        """End a pump: an unanswered reservation waits for a message, and holds nothing."""
        # Reservations made during this pump (`_fresh`) are decided in the next one, and keep their
        # room.
        for asker, request in self._current:
            account = self._accounts.get(asker)
            if account is not None:
                self._held -= account.reserved.pop(request, 0)
                self._tidy(asker, account)
        self._current = []
        self.wake()
        self.at_work = bool(self._fresh or self._starving or self._full)

    # ---- what was read ----------------------------------------------------------------------

    def read(self, asker: Asker, now_us: int) -> None:
        """Check how much an application has read."""
        account = self._accounts.get(asker)
        if account is None:
            return
        self._take_back(asker, account)
        if account.moved:
            account.moved = False
            account.idle_us = now_us

    def _take_back(self, asker: Asker, account: _Account) -> None:
        """Stop counting what was read."""
        unread = min(account.built, asker.unread_bytes)
        account.moved |= unread < account.built
        self._held -= account.built - unread
        account.built = unread
        self._tidy(asker, account)

    def check_reading(self, now_us: int) -> None:
        """Check all reading, and let those that wait continue; cut those that never read."""
        self._looking = False
        for asker in list(self._accounts):
            self.read(asker, now_us)
        self.wake()
        if not self._starving:
            if self._full:
                self._look_later()
            return
        idle = [
            (account.idle_us, asker) for asker, account in self._accounts.items() if account.built
        ]
        if idle and limits.ANSWERS_BYTES_MAX - self._held < limits.PACKET_BYTES_MAX:
            since_us, slowest = min(idle, key=lambda one: one[0])
            if now_us - since_us >= limits.CLIENT_STALLED_S_MAX * SECOND:
                slowest.cut(
                    f"it did not read its answers for {limits.CLIENT_STALLED_S_MAX} s while others "
                    "waited for the memory that they take"
                )
        self._look_later()

    def wake(self) -> None:
        """Let those that wait continue, the first first, until one finds no room."""
        # Removed first: an asker that finds no room again adds itself again.
        full, self._full = self._full, {}
        for asker in full:
            asker.go_on()
        for _ in range(len(self._starving)):
            first, _ = self._starving.popitem(last=False)
            self._served = first
            try:
                first.go_on()
            finally:
                self._served = None
            if first in self._starving:
                # It was the first, and stays so: asking again has put it behind all others.
                self._starving.move_to_end(first, last=False)
                return

    def _tidy(self, asker: Asker, account: _Account) -> None:
        if not account.built and not account.reserved:
            self._accounts.pop(asker, None)


# ---- picking -------------------------------------------------------------------------------------
#
# A part of what a peek has found: for searches, and for surveys of a queue (RCV-10).


def wants_bytes(pick: Pick) -> bool:
    """Return True if the packets have to be read for it."""
    return pick.by is not PickBy.TOPS or any(pick.value)


def picked(handed: Handed, data: Buffer) -> tuple[Run, slice, int]:
    """Return what to hand out.

    Args:
        data: The packets, one after another; empty where none of them is wanted.

    Returns:
        Packets or records; which of the messages they are; and the lookup identifier up to which
        the queue was searched.
    """
    pick = handed.pick
    assert pick is not None, "there is something to pick by"
    whole = Run(data, handed.lengths)
    if pick.by is PickBy.HEADS:
        starts = accumulate(handed.lengths[:-1], initial=0)
        heads = b"".join(head_of(data, start) for start in starts)
        lengths = array(LENGTH_TYPE, (HEAD.size,)) * len(whole)
        return Run(heads, lengths), slice(None), handed.lookups[-1]
    if pick.by is PickBy.TOPS:
        return _tops(whole, int.from_bytes(pick.value, "little")), slice(None), handed.lookups[-1]
    if pick.by is PickBy.BODILESS:
        return Run.of(list(map(bodiless, whole))), slice(None), handed.lookups[-1]
    if pick.by is PickBy.CORRELATION:
        index = first_with_correlation(whole, pick.value)
    else:
        source, number = pick.value[:16], int.from_bytes(pick.value[16:], "little")
        index = first_with_id(whole, source, number)
    if index < 0:
        return Run(b"", array(LENGTH_TYPE)), slice(0, 0), handed.lookups[-1]
    return whole.part(index, 1), slice(index, index + 1), handed.lookups[index]


def _tops(whole: Run, size: int) -> Run:
    """Return every packet, cut off after ``size`` bytes."""
    lengths = whole.lengths
    if size >= largest_of(lengths):
        return whole
    if not size:
        return Run(b"", array(LENGTH_TYPE, bytes(lengths.itemsize * len(lengths))))
    view, starts = memoryview(whole.data), accumulate(lengths[:-1], initial=0)
    # A slice beyond the end of its packet would take in the next one.
    cut = array(LENGTH_TYPE, [min(length, size) for length in lengths])
    pieces = [view[start : start + n] for start, n in zip(starts, cut, strict=True)]
    return Run(b"".join(pieces), cut)


# ---- delivered -----------------------------------------------------------------------------------
#
# Messages that are handed out, with their bytes.


def delivered(handed: Handed, fetch: Callable[[Sequence[Piece]], Buffer]) -> Batch:
    """Fetch the bytes of messages, if any of them are wanted."""
    wanted = handed.pick is None or wants_bytes(handed.pick)
    data = fetch(handed.pieces) if wanted else b""
    if handed.classes and wanted:
        # A copy: the bytes may be those of the log in memory, which others read.
        changed = bytearray(data)
        starts = list(starts_of(handed.lengths))
        for index, value in handed.classes:
            set_class(changed, starts[index], handed.lengths[index], value)
        data = bytes(changed)
    if handed.pick is None:
        return Batch(
            Run(data, handed.lengths), handed.lookups, handed.arrived, handed.aborts,
            handed.moves, notes=handed.notes, failures=handed.failures,
        )  # fmt: skip
    run, part, scanned = picked(handed, data)
    # A slice of all messages may have no beginning.
    first, end, _ = part.indices(len(handed.lookups))
    moves = [(at - first, n, last) for at, n, last in handed.moves if first <= at < end]
    notes = [(at - first, note) for at, note in handed.notes if first <= at < end]
    failures = [(at - first, times, why) for at, times, why in handed.failures if first <= at < end]
    return Batch(
        run, handed.lookups[part], handed.arrived[part], handed.aborts[part], moves, scanned, notes,
        failures,
    )  # fmt: skip


# ---- verifying -----------------------------------------------------------------------------------
#
# Read messages before they are handed out, so that damage is found in time.


AHEAD_BYTES_MAX = 32 << 20
"""Bytes of read-ahead that are kept until they are handed out; the rest is read once more then,
so that one large request does not decide how much memory this takes."""
TRIES_MAX = 64
"""Times that a receive looks for an undamaged message before it is decided without one."""


class Verifying:
    """Reads the messages of decisions, and has damaged ones set aside."""

    def __init__(
        self, manager: Manager, store: Store, clock: Clock, submit: Callable[[Input], None]
    ) -> None:
        self._manager, self._store, self._clock, self._submit = manager, store, clock, submit
        self._space = manager.state.space
        self._ahead: dict[int, Buffer] = {}
        """What was read already, by the identity of the pieces."""
        self.kept = 0
        """Bytes read ahead since all was handed out."""

    def read(self, pieces: Sequence[Piece]) -> Buffer:
        """Return bytes from the log or from the core, joined."""
        # What was read already is handed out once.
        if self._ahead and (ahead := self._ahead.pop(id(pieces), None)) is not None:
            return ahead
        read = self._store.read
        if len(pieces) == 1:  # which is not copied
            piece = pieces[0]
            return piece if isinstance(piece, bytes) else read(piece.address, piece.size)
        return b"".join(
            piece if isinstance(piece, bytes) else read(piece.address, piece.size)
            for piece in pieces
        )

    def done(self) -> None:
        """Forget the read-ahead: everything was handed out."""
        self._ahead.clear()
        self.kept = 0

    def _cold(self, pieces: Sequence[Piece]) -> bool:
        """Return True if any of the pieces may have to be read from the disk."""
        warm = self._store.remembered
        for piece in pieces:
            if not isinstance(piece, bytes) and piece.address < warm:
                break
        else:
            return False
        return True

    # ---- before a decision ----------------------------------------------------------------------

    def decide(self, now: Now, items: Sequence[Input]) -> list[Decision]:
        """Decide about the inputs, in order; messages that would be removed are checked first."""
        step, bases = self._manager.step, self._space.bases
        decisions: list[Decision] = []
        for item in items:
            if (
                isinstance(item, Receive) and not item.transaction and not item.peek
                and bases and bases[0] < self._store.remembered
            ):  # fmt: skip
                # Damaged messages that it would remove are set aside. Each round sets aside what
                # it found damaged, and so foresees other messages.
                for _ in range(TRIES_MAX):
                    pieces = self._manager.foresee(item)
                    damaged = self.damaged(pieces) if pieces and self._cold(pieces) else ()
                    if not damaged:
                        break
                    decisions.append(step(now, Spoiled(damaged)))
            decisions.append(step(now, item))
        return decisions

    # ---- before a sync --------------------------------------------------------------------------

    def read_handed(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Read what decisions will hand out; return what follows from damage that was found."""
        more: list[Decision] = []
        for decision in decisions:
            for at, action in enumerate(decision.actions):
                if isinstance(action, Answer):
                    handed = action.result
                    if not isinstance(handed, Handed) or not self._cold(handed.pieces):
                        continue
                    if handed.pick is not None and not wants_bytes(handed.pick):
                        continue
                    if not self._try(handed.pieces):
                        self._spoiled_answer(decision, at, action, handed, more)
                elif (
                    isinstance(action, Transmit)
                    and self._cold(action.pieces)
                    and not self._try(action.pieces)
                ):
                    damaged = self.damaged(action.pieces)
                    more.append(self._step(Spoiled(damaged, unsent=action.before)))
                    reason = "a message that was to be transmitted is damaged"
                    decision.actions[at] = CloseSession(action.session, reason)
        return more

    def _try(self, pieces: Sequence[Piece]) -> bool:
        try:
            data = self.read(pieces)
        except DamagedRecord:
            return False
        if self.kept + len(data) <= AHEAD_BYTES_MAX:
            self.kept += len(data)
            self._ahead[id(pieces)] = data
        return True

    def _step(self, item: Input) -> Decision:
        return self._manager.step(self._clock.read(), item)

    def damaged(self, pieces: Sequence[Piece]) -> tuple[DamagedPiece, ...]:
        """Return the pieces that are not what was written.

        Pieces in memory are not checked. Among them is what this pump has decided to store: a
        receive may take it before it is appended, and the store has no bytes there yet.
        """
        found: list[DamagedPiece] = []
        warm = self._store.remembered
        for piece in pieces:
            if isinstance(piece, bytes) or piece.address >= warm:
                continue
            try:
                self._store.read(piece.address, piece.size)
            except DamagedRecord as error:
                found += error.pieces or (DamagedPiece(piece.address, piece.size, "", 0),)
        return tuple(dict.fromkeys(found))

    def _spoiled_answer(
        self, decision: Decision, at: int, action: Answer, handed: Handed, more: list[Decision]
    ) -> None:
        """Answer with the undamaged messages; or ask again, if there is none."""
        asked, owner = handed.asked, action.owner
        removed = isinstance(asked, Receive) and not asked.transaction and not asked.peek
        for _ in range(TRIES_MAX):
            places = _places(handed)
            bad = self._bad(places)
            good = [index for index in range(len(handed.lengths)) if index not in bad]
            gone = tuple(
                (handed.queue, handed.lookups[at], handed.lengths[at], places[at][0].address)
                for at in (bad if removed else ())
            )
            pieces = tuple(dict.fromkeys(piece for found in bad.values() for piece in found))
            done = self._step(Spoiled(pieces, owner, gone=gone))
            more.append(done)
            if not good:
                break
            handed = _only(handed, places, good)
            # Kept for the answer, which is made after the sync. A piece that a remembered read
            # found whole is read again here, and may not be.
            if self._try(handed.pieces):
                decision.actions[at] = replace(action, result=handed)
                return
        if not good and isinstance(asked, Receive) and done.records:
            decision.actions[at] = replace(action, owner=0)
            # All were damaged and are set aside: it is asked again, and its answer is the
            # repetition's.
            self._submit(asked)
            return
        if good and isinstance(asked, Receive):
            more.append(self._step(Spoiled((), owner, untold=asked.transaction)))
        error = DamagedRecord("these messages are damaged, and were set aside", pieces)
        decision.actions[at] = replace(action, result=error)

    def _bad(self, places: Places) -> dict[int, tuple[DamagedPiece, ...]]:
        """Return which of some messages are damaged, and where."""
        found = ((index, self.damaged(place)) for index, place in enumerate(places))
        return {index: damaged for index, damaged in found if damaged}


Places = Sequence[tuple[Extent, ...]]


def _places(handed: Handed) -> Places:
    """Return where the parts of each message lie: several messages may lie in one piece, and one
    in two (``InTwoParts``)."""
    places: list[tuple[Extent, ...]] = []
    pieces = iter(handed.pieces)
    at = end = 0
    for length in handed.lengths:
        parts, left = [], length
        while left:
            if at == end:
                piece = next(pieces)
                assert not isinstance(piece, bytes), "what is received lies in the log"
                at, end = piece.address, piece.address + piece.size
            size = min(left, end - at)
            parts.append(Extent(at, size))
            at, left = at + size, left - size
        places.append(tuple(parts))
    return places


def _only(handed: Handed, places: Places, chosen: Sequence[int]) -> Handed:
    """Return the same with some of the messages only."""
    new = {old: index for index, old in enumerate(chosen)}
    return replace(
        handed,
        pieces=tuple(part for index in chosen for part in places[index]),
        lengths=array(LENGTH_TYPE, (handed.lengths[index] for index in chosen)),
        lookups=array("Q", (handed.lookups[index] for index in chosen)),
        arrived=array("I", (handed.arrived[index] for index in chosen)),
        aborts=array("I", (handed.aborts[index] for index in chosen)),
        classes=tuple((new[index], value) for index, value in handed.classes if index in new),
        moves=tuple((new[at], count, last) for at, count, last in handed.moves if at in new),
    )
