"""Applications that are somebody, in simulated worlds: they may do what was granted to them.

All other applications run under the account of their manager. Here some are named, work in queues
of their manager and of others, and are refused or not; those who administer give and take rights
at random meanwhile, also to other managers, in worlds where these prove who they are
(``base/proving.py``). Answers are lost, managers crash, and rights outlive that.

Watches: I28, by ``judge/permissions.py``; S0, I2, I3 with the books of messages.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from onceq.errors import AccessDenied, DirectoryError, NoDirectory, OnceqError, SendFailed
from onceq.model.identity import GUID_BYTES
from onceq.model.message import Properties
from onceq.model.requests import Abort, Begin, Commit, Receive, Send, SendItem, SetRights
from onceq.model.rights import Actor, ActorKind
from onceq.model.run import Run
from onceq.model.views.managers import GrantView
from proof.sim.apps.apps import App, Ask, Lost, Program, Sleep, look_at_all
from proof.sim.apps.holders import Holder, SentAway, Tokens
from proof.sim.apps.work import Talk, Work
from proof.sim.base import marks
from proof.sim.base.directory import SimDirectory
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.options import MINUTE, MS, SECOND
from proof.sim.judge.books import ADMIN, Place, Status, Unit
from proof.sim.judge.permissions import Given, Permissions, Sight

EVERYWHERE: Final = "ONCEQ_SIM_RIGHTS"
"""Environment variable, for the processes of a batch: every world has such applications."""
SHARE = 1.0 if os.environ.get(EVERYWHERE) else 0.09
"""Of all worlds that are not of copies; 1 with ``make sim ARGS=--rights``."""
FROM: Final = 0.8585
"""Where the draw of these worlds begins, between 0 and 1: so that no seed that was kept before
there were any is among them."""
STRICT: Final = 0.5
"""Of these: managers prove to each other who they are."""
NAMES: Final = {"alice": ActorKind.ACCOUNT, "bob": ActorKind.CERTIFICATE}
OPERATOR: Final = Actor(ActorKind.ACCOUNT, "operator", free=True)
"""Who gives rights where managers prove who they are: the trail names it (``judge/trails.py``)."""
RIGHTS: Final = {"send": ("send",), "receive": ("receive",), "peek-body": ("peek-body", "receive")}
"""What is granted, and what each of them follows from."""


def everywhere() -> None:
    """Let every world of this process, and of those that it starts, have such applications."""
    global SHARE
    SHARE = 1.0
    os.environ[EVERYWHERE] = "1"


@dataclass(slots=True)
class Demand:
    """One right that is needed at one queue, as patterns name it."""

    right: str
    queue: str


class Subjects:
    """See the module."""

    def __init__(
        self, kernel: Kernel, nodes: list[Node], work: Work, permissions: Permissions
    ) -> None:  # fmt: skip
        self.kernel, self.nodes, self.work, self.ledger = kernel, nodes, work, work.ledger
        self.permissions = permissions
        self.rng = kernel.stream("subjects")
        self.tokens = Tokens(kernel, permissions, active=Tokens.drawn(kernel))
        self.left = max(kernel.options.transactions, 40) << self.tokens.active

    @staticmethod
    def drawn(kernel: Kernel, *, fit: bool) -> bool:
        """Whether a world has such applications."""
        return fit and (kernel.fresh("rights").random() - FROM) % 1 < SHARE

    @staticmethod
    def strict(kernel: Kernel) -> bool:
        """Whether, in such a world, managers have to prove who they are."""
        return kernel.fresh("strict").random() < STRICT

    def employ(self, app: App, name: str) -> None:
        """An application is somebody."""
        app.actor = Actor(NAMES[name], name)

    # ---- those who give rights ------------------------------------------------------------

    def open_up(self, app: App) -> Program:
        """At the beginning and in the end: other managers may send everywhere here."""
        yield from self._let_send(app, ADMIN)
        for who in self.permissions.guests:
            yield from self._set(app, who, "send", "*", take=False)
        for place in self._here(app):
            self.permissions.opens(place)
            yield from self._let_send(app, place.name)
            self.permissions.opened(place)

    def give(self, app: App) -> Program | None:
        """The next program of somebody who gives and takes rights."""
        if not self.kernel.faulty:
            return None
        lost = self.permissions.uncertain(app.node.index)
        if lost:
            return self._find_out(app, lost)
        if self.permissions.active and self.rng.random() < 0.15:
            return self._shut(app)
        names = self.permissions.directory
        if names is not None and self.rng.random() < 0.25:
            return self._share(app, names)
        return self.tokens.issue(app) or self._change(app)

    def _here(self, app: App) -> list[Place]:
        places = self.work.books.places.values()
        return [p for p in places if p.node == app.node.index and p.created_us >= 0]

    def _change(self, app: App) -> Program:
        rng = self.rng
        named = rng.choice(list(NAMES))
        who = self.tokens.named() or str(Actor(NAMES[named], named))
        right, queue = self._right(app)
        yield from self._set(app, who, right, queue, take=rng.random() < 0.4)

    def _right(self, app: App) -> tuple[str, str]:
        right = self.rng.choice(sorted(RIGHTS))
        names = [place.name.casefold() for place in self._here(app)]
        if right == "send":
            names += [_elsewhere(p).casefold() for p in self._away(app.node.index)]
        return right, self.rng.choice([*names, "*"])

    def _share(self, app: App, names: SimDirectory) -> Program:
        """Give or take a right in the directory; or an older copy of its rights comes back."""
        rng = self.rng
        if rng.random() < 0.2 and all(map(partial(_follows, names), self.nodes)):
            self.kernel.marks[marks.SHARED_OLDER] += names.put_back(rng.randrange(100))
            return
        # Everybody who has a name are other managers, too, where they prove it.
        who = rng.choice(
            ["certificate:bob", "certificate:*", *["*"] * (not self.permissions.active)]
        )
        right, queue = self._right(app)
        request = SetRights(who, [right], queue, rng.random() < 0.5, everywhere=True)
        request.check()
        request.guid = rng.randbytes(GUID_BYTES)
        answer = yield Ask(request)
        if isinstance(answer, OnceqError) and not isinstance(answer, (NoDirectory, DirectoryError)):
            self.kernel.wrong(f"I28: rights in the directory cannot be changed: {answer!r}")

    def _let_send(self, app: App, queue: str, *, take: bool = False) -> Talk:
        """Let all other managers send to a queue, or not any more."""
        for who in self.permissions.others:
            yield from self._set(app, who, "send", queue.casefold(), take=take)

    def _set(self, app: App, who: str, right: str, queue: str, *, take: bool) -> Talk:
        given: Given = (app.node.index, who, right, queue)
        request = SetRights(who, [right], queue, take)
        request.check()
        answer = yield Ask(request, lambda: self.permissions.asked(given))
        if isinstance(answer, OnceqError):
            self.kernel.wrong(f"I28: the account of the manager may not give rights: {answer!r}")
        self.permissions.settled(given, value=not take)

    def _find_out(self, app: App, lost: list[Given]) -> Program:
        """Find out what has become of changes whose answers were lost."""
        answer = yield from look_at_all("rights")
        if not isinstance(answer, list):
            return
        views: list[GrantView] = answer
        for given in lost:
            _, who, right, queue = given
            value = any(
                view.who == who and view.pattern == queue and right in view.rights
                for view in views
                if not view.origin
            )
            self.permissions.settled(given, value=value)

    def _shut(self, app: App) -> Program:
        """Other managers may not send to one queue for a while."""
        places = self._here(app)
        if not places:
            return
        place = self.rng.choice(places)
        self.permissions.closes(place)
        yield from self._let_send(app, place.name, take=True)
        self.permissions.closed(place)
        yield Sleep(self.rng.choice([SECOND, MINUTE, 10 * MINUTE]))
        self.permissions.opens(place)
        yield from self._let_send(app, place.name)
        self.permissions.opened(place)

    # ---- those who need them ---------------------------------------------------------------

    def next(self, app: App) -> Program | None:
        """The next program of somebody who has a name."""
        if self.left <= 0 or not self.kernel.faulty:
            return None
        if isinstance(app, Holder) and not self.tokens.choose(app):
            return self._wait()
        self.left -= 1
        return self._peek(app) if self.rng.random() < 0.2 else self._transaction(app)

    def _wait(self) -> Program:
        yield Sleep(MINUTE)

    def _transaction(self, app: App) -> Program:
        unit = self.ledger.unit(app.node.index)
        if isinstance(app, Holder):
            app.undone = lambda: self._given_back(unit)
        try:
            yield from self._work(app, unit, app.number())
        except SentAway:
            self.kernel.marks[marks.TOKEN_CUT_COMMIT] += bool(unit.sends or unit.takes)
            unit.status = Status.OPEN
            self.ledger.aborted(unit)
        except Lost:
            if isinstance(app, Holder):
                app.hold(None)  # its token may be over by then; the account may always ask
            yield from self.work.lost(app, unit)
        finally:
            if isinstance(app, Holder):
                app.undone = None

    def _given_back(self, unit: Unit) -> None:
        """Its connection is over: its messages are in their places again, also if it goes on."""
        self.ledger.aborted(unit)
        unit.takes.clear()

    def _work(self, app: App, unit: Unit, number: int) -> Talk:
        rng = self.rng
        needs: list[Demand] = []
        yield from self._asked(app, Begin(number), [], "a begin")
        if rng.random() < 0.5:
            yield from self._receive(app, unit, number, needs)
        for _ in range(rng.choice([0, 1, 1, 2])):
            yield from self._send(app, unit, number, needs)
        if rng.random() < 0.3:
            yield Sleep(rng.choice([MS, SECOND, MINUTE]))
        yield from self._commit(app, unit, number, needs)

    def _send(self, app: App, unit: Unit, number: int, needs: list[Demand]) -> Talk:
        rng, node = self.rng, app.node.index
        here = [p for p in self._here(app) if p.transactional]
        away = [p for p in self._away(node) if p.transactional]
        if not here and not away:
            return
        place = rng.choice([*here, *away])
        name = f"DIRECT=OS:.\\{place.name}" if place.node == node else _elsewhere(place)
        queue = place.name if place.node == node else name
        message = self.ledger.message(node, unit, [(place, name)], Properties(), 4)
        item = SendItem(name, Properties(), Run.of([message.body]))
        demand = Demand("send", queue.casefold())
        answer = yield from self._asked(app, Send(number, (item,)), [demand], "a send")
        if isinstance(answer, OnceqError):
            self.kernel.marks[marks.SEND_DENIED] += isinstance(answer, AccessDenied)
            self.work.sends.refused(answer, [message])
        else:
            needs.append(demand)

    def _receive(self, app: App, unit: Unit, number: int, needs: list[Demand]) -> Talk:
        places = [p for p in self._here(app) if p.transactional]
        if not places:
            return
        place, node = self.rng.choice(places), app.node
        wait_us = self.rng.choice([0, 0, MINUTE, 30 * MINUTE])
        asked: list[int] = []

        def request() -> Receive:
            asked.append(self.kernel.now)
            until = node.clock.mono_us() + wait_us if wait_us else 0
            return Receive(place.name, number, 2, wait_until_us=until)

        demand = Demand("receive", place.name.casefold())
        try:
            answer = yield from self._asked(app, request, [demand], "a receive")
        except Lost as lost:
            if lost.asked:
                place.slack += 1
            raise
        self.kernel.marks[marks.RECEIVE_DENIED] += isinstance(answer, AccessDenied)
        self.work.pauses.received(place, node, asked[-1], answer)
        if self.work.take(place, answer, unit):
            needs.append(demand)

    def _peek(self, app: App) -> Program:
        places = self._here(app)
        if not places:
            return
        place = self.rng.choice(places)
        demand = Demand("peek-body", place.name.casefold())
        request: Any = Receive(place.name, count_max=5, peek=True)
        if isinstance(app, Holder) and self.rng.random() < 0.5:
            request = self._for_nothing(app, place)
        try:
            answer = yield from self._asked(app, request, [demand], "a peek")
        except SentAway:
            self.kernel.marks[marks.TOKEN_CUT_WAIT] += (
                isinstance(app, Holder) and app.waited_us > SECOND
            )
            return
        except Lost:
            return
        self.kernel.marks[marks.PEEK_DENIED] += isinstance(answer, AccessDenied)
        self.work.take(place, answer, None, peek=True)

    @staticmethod
    def _for_nothing(app: Holder, place: Place) -> Callable[[], Receive]:
        """A look at what nobody puts there, which waits for it: beyond the end of its token."""

        def request() -> Receive:
            until_us = app.node.clock.mono_us() + app.left_us + 10 * MINUTE
            return Receive(f"{place.name};nothing", peek=True, wait_until_us=until_us)

        return request

    def _commit(self, app: App, unit: Unit, number: int, needs: list[Demand]) -> Talk:
        unit.id = key = self.work.identifier(app)
        answer = yield from self._asked(
            app, Commit(number, (), key), needs, "a commit", asked=lambda: self.ledger.ask(unit)
        )
        if not isinstance(answer, OnceqError):
            self.ledger.answered(unit)
            return
        unit.status = Status.OPEN
        self.kernel.marks[marks.COMMIT_DENIED] += _denied(answer) and not unit.doomed
        if not isinstance(answer, SendFailed):
            yield Ask(Abort(number))
        self.ledger.aborted(unit)

    def _asked(
        self, app: App, request: Any, needs: list[Demand], what: str, *,
        asked: Any = None,
    ) -> Talk:  # fmt: skip
        """Ask for something, and hold the answer against what is granted.

        Raises:
            SentAway: The token that was shown is over.
        """
        before: list[list[Sight]] = []

        def goes() -> None:
            before.append(self._sights(app, needs))
            if isinstance(app, Holder):
                app.goes()
            if asked is not None:
                asked()

        life = app.node.life
        answer = yield Ask(request, goes)
        if isinstance(app, Holder):
            app.check_answer(answer, f"{what} of {app.node.name}")
        after, denied = self._sights(app, needs), _denied(answer)
        # A commit that is doomed says what doomed it, which may have been a right.
        if not (isinstance(answer, SendFailed) and before[-1] == after):
            self.permissions.judge(before[-1], after, f"{what} of {app.node.name}", denied=denied)
        if denied and before[-1] != after:
            self.kernel.marks[marks.DENIED_MEANWHILE] += 1
        if not isinstance(answer, OnceqError) and any(one.shared for one in after):
            self.kernel.marks[marks.RIGHT_SHARED] += 1
        if not isinstance(answer, OnceqError) and needs and life > 1:
            self.kernel.marks[marks.RIGHT_KEPT] += 1
        return answer

    def _sights(self, app: App, needs: list[Demand]) -> list[Sight]:
        assert app.actor is not None, "it is somebody"
        node, who = app.node.index, str(app.actor)
        return [self.permissions.sight(node, who, RIGHTS[n.right], n.queue) for n in needs]

    def _away(self, node: int) -> list[Place]:
        places = self.work.books.places.values()
        return [p for p in places if p.node not in (node, -1) and p.created_us >= 0]


def _follows(names: SimDirectory, node: Node) -> bool:
    """Whether a manager has read the newest rights: only then an older copy says nothing to it."""
    return node.engine is not None and (
        node.engine.manager.state.policy.shared.number == names.newest.number
    )


def _elsewhere(place: Place) -> str:
    """The name by which other managers call a queue."""
    return f"DIRECT=OS:M{place.node}\\{place.name}"


def _denied(answer: object) -> bool:
    """Whether something was refused for want of a right."""
    return isinstance(answer, AccessDenied) or (
        isinstance(answer, SendFailed) and "(access-denied)" in answer.text
    )
