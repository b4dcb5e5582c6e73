"""A queue manager to which every session is a peer that has proven who it is, as with TLS.

On one computer, and so in these worlds, peers need no proof and no right. Here they have an
identity, and may deliver only what was granted to it.
"""

from __future__ import annotations

from dataclasses import replace

from onceq.core.decision import Decision
from onceq.core.inputs import Input, SessionOpened
from onceq.core.manager import Manager
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.model.identification import Identification, Proof
from onceq.model.identity import guid_text
from onceq.model.marks import Now
from onceq.model.rights import Actor, ActorKind


class StrictManager(Manager):
    """See the module."""

    def step(self, now: Now, item: Input) -> Decision:
        """See Manager."""
        if isinstance(item, SessionOpened):
            item = replace(item, who=self._proof(item))
        return super().step(now, item)

    def _proof(self, item: SessionOpened) -> Identification:
        """A certificate for what it says, and for every name that is asked for here."""
        names = frozenset(map(str.casefold, self._asked_for(item.outgoing)))
        actor = Actor(ActorKind.PEER, guid_text(item.peer))
        return Identification(Proof.CERTIFICATE, actor, item.peer, names)

    def _asked_for(self, number: int) -> tuple[str, ...]:
        queue = self._step.state.all_queues.get(number)
        if not isinstance(queue, OutgoingQueue):
            return ()
        via = self._step.names.routes_to.get(queue.name.guid)
        return (queue.name.host, via or "")
