"""The judge of the example: a queue manager's own core, which the same messages arrive at.

It is the core that every queue manager runs, without disk and network: it is given each arrival as
a packet, in the order in which the feed brought it to Spark, and tells its verdict, and what became
of the message.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from onceq.core import inputs
from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.core.state.queue_tables import DEAD_XACT
from onceq.core.step.connections import EarlyRuns, Key
from onceq.model import requests
from onceq.model.identity import guid_bytes
from onceq.model.marks import NEVER_S, SECOND_US
from onceq.model.message import Acknowledge, Journal, Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import Run
from onceq.model.settings import Settings
from onceq.packet.address import DIRECT, NOWHERE, Address
from onceq.packet.arrived import ArrivedRun, cut
from onceq.packet.decode import set_places
from onceq.packet.encode import encode_run, template
from tests.property.settle_core import World
from tests.unit.core.alone import IDENTITY, WALL_S

SESSION: Final = 1
HERE: Final = f"OS:{IDENTITY.name}"
TOLD: Final = "adm"


class _KeepsNothing(EarlyRuns):
    """A filter of Spark does not keep what comes too early, as a receiver without room for it."""

    def keep_run(self, key: Key, session: int, queue: int, run: ArrivedRun) -> bool:
        return False


class Reference(World):
    """The core as the queue manager of the destination, called as the tests of the core call it."""

    def __init__(self, computer: str, queues: Mapping[str, bool], source: str) -> None:
        """Args:
        computer: In whose name it decides.
        queues: Path names, and whether each is transactional.
        source: GUID of the queue manager that sends.
        """
        self._computer, self._queues, self._source = f"OS:{computer}", queues, guid_bytes(source)
        self._words: Counter[str] = Counter()
        self._last: dict[str, tuple[int, int]] = {}
        super().__init__(Settings())

    def __post_init__(self) -> None:
        self.manager = Manager(IDENTITY, self.settings)
        self.kept(self.manager.recover(self.now(), None, [], 0, entropy=bytes(ENTROPY_BYTES)))
        self.manager._step.sessions.early = _KeepsNothing()
        for name, ordered in {**self._queues, TOLD: False}.items():
            made = QueueProperties(name.split("\\")[-1], transactional=ordered)
            self.ask(requests.CreateQueue(properties=made, instance=made.name.encode().ljust(16)))
        self.step(inputs.SessionOpened(SESSION, self._source, "10.0.0.2", 0))

    def take(self, row: Mapping[str, Any]) -> str:
        """A message of the feed arrives, alone; what the filter of the core says of it."""
        arrives = int(row["arrivedTime"].timestamp() * SECOND_US)
        self.until(arrives - WALL_S * SECOND_US)
        for run in cut(*self._packet(row)):
            self.step(inputs.Arrived(SESSION, run))
        progress = self.manager.state.progress.values()
        now = Counter(
            {
                "duplicate": sum(entry.duplicates for entry in progress),
                "gap": sum(entry.gaps for entry in progress),
                "stale stream": sum(entry.stale for entry in progress),
            }
        )
        last = {entry.key: (entry.stream, entry.last) for entry in progress}
        changed = [word for word in now if now[word] != self._words[word]]
        if last != self._last:
            changed.append("accept")
        self._words, self._last = now, last
        assert len(changed) <= 1, "one message, one verdict"
        # Of a pair that nothing was accepted of, nothing is kept: only a gap leaves no trace.
        return changed[0] if changed else "gap"

    def _packet(self, row: Mapping[str, Any]) -> tuple[bytes, array[int]]:
        direct = row["queue"].removeprefix("DIRECT=").replace(self._computer, HERE)
        reach, receive = row["timeToReachQueue"], row["timeToBeReceived"]
        admin = Address(DIRECT, direct=rf"{HERE}\private$\{TOLD}") if row["adminQueue"] else NOWHERE
        made = template(
            source=self._source, destination=Address(DIRECT, direct=direct), admin=admin,
            properties=Properties(
                acknowledge=Acknowledge(row["acknowledge"] or 0),
                journal=Journal(row["journal"] or 0),
                time_to_reach_queue=NEVER_S if reach is None else reach,
                time_to_be_received=NEVER_S if receive is None else receive,
            ),
            sent_time=int(row["sentTime"].timestamp()), transactional=True,
        )  # fmt: skip
        message = int.from_bytes(row["messageId"][16:], "little")
        run = encode_run(made, Run.of([bytes(row["body"])]), first_message=message, stream=1,
                         first_number=1, first=True, last=True)  # fmt: skip
        packet = bytearray(run.data)
        set_places(packet, 0, 1, int(row["streamId"]), row["seqNumber"], row["prevNumber"])
        return bytes(packet), array("I", run.lengths)

    def ends(self) -> dict[str, Counter[tuple[Any, ...]]]:
        """What became of all of them, by the number of each message: where it lies, what was told
        to applications, and what to the queue manager that sent it."""
        self.pay()
        told, final = self.told()
        state = self.manager.state
        waiting = Counter(
            (name, number)
            for name in self._queues
            for number in self.in_queue(state.queues[name].number)
        )
        return {
            "waiting": waiting, "told": Counter(told), "final": Counter(final),
            "dead": Counter((number,) for number in self.in_queue(DEAD_XACT)),
        }  # fmt: skip
