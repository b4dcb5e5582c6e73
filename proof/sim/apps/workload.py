"""What simulated applications do: units of work over several queues, receives, peeks, plain sends.

Which program comes next is chosen here, and the common ones stand here; what they are made of is in
``work.py`` and ``sends.py``.
"""

from __future__ import annotations

from onceq.errors import OnceqError, SharingViolation, TransactionOver
from onceq.model.requests import (
    Abort,
    AskOutcome,
    Begin,
    Commit,
    MoveMessage,
    Receive,
    Reject,
    Send,
)
from onceq.model.results import Outcome
from proof.sim.apps import idle_transactions
from proof.sim.apps.apps import App, Ask, Lost, Program
from proof.sim.apps.branches import Branching
from proof.sim.apps.grouping import Grouping
from proof.sim.apps.work import Talk, Work
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.options import HOUR
from proof.sim.judge.books import Status, Unit


class Workload:
    """Chooses programs and makes what they send."""

    def __init__(self, kernel: Kernel, work: Work, *, apart: bool) -> None:
        """Nothing is done yet.

        Args:
            apart: Managers are put back or copied: nothing shares its outcome with a group.
        """
        self.kernel, self.work = kernel, work
        self.ledger, self.sends = work.ledger, work.sends
        self.left = kernel.options.transactions
        self.rng = kernel.stream("workload")
        self.branches = Branching(kernel, work)
        self.groups = Grouping(kernel, work, apart=apart)

    def next(self, app: App) -> Program | None:
        """The next program of an application; None: nothing more to do now."""
        if self.left <= 0 or not self.kernel.faulty:
            return None
        self.left -= 1
        draw = self.rng.random()
        plain = self.kernel.options.plain
        if draw < plain * 0.7:
            return self.plain_send(app)
        if draw < plain:
            return self.plain_receive(app)
        if draw < plain + 0.05:
            return self.late_commit(app)
        if draw < plain + 0.12:
            return self.ask_again(app)
        if draw < plain + 0.2:
            return self.peek(app)
        if self.branches.wanted():
            return self.branches.branch(app)
        if self.groups.wanted():
            return self.groups.group(app)
        if idle_transactions.wanted(self.kernel):
            return idle_transactions.leave_idle(self.kernel, self.work, app)
        return self.transaction(app)

    # ---- units of work ------------------------------------------------------------------

    def transaction(self, app: App) -> Program:
        """Receive something, or not; send something, or not; then commit or abort."""
        unit = self.ledger.unit(app.node.index)
        receives = self.rng.choice([0, 0, 0, 1, 1, 2])
        sends = self.rng.choice([1, 1, 2, 3, 5]) if self.rng.random() < 0.85 or not receives else 0
        number = app.number()
        number = number if receives or self.rng.random() < 0.5 else 0
        try:
            yield from self._work(app, unit, number, receives=receives, sends=sends)
        except Lost:
            yield from self.work.lost(app, unit)

    def _work(self, app: App, unit: Unit, number: int, *, receives: int, sends: int) -> Talk:
        rng, node = self.rng, app.node.index
        if number:
            yield Ask(Begin(number))
            for _ in range(receives):
                yield from self.work.receive(app.node, unit, number)
            if unit.takes:
                yield from self._reject(unit, number)
                yield from self._move(unit, number)
            for _ in range(sends if rng.random() < 0.5 else 0):
                sends -= 1
                yield from self.work.send(app.node, unit, number)
            if rng.random() < self.kernel.options.aborts:
                yield Ask(Abort(number))
                self.ledger.aborted(unit)
                return
        items = [self.sends.item(node, unit) for _ in range(sends)]
        yield from self.work.commit(app, unit, number, items)

    def _reject(self, unit: Unit, number: int) -> Talk:
        """Refuse some of what was received; it counts with the commit (RCV-15)."""
        rng = self.kernel.stream("rejects")
        for place, lookup, _ in unit.takes:
            if not place.home.transactional or rng.random() >= self.kernel.options.rejects:
                continue
            answer = yield Ask(Reject(place.name, number, (lookup,)))
            if isinstance(answer, OnceqError):
                if place.home.deleted_us >= 0:
                    return  # with all that was held of it
                self.kernel.wrong(f"a message that was received cannot be rejected: {answer!r}")
            unit.rejects.add((place.key, lookup))

    def _move(self, unit: Unit, number: int) -> Talk:
        """Move some of what was received aside, or back; it counts with the commit (Q-34)."""
        rng = self.kernel.stream("moves")
        for place, lookup, uid in unit.takes:
            parts = [part for part in (place.home, *place.home.parts) if part is not place]
            kept = (place.key, lookup) not in unit.rejects and not place.home.poison
            if (
                not (kept and place.home.transactional)
                or not parts
                or rng.random() >= self.kernel.options.moves
            ):
                continue
            target = rng.choice(parts)
            copy = self.work.books.messages[uid].copies[place.home.key]
            copy.moved = True
            answer = yield Ask(MoveMessage(place.name, target.name, lookup, number))
            if isinstance(answer, OnceqError):
                if place.home.deleted_us >= 0:
                    return
                if isinstance(answer, SharingViolation):
                    continue  # A reader has opened the queue for itself since.
                self.kernel.wrong(f"a message that was received cannot be moved: {answer!r}")
            unit.moves[place.key, lookup] = target

    def ask_again(self, app: App) -> Program:
        """What became of a commit does not change (I3a)."""
        known = self.work.known.get(app.node.index, [])
        fresh = [u for at, u in known if self.kernel.now - at < 20 * HOUR and not u.undone]
        if not fresh:
            return
        unit = self.rng.choice(fresh)
        key = unit.id
        assert key is not None
        try:
            answer = yield Ask(AskOutcome(key))
        except Lost:
            return
        self.ledger.told_again(unit, answer, self.work.newest[key.session] - key.number)

    def late_commit(self, app: App) -> Program:
        """A commit that comes after its outcome was told must not happen any more."""
        unit = self.ledger.unit(app.node.index)
        unit.id = key = self.work.identifier(app)
        item, _ = self.sends.item(app.node.index, unit)
        unit.status = Status.ABORTED
        try:
            answer = yield Ask(AskOutcome(key), safe=True)
            if answer is not Outcome.ABORTED:
                self.kernel.wrong(f"I3a: a commit that never came is {answer!r}")
            answer = yield Ask(Commit(0, (item,), key), safe=True)
        except Lost:
            return
        if isinstance(answer, TransactionOver):
            self.kernel.marks[marks.FENCED] += 1
        elif not isinstance(answer, OnceqError):
            self.kernel.wrong("I3a: a commit happened after its outcome was told as aborted")

    def plain_receive(self, app: App) -> Program:
        """Receive outside of a transaction."""
        try:
            yield from self.work.receive(app.node, None, 0)
        except Lost:
            return

    def peek(self, app: App) -> Program:
        """Look at some messages with a cursor."""
        place = self.work._here(app.node.index)
        after = 0
        for _ in range(3 if place is not None else 0):
            assert place is not None
            try:
                answer = yield Ask(Receive(place.name, count_max=5, peek=True, after=after))
            except Lost:
                return
            if not self.work.take(place, answer, None, peek=True):
                return
            if min(answer.lookup_ids) <= after:
                self.kernel.wrong(f"I18: a cursor in {place} went back to {min(answer.lookup_ids)}")
            after = answer.lookup_ids[-1]

    # ---- outside transactions -----------------------------------------------------------

    def plain_send(self, app: App) -> Program:
        """Send without a transaction."""
        item, messages = self.sends.item(app.node.index, None, plain=True)
        try:
            answer = yield Ask(Send(0, (item,)))
        except Lost as lost:
            if not lost.asked:
                self.ledger.refuse(OnceqError("it was lost before it was sent"), messages)
            return
        if isinstance(answer, OnceqError):
            self.sends.refused(answer, messages)
            return
        for message in messages:
            message.done = True
