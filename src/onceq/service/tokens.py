"""Authenticate applications by token, and limit the cost of guessing.

A token is proven (``model/tokens.py``). The proof counts where nobody can change later traffic:
over TLS, at the Unix socket, and over loopback. A wrong token is refused in the same words as none
at all, whether it never existed, was revoked or has expired, so the refusal reveals nothing. A
token whose holder stops, because this is not the queue manager that issued it, counts as wrong as
well. Each address may be wrong a few times in a second (at the Unix socket each account). Above
that, nothing is hashed for the address and the client is asked to retry later: another client
behind that address may have a good token.

Upholds: I24, I28.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from onceq.core.manager import Manager
from onceq.errors import AccessDenied, MalformedPacket, ManagerAway
from onceq.model.identification import Over, Shown, identify_application
from onceq.model.limits import TOKEN_ADDRESSES_MAX, WRONG_TOKENS_A_S, WRONG_TOKENS_AT_ONCE
from onceq.model.policy import Door
from onceq.model.record import Record, repr_without
from onceq.model.rights import Actor
from onceq.model.tokens import NONCE_BYTES, SECRET_BYTES, Token, TokenExchange, read, salt_of
from onceq.service.clock import Clock
from onceq.service.pacing import SECOND, Rates
from onceq.wire.app import frames

_UNPROVEN: Final = (
    "access denied: the requester has not said who it is, or could not prove it (with a token or "
    "a certificate that is good here)"
)


class Challenge(Record, frozen=True):
    """The challenge sent to a client that claims to have a token.

    Attributes:
        name: Of the token; "" if it would count for nothing.
        digest: Of its secret; a random value if the token does not exist.
        address, private: Of the client; as for ``TokenDoor.challenge``.
    """

    name: str
    salt: bytes
    digest: bytes
    talk: TokenExchange
    address: str
    private: bool

    __repr__ = repr_without("digest")

    @property
    def known(self) -> frames.ProofAnswer:
        """Return the frame with the challenge."""
        return frames.ProofAnswer(self.salt, self.talk.ours, self.talk.known(self.digest))


class TokenDoor:
    """Checks the tokens of one queue manager's applications. Runs in the thread of its engine."""

    def __init__(self, manager: Manager, clock: Clock, rates: Rates) -> None:
        self._manager = manager
        self._clock = clock
        self._rates = rates
        self._wrong: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """By address: the number of wrong tokens that count now, and its time (monotonic us)."""

    def challenge(
        self, name: str, theirs: bytes, address: str, *, private: bool, bound: bytes,
        random: Callable[[int], bytes],
    ) -> Challenge:  # fmt: skip
        """Begin the proof of a token; the challenge reveals nothing to the client.

        Args:
            name: Of the token, as claimed.
            theirs: The client's nonce.
            address: Of the client; for an application on this computer its account.
            private: Whether later traffic is safe from changes on the way.
            bound: Identifies the connection (``sockets/both_ends.py``).
            random: Returns the given number of random bytes.

        Raises:
            MalformedPacket: It is no nonce.
            ServiceNotAvailable: There were too many wrong tokens from that address just now.
        """
        if len(theirs) != NONCE_BYTES:
            raise MalformedPacket(f"a nonce has {NONCE_BYTES} bytes, not {len(theirs)}")
        self._check_count(address)
        token = self._manager.state.tokens.get(name) if private else None
        salt = token.salt if token else salt_of(self._manager.identity.guid, name)
        # For a token that does not exist, a value that nobody can calculate.
        digest = token.digest if token else random(SECRET_BYTES)
        talk = TokenExchange(theirs, random(NONCE_BYTES), bound)
        return Challenge(name if private else "", salt, digest, talk, address, private)

    def proven(self, challenge: Challenge, proof: str) -> Token:
        """Return the token whose holder has answered a challenge.

        Raises:
            AccessDenied: The proof is wrong, or the token is not good.
        """
        raw = _raw(proof)
        secret = challenge.talk.covered(challenge.digest, raw or bytes(SECRET_BYTES))
        token = self._manager.state.tokens.proven(challenge.name, secret, self._clock.read().wall_s)
        if token is None or not raw:
            raise self.missed(challenge)
        return token

    def missed(self, challenge: Challenge) -> AccessDenied:
        """Count a challenge with a wrong answer or none; return the refusal."""
        self._count(challenge.address, challenge.private)
        return unproven()

    def check_clear(self, text: str, address: str, *, private: bool) -> Token:
        """Return the token sent in clear text, where a foreign protocol has no other way (HTTP).

        Args:
            address, private: As for ``challenge``.

        Raises:
            AccessDenied: It is not good.
            ServiceNotAvailable: There were too many wrong tokens from that address just now.
        """
        self._check_count(address)
        name, secret = read(text) or ("", bytes(SECRET_BYTES))
        now_s = self._clock.read().wall_s
        token = self._manager.state.tokens.proven(name, secret, now_s) if private else None
        if token is None:
            self._count(address, private)
            raise unproven()
        return token

    def _check_count(self, address: str) -> None:
        if self._counted(address, self._clock.read().mono_us) >= WRONG_TOKENS_AT_ONCE:
            self._log_wrong(address, "too many wrong tokens")
            raise ManagerAway(
                "too many wrong tokens came from this address just now: the next one is looked at "
                f"in {1 / WRONG_TOKENS_A_S:g} s"
            )

    def _count(self, address: str, private: bool) -> None:
        """Count one more wrong token."""
        now_us = self._clock.read().mono_us
        self._wrong[address] = self._counted(address, now_us) + 1, now_us
        self._wrong.move_to_end(address)
        if len(self._wrong) > TOKEN_ADDRESSES_MAX:
            self._wrong.popitem(last=False)
        self._log_wrong(address, "" if private else "it came over a network without TLS")

    def admits_nobody(self, door: Door) -> bool:
        """Return True if an unidentified client may do something at a door."""
        return self._manager.state.policy.admits_nobody(door)

    def _counted(self, address: str, now_us: int) -> float:
        """Return the number of an address's wrong tokens that count now: each expires after a
        while."""
        count, at_us = self._wrong.get(address, (0.0, now_us))
        left = count - (now_us - at_us) / SECOND * WRONG_TOKENS_A_S
        if left <= 0:
            self._wrong.pop(address, None)
        return max(left, 0.0)

    def _log_wrong(self, address: str, reason: str) -> None:
        more = {"reason": reason} if reason else {}
        self._rates.event("wrong token", level=logging.WARNING, address=address, **more)


def _raw(proof: str) -> bytes:
    """Return a proof as bytes; none if it cannot be one."""
    try:
        raw = bytes.fromhex(proof)
    except ValueError:
        return b""
    return raw if len(raw) == SECRET_BYTES else b""


def actor_of(token: Token) -> Actor:
    """Return the actor that a token stands for."""
    return identify_application(Shown(Over.TCP, token=token.name)).actor


def unproven() -> AccessDenied:
    """Return the refusal of a client without proof of its identity: always the same."""
    return AccessDenied(_UNPROVEN)
