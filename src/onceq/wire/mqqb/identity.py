"""Identity of a session's peer: the reasons to end a set-up with the wrong peer."""

from __future__ import annotations

from onceq.errors import IdentityClash, ProtocolState
from onceq.model.identification import Identification, why_not_guid
from onceq.model.identity import NO_GUID, guid_text


def prove(who: Identification, said: bytes) -> None:
    """Check the identity that a queue manager claims, before it counts; the core decides what its
    proof alone cannot show (``core/peers/trust.py``).

    Raises:
        IdentityClash: It may not speak for that one.
    """
    reason = why_not_guid(who, said)
    if reason:
        raise IdentityClash(reason)


def expect(expected: bytes, found: bytes) -> None:
    """Accept only the queue manager that was looked for.

    Args:
        expected: Its GUID; zero: any may answer.

    Raises:
        ProtocolState: Another one answers.
    """
    if expected not in (NO_GUID, found):
        raise ProtocolState(
            f"another queue manager ({guid_text(found)}) answers at this address than "
            f"{guid_text(expected)}: correct [peers] in onceq.toml, or the directory"
        )


def clash(own: bytes) -> IdentityClash:
    """Return the error that the peer has our own identity."""
    return IdentityClash(
        f"the queue manager at the other end has our own identity {guid_text(own)}: it is this "
        "one, and the name that leads here belongs into addresses in onceq.toml; or a copy of its "
        "data runs twice: give the copy a new identity"
    )
