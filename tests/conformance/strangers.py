"""A second application of a queue manager: what it holds is its own, and goes with it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from onceq.errors import OnceqError
from onceq.file_access import SOCKET_FILE
from onceq.model.requests import Request
from onceq.wire.app import frames
from onceq.wire.app.frames import decode
from tests.conformance.applications import AnswerLost, Applications
from tests.conformance.connections import CHUNK_BYTES, WAIT_S
from tests.conformance.requests import hello, request_frame

if TYPE_CHECKING:
    from tests.conformance.processes import ProcessNode
    from tests.conformance.world import Node

ANSWER_S_MAX = 86_400


class InsideStranger(Applications):
    """Another application of a queue manager: what it holds is its own, and goes with it."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        assert node.engine is not None
        self.node, self.world, self.clock = node, node.world, node.clock
        self.answers: dict[int, object] = {}
        self.owner = node.engine.owner(self.answers.__setitem__)

    def ask(self, request: Request) -> Any:
        """See Applications."""
        return self.node.ask_as(self.owner, next(self.numbers), self.answers, request)

    def leave(self) -> None:
        """It is killed, or its connection is lost."""
        assert self.node.engine is not None
        self.node.engine.owner_gone(self.owner)
        self.node.pump()


class ProcessStranger(Applications):
    """Another application, on a connection of its own."""

    def __init__(self, node: ProcessNode) -> None:
        super().__init__()
        self.node, self.world, self.clock = node, node.world, node.clock
        self.answers: dict[int, object] = {}
        self._kinds: dict[int, object] = {}
        """Of what is asked: the type of its answer."""
        node.told()
        self._parser = frames.Parser()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(WAIT_S)
        self._socket.connect(str(node.path / SOCKET_FILE))
        self._socket.sendall(hello())
        while not self._parser.feed(self._socket.recv(CHUNK_BYTES)):
            pass
        node.world.watch(self._socket, self._answered)

    def ask(self, request: Request) -> Any:
        """See Applications."""
        world, number = self.node.world, next(self.numbers)
        process = self.node.process
        self.node.told()
        self.node.restless = True
        frame, self._kinds[number] = request_frame(number, request, world.now_us)
        self._socket.sendall(frame)
        world.settle()
        until = world.now_us + ANSWER_S_MAX * 1_000_000
        while number not in self.answers and self.node.process is process:
            assert world.now_us < until, "no answer comes"
            assert world.step(), "no answer comes, and nothing is left that could happen"
        if number not in self.answers:
            raise AnswerLost(f"{self.node.identity.name} died")
        found = self.answers.pop(number)
        if isinstance(found, OnceqError):
            raise found
        return found

    def leave(self) -> None:
        """It is killed."""
        self.node.world.unwatch(self._socket)
        self._socket.close()
        self.node.restless = True
        self.node.world.settle()

    def _answered(self) -> None:
        try:
            data = self._socket.recv(CHUNK_BYTES)
        except ConnectionError:
            data = b""
        if not data:
            self.node.world.unwatch(self._socket)
        for number, code, head, rest in self._parser.feed(data):
            self.answers[number] = decode(self._kinds.pop(number, object), code, head, rest)
