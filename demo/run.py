"""The course of the demo: commit, kill, deliver, land, verify."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onceq
from demo.children import Listener
from demo.flights import Departures
from demo.landing import POLL_S, Landing
from demo.managers import AUDIT, AUDIT_QUEUE, HUB, HUB_QUEUE, LATE_QUEUE, TARGETS, Daemon, Network
from demo.patience import Patience
from demo.proofs import Off, check_filter, prove
from demo.report import LINES, Findings
from demo.watch import Watch
from onceq.client.stopping import pause
from onceq.errors import ReceiveTimeout, ServiceNotAvailable

DOWN_S = 0.25
"""How long a killed queue manager stays away."""
RECEIVE_MESSAGES = 5_000


@dataclass
class Kill:
    """One kill to be done when so much has happened."""

    daemon: Daemon
    due: Callable[[], bool]


class Course:
    """One run over a network that has started."""

    def __init__(
        self, network: Network, departures: list[Departures], watch: Watch, *, seed: int
    ) -> None:
        self._network = network
        self._departures = departures
        self._watch = watch
        self._seed = seed
        self._total = sum(len(one.bodies) for one in departures)
        self._senders: dict[str, Listener] = {}
        self._connections: dict[str, onceq.QueueManager] = {}
        self._landing: Landing | None = None
        self._counts = {HUB: 0, AUDIT: 0}
        self._accepted: dict[str, dict[str, int]] = {name: {} for name in TARGETS}
        self._begun = 0.0
        self._down: dict[str, threading.Thread] = {}
        self._failure = ""
        self.found = Findings(flights=self._total)

    # ---- delivery -------------------------------------------------------------------------

    def start_spark(self) -> None:
        """Start the job that empties the hub's queue, and wait until it does."""
        self._landing = Landing(self._network, self._watch)
        self._landing.await_listening()

    def deliver(self) -> None:
        """Until everything is committed and has arrived, with kills on the way."""
        watch, network = self._watch, self._network
        self._begun = time.monotonic()
        for one in self._departures:
            lines = network.directory / f"{one.origin}.jsonl"
            lines.write_bytes(b"\n".join(one.bodies))
            directory = str(network.airports[one.origin].directory)
            child = network.spawn(
                ["-m", "demo.senders", one.origin, directory, str(lines), str(self._seed)],
                f"sender-{one.origin}",
                pipe=True,
            )
            self._senders[one.origin] = Listener(child)
        watch.say("three airports commit; every transaction goes to HUB and to AUDIT")
        kills = self._plan()
        patience = Patience("not everything has arrived")
        while not self._arrived() or kills or self._down:
            committed = {origin: self._committed(origin) for origin in self._senders}
            patience.look({**committed, **self._counts})
            over = self._arrived()
            for kill in list(kills):
                if (over or kill.due()) and kill.daemon.name not in self._down:
                    self._kill(kill.daemon)
                    kills.remove(kill)
            self._look()
            pause(POLL_S)
        self.found.deliver_s = time.monotonic() - self._begun
        self._look()
        self._note_delivery()

    def _plan(self) -> list[Kill]:
        """LGA dies while it commits, HUB while it receives; twice each."""
        lga, hub = self._network.airports["LGA"], self._network.hub
        mine = next(len(one.bodies) for one in self._departures if one.origin == "LGA")

        def sent(share: float) -> Callable[[], bool]:
            return lambda: self._committed("LGA") >= share * mine

        def held(share: float) -> Callable[[], bool]:
            return lambda: self._counts[HUB] >= share * self._total

        return [
            Kill(lga, sent(0.3)), Kill(hub, held(0.25)), Kill(lga, sent(0.7)), Kill(hub, held(0.6))
        ]  # fmt: skip

    def _kill(self, daemon: Daemon) -> None:
        """Kill a queue manager and start it again, while everything else goes on."""
        seconds = time.monotonic() - self._begun
        self.found.kills.append((seconds, daemon.name))
        held = f", after {self._counts[HUB]:,} messages" if daemon.name == HUB else ""
        self._watch.say(f"[red]kill -9 {daemon.name}[/red]{held}; it starts again")
        self._forget(daemon.name)
        self._down[daemon.name] = thread = threading.Thread(
            target=self._kill_and_start, args=(daemon,), daemon=True
        )
        thread.start()

    def _kill_and_start(self, daemon: Daemon) -> None:
        daemon.kill()
        pause(DOWN_S)
        try:
            daemon.start()
        except RuntimeError as error:
            self._failure = str(error)
        finally:
            del self._down[daemon.name]

    def _forget(self, name: str) -> None:
        manager = self._connections.pop(name, None)
        if manager is not None:
            manager.close()

    def _manager(self, daemon: Daemon) -> onceq.QueueManager:
        if daemon.name not in self._connections:
            self._connections[daemon.name] = daemon.connect()
        return self._connections[daemon.name]

    def _committed(self, origin: str) -> int:
        return int(self._senders[origin].last.get("committed", 0))

    def _arrived(self) -> bool:
        over = all(sender.last.get("over") for sender in self._senders.values())
        return over and all(count >= self._total for count in self._counts.values())

    def _look(self) -> None:
        """Counts now, for the screen and the picture."""
        if self._landing is not None:
            self._landing.look()
        for origin, sender in self._senders.items():
            if sender.failed():
                raise Off(f"the sender of {origin} has ended: {sender.child.complain()}")
        if self._failure:
            raise Off(self._failure)
        for daemon in self._network.daemons:
            if daemon.name in self._down or daemon.child is None:
                continue
            if daemon.child.process.poll() is not None:
                raise Off(f"{daemon.name} has ended: {daemon.child.complain()}")
        for daemon in self._network.airports.values():
            if daemon.name not in self._down:
                try:
                    self._note_arrivals(daemon)
                except ServiceNotAvailable:
                    self._forget(daemon.name)
        self._show()

    def _note_arrivals(self, airport: Daemon) -> None:
        """Count what HUB and AUDIT have accepted of an airport, as far as it has been told: what it
        has committed, without what waits there for an acknowledgment. (Spark empties the queue at
        HUB meanwhile, so that its length says nothing.)"""
        committed = self._committed(airport.name)  # Before the look: less rather than more.
        waiting = {
            queue.destination: queue.messages for queue in self._manager(airport).admin.outgoing()
        }
        for target, to in TARGETS.items():
            mine = self._accepted[target]
            accepted = committed - waiting.get(to, 0)
            mine[airport.name] = max(mine.get(airport.name, 0), accepted)
            self._counts[target] = sum(mine.values())

    def _show(self) -> None:
        """Counts on the screen, and in the picture until the last row is there."""
        committed = sum(self._committed(name) for name in self._senders)
        landed = self._landing.rows if self._landing is not None else 0
        counts = (committed, self._counts[HUB], self._counts[AUDIT], landed)
        faults = self._faults()
        lost, again = faults.get("dropped", 0), faults.get("resends", 0)
        again += faults.get("after_breaks", 0)
        self._watch.show(
            dict(zip(LINES, counts, strict=True)),
            self._total,
            f"{lost:,} lost, {again:,} resent",
        )
        timeline = self.found.timeline
        if not timeline or timeline[-1][-1] < self._total:
            timeline.append((time.monotonic() - self._begun, *counts))

    def _faults(self) -> dict[str, int]:
        """What all proxies have done."""
        sums: dict[str, int] = {}
        for counters in self._network.faults().values():
            for name, count in counters.items():
                sums[name] = sums.get(name, 0) + count
        return sums

    def _note_delivery(self) -> None:
        found = self.found
        for sender in self._senders.values():
            last = sender.last
            found.committed += last["committed"]
            found.transactions += last["transactions"]
            found.aborted += last["aborted"]
            found.in_doubt += last["in_doubt"]
            found.in_doubt_committed += last["in_doubt_committed"]
            found.largest = max(found.largest, last["largest"])
        found.at_hub = self._counts[HUB]
        found.at_audit = self._manager(self._network.audit).queue(AUDIT_QUEUE).messages
        self._watch.say(
            f"everything has arrived: {found.at_hub:,} at HUB, {found.at_audit:,} at AUDIT"
        )

    # ---- checking -------------------------------------------------------------------------

    def land(self, *, keep: bool) -> None:
        """Spark writes what is left and looks at all of it; the audit queue is compared here."""
        assert self._landing is not None
        begun = time.monotonic()
        self._check_audit(keep=keep)
        result = self._landing.finish(self._total, self._show)
        self.found.spark_s = time.monotonic() - begun
        self._check_parquet(result)
        check_filter(self.found, result["filtered"])
        self._check_late(result["late"])

    def _check_parquet(self, result: dict[str, Any]) -> None:
        found = self.found
        found.landed, found.batches = result["written"], result["batches"]
        found.duplicates += result["written"] - result["flights"]
        found.missing += self._total - result["flights"]
        found.out_of_order += result["out_of_order"]
        found.carriers, found.routes = result["carriers"], result["routes"]
        if result["unreadable"]:
            found.troubles.append(f"{result['unreadable']} messages are not flights")
        for one in self._departures:
            if one.bodies and result["digests"].get(one.origin) != one.digest:
                found.troubles.append(
                    f"the Parquet files do not hold the departures of {one.origin} as committed"
                )
        view = self._manager(self._network.hub).queue(HUB_QUEUE)
        found.left_in_queue = view.messages
        if view.messages:
            found.troubles.append(f"{view.messages} messages are still in the hub's queue")

    def _check_late(self, sent: dict[str, int]) -> None:
        """What Spark has sent back is at each airport, once."""
        found = self.found
        found.late = sum(sent.values())
        for origin, daemon in self._network.airports.items():
            wanted = sent.get(origin, 0)
            patience = Patience(f"{wanted} late flights are not all at {daemon.name}")
            while (there := self._manager(daemon).queue(LATE_QUEUE).messages) < wanted:
                patience.look(there)
                pause(POLL_S)
            found.at_airports += there
        if found.at_airports != found.late:
            found.troubles.append(
                f"{found.late} late flights were sent back, {found.at_airports} have arrived"
            )

    def _check_audit(self, *, keep: bool) -> None:
        """Every message of the audit queue: once, in each airport's order, byte for byte."""
        committed = {one.origin.encode(): one.bodies for one in self._departures}
        next_seq = dict.fromkeys(committed, 1)
        count = repeated = out_of_order = altered = 0
        for body in self._audit_bodies(keep=keep):
            count += 1
            origin, seq = body[11:14], _seq(body)
            if not 1 <= seq <= len(committed.get(origin, ())):
                self.found.troubles.append(f"a message at AUDIT is no flight: {body[:60]!r}")
                continue
            if seq < next_seq[origin]:
                repeated += 1
            elif seq > next_seq[origin]:
                out_of_order += 1
            if body != committed[origin][seq - 1]:
                altered += 1
                if altered == 1:
                    was = committed[origin][seq - 1]
                    self.found.troubles.append(f"AUDIT has {body!r} where {was!r} was committed")
            next_seq[origin] = max(next_seq[origin], seq + 1)
        self.found.duplicates += repeated
        self.found.out_of_order += out_of_order
        self.found.missing += max(self._total - count + repeated, 0)
        self.found.altered += altered
        self._watch.say(f"AUDIT: {count:,} messages compared")

    def _audit_bodies(self, *, keep: bool) -> Iterator[bytes]:
        """Received in transactions; only looked at if the managers go on."""
        manager = self._manager(self._network.audit)
        after = 0
        while True:
            try:
                if keep:
                    batch = manager.peek_many(AUDIT_QUEUE, RECEIVE_MESSAGES, after=after)
                    after = batch.lookup_ids[-1]
                else:
                    with manager.transaction() as transaction:
                        batch = transaction.receive_many(AUDIT_QUEUE, RECEIVE_MESSAGES, timeout=0)
            except ReceiveTimeout:
                return
            yield from batch.bodies()

    def conclude(self) -> Findings:
        """What there is to say in the end."""
        found = self.found
        faults = self._faults()
        found.after_breaks = faults.pop("after_breaks", 0)
        found.resends = faults.pop("resends", 0) + found.after_breaks
        faults.pop("messages", 0)
        found.faults = faults
        for daemon in self._network.daemons:
            status = self._manager(daemon).admin.status()
            found.dead_letters += status.dead_letters + status.transactional_dead_letters
            # Kills take nothing of who it is: neither the GUID nor what proves it.
            found.proven += status.tls and status.id == daemon.guid
        # Nothing moves any more, so this is exact, where the counts for the screen were not.
        there = self._manager(self._network.hub).queue(HUB_QUEUE).messages
        found.at_hub = there + found.landed
        wanted = (("committed", self._total), ("at_hub", self._total), ("at_audit", self._total),
                  ("landed", self._total), ("duplicates", 0), ("missing", 0),
                  ("out_of_order", 0), ("altered", 0), ("dead_letters", 0),
                  ("proven", len(self._network.daemons)))  # fmt: skip
        for name, value in wanted:
            if getattr(found, name) != value:
                found.troubles.append(
                    f"{name.replace('_', ' ')}: {getattr(found, name):,} instead of {value:,}"
                )
        for name in list(self._connections):
            self._forget(name)
        return found

    def prove(self, place: Path, *, keep: bool) -> None:
        """See ``proofs.prove``."""
        prove(self._network, self.found, self._watch, place, keep=keep)


_SEQ = re.compile(rb'"seq":(\d+),')


def _seq(body: bytes) -> int:
    """An airport's own count in a body; 0 if there is none."""
    match = _SEQ.search(body, 0, 40)
    return int(match.group(1)) if match else 0
