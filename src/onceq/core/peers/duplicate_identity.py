"""Notice two queue managers with one identity, by comparing what both have sent.

A copied directory or machine image runs twice under one GUID, or a backup is restored while what
came after it is still under way. Nothing is lost by that, because no life of a manager assigns what
another has assigned (``core/peers/lives.py``); but order and acknowledgments hold for each of them
separately, and an operator has to end it. So it is reported: in the log, in ``status``, with the
streams concerned, and to the managers whose identity it is. Proofs are:

* two lives that open sessions are both at work: the one that began earlier has answered, on a
  session, what was sent to it after the later one was connected;
  session, what was said after the later one was there;
* a sequence number comes again with another message (``core/state/peer_table.py``);
* a manager acknowledges a stream in our name that no life in our records has begun.

Upholds: I25. Running tables; what continues after a restart is noticed again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from onceq.core.decision import Ready
from onceq.core.inputs import SessionOpened
from onceq.core.peers import lives as undone_restores
from onceq.core.peers.lives import rise_above
from onceq.core.peers.strangers import known
from onceq.core.peers.trust import HEARSAY, disbelieve, sent_elsewhere, serves
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Peer, Progress
from onceq.core.state.setups import MayHaveLeftElsewhere
from onceq.core.step.connections import Clash, Met
from onceq.core.step.step import Step
from onceq.model.identity import guid_text
from onceq.model.limits import CLASHES_MAX, LIVES_MET_MAX, LIVES_OF_ONE_MET_MAX, STREAM_AHEAD_S_MAX
from onceq.model.views.managers import ClashView
from onceq.packet.acks import FinalAck, OrderAck, TwoLives, two_lives
from onceq.packet.arrived import ArrivedRun

NUMBERS: Final = "a sequence number came again with another message"
LIVES: Final = "two processes with this identity are at work, or an old one was put back"
STREAM: Final = "streams were begun in its name that its store knows nothing of"
AHEAD: Final = "messages were acknowledged that only another copy of it has sent"
ANSWERED: Final = "another process with this identity answered where this one called"
MORE: Final = "more was sent in its streams than its store knows of"


def note(step: Step, guid: bytes, what: str, *, new: bool = True, **values: object) -> None:
    """Remember a clash, and report it to the operator.

    Args:
        step: The step.
        guid: The identity that two managers use.
        what: How it was found.
        new: Whether what waits here may have left elsewhere; False if the same other manager was
            found before: it does not have what came since.
        values: More for the notice.
    """
    clash = step.sessions.watch.clashes.get(guid)
    if clash is None:
        if len(step.sessions.watch.clashes) >= CLASHES_MAX:
            del step.sessions.watch.clashes[next(iter(step.sessions.watch.clashes))]
        clash = step.sessions.watch.clashes[guid] = Clash(step.now.wall_s)
    clash.what, clash.last_s = what, step.now.wall_s
    clash.count += 1
    step.notice(
        "identity-clash", guid.hex(), manager=guid_text(guid), name=step.name_of(guid),
        found=what, cure="end one of the two, or give the copy an identity of its own", **values,
    )  # fmt: skip
    if new and guid == step.identity.guid:
        _not_alone(step)


def _not_alone(step: Step) -> None:
    """Record that another manager may have a copy of what waits here, or of what is in doubt, and
    may have transmitted it: then neither this store's marks of what never left, nor a receiver's
    report on a stream of this manager, prove that it was not delivered."""
    for outgoing in step.state.outgoing.values():
        doubtful = step.state.doubts.unsettled(outgoing.number) > 0
        lanes = [
            [index, lane.next - 1]
            for index, lane in outgoing.lanes.items()
            if (len(lane) or doubtful) and lane.next - 1 > outgoing.elsewhere.get(index, 0)
        ]
        if lanes:
            step.setup(MayHaveLeftElsewhere(outgoing.number, lanes))


def twice(step: Step, progress: Progress, run: ArrivedRun) -> None:
    """Note messages that came under numbers accepted with other messages."""
    count = len(run.packets)
    progress.conflicts += count
    progress.rejects += count
    note(
        step, run.source, NUMBERS, queue=progress.key, stream=f"{run.stream:#018x}",
        number=run.first_number, message=run.first_message,
    )  # fmt: skip


def clash_views(step: Step) -> tuple[ClashView, ...]:
    """Return all clashes that were noticed since the start."""
    return tuple(
        ClashView(guid_text(guid), step.name_of(guid), c.what, c.since_s, c.last_s, c.count)
        for guid, c in step.sessions.watch.clashes.items()
    )


def found_of(step: Step, guid: bytes) -> str:
    """Return what was found of an identity that two managers use; "" if nothing was."""
    clash = step.sessions.watch.clashes.get(guid)
    return clash.what if clash is not None else ""


def answered_as_us(step: Step, item: SessionOpened) -> None:
    """Note a copy if our own identity answers. The peer may be this process, and any process may
    call in our name; but a peer that answers our call with another life is a copy."""
    if item.outgoing and item.life not in (b"", step.state.lives.id):
        note(step, step.identity.guid, ANSWERED, address=item.address)


# ---- lives that are announced when sessions open ----------------------------------------------


def met(step: Step, peer: Peer) -> None:
    """Compare the lives of a manager when it opens a session and announces its life.

    Session numbers rise as connections are made. So a life whose session began after one of a later
    life was at work together with it. The stamp does not say permanently which is later: each of
    two copies rises above the streams that it learns of from the other. So a life was also at work
    with another one if it had sessions before and after the first session of that one.
    """
    if not peer.life:
        return
    known = step.sessions.watch.met.get(peer.peer)
    firsts = dict(known.firsts) if known is not None else {}
    first = firsts.setdefault(peer.life, peer.session)
    both = any(first < other < peer.session for other in firsts.values())
    if known is None or peer.stamp > known.stamp:
        _later(step, peer, known)
    elif peer.life != known.life:
        peer.superseded = 0
        both = both or peer.stamp == known.stamp or peer.session > known.session
    last = tuple(firsts.items())[-LIVES_OF_ONE_MET_MAX:]
    copies = known.copies if known is not None else ()
    watch = step.sessions.watch
    watch.met[peer.peer] = replace(watch.met[peer.peer], firsts=last, copies=copies)
    if both:
        _both(step, peer)
    elif peer.life in copies:
        # It may have been away when two were found, or its session broke before the notice.
        _warn(step, peer, peer)


def _later(step: Step, peer: Peer, known: Met | None) -> None:
    met = step.sessions.watch.met
    if known is None and len(met) >= LIVES_MET_MAX:
        del met[next(iter(met))]
    met[peer.peer] = Met(peer.life, peer.stamp, peer.session)
    for number in step.sessions.of.get(peer.peer, ()):
        other = step.sessions.peers[number]
        if other.life and other.life != peer.life:
            # What it acknowledges beyond this count was sent after the later life was met.
            other.superseded = other.messages


def acknowledged_more(step: Step, peer: Peer, messages: int) -> None:
    """Check a session's count of acknowledged packets: a life that answers what was sent after a
    later one was met is still at work."""
    if 0 <= peer.superseded < messages:
        peer.superseded = -1
        _both(step, peer)


def _both(step: Step, peer: Peer) -> None:
    """Note that two lives are at work, and notify each connected life; the others are notified when
    they open a session."""
    note(step, peer.peer, LIVES, address=peer.address)
    watch = step.sessions.watch
    met = watch.met[peer.peer]
    watch.met[peer.peer] = replace(met, copies=tuple(life for life, _ in met.firsts))
    for number in sorted(step.sessions.of.get(peer.peer, ())):
        _warn(step, step.sessions.peers[number], peer)


def _warn(step: Step, one: Peer, heard: Peer) -> None:
    """Notify one life of another one: the latest that was met, the one that just spoke, or any that
    is connected."""
    met = step.sessions.watch.met[one.peer]
    connected = (step.sessions.peers[number] for number in step.sessions.of[one.peer])
    lives = (met.life, heard.life, *(other.life for other in connected), *met.copies)
    found = next((life for life in lives if life not in (b"", one.life)), b"")
    if found and one.life and one.extended:
        # Not among the notes: sent at each session, it would take the room of questions.
        one.warning = two_lives(
            TwoLives(found, met.stamp), own=step.identity.guid, own_message=step.passing_number(),
            sent_time=step.now.wall_s, destination_manager=one.peer,
        )  # fmt: skip
        step.act(Ready(one.session))


def note_other_life(step: Step, peer: Peer, said: TwoLives) -> None:
    """Handle a manager's notice that it has met another life with our identity.

    Only a manager that messages go to, or that is known otherwise, may send it: from any other one
    it would be a way to make this manager doubt itself. An answer to a stranger is not enough.
    """
    if said.life == step.state.lives.id:
        return
    if not known(step, peer.peer):
        disbelieve(step, peer, HEARSAY)
        return
    told_of = step.sessions.watch.told_of
    note(
        step, step.identity.guid, LIVES, new=said.life not in told_of,
        told_by=step.name_of(peer.peer), at=peer.address,
    )  # fmt: skip
    told_of[said.life] = None
    if len(told_of) > LIVES_OF_ONE_MET_MAX:
        del told_of[next(iter(told_of))]


# ---- streams that were not begun here ----------------------------------------------------------


def strange(step: Step, peer: Peer, source: bytes, ack: OrderAck) -> bool:
    """Return whether to believe an order acknowledgment of a stream that no life in our records has
    begun.

    Streams that begin from now on are newer; otherwise they would be stale where this one is. Only
    a manager for which messages wait may report it, and only for a near time: otherwise any peer
    could push our streams to the end of time.
    """
    if source != peer.peer or not _waits(step, peer):
        return False
    if undone_restores.is_of(step, ack.stream):
        undone_restores.note(step, source, undone_restores.SENT)
    else:
        note(
            step, step.identity.guid, STREAM, told_by=step.name_of(source), at=peer.address,
            stream=f"{ack.stream:#018x}",
        )  # fmt: skip
    rise(step, ack.stream)
    return True


def sent_more(step: Step, ack: OrderAck) -> None:
    """Notice a receiver that has more of a stream than was transmitted here."""
    outgoing = step.state.streams.get(ack.stream)
    if outgoing is None or ack.number <= 0:
        return
    counter = outgoing.reach(ack.number, step.state.stamp)
    if outgoing.head.stream != ack.stream or counter <= outgoing.ever_sent:
        return
    if undone_restores.is_of(step, ack.stream):
        undone_restores.note(step, ack.acker, undone_restores.SENT)
    else:
        found = MORE if outgoing.of_earlier_life(step.state.stamp) else AHEAD
        note(
            step, step.identity.guid, found, told_by=step.name_of(ack.acker),
            queue=str(outgoing.name), stream=f"{ack.stream:#018x}", number=ack.number,
        )  # fmt: skip


def ended_elsewhere(step: Step, peer: Peer, ack: FinalAck) -> None:
    """Notice a receiver that reports the end of a message that was never transmitted from here."""
    outgoing = step.state.streams.get(ack.stream)
    counter = sent_elsewhere(outgoing, ack) if outgoing is not None else 0
    if outgoing is None or not counter or not serves(step, peer, outgoing, ack.acker, counter):
        return
    if undone_restores.is_of(step, ack.stream):
        undone_restores.note(step, ack.acker, undone_restores.SENT)
    else:
        note(
            step, step.identity.guid, MORE if ack.stream >> 32 != step.state.stamp else AHEAD,
            told_by=step.name_of(ack.acker), queue=str(outgoing.name),
            stream=f"{ack.stream:#018x}", number=ack.number,
        )  # fmt: skip


def rise(step: Step, stream: int) -> None:
    """Make streams that begin from now on newer than another life's stream, if its time is near."""
    state = step.state
    near = stream >> 32 <= step.now.wall_s + STREAM_AHEAD_S_MAX
    if near and stream >= state.stamp << 32 | state.next_ordinal:
        rise_above(step, stream)


def _waits(step: Step, peer: Peer) -> bool:
    served = (step.state.all_queues.get(number) for number in peer.outgoing)
    return any(isinstance(o, OutgoingQueue) and o.unacknowledged for o in served)
