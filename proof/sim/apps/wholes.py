"""Whole transactions in simulated worlds: received all or none, wherever their messages stand.

Some worlds have an application at each manager that surveys queues as a client does, claims what is
there entirely, fetches it, and commits or gives it back. Meanwhile others receive, reject and move
single messages, delays end, poison policies try again, operators pause, jobs send on.
``judge/whole_sets.py`` says what is demanded. Some of its programs send with the kind left open:
they ask what a name leads to, and send in the kind that it takes.

Worlds whose managers are put back or copied have none: what waits there may go on in other streams.
"""

from __future__ import annotations

import os
from typing import Final

from onceq.errors import OnceqError
from onceq.model.message import Properties
from onceq.model.requests import (
    Abort,
    Access,
    Begin,
    Claim,
    CloseQueue,
    Fetch,
    OpenQueue,
    PickBy,
    Receive,
    Send,
    SendItem,
)
from onceq.model.results import Opened
from onceq.model.run import Run
from onceq.packet.arrived import Batch
from onceq.packet.survey import Members, Survey
from proof.sim.apps.apps import App, Ask, Lost, Program
from proof.sim.apps.work import Talk, Work
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.packets import UID_BYTES, body_of
from proof.sim.judge.books import Place, Unit
from proof.sim.judge.holds import Moment
from proof.sim.judge.whole_sets import WholeSets

EVERYWHERE: Final = "ONCEQ_SIM_WHOLES"
"""Environment variable, for the processes of a batch: every world has them."""
SHARE = 1.0 if os.environ.get(EVERYWHERE) else 0.05
"""Of all worlds; 1 with ``make sim ARGS=--wholes``."""
FROM: Final = 0.4085
"""Where the draw of these worlds begins, between 0 and 1: so that no seed that was kept before
there were any (``tests/simulation/seeds.txt``) is among them."""
PROGRAMS_MIN: Final = 12
"""Of such programs in a world, or as many as half of its transactions."""
AT_ONCE: Final = 40
"""Messages that are looked at in one request."""
OPEN: Final = 0.2
"""Of programs: they send with the kind left open."""


def everywhere() -> None:
    """Let every world of this process, and of those that it starts, have whole receives."""
    global SHARE
    SHARE = 1.0
    os.environ[EVERYWHERE] = "1"


class Wholes:
    """Programs of such applications."""

    def __init__(self, kernel: Kernel, work: Work, *, fit: bool) -> None:
        """Draw whether a world has them.

        Args:
            fit: Whether it may: no manager is put back or copied.
        """
        self.kernel, self.work = kernel, work
        self.active = fit and (kernel.fresh("whole receives").random() - FROM) % 1 < SHARE
        self.rng = kernel.fresh("receiving wholes")
        self.left = max(kernel.options.transactions // 2, PROGRAMS_MIN)
        self.sets = WholeSets(kernel, work.books)

    def next(self, app: App) -> Program | None:
        """The next thing that such an application does; None: nothing more to do now."""
        if self.left <= 0 or not self.kernel.faulty:
            return None
        self.left -= 1
        if self.rng.random() < OPEN:
            return self.send_open(app)
        places = self._places(app.node)
        return self.receive(app, self.rng.choice(places)) if places else None

    def _places(self, node: Node) -> list[Place]:
        return [
            p for p in self.work.books.places.values()
            if p.node == node.index and p.created_us >= 0 > p.deleted_us and p.transactional
        ]  # fmt: skip

    def in_the_end(self, app: App) -> Program:
        """Faults are over, and nothing is received any more: look at all queues once more."""
        for place in self._places(app.node):
            yield from self._survey(place)

    # ---- receiving ----------------------------------------------------------------------------

    def receive(self, app: App, place: Place) -> Program:
        """Receive what is there entirely, some of it; commit it, or give it back."""
        unit, number = self.work.ledger.unit(app.node.index), app.number()
        try:
            whole = yield from self._survey(place)
            yield Ask(Begin(number))
            for members in self.rng.sample(whole, min(len(whole), self.rng.choice([1, 1, 2]))):
                yield from self._take(app, place, unit, number, members)
            if self.rng.random() < max(self.kernel.options.aborts, 0.3):
                yield Ask(Abort(number))
                self.work.ledger.aborted(unit)
                return
            yield from self.work.commit(app, unit, number, [])
        except Lost:
            yield from self.work.lost(app, unit)

    def _survey(self, place: Place) -> Talk:
        """What is there entirely: looked for by the records of messages, after a look at these."""
        uids: dict[int, int] = {}
        after = 0
        while True:
            answer = yield Ask(Receive(place.name, count_max=AT_ONCE, peek=True, after=after))
            if not self.work.take(place, answer, None, peek=True):
                break
            for packet, lookup in zip(answer.run, answer.lookup_ids, strict=True):
                uids[lookup] = int.from_bytes(body_of(packet)[1][:UID_BYTES], "little")
            after = answer.lookup_ids[-1]
        survey, whole, there = Survey(), list[Members](), dict[int, int]()
        while True:
            request = Receive(
                place.name, count_max=AT_ONCE, peek=True, after=survey.after, pick=PickBy.HEADS
            )
            answer = yield Ask(request)
            if not isinstance(answer, Batch):
                break
            there |= {one: uids[one] for one in answer.lookup_ids if one in uids}
            whole += survey.add(answer)
        self.sets.check(place, there, [members.lookups for members in whole])
        return whole

    def _take(self, app: App, place: Place, unit: Unit, number: int, members: Members) -> Talk:
        """Claim all of them, then fetch and enter them."""
        asked: list[tuple[Moment, int]] = []
        ranges = members.ranges()

        def note_claim() -> None:
            claimed_s = app.node.clock.wall_us() // 1_000_000
            asked.append((self.work.holds.moment(app.node), claimed_s))

        try:
            answer = yield Ask(Claim(place.name, number, ranges), note_claim)
            if isinstance(answer, OnceqError):
                self.work.pauses.received(place, app.node, asked[0][0].world_us, answer)
                self.kernel.marks[marks.WHOLE_GONE] += 1
                return
            yield from self._fetch(app, place, unit, number, members, *asked[0])
        except Lost as lost:
            place.slack += lost.asked or bool(asked)
            raise

    def _fetch(
        self, app: App, place: Place, unit: Unit, number: int, members: Members, asked: Moment,
        claimed_s: int,
    ) -> Talk:  # fmt: skip
        work, wanted = self.work, set(members.lookups)
        uids: dict[int, int] = {}
        at, last = min(wanted), max(wanted)
        while at <= last:
            answer = yield Ask(Fetch(place.name, number, at, last))
            if not isinstance(answer, Batch):
                if place.deleted_us < 0:
                    self.kernel.wrong(f"I16: what was claimed cannot be fetched: {answer!r}")
                return
            for packet, lookup, aborts, arrived in zip(
                answer.run, answer.lookup_ids, answer.abort_counts, answer.arrived_times,
                strict=True,
            ):  # fmt: skip
                if lookup in wanted:
                    work.ledger.handed(
                        place, packet, lookup, aborts, unit=unit, peek=False, arrived=arrived,
                        claimed_s=claimed_s,
                    )  # fmt: skip
                    uids[lookup] = unit.takes[-1][2]
            at = answer.lookup_ids[-1] + 1
        work.holds.received(place, app.node, asked)
        if set(uids) != wanted:
            self.kernel.wrong(f"I16: of {sorted(wanted)} that were claimed {sorted(uids)} came")
        self.sets.given(place, [uids[lookup] for lookup in members.lookups])

    # ---- sending ------------------------------------------------------------------------------

    def send_open(self, app: App) -> Program:
        """Ask of which kind a destination is, and send so (finding K1)."""
        work, rng = self.work, self.rng
        places = [p for p in work.books.places.values() if p.created_us >= 0 > p.deleted_us]
        if not places:
            return
        place = rng.choice(places)
        name = rng.choice(place.spellings)
        unit = work.ledger.unit(app.node.index)
        try:
            answer = yield Ask(OpenQueue(name, Access.SEND))
            if not isinstance(answer, Opened):
                return
            kind = answer.transactional
            yield Ask(CloseQueue(answer.handle))
            here = place.node == app.node.index
            if place.deleted_us < 0 and kind is not (place.transactional if here else None):
                self.kernel.wrong(f"I2: {place}, named {name}, is of the kind {kind}")
            self.kernel.marks[marks.KIND_OPEN] += kind is False
            if kind is not False:
                yield from work.say(app, unit, place, name)
                return
            yield from self._send_plain(app, place, name)
        except Lost:
            yield from work.lost(app, unit)

    def _send_plain(self, app: App, place: Place, name: str) -> Talk:
        """Send one message outside a transaction."""
        work = self.work
        message = work.ledger.message(app.node.index, None, [(place, name)], Properties(), 4)
        item = SendItem(name, Properties(), Run.of([message.body]))
        try:
            sent = yield Ask(Send(0, (item,)))
        except Lost as lost:
            if not lost.asked:
                work.ledger.refuse(OnceqError("it was lost before it was sent"), [message])
            raise
        if isinstance(sent, OnceqError):
            work.sends.refused(sent, [message])
        else:
            message.done = True
