"""Who an application is that shows a token, and what strangers can cost by guessing.

A token is taken where nobody can read it on its way: over TLS, at the Unix socket, and over
loopback. A wrong one is refused in the same words as none at all, whether it was never made, was
revoked or has expired, so nothing is learnt from it. Each address may be wrong a few times in a
second (at the Unix socket each account); above that nothing is hashed for it, and it is told to
come again: a token of somebody else behind that address may be good.

Upholds: I24, I28.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

from onceq.core.manager import Manager
from onceq.errors import AccessDenied, ManagerAway
from onceq.model.limits import TOKEN_ADDRESSES_MAX, WRONG_TOKENS_A_S, WRONG_TOKENS_AT_ONCE
from onceq.model.rights import Actor, ActorKind
from onceq.model.tokens import Token
from onceq.service.clock import Clock
from onceq.service.rates import SECOND, Rates

_UNPROVEN: Final = (
    "access denied: whoever asks has not said who he is, or could not prove it (with a token or a "
    "certificate that is good here)"
)


class TokenDoor:
    """Looks at the tokens of one queue manager's applications; in the thread of its engine."""

    def __init__(self, manager: Manager, clock: Clock, rates: Rates) -> None:
        self._manager = manager
        self._clock = clock
        self._rates = rates
        self._wrong: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """By address: how many wrong ones count now, and when that was (monotonic us)."""

    def proven(self, text: str, address: str, *, private: bool) -> Token:
        """The token that was shown.

        Args:
            address: Of whoever shows it; of an application on this computer its account.
            private: Whether nobody between could read it.

        Raises:
            AccessDenied: It is not good.
            ServiceNotAvailable: There were too many wrong ones from there just now.
        """
        now = self._clock.read()
        count = self._counted(address, now.mono_us)
        if count >= WRONG_TOKENS_AT_ONCE:
            self._told(address, "too many wrong tokens")
            raise ManagerAway(
                "too many wrong tokens came from this address just now: the next one is looked at "
                f"in {1 / WRONG_TOKENS_A_S:g} s"
            )
        token = self._manager.state.tokens.proven(text, now.wall_s) if private else None
        if token is None:
            self._wrong[address] = count + 1, now.mono_us
            self._wrong.move_to_end(address)
            if len(self._wrong) > TOKEN_ADDRESSES_MAX:
                self._wrong.popitem(last=False)
            self._told(address, "" if private else "it came over a network without TLS")
            raise unproven()
        return token

    def admits_nobody(self) -> bool:
        """Whether somebody may have a right here of whom nothing is known."""
        return self._manager.state.policy.admits_nobody()

    def _counted(self, address: str, now_us: int) -> float:
        """How many wrong tokens of an address count now: each is forgiven after a while."""
        count, at_us = self._wrong.get(address, (0.0, now_us))
        left = count - (now_us - at_us) / SECOND * WRONG_TOKENS_A_S
        if left <= 0:
            self._wrong.pop(address, None)
        return max(left, 0.0)

    def _told(self, address: str, reason: str) -> None:
        more = {"reason": reason} if reason else {}
        self._rates.event("wrong token", level=logging.WARNING, address=address, **more)


def actor_of(token: Token) -> Actor:
    """Who somebody is that holds a token."""
    return Actor(ActorKind.TOKEN, token.name)


def unproven() -> AccessDenied:
    """The refusal of whoever did not prove who he is: always the same."""
    return AccessDenied(_UNPROVEN)
