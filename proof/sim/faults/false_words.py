"""What members that lie say on a session (``lying_members.py``), made of ``lies.py``.

Which streams a manager has they guess, and well: a liar who guesses badly changes nothing anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from onceq.core.state.queue_tables import title_of
from onceq.model.limits import KNOWN_AFTER_S
from onceq.model.resultcodes import MessageClass
from onceq.packet.acks import STALE
from proof.sim.base import marks
from proof.sim.base.node import Node
from proof.sim.faults import lies
from proof.sim.judge.books import ADMIN

BODY: Final = b"a lie, which nobody has sent"
FAR_AHEAD: Final = 1_000_000
LUCKY: Final = 0.7
"""Of the guesses at a number: how many are the last that was sent..."""
NUMBERS: Final = 20
"""... and the others are one of this many."""
ON_ITS_WAY_S: Final = 3_600
"""So long, at most, between what is said and what is heard."""
SAID: Final = 3
"""Lies on a session, at most."""
REASONS: Final = (
    MessageClass.ACK_RECEIVE, MessageClass.NACK_ACCESS_DENIED,
    MessageClass.NACK_BAD_DESTINATION_QUEUE, MessageClass.NACK_REACH_QUEUE_TIMEOUT,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Word:
    """One lie, and how it is counted."""

    mark: str
    packet: bytes


class FalseWords:
    """See the module."""

    def __init__(self, nodes: list[Node], rng: Random, *, spoken: bool) -> None:
        """Prepare.

        Args:
            spoken: Whether those without a right send messages, too: everybody with a certificate
                has a right elsewhere.
        """
        self.nodes, self.rng, self.spoken = nodes, rng, spoken

    def as_itself(
        self, node: Node, own: bytes, other: bytes, now_s: int, *, granted: bool
    ) -> list[Word]:
        """On a session under its own GUID.

        Args:
            own, other: Its GUID, and the one of another manager.
            granted: Whether it may send.
        """
        rng = self.rng
        to, here = self._queue(node), node.guid
        made: list[Callable[[], Word]] = [
            lambda: Word(marks.LIED_SOURCE, self._messages(other, to, now_s)),
        ]
        # A member that was first heard a day ago is believed when it says this.
        if now_s + ON_ITS_WAY_S < self._heard_s(node, own, now_s) + KNOWN_AFTER_S:
            made.append(
                lambda: Word(
                    marks.LIED_HEARSAY,
                    lies.doubled(own, here, rng.randbytes(16), now_s, sent_s=now_s),
                )
            )
        if self.spoken and not granted:
            made += [
                lambda: Word(marks.LIED_RIGHT, self._messages(own, to, now_s)),
                lambda: Word(marks.LIED_REPORT, self._report(own, node, now_s)),
            ]
        sent = self._sent(node)
        if sent:
            made += self._about(*rng.choice(sent), own, other, here, now_s)
        rng.shuffle(made)
        # What ends the session comes last.
        words = sorted((make() for make in made[:SAID]), key=lambda word: word.mark in _ENDING)
        return words

    def as_another(self, node: Node, claimed: bytes, now_s: int) -> list[Word]:
        """On a session under another one's GUID, which must not come about."""
        words = [Word(marks.LIED_SOURCE, self._messages(claimed, self._queue(node), now_s))]
        for stream, number in self._sent(node)[:SAID]:
            ack = lies.acknowledged(claimed, node.guid, stream, number, sent_s=now_s)
            words.append(Word(marks.LIED_ORDER, ack))
        return words

    def _about(
        self, stream: int, number: int, own: bytes, other: bytes, here: bytes, now_s: int
    ) -> list[Callable[[], Word]]:  # fmt: skip
        """About a stream that goes to others."""
        rng = self.rng
        reason = rng.choice(REASONS)

        def order(acker: bytes, mark: str, ahead: int = 0) -> Callable[[], Word]:
            return lambda: Word(
                mark, lies.acknowledged(acker, here, stream, number + ahead, sent_s=now_s)
            )

        return [
            order(own, marks.LIED_ORDER),
            order(own, marks.LIED_AHEAD, FAR_AHEAD),
            order(other, marks.LIED_ORDER_AS),
            lambda: Word(
                marks.LIED_END, lies.ended(own, here, stream, number, sent_s=now_s, reason=reason)
            ),
            lambda: Word(
                marks.LIED_SETTLED,
                rng.choice((lies.arrived, lies.settled))(own, here, stream, number, sent_s=now_s),
            ),
            lambda: Word(
                marks.LIED_SETTLED,
                lies.refused(own, here, stream, stream + 1, STALE, sent_s=now_s),
            ),
        ]

    def _heard_s(self, node: Node, own: bytes, now_s: int) -> int:
        """When a manager has first heard of a liar; now if it has not."""
        assert node.engine is not None
        return node.engine.manager.state.first_heard.get(own, now_s)

    def _messages(self, source: bytes, to: str, now_s: int) -> bytes:
        ordered = self.rng.random() < 0.7
        stream = now_s << 32 | self.rng.randrange(1, 5) if ordered else 0
        return lies.messages(source, to, [BODY], stream=stream, sent_s=now_s)

    def _report(self, source: bytes, node: Node, now_s: int) -> bytes:
        """An acknowledgment message to the administration queue of a manager."""
        reason = self.rng.choice(REASONS)
        return lies.messages(
            source, rf"OS:{node.name}\{ADMIN}", [BODY], sent_s=now_s, message_class=reason
        )

    def _sent(self, node: Node) -> list[tuple[int, int]]:
        """Streams of a manager, each with a number that it has given there: the last that was
        sent, one in doubt, or any."""
        if node.engine is None:
            return []
        state, rng = node.engine.manager.state, self.rng
        found = [(stream, number) for stream, number, *_ in state.doubts.dump()]
        for stream in sorted(state.streams):
            outgoing = state.streams[stream]
            last = outgoing.ever_sent - (outgoing.base_of(stream) or 0)
            lucky = last > 0 and rng.random() < LUCKY
            found.append((stream, last if lucky else rng.randint(1, NUMBERS)))
        rng.shuffle(found)
        return found

    def _queue(self, node: Node) -> str:
        return rf"OS:{node.name}\{some_queue(self.rng, node)}"


_ENDING: Final = {marks.LIED_SOURCE, marks.LIED_ORDER_AS}


def some_queue(rng: Random, node: Node) -> str:
    """A queue of a manager; one that is not there, if it has none."""
    assert node.engine is not None, "it was reached"
    queues = node.engine.manager.state.queues.values()
    names = sorted(title_of(q) for q in queues if not q.system)
    return rng.choice(names) if names else r"private$\none"
