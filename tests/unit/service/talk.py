"""An application's connection, between an engine and a transport that note what they are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

from onceq.model import requests
from onceq.model.marks import Now
from onceq.model.policy import Policy
from onceq.model.rights import Actor
from onceq.model.run import Buffer
from onceq.model.settings import Settings
from onceq.model.tokens import Tokens
from onceq.service.answers import Answers
from onceq.service.api import ApiConnection
from onceq.service.committer import Takes
from onceq.service.engine import Engine
from onceq.service.tokens import TokenDoor
from onceq.wire.app import frames
from onceq.wire.app.frames import FAILED, FrameCode, written


class FakeEngine:
    """Notes inputs; answers are given by the test."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.gone: list[int] = []
        self.answer: Callable[[int, object], None] = lambda request, result: None
        self.clock = SimpleNamespace(read=lambda: Now(50_000_000, 1_000_000))
        identity = SimpleNamespace(name="ALPHA", guid=bytes(range(16)))
        self.state = SimpleNamespace(tokens=Tokens(), policy=Policy())
        self.manager = SimpleNamespace(identity=identity, state=self.state)
        self.settings = Settings(outcome_age_s=77)
        self.answers = Answers()
        self.logged: list[tuple[str, dict[str, object]]] = []
        rates = SimpleNamespace(event=lambda what, **more: self.logged.append((what, more)))
        parts: Any = (self.manager, self.clock, rates)
        self.tokens = TokenDoor(*parts)

    def owner(
        self, answer: Callable[[int, object], None], takes: Takes, *, actor: Actor | None = None,
        where: str = "",
    ) -> int:  # fmt: skip
        self.answer, self.takes, self.actor, self.where = answer, takes, actor, where
        return 5

    def turn(self) -> None:
        """A pump that finds nothing for those who wait."""
        self.answers.begin()
        self.answers.end()

    def owner_gone(self, owner: int) -> None:
        self.gone.append(owner)

    def submit(self, item: object) -> None:
        self.items.append(item)


class FakeTransport:
    """Notes what is written, and whether it is read."""

    def __init__(self) -> None:
        self.parser = frames.Parser()
        self.closed = False
        self.changes = 0
        self.sent: list[tuple[int, int, Any]] = []
        self.unread_bytes = 0
        self.refused = ""

    def writelines(self, pieces: Sequence[Buffer], /) -> None:
        for request, code, head, _ in self.parser.feed(b"".join(pieces)):
            self.sent.append((request, code, frames.decode_head(head, Any)))

    def close(self) -> None:
        self.closed = True

    def reading_changed(self) -> None:
        self.changes += 1

    def refuse(self, reason: str) -> None:
        self.refused = reason


class Talk:
    """A connection with what stands on both sides of it."""

    def full(self) -> bool:
        """Whether it reads nothing more for now."""
        return self.api.full

    def __init__(
        self, *, greet: bool = True, actor: Actor | None = None, private: bool = True,
        bound: bytes = b"",
    ) -> None:  # fmt: skip
        self.engine = FakeEngine()
        self.transport = FakeTransport()
        self.api = ApiConnection(
            cast(Engine, self.engine), self.transport, random=lambda size: bytes(size),
            actor=actor, address="10.1.1.1", private=private, bound=bound,
        )  # fmt: skip
        if greet:
            self.frame(1, FrameCode.HELLO, frames.Hello(frames.VERSION))
            self.transport.sent.clear()

    def ask(self, number: int, request: requests.Request) -> None:
        self.api.data_received(b"".join(written(number, request)))

    def ask_all(self, *items: requests.Request) -> None:
        """All of them in one piece, numbered from 2 on."""
        pieces = (b"".join(written(number, one)) for number, one in enumerate(items, 2))
        self.api.data_received(b"".join(pieces))

    def frame(self, number: int, code: int, head: object, *data: bytes) -> None:
        self.api.data_received(b"".join(frames.frame(number, code, head, *data)))

    def receive(self, request: int, bytes_max: int = 1 << 20, wait_ms: int = -1) -> None:
        head = requests.Receive("q", 0, 1, bytes_max, wait_ms, False, 0, 0, 0)
        self.ask(request, head)

    def refused(self) -> str:
        """The code with which the connection was ended."""
        assert self.transport.closed
        assert self.engine.gone == [5]
        (request, code, (error, _)) = self.transport.sent[-1]
        assert (request, code) == (0, FAILED)
        return str(error)
