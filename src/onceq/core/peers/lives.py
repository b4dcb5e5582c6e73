"""A life begins with each start: it assigns nothing that another life, copy or backup has assigned.

A receiver tells a repetition from a new message by its numbers alone, so assigning a number twice
loses a message: the second one is taken for the first (I7). A counter in the store keeps numbers
apart as long as there is one store. Restoring an older copy of it, or starting a copied machine,
duplicates the counter, and no record can reveal that. The solution is to trust no counter over a
start. The identifier of a stream is a stamp and an ordinal (EOD-14): the stamp is the wall clock at
the start, and never below the last one, so that streams of a life are greater than those before it
and are accepted; the ordinal begins at random, so that two copies that start in the same second
differ. Message numbers also begin at random. ``recover`` brings the randomness.

The positions of messages in local queues are numbers of this kind, too: an application may keep a
lookup identifier, and a reader's checkpoint says up to which position it has read. If an older copy
assigns the same positions to other messages, the reader takes them for those that it has read, and
removes messages that it has never seen. So the positions of each life begin a random distance
behind all that the store knows to be assigned.

Further consequences for a life are:

* New messages never continue a stream of an earlier life, which a copy may have continued. What
  waits in one keeps its numbers and goes first (``OutgoingQueue.stretch``), and the new stream
  follows when nothing of it waits any more.
* A store that is in another directory than at its last start was copied, or restored without
  notice, or moved. Its record of messages that never left is then not believed: the original may
  have transmitted them (``OutgoingQueue.left_known``).
* An acknowledgment for a stream that none of the lives in these records has begun proves that
  another manager uses this identity (``core/peers/duplicate_identity.py``).

Upholds: I7 (unique numbers, also over copies and backups), I18 (as do lookup identifiers), I25.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from onceq.core.state.position_block import CHUNK
from onceq.core.state.queues import COUNTER_MASK, Queue
from onceq.core.state.records import Change
from onceq.core.state.setups import LifeBegun, PlacesBegun, StreamsGoOn
from onceq.core.state.state import State
from onceq.core.step.step import Step
from onceq.core.step.units import KEY_BYTES
from onceq.model.limits import MESSAGE_NUMBER_MAX, PLACES_AHEAD_MAX, PLACES_AHEAD_MIN

ENTROPY_BYTES: Final = 24 + KEY_BYTES
ORDINAL_MAX: Final = 0xFFFF_FFFE
"""The next stamp begins behind it."""
_HALF: Final = 0x7FFF_FFFF
"""Ordinals begin in the lower half, so that two thousand million are left."""


def begin(step: Step, entropy: bytes, made_ns: int = 0, *, orderly: bool | None = None) -> None:
    """Begin a life at the start of the process: no number of it repeats one of another life.

    Args:
        entropy: ENTROPY_BYTES random bytes.
        made_ns: When the directory of the store was made; 0: unknown.
        orderly: Whether the store had been closed in order; None: unknown.
    """
    assert len(entropy) == ENTROPY_BYTES, "a life needs its entropy"
    state = step.state
    places = _places(state, int.from_bytes(entropy[:8], "little"))
    if state.lives.copied(made_ns):
        step.notice(
            "this directory was copied or moved", "life",
            cure="what waits may have been transmitted from the original, and counts so; never run "
            "both",
        )  # fmt: skip
    step.setup(
        LifeBegun(
            id=entropy[:16],
            stamp=max(step.now.wall_s, state.stamp + 1),
            ordinal=_ordinal(entropy[16:20]),
            message=_message(state, int.from_bytes(entropy[20:24], "little")),
            made_ns=made_ns,
            at_us=step.now.wall_us,
            orderly=orderly if _follows(state) else None,
        )
    )
    if places:
        step.setup(PlacesBegun(first=places))


def _follows(state: State) -> bool:
    """Return whether the end of this log is how a life of this manager has ended: a new store has
    had none, and the restore has closed one that was put back."""
    restored = state.restored
    return state.lives.id != bytes(16) and (restored is None or restored.told)


def _places(state: State, random: int) -> int:
    """Return where the positions of this life begin; 0: at the beginning, in the first life."""
    given = [lane.next for queue, _, lane in state.all_lanes() if isinstance(queue, Queue)]
    behind = max(state.first_place, *given, 1)
    if behind == 1 and state.lives.id == bytes(16):
        return 0
    # A life near the end continues in small steps.
    window = PLACES_AHEAD_MAX if behind < COUNTER_MASK >> 1 else PLACES_AHEAD_MIN
    first = behind + PLACES_AHEAD_MIN + random % window
    return -(-first // CHUNK) * CHUNK


def _ordinal(random: bytes) -> int:
    return (int.from_bytes(random, "little") & _HALF) + 1


def _message(state: State, random: int) -> int:
    """Return where message numbers begin: at random, but outside what the last life may have
    assigned, in records or unrecorded (express messages)."""
    first = random % MESSAGE_NUMBER_MAX + 1
    end = max(state.next_message, state.number_ceiling)
    if state.lives.message <= first < end:
        first = end if end <= MESSAGE_NUMBER_MAX else 1
    return first


def next_stream(step: Step, change: Change) -> int:
    """Return the identifier of a new stream, which a change begins (EOD-12, EOD-14)."""
    state = step.state
    ordinal = change.next_ordinal or state.next_ordinal
    # Stamps may run ahead of the clock for a while; the next start is above the last one anyway.
    if ordinal > ORDINAL_MAX:
        step.setup(StreamsGoOn(stamp=state.stamp + 1, ordinal=1, end=ordinal))
        ordinal = 1
    change.next_ordinal = ordinal + 1
    return state.stamp << 32 | ordinal


def gave(step: Step, stream: int) -> bool:
    """Return whether this manager has assigned a stream identifier, in this life or an ancestor."""
    state = step.state
    return state.lives.gave(stream, state.stamp, state.next_ordinal)


def rise_above(step: Step, stream: int) -> None:
    """Make streams that begin from now on newer than one that another life of ours has begun.

    Its ordinals start at random once more: that life, or a third one, may do the same.
    """
    state = step.state
    seed = state.lives.id + stream.to_bytes(8, "little") + state.next_ordinal.to_bytes(8, "little")
    stamp = max(step.now.wall_s, (stream >> 32) + 1, state.stamp + 1)
    ordinal = _ordinal(sha256(seed).digest()[:4])
    step.setup(StreamsGoOn(stamp=stamp, ordinal=ordinal, end=state.next_ordinal))
