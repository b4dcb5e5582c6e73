"""What liars were believed and given, in worlds where managers prove who they are: nothing.

A lie is counted when it was told, so that a batch in which none was told fails; and what comes of
it is seen at the liar's end of the connection, and in who has a session with a manager. What lies
do to the messages of others is judged with those.

Watches: I28 (finding S3, finding S4, finding S8).
"""

from __future__ import annotations

from onceq.core.manager import Manager
from onceq.packet.arrived import USER, ArrivedRun
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.packets import UID_BYTES, body_of
from proof.sim.judge.books import Books


class Lies:
    """See the module."""

    def __init__(self, kernel: Kernel, books: Books) -> None:
        self.kernel, self.books = kernel, books

    def note(self, node: Node, liar: str, mark: str) -> None:
        """A lie was told to a manager."""
        self.kernel.note("told a lie", node.name, liar, mark)
        self.kernel.marks[mark] += 1

    def handed(self, node: Node, liar: str, run: ArrivedRun) -> None:
        """A manager has sent something to a liar, for whom nobody has anything."""
        for packet in run.packets if run.kind == USER else ():
            _, body = body_of(packet)
            uid = int.from_bytes(body[:UID_BYTES], "little")
            if uid in self.books.messages:
                self.kernel.wrong(f"I28: {node.name} gives message {uid} to the liar {liar}")

    def believed(self, node: Node, session: int, liar: str, whom: str) -> None:
        """Somebody says who it is not, or answers for whom it is not: it has no session."""
        engine = node.engine
        if engine is not None and session in engine.manager._step.sessions.peers:
            self.kernel.wrong(f"I28: {node.name} takes the liar {liar} for {whom}")

    def let_in(self, node: Node, liar: str) -> None:
        """Somebody who was removed, as this manager knows, has come in."""
        self.kernel.wrong(f"I28: {node.name} lets the liar {liar} in, who was removed")

    def ends(self, node: Node, manager: Manager) -> None:
        """A process ends, or the world: no liar has made a manager believe that it runs twice."""
        for guid in manager._step.sessions.watch.clashes:
            self.kernel.wrong(f"I28: {node.name} believes that {guid.hex()} runs twice")
