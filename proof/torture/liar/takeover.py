"""An impostor takes the place of a queue manager: it listens there, with a GUID of its own.

Again and again DELTA is stopped, an impostor answers under its name for a while, and DELTA comes
back. The impostor takes every message, and acknowledges it; the sender has lost what the impostor
acknowledged. Where the honest speak TLS it is a neighbour with a good certificate every second
time, and a stranger else, to whom nobody may give anything.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable

from onceq.model.identity import guid_text
from onceq.model.settings import Settings
from onceq.packet.decode import decode
from onceq.wire.mqqb.session import Arrived, Session
from proof.nodes import Node
from proof.sim.faults import lies
from proof.torture.liar.ways import Ways

AWAY_S = 1.5
"""How long DELTA is away."""
BETWEEN_S = 3.0


class Impostor:
    """Acknowledges everything to every sender that connects.

    Attributes:
        given: Numbers that it was given, in messages that are nothing but their number.
        acknowledged: Those of them that it has acknowledged.
        used: GUIDs that it has answered under, as text.
        to_strangers: How many messages it was given without a good certificate.
    """

    def __init__(
        self, port: int, victim: bytes, seed: int, *, plays: bytes, ways: Ways | None = None
    ) -> None:
        """Args:
        victim: GUID of the manager that connects.
        plays: GUID of the manager that should be here.
        ways: How to speak TLS; None: nobody does.
        """
        self.port, self.victim, self.rng = port, victim, random.Random(seed)
        self._plays = plays
        self._ways, self._known = ways, ways is None
        self.to_strangers = 0
        self.given: set[int] = set()
        self.acknowledged: set[int] = set()
        self.used: set[str] = set()

    def answer(self, until: float, over: Callable[[], bool]) -> None:
        """Listen, and talk to one after another until then."""
        guid = b"impostor" + self.rng.randbytes(8)
        self.used.add(guid_text(guid))
        self._known = self._ways is None or not self._known
        with socket.socket() as door:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind(("127.0.0.1", self.port))
            door.listen()
            door.settimeout(0.05)
            while time.monotonic() < until and not over():
                with contextlib.suppress(OSError):
                    line, _ = door.accept()
                    with self._met(line, guid) as met:
                        self._talk(met, guid, until)

    def _met(self, line: socket.socket, guid: bytes) -> socket.socket:
        if self._ways is None:
            return line
        line.settimeout(AWAY_S)
        # As a stranger it shows a certificate of its own making, for the manager that it plays.
        return self._ways.answering(line, guid if self._known else self._plays, known=self._known)

    def _talk(self, line: socket.socket, guid: bytes, until: float) -> None:
        line.settimeout(0.05)
        session = Session(
            initiator=False, own_id=guid, settings=Settings(),
            now_us=time.monotonic_ns() // 1000,
        )  # fmt: skip
        takes = self.rng.random() < 0.7
        while time.monotonic() < until and not session.closed:
            with contextlib.suppress(TimeoutError):
                data = line.recv(1 << 16)
                if not data:
                    return
                for event in session.receive(data, time.monotonic_ns() // 1000):
                    if isinstance(event, Arrived):
                        self._take(session, guid, event, takes=takes)
            output = b"".join(map(bytes, session.take_output()))
            if output:
                line.sendall(output)

    def _take(self, session: Session, guid: bytes, event: Arrived, *, takes: bool) -> None:
        now_us = time.monotonic_ns() // 1000
        for run in event.runs:
            if not run.transactional:
                continue
            numbers = {int(packet.body) for packet in map(decode, run.packets)}
            self.given |= numbers
            self.to_strangers += 0 if self._known else len(numbers)
            if not takes:
                continue
            self.acknowledged |= numbers
            last = run.first_number + len(run.packets) - 1
            said = lies.acknowledged(guid, self.victim, run.stream, last, sent_s=int(time.time()))
            session.send(said, count=1, recoverable=0, now_us=now_us)
        if takes:
            session.persisted(event.recoverable, now_us)


class Takeovers(threading.Thread):
    """Stops DELTA and lets the impostor answer, until it is told to end; DELTA is back then."""

    def __init__(self, delta: Node, impostor: Impostor) -> None:
        super().__init__(daemon=True)
        self.delta, self.impostor = delta, impostor
        self.over = threading.Event()
        self.failures: list[str] = []
        self.done = 0

    def run(self) -> None:
        """See Thread."""
        try:
            self._take_over()
        except Exception as error:  # noqa: BLE001 - the thread that joins it reports it
            self.failures.append(f"a takeover failed: {error!r}")

    def _take_over(self) -> None:
        while not self.over.wait(BETWEEN_S):
            self.delta.kill()
            self.impostor.answer(time.monotonic() + AWAY_S, self.over.is_set)
            self.delta.start()
            self.done += 1
