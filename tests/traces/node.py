"""One queue manager of a trace: its core, its records, and the names of what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceq.core import inputs
from onceq.core.decision import Decision, Handed
from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.core.state.position_block import AVAILABLE, AWAITING, LOCKED, PURGING
from onceq.core.state.queue_tables import title_of
from onceq.core.state.queues import lookup_id
from onceq.model.identity import Identity
from onceq.model.log import frame_size
from onceq.model.marks import Now
from onceq.model.resultcodes import class_name
from onceq.model.run import Buffer, Run
from onceq.model.settings import Settings
from onceq.service.answers import delivered
from tests.traces.names import Names
from tests.unit.core.alone import WALL_S, Core

STATES = {AVAILABLE: "", LOCKED: "held by a transaction", PURGING: "held and purged",
          AWAITING: "acknowledged, awaits its end"}  # fmt: skip


class Node(Core):
    """See the module.

    Attributes:
        sessions: Number of each session, and the name of the manager at its other end.
        wanted: Outgoing queues that ask for a session, by the computer that they ask for.
        alive: Whether its process runs.
    """

    def __init__(self, name: str, names: Names, settings: Settings, identity: Identity) -> None:
        self.name, self.names, self.identity = name, names, identity
        self.routes: dict[bytes, str] = {}
        self.sessions: dict[int, str] = {}
        self.received: dict[int, int] = {}
        self.durable: dict[int, int] = {}
        self.wanted: dict[str, int] = {}
        self.urls: dict[int, str] = {}
        self.known: dict[tuple[int, int, int], str] = {}
        self.titles: dict[int, str] = {}
        self.ends: list[int] = []
        self.forced = 0
        self.lives = 0
        self.made_ns = 1
        self.alive = False
        super().__init__(settings=settings)

    def __post_init__(self) -> None:
        """Recovering is a command of its own."""

    def now(self) -> Now:
        """Time of the wall and of the machine."""
        return Now(WALL_S * 1_000_000 + self.now_us, self.now_us)

    def start(self, entropy: bytes = b"") -> Decision:
        """Recover from the records; entropy is the number of the life, if none is given."""
        self.lives += 1
        self.alive = True
        self.manager = Manager(self.identity, self.settings, routes=self.routes)
        end = self.ends[-1] if self.ends else 0
        made = entropy or self.lives.to_bytes(16, "little") + bytes(ENTROPY_BYTES - 16)
        decision = self.manager.recover(
            self.now(), None, list(self.records), end, entropy=made, made_ns=self.made_ns
        )
        self.keep(decision)
        return decision

    def decide(self, item: inputs.Input) -> Decision:
        """One step."""
        decision = self.manager.step(self.now(), item)
        self.keep(decision)
        return decision

    def keep(self, decision: Decision) -> None:
        """Records are durable before anything else is done."""
        self.kept(decision)
        for record in decision.records:
            size = frame_size(len(record.payload), record.head)
            self.ends.append(record.position + size)
        if any(record.forced for record in decision.records):
            self.forced = len(self.records)

    def lose_unforced(self) -> int:
        """The power is gone: what was not forced yet is lost; how many records."""
        lost = len(self.records) - self.forced
        del self.records[self.forced :]
        del self.ends[self.forced :]
        return lost

    # ---- names of what it holds -----------------------------------------------------------

    def look(self) -> None:
        """Learn which message stands where."""
        for number, queue in self.manager.state.all_queues.items():
            self.titles[number] = title_of(queue)
            for index, lane in queue.lanes.items():
                for state in STATES:
                    for first, count in lane.ranges(state, 0):
                        for counter in range(first, first + count):
                            packet = self.bytes_of(lane.extents(counter, 1))
                            self.known[number, index, counter] = self.names.named(packet)

    def title(self, number: int) -> str:
        """What a queue is called, also one that is gone."""
        queue = self.manager.state.all_queues.get(number)
        if queue is not None:
            self.titles[number] = title_of(queue)
        return self.titles.get(number, f"queue {number}")

    def called(self, queue: int, lane: int, first: int, count: int) -> str:
        """The names of a range of messages."""
        places = ((queue, lane, counter) for counter in range(first, first + count))
        return ", ".join(self.known.get(place, "?") for place in places)

    def peer(self, session: int) -> str:
        """Who is at the other end of a session."""
        return self.sessions.get(session, "?")

    def handed(self, answer: Handed) -> Iterator[str]:
        """Messages that are handed out, in words."""
        found = delivered(answer, self.bytes_of_pieces)
        for index, packet in enumerate(found.run):
            text = self.names.packet(packet, place=False)
            if found.abort_counts[index]:
                text += f" (aborted {found.abort_counts[index]} times)"
            yield text

    def bytes_of_pieces(self, pieces: Any) -> Buffer:
        """Bytes from the log or from the core."""
        return b"".join(p if isinstance(p, bytes) else self.bytes_of([p]) for p in pieces)

    def lookup(self, name: str, title: str) -> int:
        """Lookup identifier of a message in a queue."""
        for (queue, lane, counter), known in reversed(self.known.items()):
            if known == name and self.names.short(self.title(queue)) == title:
                return lookup_id(lane, counter)
        raise LookupError(f"{name} was never in {title}")

    def contents(self) -> Iterator[tuple[str, list[str]]]:
        """Each queue that is of an application, or has messages, and what stands in it."""
        for number, queue in self.manager.state.all_queues.items():
            found = []
            for index in sorted(queue.lanes, reverse=True):
                lane = queue.lanes[index]
                places = sorted((at, state) for state in STATES
                                for first, count in lane.ranges(state, 0)
                                for at in range(first, first + count))  # fmt: skip
                for at, state in places:
                    text = self.known[number, index, at]
                    kind = lane.classes.get(at, 0)
                    notes = [n for n in (class_name(kind) if kind else "", STATES[state]) if n]
                    found.append(text + (f" ({', '.join(notes)})" if notes else ""))
            if found or not getattr(queue, "system", False):
                yield self.title(number), found

    def owed(self) -> inputs.Compose | None:
        """Acknowledgments that are to be made, with the messages that they are about."""
        found = self.manager.owed(1 << 20)
        if found is None:
            return None
        packets = Run(self.bytes_of(found.extents), found.lengths)
        return inputs.Compose(found.lane, found.counters, packets)
