"""Liars in a simulated network: packets of strangers between the sessions of honest managers.

A liar connects to a manager, says what is not so, and hangs up: acknowledgments of messages that it
does not have, messages of another manager, streams of the future under another's identity. No lie
may change anything; the judges of the world see to that. One world in LIARS has them.
"""

from __future__ import annotations

from array import array

from onceq.core.inputs import Arrived, SessionClosed, SessionOpened
from onceq.core.peers import trust
from onceq.model.identification import ON_THIS_COMPUTER, Claims, certified
from onceq.model.run import LENGTH_TYPE
from onceq.packet.arrived import cut
from onceq.service.engine import Engine
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.options import SECOND
from proof.sim.faults import lies
from proof.sim.faults.false_words import some_queue

LIARS = 5
FIRST_SESSION = 1 << 40
_MARKS = {
    trust.FORGED: marks.LIE_IGNORED,
    trust.FOREIGN: marks.STRANGER_REFUSED,
    trust.FUTURE: marks.FUTURE_REFUSED,
}


class Liars:
    """Plans a lie after each one."""

    def __init__(self, kernel: Kernel, nodes: list[Node]) -> None:
        self.kernel, self.nodes = kernel, nodes
        self.rng = kernel.stream("liars")
        self.session = FIRST_SESSION
        if not self.rng.randrange(LIARS):
            kernel.at_times(self.rng, max(kernel.options.safety_us // 40, 1), self._tell)

    def _tell(self) -> None:
        here, other = self.rng.sample(self.nodes, 2)
        guid = self.rng.randbytes(16)
        engine = here.engine
        if engine is not None and not engine.stopped:
            claimed, packet = self._lie(here, other, guid)
            self._say(here, claimed, packet)

    def _lie(self, here: Node, other: Node, guid: bytes) -> tuple[bytes, bytes]:
        """Draw the identity that a liar claims, and its packet."""
        rng, engine = self.rng, here.engine
        assert engine is not None
        now_s = here.clock.read().wall_s
        to = rf"OS:{here.name}\{some_queue(rng, here)}"
        streams = sorted(engine.manager.state.streams)
        kind = rng.randrange(4) if streams else rng.choice((2, 3))
        if kind < 2:
            stream, number = rng.choice(streams), rng.randint(1, 20)
            if kind:
                return guid, lies.ended(guid, here.guid, stream, number, sent_s=now_s)
            return guid, lies.acknowledged(guid, here.guid, stream, number, sent_s=now_s)
        if kind == 2:
            stream = now_s << 32 | 1
            return guid, lies.messages(other.guid, to, [b"lie"], stream=stream, sent_s=now_s)
        stream = now_s + 400 * 86_400 << 32
        return other.guid, lies.messages(other.guid, to, [b"lie"], stream=stream, sent_s=now_s)

    def _say(self, here: Node, claimed: bytes, packet: bytes) -> None:
        kernel, session = self.kernel, self.session
        self.session += 1
        (run,) = cut(packet, array(LENGTH_TYPE, (len(packet),)))
        kernel.note("lie", here.name, run.kind)
        # Where everybody proves an identity, this one can.
        proven = certified(Claims(claimed)) if here.door is not None else ON_THIS_COMPUTER
        assert proven is not None, "it is a manager's"
        assert here.engine is not None
        told = here.engine.manager._step.sessions.disbelieved
        before = dict(told)

        def say(engine: Engine) -> None:
            # Not through the hostile link: what it keeps comes again as if it were true.
            Engine.submit(engine, SessionOpened(session, claimed, "10.66.6.6", 0, who=proven))
            Engine.submit(engine, Arrived(session, run))
            Engine.submit(engine, SessionClosed(session, "the liar has gone"))

        def count() -> None:
            for what, mark in _MARKS.items():
                if told[what] > before.get(what, 0):
                    kernel.marks[mark] += 1

        here.run(say)
        kernel.at(kernel.now + SECOND, count)
