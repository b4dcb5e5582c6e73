"""What a GUID means at this queue manager before its owner has joined: rights, names, an entry in
the directory. GUIDs are no secret, so a client that asks for a certificate for a GUID has not
proven to be its owner (``tls/granting.py``).

Upholds: I28.
"""

from __future__ import annotations

from onceq.core.manager import Manager
from onceq.model.directory import Snapshot
from onceq.model.identity import guid_text
from onceq.model.rights import ActorKind, actor_pattern


def meaning_of(manager: Manager, directory: Snapshot | None, guid: bytes, name: str) -> str:
    """Return what a requested GUID means here, for a client that was invited by a name; "" if
    nothing, or if the GUID is known by that name.

    Args:
        directory: What the directory says; None: there is none.
    """
    called = name.casefold()
    names = [one.partition(":")[2] for one in manager.state.bindings.named(guid)]
    computer = directory.computer_of(guid) if directory is not None else None
    listed = [] if computer is None else [one.casefold() for one in computer.names]
    if called in (*names, *listed):
        return ""
    who = guid_text(guid)
    if names:
        return f"queue manager {who} answers under {names[0]}"
    if computer is not None:
        return f"the directory knows queue manager {who} as {computer.name}"
    wanted = actor_pattern(f"{ActorKind.PEER.value}:{who}")
    policy = manager.state.policy
    if any(one.who == wanted for one in (*policy, *policy.shared.grants)):
        return f"queue manager {who} has rights here"
    return ""
