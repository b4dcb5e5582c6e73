"""A queue manager to which every session is a peer that has proven who it is, as with TLS.

On one computer, and so in simulated worlds, peers need no proof and no right. Here they have an
identity, and may deliver only what was granted to it.
"""

from __future__ import annotations

from dataclasses import replace

from onceq.core.decision import Decision
from onceq.core.inputs.inputs import Input, SessionOpened
from onceq.core.manager import Manager
from onceq.model.identity import guid_text
from onceq.model.rights import Actor, ActorKind
from onceq.model.time import Now


class StrictManager(Manager):
    """See the module."""

    def step(self, now: Now, item: Input) -> Decision:
        """See Manager."""
        if isinstance(item, SessionOpened):
            item = replace(item, actor=Actor(ActorKind.PEER, guid_text(item.peer)))
        return super().step(now, item)
