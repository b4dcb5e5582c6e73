"""Counts of a session on the wire: modulo 65536 (U11), and both sides compare them."""

from __future__ import annotations

from typing import Final

from onceq.errors import ProtocolState
from onceq.wire.mqqb.internal import SessionHeader

COUNTER: Final = 0x10000


def durable(header: SessionHeader, sent: int, known: int) -> int:
    """Return how many recoverable messages the peer has on disk: the base, by definition all before
    it, and those after it as far as the flags have no hole.

    A base of 0 means "none", and after a wrap with flags it may be number 65536.

    Args:
        sent: Recoverable messages that were sent.
        known: Those that were known to be on disk before.
    """
    if not header.base and (not header.flags or sent < COUNTER):
        return known
    run = (~header.flags & (header.flags + 1)).bit_length() - 1
    found = known + (header.base + max(run, 1) - 1 - known) % COUNTER
    # Else it counts messages that were never sent, and is not believed.
    return found if found <= sent else known


def agree(header: SessionHeader, received: tuple[int, int], carrying: tuple[int, int]) -> None:
    """Check that the peer has sent as many messages as have come (MS-MQQB 3.1.5.5).

    Args:
        received: Messages that have come, and the recoverable ones among them.
        carrying: Those in the packet of the header itself: whether its counts include them is not
            published, so both are right (U2).

    Raises:
        ProtocolState: Its count is different.
    """
    theirs = (header.sent, header.sent_recoverable)
    after = (received[0] % COUNTER, received[1] % COUNTER)
    before = ((received[0] - carrying[0]) % COUNTER, (received[1] - carrying[1]) % COUNTER)
    if theirs not in (after, before):
        raise ProtocolState(
            f"the peer counts {theirs[0]} messages sent, {theirs[1]} of them recoverable; "
            f"{after[0]} and {after[1]} have come"
        )
