"""What a receiver answers to the question what became of messages (CNF-22).

It first notes durably what will never come, as if the next message had come; then it reports what
came. What was never accepted in a stream that the receiver has left continues in at most one other
stream of the sender: the first that claims it, by announcing itself together with the question
(``core/transfer/stranded.py``). To any other sender the answer is *not known* from then on.

Upholds: I4, I6, I11 (an answer stays true), I24 (bounded tables).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from onceq.core.names.packet_names import arrival_key
from onceq.core.peers.refusals import note
from onceq.core.peers.trust import refused_as_future
from onceq.core.state.peer_table import Peer
from onceq.core.state.records import Advance, Change
from onceq.core.state.setups import StreamClaimed
from onceq.core.step.step import Step
from onceq.core.transfer.admission import stream_room
from onceq.model.limits import INQUIRY_STREAMS_MAX
from onceq.packet.address import ON_DESTINATION, Address
from onceq.packet.settle import Inquiry, Memory, settlement

NO_QUEUE: Final = Address(ON_DESTINATION, number=0)

NOBODY_KNOWS: Final = 0xFFFF_FFFF
"""As the number from which on something is remembered."""


def answer(step: Step, peer: Peer, asked: Inquiry) -> None:
    """Note what will never come, then report what came.

    An older manager names any public queue by the number 0, which is no queue's: it gets no answer.
    """
    if asked.destination == NO_QUEUE:
        return
    key, _ = arrival_key(step, asked.destination)
    for stream, live_from in sorted(asked.streams):
        # 0 only asks, and says nothing of what is gone (``core/transfer/stranded.py``).
        if live_from:
            _note_gone(step, peer, key, stream, live_from)
    fence = _fence(step, peer, key, asked)
    told: list[Memory] = []
    for stream, live_from in sorted(asked.streams):
        memory = _memory(step, peer, key, stream, asked=not live_from)
        if memory is not None:
            told.append(_claimed(step, peer, key, memory, 0 if live_from else fence))
    progress = step.state.progress.get((peer.peer, key))
    room = len(told) < INQUIRY_STREAMS_MAX
    if progress is not None and room and all(m.stream != progress.stream for m in told):
        told.append(step.state.memories.current(progress))
    if told:
        note(step, peer, settlement(
            told, own=step.identity.guid, own_message=step.passing_number(),
            sent_time=step.now.wall_s, destination_manager=peer.peer,
        ))  # fmt: skip


def _note_gone(step: Step, peer: Peer, key: str, stream: int, live_from: int) -> None:
    """Note that nothing before a number, and nothing of an older stream, will be sent any more."""
    state = step.state
    progress = state.progress.get((peer.peer, key))
    if progress is None and not stream_room(step, peer.peer):
        return
    here, last = (progress.stream, progress.last) if progress is not None else (0, 0)
    if stream > here and refused_as_future(step, peer, peer.peer, stream):
        return
    if stream > here or (stream == here and live_from - 1 > last):
        change = Change(step.now.wall_s)
        # The last number is smaller than the first: nothing is accepted, and everything between
        # the last accepted number and this one is recorded as passed over.
        change.advances.append(Advance(peer.peer, key, stream, live_from - 1, live_from))
        step.record(change)


def _fence(step: Step, peer: Peer, key: str, asked: Inquiry) -> int:
    """Return the stream that claims what the others in the question have not accepted; 0: none."""
    progress = step.state.progress.get((peer.peer, key))
    if progress is None or all(live_from for _, live_from in asked.streams):
        return 0
    return progress.stream if (progress.stream, 1) in asked.streams else 0


def _memory(step: Step, peer: Peer, key: str, stream: int, *, asked: bool) -> Memory | None:
    """Return what is known of a stream; a question that names it always gets an answer."""
    state = step.state
    found = state.memory_of(peer.peer, key, stream)
    progress = state.progress.get((peer.peer, key))
    if found is not None or not asked or progress is None or stream > progress.stream:
        return found
    if stream > state.memories.forgotten.get((peer.peer, key), 0) and not progress.vague:
        return Memory(stream, 1, 0, closed=True)  # it was never begun
    return Memory(stream, NOBODY_KNOWS, 0, closed=True)


def _claimed(step: Step, peer: Peer, key: str, memory: Memory, fence: int) -> Memory:
    """Return what may be said of a stream: what was not accepted is reported only to the stream in
    which it continues, the first that asks for it."""
    if not memory.closed:
        return memory
    by = step.state.memories.claimed(peer.peer, key, memory.stream)
    if not by and fence and memory.since != NOBODY_KNOWS:
        by = fence
        step.setup(StreamClaimed(source=peer.peer, key=key, stream=memory.stream, by=fence))
    return replace(memory, closed=False) if by and by != fence else memory
