"""ID tokens of OpenID Connect: whether one is of the provider, for this console, and for this
sign-in. The signature and the times are PyJWT's to check.

Taken are signatures by public keys alone, each key for the algorithm that it says, or that fits its
kind: a token without a signature, or signed with a public key as if that were a secret, is none.

Upholds: what an ID token says is believed after all of it was checked.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jwt

from onceq.console.limits import (
    GROUPS_MAX,
    NAME_CHARS_MAX,
    SKEW_S,
    SUBJECT_CHARS_MAX,
    TOKEN_AGE_S_MAX,
    TOKEN_CHARS_MAX,
)

KINDS: Final[Mapping[str, tuple[str, str]]] = {
    **{f"{kind}{size}": ("RSA", "") for kind in ("RS", "PS") for size in (256, 384, 512)},
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""By algorithm: kind of key, and its curve."""
PUBLIC: Final = ("kty", "kid", "crv", "n", "e", "x", "y")
"""What is read of a key."""
NEEDED: Final = ("iss", "sub", "aud", "exp", "iat")

Keys = Sequence[Mapping[str, Any]]
"""As a provider publishes them."""


class TokenRefused(Exception):
    """An ID token is not believed; the text says why."""


class KeyUnknown(TokenRefused):
    """None of the keys is the one that it names."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who has signed in.

    Attributes:
        subject: What the provider knows them by; never given to somebody else.
        name: For people; others may have it, too.
        groups: As the provider says.
    """

    subject: str
    name: str
    groups: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} ({self.subject})" if self.name != self.subject else self.subject


def person_of(
    token: str, keys: Keys, *, issuer: str, client_id: str, nonce: str, groups_claim: str,
    name_claim: str, now_s: int,
) -> Person:  # fmt: skip
    """Who an ID token is about.

    Args:
        now_s: Second since 1970.

    Raises:
        KeyUnknown: Its key is none of these; newer ones may have it.
        TokenRefused: It is not believed.
    """
    said = _proven(token, keys, issuer, client_id, now_s)
    audience, party = said["aud"], said.get("azp")
    if (isinstance(audience, list) and len(audience) > 1 and party is None) or (
        party is not None and party != client_id
    ):
        raise TokenRefused("it was made for another application")
    told = said.get("nonce")
    if not isinstance(told, str) or not hmac.compare_digest(told.encode(), nonce.encode()):
        raise TokenRefused("it is of another sign-in")
    subject = said["sub"]
    if not isinstance(subject, str) or not 0 < len(subject) <= SUBJECT_CHARS_MAX:
        raise TokenRefused("it does not say whom it is about")
    if not subject.isascii() or not subject.isprintable():
        raise TokenRefused("it does not say whom it is about in ASCII")
    return Person(subject, _name(said.get(name_claim)) or subject, _groups(said, groups_claim))


def _proven(
    token: str, keys: Keys, issuer: str, client_id: str, now_s: int
) -> dict[str, Any]:  # fmt: skip
    """What a token says whose signature, issuer, audience and times are right."""
    if len(token) > TOKEN_CHARS_MAX:
        raise TokenRefused(f"it has more than {TOKEN_CHARS_MAX} characters")
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        raise TokenRefused("it is no token") from None
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in KINDS:
        raise TokenRefused(f"it is signed by {algorithm!r:.20}, which proves nothing here")
    try:
        key = jwt.PyJWK(_key(keys, header.get("kid"), algorithm), algorithm)
        said: dict[str, Any] = jwt.decode(
            token, key, algorithms=[algorithm], audience=client_id, issuer=issuer, leeway=SKEW_S,
            options={"require": list(NEEDED), "enforce_minimum_key_length": True},
        )  # fmt: skip
        age_s = now_s - int(said["iat"])
    except jwt.PyJWTError as error:
        raise TokenRefused(str(error)) from None
    if age_s > TOKEN_AGE_S_MAX + SKEW_S:
        raise TokenRefused("it was made for a sign-in of before")
    return said


def _key(keys: Keys, kid: object, algorithm: str) -> dict[str, Any]:
    """The key that a token names, or the only one that fits; raises TokenRefused."""
    kind, curve = KINDS[algorithm]
    fitting = [
        key for key in keys
        if key.get("kty") == kind
        and (not curve or key.get("crv") == curve)
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
    ]  # fmt: skip
    found = [key for key in fitting if key.get("kid") == kid] if kid is not None else fitting
    if not found:
        raise KeyUnknown("it is signed with a key that the provider does not publish")
    if len(found) > 1:
        raise TokenRefused("it does not say with which of the provider's keys it is signed")
    return {name: found[0][name] for name in PUBLIC if name in found[0]}


def _name(said: object) -> str:
    """A name for pages and the trail: letters, digits and a few signs."""
    if not isinstance(said, str):
        return ""
    kept = "".join(c if c.isalnum() or c in " .-_@+'" else "_" for c in said.strip())
    return kept[:NAME_CHARS_MAX].strip()


def _groups(said: Mapping[str, Any], claim: str) -> tuple[str, ...]:
    found = said.get(claim, [])
    found = [found] if isinstance(found, str) else found
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise TokenRefused(f"its {claim} are no list of names")
    if len(found) > GROUPS_MAX:
        raise TokenRefused(f"it names more than {GROUPS_MAX} groups")
    return tuple(found)
