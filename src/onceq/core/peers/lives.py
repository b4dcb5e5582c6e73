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

Also here:

* Keep the end of another queue manager's trail, as a witness.
* Managers that know what a restore has undone here.

Upholds: I7 (unique numbers, also over copies and backups), I18 (as do lookup identifiers), I25, I28
(who did something is known), I24 (a bounded table).
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from onceq.core.inputs import SessionOpened
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Progress
from onceq.core.state.position_block import AVAILABLE, CHUNK
from onceq.core.state.queues import COUNTER_MASK, Queue
from onceq.core.state.records import Change
from onceq.core.state.setups import HeadTold, LifeBegun, PlacesBegun, StreamsGoOn, UndoneKnown
from onceq.core.state.state import State
from onceq.core.step.step import Step
from onceq.core.step.units import KEY_BYTES
from onceq.model.identification import Proof
from onceq.model.identity import guid_text
from onceq.model.limits import MESSAGE_NUMBER_MAX, PLACES_AHEAD_MAX, PLACES_AHEAD_MIN, UNDONE_MAX
from onceq.model.views.managers import UndoneView
from onceq.model.views.queues import PutBackView
from onceq.packet.arrived import ArrivedRun

# ---- lives ---------------------------------------------------------------------------------------


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


# ---- trail heads ---------------------------------------------------------------------------------


def keep_head(step: Step, item: SessionOpened) -> None:
    """Keep the end of a peer's trail, if it has changed.

    Where this manager has an identity, a peer that does not prove its own is no witness.
    """
    proven = item.who.proof is Proof.CERTIFICATE or not step.doors.identity
    if item.digest and proven and item.peer != step.identity.guid:
        heads = step.state.heads
        if not heads.knows(item.peer, item.acts, item.digest):
            told = HeadTold(item.peer, item.acts, item.digest, step.now.wall_s)
            step.setup(told, forced=False)


# ---- undone restores -----------------------------------------------------------------------------


SENT: Final = "it has messages that this manager sent after the backup and does not know any more"
CAME: Final = "it sent messages that arrived here after the backup and are gone"


def views(step: Step) -> tuple[UndoneView, ...]:
    """Return all managers that have shown it.

    A restored manager does not know what it has forgotten. Others show it: an order acknowledgment
    for more than was ever sent here, or for a stream of the life that is undone; a message whose
    predecessors were acknowledged to its sender in that life. It is noted once for each of them and
    kept, so that the operator sees which managers it concerns.
    """
    return tuple(
        UndoneView(guid_text(guid), step.name_of(guid), what, since)
        for (guid, what), since in step.state.undone.items()
    )


def of_outgoing(step: Step, outgoing: OutgoingQueue) -> PutBackView | None:
    """Return the view for an outgoing queue: None if no restore concerns what waits there or is in
    doubt, and its receiver has nothing that is unknown here."""
    restored = step.state.restored
    if restored is None:
        return None
    lane = outgoing.ordered_lane
    waiting = sum(
        count
        for s in outgoing.stretches()
        if s.stream and s.stream >> 32 <= restored.at_s
        for _, count in lane.ranges(AVAILABLE, s.base + 1, end=s.end + 1)
    )
    receivers = {guid for guid, theirs in step.names.by_guid.items() if outgoing in theirs}
    peer = step.sessions.peers.get(outgoing.session)
    if peer is not None:
        receivers.add(peer.peer)
    known = tuple(what for guid, what in step.state.undone if guid in receivers and what == SENT)
    if not (
        waiting or known or outgoing.stranded_s or step.state.doubts.unsettled(outgoing.number)
    ):
        return None
    return PutBackView(restored.at_s, restored.taken_s, waiting, known)


def of_queue(step: Step, queue: Queue) -> PutBackView | None:
    """Return the view for a queue: None if it holds nothing from the moment to which this manager
    was put back, and no manager is known to have sent what is gone."""
    restored = step.state.restored
    if restored is None:
        return None
    waiting = 0
    for lane in queue.lanes.values():
        for first, count in lane.ranges(AVAILABLE, lane.head):
            arrived = lane.arrived(first, count)
            waiting += sum(second <= restored.taken_s for second in arrived)
            if arrived[-1] > restored.taken_s:
                break  # those behind came even later
    known = tuple(dict.fromkeys(what for _, what in step.state.undone if what == CAME))
    if not waiting and not known:
        return None
    return PutBackView(restored.at_s, restored.taken_s, waiting, known)


def is_of(step: Step, stream: int) -> bool:
    """Return whether a stream that was not begun here may be of the life that the restore has
    undone: it began before the restore."""
    restored = step.state.restored
    return restored is not None and stream >> 32 <= restored.at_s


def note(step: Step, guid: bytes, what: str) -> None:
    """Record that a manager has shown that it knows more than this one."""
    undone = step.state.undone
    if step.state.restored is None or (guid, what) in undone or len(undone) >= UNDONE_MAX:
        return
    step.setup(UndoneKnown(manager=guid, knows=what, at_s=step.now.wall_s))
    step.notice("a manager knows of what a restore has undone", guid.hex() + what,
                manager=guid_text(guid), name=step.name_of(guid), knows=what)  # fmt: skip


def check_first_run(step: Step, run: ArrivedRun, progress: Progress | None, skip: int) -> None:
    """Check an accepted run: the first one of a stream since the restore shows what came before."""
    if progress is None or not progress.vague or step.state.restored is None:
        return
    number = run.first_number + skip
    same = run.stream == progress.stream
    if number > (progress.last if same else 0) + 1 and (same or is_of(step, run.stream)):
        note(step, run.source, CAME)
