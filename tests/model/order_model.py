"""Every interleaving of a few messages: an exhaustive model of order-and-once (programme P3).

It is independent of the product's code: one sender A, one receiver B, and a network that is a set
from which nothing ever disappears. That alone gives loss (a packet never delivered), repetition,
reordering and delay of any length. The search is breadth first, so that the story of a violation
is a shortest one.

Watches: I1 (loss), I4 (duplicate), I5 (disorder), I6 (hole), I7 (number reused), I8 (head not
linked to 0), I10 (by loss), I11 (accepted and dead-lettered; in doubt without need), I26 (stuck).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

Entry = tuple[int, int, int]
"""Message, stream, number. Messages are numbered in the order of their commits."""
Packet = tuple[int, int, int, int]
"""Message, stream, number, previous number."""
Place = tuple[int, int]
"""Stream and number: an order acknowledgment, or how far a receiver is."""


@dataclass(frozen=True)
class Rules:
    """The protocol; every False turned to True is a mistake that somebody could make."""

    any_other_stream: bool = False
    """A stream that is merely different counts as newer."""
    ack_by_number: bool = False
    """An order acknowledgment releases by number, whatever its stream."""
    claim_not_delivered: bool = False
    """Expiry says "not delivered" also of what was transmitted."""
    numbers_volatile: bool = False
    """A crash of A forgets which numbers were given."""
    sent_forgotten: bool = False
    """A crash of A forgets what was transmitted, and takes it for never transmitted."""
    ack_before_record: bool = False
    """B acknowledges before its record is durable."""
    message_first: bool = False
    """B stores the message in one record, its progress in a second."""
    progress_first: bool = False
    """B stores its progress in one record, the message in a second."""
    progress_lost: bool = False
    """A crash of B loses its progress."""
    no_relink: bool = False
    """The previous number is never computed anew."""
    progress_on_gap: bool = False
    """A rejected message advances the progress nevertheless."""


class State(NamedTuple):
    """Everything that anybody knows."""

    committed: int = 0
    queue: tuple[Entry, ...] = ()
    """A: unacknowledged, in order."""
    lazy: tuple[Entry, ...] = ()
    """A: released since its last forced record; a crash may bring them back."""
    transmitted: frozenset[int] = frozenset()
    """A: what it knows (or must assume) to have left."""
    last: Place = (0, 0)
    """A: stream and number given last."""
    net: frozenset[Packet] = frozenset()
    acks: frozenset[Place] = frozenset()
    here: Place = (0, 0)
    """B: progress."""
    accepted: tuple[int, ...] = ()
    here_durable: Place = (0, 0)
    accepted_durable: tuple[int, ...] = ()
    ended: tuple[tuple[int, str], ...] = ()
    """A: messages ended, with the claim."""
    expiries: int = 0
    crashes_a: int = 0
    crashes_b: int = 0


@dataclass(frozen=True)
class Found:
    """The result of a search: how many states, and the first violation with its story."""

    states: int
    violation: str = ""
    story: tuple[str, ...] = ()


class Model:
    """The steps that are possible in a state, under given rules."""

    def __init__(self, messages: int, rules: Rules = Rules()) -> None:
        self.messages = messages
        self.rules = rules
        self.lagging = rules.ack_before_record or rules.message_first or rules.progress_first

    def steps(self, s: State) -> Iterator[tuple[str, State]]:
        """Every next state, with a line for the story."""
        yield from self._sender(s)
        yield from self._receiver(s)
        yield from self._crashes(s)

    # ---- A ------------------------------------------------------------------------------

    def _sender(self, s: State) -> Iterator[tuple[str, State]]:
        if s.committed < self.messages:
            yield self._commit(s)
        for index, (message, stream, number) in enumerate(s.queue):
            packet = (message, stream, number, self._previous(s, index))
            if packet not in s.net or message not in s.transmitted:
                yield (
                    f"A transmits m{message} as {stream}.{number} previous {packet[3]}",
                    s._replace(net=s.net | {packet}, transmitted=s.transmitted | {message}),
                )
        for ack in s.acks:
            yield from self._acknowledged(s, ack)
        if s.expiries:
            for entry in s.queue:
                yield self._expire(s, entry)

    def _commit(self, s: State) -> tuple[str, State]:
        message = s.committed + 1
        stream, number = s.last
        stream, number = (stream, number + 1) if s.queue else (stream + 1, 1)
        return (
            f"A commits m{message} as {stream}.{number}",
            s._replace(
                committed=message,
                queue=(*s.queue, (message, stream, number)),
                last=(stream, number),
                lazy=(),
            ),
        )

    def _previous(self, s: State, index: int) -> int:
        if self.rules.no_relink:
            return s.queue[index][2] - 1
        return s.queue[index - 1][2] if index else 0

    def _acknowledged(self, s: State, ack: Place) -> Iterator[tuple[str, State]]:
        stream, number = ack
        gone = tuple(
            e for e in s.queue
            if e[2] <= number and (e[1] == stream or self.rules.ack_by_number)
        )  # fmt: skip
        if gone:
            rest = tuple(e for e in s.queue if e not in gone)
            yield (
                f"A hears the order acknowledgment {stream}.{number}",
                s._replace(queue=rest, lazy=s.lazy + gone),
            )

    def _expire(self, s: State, entry: Entry) -> tuple[str, State]:
        message = entry[0]
        certain = message not in s.transmitted or self.rules.claim_not_delivered
        claim = "not delivered" if certain else "in doubt"
        return (
            f"A lets m{message} expire: {claim}",
            s._replace(
                queue=tuple(e for e in s.queue if e != entry),
                ended=(*s.ended, (message, claim)),
                expiries=s.expiries - 1,
                lazy=(),
            ),
        )

    # ---- B ------------------------------------------------------------------------------

    def accepts(self, here: Place, packet: Packet) -> bool:
        """The receiver filter."""
        _, stream, number, previous = packet
        if stream == here[0]:
            return number > here[1] and previous <= here[1]
        newer = stream > here[0] or self.rules.any_other_stream
        return newer and previous == 0

    def _receiver(self, s: State) -> Iterator[tuple[str, State]]:
        for packet in s.net:
            message, stream, number, previous = packet
            if self.accepts(s.here, packet):
                told = f"B accepts m{message} ({stream}.{number} previous {previous})"
                yield told, self._accept(s, packet)
            elif self.rules.progress_on_gap and stream == s.here[0] and number > s.here[1]:
                there = (stream, number)
                yield (
                    f"B rejects m{message} as a gap",
                    s._replace(here=there, here_durable=there),
                )
        durable = s.here if self.rules.ack_before_record else s.here_durable
        if durable[1] and durable not in s.acks:
            yield (
                f"B acknowledges {durable[0]}.{durable[1]}",
                s._replace(acks=s.acks | {durable}),
            )
        if self.lagging and (s.here_durable, s.accepted_durable) != (s.here, s.accepted):
            yield (
                "B's records are durable",
                s._replace(here_durable=s.here, accepted_durable=s.accepted),
            )

    def _accept(self, s: State, packet: Packet) -> State:
        here = (packet[1], packet[2])
        accepted = (*s.accepted, packet[0])
        rules = self.rules
        return s._replace(
            here=here,
            accepted=accepted,
            here_durable=(
                s.here_durable if rules.message_first or rules.ack_before_record else here
            ),
            accepted_durable=(
                s.accepted_durable if rules.progress_first or rules.ack_before_record else accepted
            ),
        )

    # ---- crashes ------------------------------------------------------------------------

    def _crashes(self, s: State) -> Iterator[tuple[str, State]]:
        if s.crashes_a:
            for kept in range(len(s.lazy) + 1):
                # Of what was written lazily, any first part may have reached the disk.
                queue = tuple(sorted(s.lazy[kept:] + s.queue))
                yield (
                    f"A crashes; {len(s.lazy) - kept} releases are forgotten",
                    self._restarted(s, queue)._replace(crashes_a=s.crashes_a - 1, lazy=()),
                )
        if s.crashes_b:
            here = (0, 0) if self.rules.progress_lost else s.here_durable
            yield (
                "B crashes",
                s._replace(
                    here=here,
                    here_durable=here,
                    accepted=s.accepted_durable,
                    crashes_b=s.crashes_b - 1,
                ),
            )

    def _restarted(self, s: State, queue: tuple[Entry, ...]) -> State:
        """A cannot know what left before the crash, so it assumes that everything did."""
        last = s.last
        if self.rules.numbers_volatile:
            stream = last[0]
            queue = tuple((e[0], stream, at) for at, e in enumerate(queue, 1))
            last = (stream, len(queue))
        sent = frozenset() if self.rules.sent_forgotten else frozenset(e[0] for e in queue)
        return s._replace(queue=queue, last=last, transmitted=sent)

    # ---- what must hold -----------------------------------------------------------------

    def violation(self, s: State) -> str:
        """What is wrong with a state; "" if nothing is."""
        accepted = s.accepted
        if len(set(accepted)) != len(accepted):
            return "duplicate"
        if any(a > b for a, b in pairwise(accepted)):
            return "disorder"
        claims = dict(s.ended)
        for message, claim in claims.items():
            if claim == "not delivered" and message in accepted:
                return "accepted and dead-lettered"
        standing = {e[0] for e in s.queue}
        for message in range(1, s.committed + 1):
            if message not in standing and message not in claims and message not in accepted:
                return "loss"
        if accepted:
            for message in range(1, max(accepted)):
                if message not in accepted and message not in claims:
                    return "hole"
        numbers: dict[Place, int] = {}
        for message, stream, number, _ in s.net:
            if numbers.setdefault((stream, number), message) != message:
                return "number reused"
        return "" if self._drains(s) else "stuck"

    def _drains(self, s: State) -> bool:
        """Whether everything gets through once nothing goes wrong any more (I26)."""
        if not s.queue or self.lagging:
            return True
        here = s.here
        for index, entry in enumerate(s.queue):
            packet = (*entry, self._previous(s, index))
            if index == 0 and packet[3] != 0:
                return False
            if self.accepts(here, packet):
                here = (packet[1], packet[2])
        return here == s.queue[-1][1:] or here > s.queue[-1][1:]


def search(
    messages: int, *, expiries: int = 0, crashes_a: int = 0, crashes_b: int = 0,
    rules: Rules = Rules(), states_max: int = 5_000_000,
) -> Found:  # fmt: skip
    """Explore every state that can be reached; stop at the first violation."""
    model = Model(messages, rules)
    first = State(expiries=expiries, crashes_a=crashes_a, crashes_b=crashes_b)
    before: dict[State, tuple[State, str] | None] = {first: None}
    todo = deque([first])
    while todo:
        state = todo.popleft()
        for told, following in model.steps(state):
            if following in before:
                continue
            before[following] = (state, told)
            wrong = model.violation(following)
            if wrong:
                return Found(len(before), wrong, _story(before, following))
            if len(before) > states_max:
                raise RuntimeError(f"more than {states_max} states")
            todo.append(following)
    return Found(len(before))


def _story(before: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    lines: list[str] = []
    while (came := before[state]) is not None:
        state, told = came
        lines.append(told)
    return tuple(reversed(lines))
