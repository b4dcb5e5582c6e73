"""Applications that show a token, in simulated worlds where rights are given and taken.

Those who administer make tokens and revoke them while their holders are at work, under few names,
so that a new token gets the name of one that is gone. Tokens expire by clocks that are set forwards
and back. A holder shows what it has, good or not, and is refused or cut.

What a holder does is what ``subjects.py`` lets anybody do; who a token lets in is looked at by the
product's own door (``service/tokens.py``).

Watches: I28, by ``judge/tokens.py`` and ``judge/permissions.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from onceq.core.inputs import OwnerCame
from onceq.errors import AccessDenied, InvalidParameter, OnceqError, ServiceNotAvailable
from onceq.model.requests import CreateToken, RevokeToken
from onceq.model.rights import NOBODY, Actor, ActorKind
from onceq.model.tokens import SECRET_BYTES, text_of
from onceq.model.views.managers import TokenMade
from onceq.service.engine import Engine
from onceq.service.tokens import actor_of, unproven
from proof.sim.apps.apps import App, Ask, Program
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.options import HOUR, MINUTE, SECOND
from proof.sim.judge.permissions import Given, Permissions
from proof.sim.judge.tokens import Glance, Held, TokenBooks

SHARE: Final = 0.5
"""Of the worlds in which rights are given and taken."""
HOLDERS: Final = 2
"""At each manager."""
NAMES: Final = ("billing", "stock")
AGES_S: Final = (0, 60, 300, 600, 3_600, 6 * 3_600)
STALE: Final = 0.4
"""How often a holder shows its token, valid or not."""
CLOCKS: Final = 0.2
"""How often a clock is set before a holder begins something, where clocks are set at all."""


class SentAway(Exception):
    """The token is not, or no longer, good: there is no connection, and nothing was done on it."""


@dataclass(slots=True)
class _Moment:
    """What was known when something was asked.

    Attributes:
        steady: Settings of the clock, and stops of the process, when the holder connected.
        at_us: True time.
    """

    glance: Glance
    steady: tuple[int, int]
    at_us: int


class Holder(App):
    """An application that shows a token when it connects; without one it is the account."""

    books: TokenBooks
    held: Held | None = None
    undone: Callable[[], None] | None = None
    """Tells the books that the unit of work under way is over: it is, with the connection, also
    while the application is busy with something else."""
    _connected: tuple[int, int] = (0, 0)
    _moment: _Moment | None = None

    def hold(self, held: Held | None) -> None:
        """From the next connection on it shows this."""
        if self._owner:
            self.cut()
        self.held = held
        self.actor = Actor(ActorKind.TOKEN, held.name) if held is not None else None

    # ---- its connection -----------------------------------------------------------------------

    def _submit(self) -> None:
        engine, wanted = self.node.engine, self._wanted
        if wanted is None or engine is None or engine.stopped:
            return
        if self.held is not None and not self._owner:
            refused = self._show(engine, self.held)
            if refused is not None:
                self._wanted = None
                if wanted.asked is not None:
                    wanted.asked()
                self.kernel.marks[marks.TOKEN_REFUSED] += isinstance(refused, AccessDenied)
                self._advance(lambda program: program.send(refused))
                return
        super()._submit()

    def _show(self, engine: Engine, held: Held) -> OnceqError | None:
        """Connect and show the token; return why it is refused."""
        self._connected = self._steady()
        try:
            found = engine.tokens.check_clear(held.text, self.node.ip, private=True)
        except OnceqError as error:
            return error
        self._owner = owner = engine.owner(self._answered, actor=NOBODY)
        came = OwnerCame(owner, actor_of(found), found.digest)
        self.node.run(lambda e: e.submit(came))
        return None

    def _answered(self, request: int, result: object) -> None:
        if request:
            super()._answered(request, result)
            return
        # It is about the connection, which ends so; what was asked on it does not happen.
        self.node.step("answer")
        engine, owner, self._owner = self.node.engine, self._owner, 0
        self.kernel.note("sent away", self.node.name, owner)
        over = "has expired" in str(result)
        self.kernel.marks[marks.TOKEN_EXPIRED if over else marks.TOKEN_REVOKED] += 1
        if engine is not None:
            engine.owner_gone(owner)
        self._over()
        waiting, self._waiting = self._waiting, 0
        if waiting and self._program is not None:
            self._advance(lambda program: program.send(result))
        elif self.undone is not None:
            self.undone()

    # ---- what is held against the books -------------------------------------------------------

    def _steady(self) -> tuple[int, int]:
        return self.node.clock.offset_us, self.node.pauses

    def goes(self) -> None:
        """Something is asked now."""
        self._moment = None
        if self.held is not None:
            glance = self.books.glance(self.held, self.node)
            self._moment = _Moment(glance, self._connected, self.kernel.now)

    def check_answer(self, answer: object, what: str) -> None:
        """Check an answer; raises SentAway when the token was the reason for it."""
        moment, held = self._moment, self.held
        if moment is None or held is None:
            return
        if isinstance(answer, ServiceNotAvailable):
            raise SentAway  # too many wrong ones were shown: it was not even looked at
        refused = _of_token(answer)
        now = self.books.glance(held, self.node)
        steady = moment.steady == self._steady()
        self.books.judge(moment.glance, now, what, refused=refused, steady=steady)
        if refused:
            raise SentAway
        self.kernel.marks[marks.TOKEN_USED] += held.life != self.node.life

    @property
    def connected(self) -> bool:
        """Whether it has shown its token, and was believed."""
        return bool(self._owner)

    @property
    def left_us(self) -> int:
        """How long its token is still good; 0 for one that does not expire, or is over."""
        over_s = self.books.glance(self.held, self.node).over_s if self.held is not None else 0
        return max(-over_s, 0) * SECOND

    @property
    def waited_us(self) -> int:
        """How long ago the last thing was asked."""
        return self.kernel.now - self._moment.at_us if self._moment is not None else 0


def _of_token(answer: object) -> bool:
    """Whether something was refused because of the token that was shown."""
    return isinstance(answer, AccessDenied) and (
        answer.text == unproven().text or answer.text.startswith("access denied: the token ")
    )


class Tokens:
    """Those who make tokens and revoke them, and which of them holders show."""

    def __init__(self, kernel: Kernel, permissions: Permissions, *, active: bool) -> None:
        self.kernel, self.permissions = kernel, permissions
        self.active = active
        self.books = TokenBooks(kernel)
        self.rng = kernel.stream("tokens")

    @staticmethod
    def drawn(kernel: Kernel) -> bool:
        """Whether applications show tokens in a world in which rights are given and taken."""
        return kernel.fresh("tokens in use").random() < SHARE

    def employ(self, holder: Holder) -> None:
        """An application shows tokens."""
        holder.books = self.books

    def choose(self, holder: Holder) -> bool:
        """Before it begins something: which token it shows; False: there never was one."""
        node = holder.node.index
        known = self.books.of(node)
        if not known:
            return False
        if self._set_clock(holder):
            return True
        if holder.held is None or self.rng.random() > STALE:
            good = [one for one in known if self.books.glance(one, holder.node).good]
            wanted = self.rng.choice(good or known)
            if wanted is not holder.held:
                holder.hold(wanted)
        return True

    def _set_clock(self, holder: Holder) -> bool:
        """Somebody sets the wall clock behind the end of a token that is in use, for a while."""
        held, node = holder.held, holder.node
        if held is None or not holder.connected or not self.kernel.options.clock_every_us:
            return False
        glance = self.books.glance(held, node)
        if not (glance.good and held.expires_s) or self.rng.random() > CLOCKS:
            return False
        by_us = min((1 - glance.over_s) * SECOND, HOUR)
        self.kernel.note("clock", node.name, by_us)
        node.clock.jump(by_us)
        self.kernel.at(self.kernel.now + 10 * MINUTE, node.clock.jump, -by_us)
        return True

    def named(self) -> str:
        """To whom rights are given or of whom they are taken, now and then; "": to others."""
        if not self.active or self.rng.random() < 0.6:
            return ""
        return f"{ActorKind.TOKEN.value}:{self.rng.choice(NAMES)}"

    # ---- those who make them ------------------------------------------------------------------

    def issue(self, app: App) -> Program | None:
        """Make one, or revoke one; None: something else is done."""
        if not self.active:
            return None
        there = self.books.there(app.node.index)
        lost = [held for held in there if held.made is None]
        if lost:
            return self._revoke(app, lost[0])
        if self.rng.random() < 0.85:
            return None
        free = sorted(set(NAMES) - {held.name for held in there})
        if free and (not there or self.rng.random() < 0.6):
            return self._make(app, self.rng.choice(free))
        return self._revoke(app, self.rng.choice(there))

    def _make(self, app: App, name: str) -> Program:
        node, rng, books = app.node, self.rng, self.books
        secret = rng.randbytes(SECRET_BYTES)
        held = Held(node.index, name, text_of(name, secret), life=node.life)
        givens = self._drawn(held)
        grants = [(right, queue) for _, _, right, queue in givens]
        request = CreateToken(name, rng.choice(AGES_S), grants, secret=secret)
        request.check()
        again = any(one.name == name for one in books.of(node.index))

        def asked() -> None:
            books.all.append(held)
            books.asked(held)
            for given in givens:
                self.permissions.asked(given)

        answer = yield Ask(request, asked)
        if not isinstance(answer, TokenMade):
            self.kernel.wrong(f"I28: the account of the manager may not make a token: {answer!r}")
        if answer.token != held.text:
            self.kernel.wrong("I28: a token is not what was asked for")
        books.note_made(held, answer.expires_s)
        for given in givens:
            self.permissions.settled(given, value=True)
        self.kernel.marks[marks.TOKEN_AGAIN] += again

    def _drawn(self, held: Held) -> list[Given]:
        """What a new token may."""
        return [
            (held.node, held.who, right, "*")
            for right in ("peek-body", "receive", "send")
            if self.rng.random() < 0.7
        ]

    def _revoke(self, app: App, held: Held) -> Program:
        sure = held.made
        givens = self.permissions.of(held.node, held.who)

        def asked() -> None:
            self.books.asked(held)
            for given in givens:
                self.permissions.asked(given)

        answer = yield Ask(RevokeToken(held.name), asked)
        self.books.gone(held)
        if isinstance(answer, InvalidParameter) and sure is None:
            return  # it never was: what was granted to its name otherwise is looked at
        if isinstance(answer, OnceqError):
            self.kernel.wrong(f"I28: a token that is there cannot be revoked: {answer!r}")
        for given in givens:
            self.permissions.settled(given, value=False)
