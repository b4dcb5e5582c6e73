"""Histories of any size, for audits to be measured by: written at once, and not by managers.

Senders commit messages to the queues of a hub, in transactions. The hub accepts and receives them,
acknowledges those of one queue by messages, and puts some into a queue of its own, from which they
are received as well. Some are transmitted twice, and of these some arrive twice. The files are as
managers write them: columns, metadata, names, checksums of pages; so an audit says PROVEN of them.

With ``--corrupt N`` that many messages are wrong, each in one way, and ``planted.json`` in the
folder says which: an audit must name these and no others.

    python -m proof make-histories FOLDER --events 20000000 --managers 2 --corrupt 8
    onceq audit FOLDER

In memory are one round of messages and, for each manager, the rows of one file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from onceq.core.state.queues import TRANSACTIONAL_LANE, lookup_id
from onceq.history.events import SUMMED
from onceq.model.resultcodes import MessageClass, class_name
from proof.bench.history_files import BEGUN_US, FILE_ROWS, RECORD_ROWS, Ints, Manager, Value

STRIP: Final = 500
"""Messages of one sender to one queue in a round; fewer where there are few events."""
ROUNDS_MIN: Final = 4
ROUND_US: Final = 1_000_000
QUEUES: Final = ("orders", "prices", "audit")
"""Of the hub. The senders ask for acknowledgments of what goes to the first."""
FIRST_PLACE: Final = 16
"""Number of the first queue of a manager; the hub's own one follows its queues."""
OWN_PLACE: Final = FIRST_PLACE + len(QUEUES)
LOOKUP: Final = lookup_id(0, 0)
LOOKUP_OUTGOING: Final = lookup_id(TRANSACTIONAL_LANE, 0) - (1 << 64)
EVENTS_EACH: Final = 23 / 3
"""Events of a message: six on its way, three of an acknowledgment of every third, two of a message
at the hub of every third."""


@dataclass(frozen=True)
class Plant:
    """A way in which a message can be wrong.

    Attributes:
        gone, again: Events of it that are not told, and one that is told twice.
        changed: A column of its acceptance with a value that is too large by one.
        accuses: What is added to its number: a number that is missing is seen at the next.
    """

    invariant: str
    fault: str
    gone: tuple[str, ...] = ()
    again: str = ""
    changed: str = ""
    accuses: int = 0


PLANTS: Final = (
    Plant("I4", "accepted-twice", again="accepted"),
    Plant("I10", "released-unaccepted", gone=("accepted", "received", "told")),
    Plant("I4", "received-twice", again="received"),
    Plant("I3", "body-altered", changed="bodyCrc"),
    Plant("I3", "altered", changed="bytes"),
    Plant("I3", "torn", changed="transaction"),
    Plant("I10", "released-twice", again="acknowledged"),
    Plant("I6", "number-missing", accuses=1, gone=(
        "committed", "transmitted", "acknowledged", "confirmed", "accepted", "duplicate",
        "received", "told",
    )),
)  # fmt: skip


@dataclass(frozen=True)
class Planted:
    """A message that is wrong, as an audit names it."""

    invariant: str
    fault: str
    source: str
    stream: int
    number: int


@dataclass(frozen=True)
class Wish:
    """What is to be made.

    Attributes:
        events: About how many rows.
        managers: The hub among them.
        file_rows: Rows of a file.
        lost: Share of the messages that are transmitted twice.
        corrupt: Messages that are wrong.
    """

    events: int
    managers: int = 2
    file_rows: int = FILE_ROWS
    lost: float = 0.001
    corrupt: int = 0
    seed: int = 0


@dataclass
class Batch:
    """Messages of one sender to one queue, in order.

    Attributes:
        queue: Number in ``QUEUES``.
        first: Number of the first in the stream.
        counter: Of each in its queue at the hub.
        plants: What is wrong with some, by place in the batch.
    """

    sender: Manager
    queue: int
    first: int
    counter: Ints
    packet: dict[str, Value]
    at_us: int
    plants: dict[int, Plant] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the queue at the hub."""
        return f"private$\\{QUEUES[self.queue]}"

    @property
    def stream(self) -> int:
        """Identifier of the stream."""
        return stream_of(self.sender.at * len(QUEUES) + self.queue)

    def rows(self, what: str) -> Ints:
        """Of which messages this is told, as their places in the batch."""
        found = np.arange(len(self.counter))
        for at, plant in self.plants.items():
            if what in plant.gone:
                found = found[found != at]
            if what == plant.again:
                found = np.append(found, at)
        return found


def stream_of(lane: int) -> int:
    """Identifier of a stream; those of one sender follow each other."""
    return (0x6553_0000_0000 + lane // len(QUEUES)) << 16 | lane % len(QUEUES)


def packets(manager: Manager, count: int, at_us: int) -> dict[str, Value]:
    """What rows say of new messages of a manager."""
    message = manager.message + np.arange(count)
    transaction = manager.transaction + np.arange(count) // RECORD_ROWS
    manager.message += count
    manager.transaction = int(transaction[-1]) + 1
    mixed = (message + (manager.at << 32)).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    crc = (mixed >> np.uint64(32)).astype(np.int64)
    return {
        "observed": False, "source": manager.guid, "message": message, "transaction": transaction,
        "transactional": True, "bytes": 180 + crc % 16 * 4, "sentTime": at_us // 10**6 * 10**6,
        "bodyCrc": crc,
    }  # fmt: skip


def taken(values: dict[str, Value], what: str, rows: Ints | None = None) -> dict[str, Value]:
    """The same of some messages, for one event."""
    some = values if what in SUMMED else {**values, "bodyCrc": None}
    if rows is None:
        return some
    return {
        name: value[rows] if isinstance(value, np.ndarray) else value
        for name, value in some.items()
    }


class World:
    """All managers; round after round messages go their way.

    Raises:
        ValueError: There are too few events for that number of wrong messages.
    """

    def __init__(self, folder: Path, wish: Wish) -> None:
        names = [*(f"S{at}" for at in range(1, wish.managers)), "HUB"]
        self.managers = [
            Manager(
                name, at, folder / name, wish.file_rows,
                np.random.default_rng((wish.seed, at)),
            )
            for at, name in enumerate(names)
        ]  # fmt: skip
        *self.senders, self.hub = self.managers
        self.lost = wish.lost
        self.random = np.random.default_rng((wish.seed, len(names)))
        lanes = len(self.senders) * len(QUEUES)
        each = max(int(wish.events / EVENTS_EACH / lanes), ROUNDS_MIN)
        self.rounds = max(-(-each // STRIP), ROUNDS_MIN)
        self.strip = -(-each // self.rounds)
        self.planted: list[Planted] = []
        self.plants = [self._plants(lane, lanes, wish.corrupt) for lane in range(lanes)]

    def _plants(self, lane: int, lanes: int, count: int) -> dict[int, Plant]:
        """By number in a lane, far from each other and from both ends."""
        each = self.rounds * self.strip
        if count * 8 > each:
            raise ValueError(f"{count} corruptions are too many for {each} messages in a stream")
        chosen = {}
        for at in range(lane, count, lanes):
            plant, number = PLANTS[at % len(PLANTS)], (2 * at + 1) * each // (2 * count)
            chosen[number] = plant
            named = (self.senders[lane // len(QUEUES)].guid, stream_of(lane))
            self.planted.append(
                Planted(plant.invariant, plant.fault, *named, number + plant.accuses)
            )
        return chosen

    def run(self) -> None:
        """Everything, to the end of what is under way."""
        for manager in self.managers:
            manager.folder.mkdir(parents=True)
        before: list[Batch] = []
        for at in range(self.rounds):
            now_us = BEGUN_US + at * ROUND_US
            batches = [
                self._committed(sender, queue, at, now_us)
                for sender in self.senders for queue in range(len(QUEUES))
            ]  # fmt: skip
            for batch in batches:
                self._delivered(batch)
            self._received(before, now_us)
            before = batches
            for manager in self.managers:
                manager.file(last=False)
        self._received(before, BEGUN_US + self.rounds * ROUND_US)
        for manager in self.managers:
            manager.file(last=True)

    # ---- what happens --------------------------------------------------------------------------

    def _committed(self, sender: Manager, queue: int, at: int, now_us: int) -> Batch:
        first = at * self.strip + 1
        places = self.hub.places(FIRST_PLACE + queue, self.strip)
        batch = Batch(sender, queue, first, places, packets(sender, self.strip, now_us), now_us)
        batch.plants = {
            number - first: plant
            for number, plant in self.plants[sender.at * len(QUEUES) + queue].items()
            if first <= number < first + self.strip
        }
        self._at_sender(batch, "committed", now_us, deadLetter=True, journal=False)
        return batch

    def _delivered(self, batch: Batch) -> None:
        """Transmitted, accepted and acknowledged; some of it twice."""
        at_us = batch.at_us
        lost = batch.rows("transmitted")
        lost = lost[self.random.random(len(lost)) < self.lost]
        self._observe(
            batch.sender, batch, "transmitted", batch.rows("transmitted"), at_us + 100_000
        )
        self._observe(batch.sender, batch, "transmitted", lost, at_us + 300_000)
        self._at_hub(batch, "accepted", at_us + 350_000)
        self._observe(self.hub, batch, "duplicate", lost[::2], at_us + 360_000)
        if batch.queue == 0:
            self._report(batch, MessageClass.ACK_REACH_QUEUE, at_us + 350_000)
        self._at_sender(batch, "acknowledged", at_us + 400_000)

    def _received(self, batches: Sequence[Batch], now_us: int) -> None:
        """What the hub does with them, and what their senders learn of it."""
        for batch in batches:
            self._at_hub(batch, "received", now_us + 500_000)
            self._at_sender(batch, "confirmed", now_us + 600_000)
        for batch in batches[:: len(QUEUES)]:
            count = len(batch.counter)
            own = packets(self.hub, count, now_us + 600_000)
            at: dict[str, Value] = {
                "kind": "queue", "queue": "private$\\done", "place": OWN_PLACE,
                "lookupId": LOOKUP + self.hub.places(OWN_PLACE, count),
            }  # fmt: skip
            self.hub.add(count, now_us + 600_000, event="committed", deadLetter=False,
                         journal=False, **at, **own)  # fmt: skip
            self.hub.add(count, now_us + 700_000, event="received", **at, **own)

    def _report(self, batch: Batch, kind: MessageClass, at_us: int) -> None:
        """Acknowledgment messages of the hub, and their sender takes them out of its queue."""
        hub, sender, rows = self.hub, batch.sender, batch.rows("told")
        said: dict[str, Value] = {"class": int(kind), "className": class_name(kind)}
        way = OWN_PLACE + 1 + sender.at
        message = batch.packet["message"]
        assert isinstance(message, np.ndarray)
        hub.add(len(rows), at_us, event="told", kind="outgoing", observed=False, place=way,
                queue=f"DIRECT=OS:{sender.name}\\private$\\acks", source=sender.guid,
                lookupId=LOOKUP + hub.places(way, len(rows)), message=message[rows],
                transactional=False, **said)  # fmt: skip
        own = packets(hub, len(rows), at_us) | {"transactional": False, "transaction": None}
        places = LOOKUP + sender.places(OWN_PLACE, len(rows))
        for what in ("accepted", "received"):
            sender.add(len(rows), at_us + 1_000, event=what, kind="queue",
                       queue="private$\\acks", place=OWN_PLACE, lookupId=places, **said,
                       **own)  # fmt: skip

    # ---- what its histories tell ---------------------------------------------------------------

    def _named(self, batch: Batch) -> str:
        return f"DIRECT=OS:{self.hub.name}\\{batch.name}"

    def _at_sender(self, batch: Batch, what: str, time_us: int, **more: Value) -> None:
        rows = batch.rows(what)
        number = batch.first + rows
        batch.sender.add(
            len(rows), time_us, rows if what == "committed" else None,
            event=what, kind="outgoing", queue=self._named(batch),
            place=FIRST_PLACE + batch.queue, lookupId=LOOKUP_OUTGOING + number,
            stream=batch.stream, number=number, **more, **taken(batch.packet, what, rows),
        )  # fmt: skip

    def _at_hub(self, batch: Batch, what: str, time_us: int) -> None:
        rows = batch.rows(what)
        packet = taken(batch.packet, what, rows)
        for at, plant in batch.plants.items():
            if plant.changed and what == "accepted":
                right = packet[plant.changed]
                assert isinstance(right, np.ndarray)
                packet[plant.changed] = right + (rows == at)
        self.hub.add(
            len(rows), time_us, event=what, kind="queue", queue=batch.name,
            place=FIRST_PLACE + batch.queue, lookupId=LOOKUP + batch.counter[rows],
            stream=batch.stream, number=batch.first + rows, **packet,
        )  # fmt: skip

    def _observe(
        self, teller: Manager, batch: Batch, what: str, rows: Ints, time_us: int
    ) -> None:  # fmt: skip
        """Add rows of an event that is observed, and in no record."""
        teller.add(
            len(rows), time_us, event=what, observed=True, source=batch.sender.guid,
            queue=self._named(batch) if what == "transmitted" else None, stream=batch.stream,
            number=batch.first + rows, transactional=True,
        )  # fmt: skip


def make(folder: Path, wish: Wish) -> list[Planted]:
    """Write histories of all managers into folders of their names.

    Returns:
        What was planted; ``planted.json`` has it as well.
    """
    world = World(folder, wish)
    world.run()
    said = [asdict(one) for one in world.planted]
    (folder / "planted.json").write_text(json.dumps(said, indent=1))
    return world.planted


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="a new folder")
    parser.add_argument("--events", type=int, default=1_000_000, help="about how many rows")
    parser.add_argument("--managers", type=int, default=2, help="with the hub")
    parser.add_argument("--file-rows", type=int, default=FILE_ROWS)
    parser.add_argument("--lost", type=float, default=0.001, help="share transmitted twice")
    parser.add_argument("--corrupt", type=int, default=0, help="messages that are wrong")
    parser.add_argument("--seed", type=int, default=0)
    given = vars(parser.parse_args(arguments))
    folder = given.pop("folder")
    try:
        planted = make(folder, Wish(**given))
    except (ValueError, OSError) as error:
        parser.error(str(error))
    for one in planted:
        print(f"{one.invariant} {one.fault}: number {one.number} of stream {one.stream}")
    return 0
