"""Members that lie, in worlds where queue managers prove to each other who they are.

MALLORY is a member with a certificate that is right: for its own GUID and its own name. EVE is one
that is removed some time, and goes on; each manager hears of that some time later. HOST is in
``plain_peers``: its address is believed without proof. They call managers under their own GUID and
under another one's, they answer where a name or an address leads to them for a while, and on each
session they say what is not so. They know the names and GUIDs of all, and guess well which streams
a manager has.

Nothing of it may change anything between the others, and no liar is given what is not for it
(``judge/lies.py``). What is allowed they do not do: HOST says the GUID of a member only where that
one has proven itself before, and takes a name only where that belongs to somebody already
(``model/identification.py`` says what such an address is believed).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from onceq.model.addresses import leads_home
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.rights import Actor, ActorKind
from onceq.model.run import LENGTH_TYPE
from onceq.packet.arrived import cut
from onceq.wire.mqqb.session import Arrived, Event, Opened
from proof.sim.base import marks
from proof.sim.base.clock import EPOCH_US
from proof.sim.base.kernel import Kernel
from proof.sim.base.network import Call, SimNetwork
from proof.sim.base.node import Node
from proof.sim.base.options import HOUR, MINUTE, SECOND
from proof.sim.base.proving import Certificate, Door
from proof.sim.faults.false_words import FalseWords, Word
from proof.sim.faults.lying_line import Line
from proof.sim.judge.lies import Lies
from proof.sim.judge.permissions import Permissions
from proof.sim.judge.traffic import Traffic

SHARE = 0.6
"""Of the worlds in which managers prove who they are: how many have members that lie."""
EXACT: Final = 0.5
"""Of these: managers have rights by their GUIDs, and other members have none."""
EACH: Final = 0.7
"""Of these: how many have MALLORY, EVE and HOST. One without any has MALLORY."""
DEEDS: Final = 40
"""So often in a world they do something, on average."""
MADE_S: Final = EPOCH_US // SECOND - 86_400
"""When all certificates were made."""
HEARD_US: Final = 10 * MINUTE
"""So late, at most, a manager hears that a member was removed."""


class Kind(Enum):
    """What proves who a liar is."""

    MEMBER = "a certificate"
    REMOVED = "a certificate, until it is removed"
    HOST = "its address"


class Deed(Enum):
    """What a connection with a liar is about."""

    ITSELF = "it says who it is"
    CLAIMS = "it says that it is another one"
    NAMED = "it answers for another one"


@dataclass(slots=True, eq=False)
class Liar:
    """One of them; ``sim/proving.Computer``."""

    kind: Kind
    name: str
    guid: bytes
    ip: str
    certificate: Certificate | None


@dataclass(frozen=True, slots=True)
class Led:
    """Where a name leads to a liar.

    Attributes:
        until_us: So long.
    """

    liar: Liar
    until_us: int


def drawn(kernel: Kernel) -> bool:
    """Whether a world in which managers prove who they are has members that lie."""
    return kernel.fresh("lying members").random() < SHARE


class LyingMembers:
    """See the module."""

    def __init__(
        self, kernel: Kernel, nodes: list[Node], network: SimNetwork, traffic: Traffic,
        permissions: Permissions, lies: Lies, *, active: bool,
    ) -> None:  # fmt: skip
        """Give all managers of a world their certificates.

        Args:
            active: Whether there are such liars, too.
        """
        self.kernel, self.nodes, self.network, self.traffic = kernel, nodes, network, traffic
        self.lies = lies
        self.rng = kernel.fresh("what members lie")
        self.exact = active and self.rng.random() < EXACT
        self.words = FalseWords(nodes, self.rng, spoken=self.exact)
        self.liars = self._liars() if active else []
        self._led: dict[tuple[int, int], Led] = {}
        self._lines: dict[Line, tuple[Liar, Deed, Node | None]] = {}
        self._heard: set[int] = set()
        """Managers that know that EVE was removed."""
        self._settle(permissions)
        if active:
            network.astray = self._astray

    def _liars(self) -> list[Liar]:
        kinds = [kind for kind in Kind if self.rng.random() < EACH] or [Kind.MEMBER]
        names = {Kind.MEMBER: "MALLORY", Kind.REMOVED: "EVE", Kind.HOST: "HOST"}
        found = []
        for number, kind in enumerate(kinds):
            guid, ip, name = self.rng.randbytes(16), f"10.66.0.{number + 1}", names[kind]
            certificate = Certificate(guid, name, ip, MADE_S) if kind is not Kind.HOST else None
            found.append(Liar(kind, name, guid, ip, certificate))
        return found

    def _settle(self, permissions: Permissions) -> None:
        """Certificates, doors and rights, as operators have made them."""
        hosts = [liar for liar in self.liars if liar.kind is Kind.HOST]
        named = self.rng.random() < 0.5
        plain = {host.ip: frozenset([host.guid] if named else []) for host in hosts}
        members = [node.guid for node in self.nodes]
        members += [liar.guid for liar in self.liars if liar.certificate is not None]
        for node in self.nodes:
            node.certificate = Certificate(node.guid, node.name, node.ip, MADE_S)
            issued = frozenset(members if not node.index else [])
            node.door = Door(node.guid, plain, issued)
        permissions.guests = tuple(str(Actor(ActorKind.ADDRESS, host.ip)) for host in hosts)
        if self.exact:
            removed = [liar.guid for liar in self.liars if liar.kind is Kind.REMOVED]
            known = [*(node.guid for node in self.nodes), *removed]
            permissions.others = tuple(f"peer:{guid_text(guid)}" for guid in known)

    # ---- when -----------------------------------------------------------------------------

    def begin(self) -> None:
        """The faults begin."""
        if not self.liars:
            return
        rng, safety = self.rng, self.kernel.options.safety_us
        for liar in self.liars:
            if liar.kind is Kind.REMOVED:
                self.kernel.at(self.kernel.now + rng.randrange(safety // 2), self._remove, liar)
            # Before anybody was ever reached by a name.
            if rng.random() < 0.5:
                for node in self.nodes:
                    self._take_name(liar, node)
        self.kernel.at_times(rng, max(safety // DEEDS, 1), self._do)

    def _do(self) -> None:
        """One of them does something to a manager."""
        rng = self.rng
        liar, node = rng.choice(self.liars), rng.choice(self.nodes)
        if not node.reachable or node.paused_us > self.kernel.now:
            return
        kind = rng.randrange(3)
        if kind == 0:
            self._take_name(liar, node)
        elif kind == 1:
            self._call(liar, node, Deed.ITSELF, None)
        else:
            other = rng.choice([one for one in self.nodes if one is not node])
            if liar.kind is not Kind.HOST or self._has_proven(node, other):
                self._call(liar, node, Deed.CLAIMS, other)

    def _has_proven(self, node: Node, other: Node) -> bool:
        """Whether a manager certainly knows that another one proves itself by a certificate."""
        return self.exact or not node.index or self.traffic.has_taken(node.index, other.index)

    def _take_name(self, liar: Liar, node: Node) -> None:
        """A name, or an address, leads a manager to a liar for a while."""
        rng, kernel = self.rng, self.kernel
        other = rng.choice([one for one in self.nodes if one is not node])
        until = kernel.now + rng.choice([MINUTE, 10 * MINUTE, HOUR])
        self._led[node.index, other.index] = Led(liar, until)
        kernel.note("name taken", node.name, other.name, liar.name, until)
        if rng.random() < 0.7:
            for end in self.network.ends:
                if end.home is node and end.other.home is other and not end.closed:
                    self.network.cut(end)

    def _remove(self, liar: Liar) -> None:
        """The authority removes a member: others hear of it, now or later."""
        at_s = (EPOCH_US + self.kernel.now) // SECOND
        self.kernel.note("removed", liar.name)
        for node in self.nodes:
            after = self.rng.randrange(HEARD_US)
            self.kernel.at(self.kernel.now + after, self._hears, node, liar, at_s)

    def _hears(self, node: Node, liar: Liar, at_s: int) -> None:
        assert node.door is not None, "there are no liars without proofs"
        node.door.remove(liar.guid, liar.name, at_s)
        self._heard.add(node.index)
        for line, (whose, _, _) in list(self._lines.items()):
            if line.node is node and whose is liar and isinstance(node.door.who(liar), str):
                line.hang_up()

    # ---- connecting -------------------------------------------------------------------------

    def _call(self, liar: Liar, node: Node, deed: Deed, whom: Node | None) -> None:
        """A liar connects to a manager."""
        assert node.door is not None, "there are no liars without proofs"
        who = node.door.who(liar)
        if isinstance(who, str):
            self.lies.note(node, liar.name, marks.LIAR_REMOVED)
            return
        if liar.kind is Kind.REMOVED and node.index in self._heard:
            self.lies.let_in(node, liar.name)
        line = self._line(liar, node, deed, whom, liar.guid if whom is None else whom.guid)
        line.call(liar.ip, who)

    def _astray(self, call: Call, found: Node | None) -> bool:
        """Whether a liar answers a call."""
        led = self._led.get((call.node.index, found.index)) if found is not None else None
        if led is None or found is None or led.until_us <= self.kernel.now:
            return False
        if not (self.kernel.faulty and leads_home(call.homes, led.liar.ip)):
            return False
        if led.liar.kind is Kind.HOST and not self._is_taken(call, found):
            return False
        after_us = self.kernel.options.latency_us
        call.node.later(after_us, self._answer, call, led.liar, found)
        return True

    def _is_taken(self, call: Call, found: Node) -> bool:
        """Whether a name certainly belongs to the one that was meant, or a GUID is looked for."""
        engine = call.node.engine
        if engine is None or not self._has_proven(call.node, found):
            return False
        name = f"{call.protocol}:{call.host}".casefold()
        return not call.host or engine.manager.state.bindings.guid_of(name) == found.guid

    def _answer(self, call: Call, liar: Liar, found: Node) -> None:
        node = call.node
        assert node.door is not None, "there are no liars without proofs"
        who = node.door.who(liar)
        if isinstance(who, str):
            self.lies.note(node, liar.name, marks.LIAR_REMOVED)
            node.run(lambda engine: engine.sessions.connect_failed(call.outgoing, who))
            return
        if liar.kind is Kind.REMOVED and node.index in self._heard:
            self.lies.let_in(node, liar.name)
        # Who looks for a GUID hangs up where another one is said.
        claims = call.peer != NO_GUID or self.rng.random() < 0.3
        line = self._line(liar, node, Deed.NAMED, found, found.guid if claims else liar.guid)
        line.answer(call.outgoing, liar.ip, who)

    def _line(
        self, liar: Liar, node: Node, deed: Deed, whom: Node | None, claims: bytes
    ) -> Line:  # fmt: skip
        line = Line(self.kernel, self.rng, node, claims, self, calls=deed is not Deed.NAMED)
        self._lines[line] = liar, deed, whom
        after = self.rng.choice([20 * SECOND, MINUTE, 10 * MINUTE])
        self.kernel.at(self.kernel.now + after, self._leave, line)
        return line

    def _leave(self, line: Line) -> None:
        if line in self._lines:
            self._check_session(line)
            del self._lines[line]
            line.hang_up()

    # ---- on a connection ----------------------------------------------------------------------

    def take_events(self, line: Line, events: Sequence[Event]) -> None:
        """See Hearer."""
        if line not in self._lines:
            return
        liar, deed, whom = self._lines[line]
        for event in events:
            if isinstance(event, Arrived):
                for run in event.runs:
                    self.lies.handed(line.node, liar.name, run)
            elif isinstance(event, Opened) and deed is not Deed.NAMED:
                self._speak(line, liar, whom)
        self._check_session(line)

    def over(self, line: Line) -> None:
        """See Hearer."""
        liar, deed, whom = self._lines.pop(line, (None, Deed.ITSELF, None))
        if liar is None or whom is None:
            return
        plain = liar.kind is Kind.HOST
        named = marks.PLAIN_NAMED if plain else marks.LIAR_NAMED
        claimed = marks.PLAIN_CLAIMED if plain else marks.LIAR_CLAIMED
        self.lies.note(line.node, liar.name, named if deed is Deed.NAMED else claimed)

    def _check_session(self, line: Line) -> None:
        """Check whether a manager has a session with a liar under a false identity, or with another
        one than the manager looked for."""
        liar, _, whom = self._lines[line]
        if whom is not None and line.alive:
            self.lies.believed(line.node, line.number, liar.name, whom.name)

    def _speak(self, line: Line, liar: Liar, whom: Node | None) -> None:
        """Say what is not so, on a session."""
        if not self.kernel.faulty or line.node.engine is None:
            return
        now_s = line.node.clock.read().wall_s
        for word in self._words(line.node, liar, whom, now_s):
            (run,) = cut(word.packet, array(LENGTH_TYPE, (len(word.packet),)))
            line.say(word.packet, recoverable=run.recoverable)
            if line.alive:
                self.lies.note(line.node, liar.name, word.mark)

    def _words(self, node: Node, liar: Liar, whom: Node | None, now_s: int) -> list[Word]:
        words = self.words
        if whom is not None:
            return words.as_another(node, whom.guid, now_s)
        other = self.rng.choice([one for one in self.nodes if one is not node])
        return words.as_itself(node, liar.guid, other.guid, now_s,
                               granted=liar.kind is not Kind.MEMBER)  # fmt: skip
