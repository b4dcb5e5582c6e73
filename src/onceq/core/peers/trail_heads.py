"""Keep the end of another queue manager's trail, as a witness.

Upholds: I28 (who did something is known).
"""

from __future__ import annotations

from onceq.core.inputs.inputs import SessionOpened
from onceq.core.state.setups import HeadTold
from onceq.core.step.step import Step
from onceq.model.identification import Proof


def keep_head(step: Step, item: SessionOpened) -> None:
    """Keep the end of a peer's trail, if it has changed.

    Where this manager has an identity, a peer that does not prove its own is no witness.
    """
    proven = item.who.proof is Proof.CERTIFICATE or not step.doors.identity
    if item.digest and proven and item.peer != step.identity.guid:
        heads = step.state.heads
        if not heads.knows(item.peer, item.acts, item.digest):
            told = HeadTold(item.peer, item.acts, item.digest, step.now.wall_s)
            step.setup(told, forced=False)
