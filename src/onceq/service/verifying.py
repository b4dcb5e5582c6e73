"""Read messages before they are handed out, so that damage is found in time.

Recent writes are in memory. Anything older is read from the disk when a decision wants to hand it
out or transmit it, after its records were appended and before they are synced. If the bytes are not
what was written, the core sets the messages in them aside (``core/management/damage.py``) in the
same sync. The others are handed out; a request that got damaged messages only is repeated
internally. A transmission is given up with its session: the next one begins behind what has ended.

A receive outside a transaction removes what it hands out; so its messages are read before the core
decides about it.

Upholds: I23.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from onceq.core.decision import Answer, CloseSession, Decision, Handed, Piece, Transmit
from onceq.core.inputs.inputs import Input, Spoiled
from onceq.core.manager import Manager
from onceq.errors import DamagedPiece, DamagedRecord
from onceq.model.requests import Receive
from onceq.model.run import LENGTH_TYPE, Buffer, Extent
from onceq.model.time import Now
from onceq.service.clock import Clock
from onceq.service.picking import wants_bytes
from onceq.store.contract import Store

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
                decisions += self._set_aside(now, item)
            decisions.append(step(now, item))
        return decisions

    def _set_aside(self, now: Now, item: Receive) -> list[Decision]:
        """Set aside damaged messages that a receive would remove."""
        decisions: list[Decision] = []
        # Each round sets aside what it found damaged, and so foresees other messages.
        for _ in range(TRIES_MAX):
            pieces = self._manager.foresee(item)
            damaged = self.damaged(pieces) if pieces and self._cold(pieces) else ()
            if not damaged:
                break
            decisions.append(self._manager.step(now, Spoiled(damaged)))
        return decisions

    # ---- before a sync --------------------------------------------------------------------------

    def look(self, decisions: Sequence[Decision]) -> list[Decision]:
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
        asked = handed.asked
        for _ in range(TRIES_MAX):
            bad = self._bad(_places(handed))
            good = [index for index in range(len(handed.lengths)) if index not in bad]
            done = self._set_these_aside(action.owner, handed, bad)
            more.append(done)
            if not good:
                break
            handed = _only(handed, _places(handed), good)
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
            more.append(self._step(Spoiled((), action.owner, untold=asked.transaction)))
        pieces = tuple(dict.fromkeys(piece for found in bad.values() for piece in found))
        error = DamagedRecord("these messages are damaged, and were set aside", pieces)
        decision.actions[at] = replace(action, result=error)

    def _bad(self, places: Places) -> dict[int, tuple[DamagedPiece, ...]]:
        """Return which of some messages are damaged, and where."""
        found = ((index, self.damaged(place)) for index, place in enumerate(places))
        return {index: damaged for index, damaged in found if damaged}

    def _set_these_aside(
        self, owner: int, handed: Handed, bad: Mapping[int, tuple[DamagedPiece, ...]]
    ) -> Decision:
        """Set aside some of the messages that were to be handed out."""
        asked, places = handed.asked, _places(handed)
        removed = isinstance(asked, Receive) and not asked.transaction and not asked.peek
        gone = tuple(
            (handed.queue, handed.lookups[index], handed.lengths[index], places[index][0].address)
            for index in (bad if removed else ())
        )
        pieces = tuple(dict.fromkeys(piece for found in bad.values() for piece in found))
        return self._step(Spoiled(pieces, owner, gone=gone))


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
