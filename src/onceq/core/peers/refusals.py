"""Tell senders why their messages are turned away, and show an operator what receivers tell us.

A receiver does not acknowledge messages of a stream that it has left, of one from the future, or of
one for which it has no room; their sender would only see that nothing is acknowledged. Between two
onceq managers the receiver sends the reason (``packet/settle.py``), at most once in TOLD_EVERY_US
for each queue and session; the sender shows it (``outgoing why``) until something is acknowledged.

Upholds: I24 (a bounded number of such packets).
"""

from __future__ import annotations

from onceq.core.decision import Ready
from onceq.core.peers.trust import serves
from onceq.core.state.peer_table import Peer
from onceq.core.step.step import Step
from onceq.model.limits import NOTES_MAX
from onceq.packet.arrived import ArrivedRun
from onceq.packet.settle import FUTURE, NO_ROOM, STALE, TurnedAway, turned_away

TOLD_EVERY_US = 5_000_000
WORDS = {
    STALE: "it is in a newer stream and takes these for old repetitions",
    FUTURE: "this stream begins in its future: a clock is wrong by days, or was when this manager "
    "started; 'onceq peer accept' over there takes what is honest",
    NO_ROOM: "it has no room for what strangers leave behind",
}


def note(step: Step, peer: Peer, packet: bytes) -> bool:
    """Send a packet that is never stored on a session, if not too many wait there already; return
    whether there was room."""
    if len(peer.notes) >= NOTES_MAX:
        return False
    peer.notes.append(packet)
    step.act(Ready(peer.session))
    return True


def turn_away(step: Step, peer: Peer, run: ArrivedRun, reason: int, *, here: int) -> None:
    """Send the reason to the sender of a run that is turned away."""
    key = (run.source, run.stream)
    if not peer.extended or run.source != peer.peer or step.now.mono_us < peer.turned.get(key, 0):
        return
    # Forgetting all of them costs at most one more packet for each.
    if len(peer.turned) >= NOTES_MAX:
        peer.turned.clear()
    peer.turned[key] = step.now.mono_us + TOLD_EVERY_US
    said = TurnedAway(run.stream, here, reason)
    note(step, peer, turned_away(
        said, own=step.identity.guid, own_message=step.passing_number(),
        sent_time=step.now.wall_s, destination_manager=peer.peer,
    ))  # fmt: skip


def turned_away_by(step: Step, peer: Peer, said: TurnedAway) -> None:
    """Record that the receiver of a stream turns its messages away."""
    outgoing = step.state.streams.get(said.stream)
    if outgoing is None or not outgoing.unacknowledged or outgoing.head.stream != said.stream:
        return
    if not serves(step, peer, outgoing, peer.peer):
        return
    words = WORDS.get(said.reason, f"reason {said.reason}")
    if outgoing.turned_away is None:
        step.notice("our messages are turned away by their receiver", str(outgoing.name),
                    queue=str(outgoing.name), why=words, stream=f"{said.stream:#018x}",
                    there=f"{said.there:#018x}")  # fmt: skip
    outgoing.turned_away = (words, said.there, step.now.wall_s)
