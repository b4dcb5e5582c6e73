"""An OpenID provider, asked over HTTPS: what it says of itself, its keys, and ID tokens for codes.

Nothing is believed that it does not say under its own name: the issuer in its description is the
one that was configured, and each address in it is HTTPS (or loopback). Redirections are not
followed. Each answer has a limit of time and of size, and so has the number of those who ask.

An ID token counts only if it is of the provider, for this console and for this sign-in; PyJWT
checks signature and times. Only signatures by public keys count, each key for its own algorithm: a
token without a signature, or signed with a public key as a shared secret, does not.

Upholds: what an ID token says is believed after all of it was checked.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import ssl
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx2 as httpx
import jwt

from onceq.console.guard import (
    GROUPS_MAX,
    KEYS_AGAIN_S,
    NAME_CHARS_MAX,
    PROVIDER_AGAIN_S,
    PROVIDER_ASKS_MAX,
    PROVIDER_BYTES_MAX,
    PROVIDER_KEPT_S,
    PROVIDER_S_MAX,
    SKEW_S,
    SUBJECT_CHARS_MAX,
    TOKEN_AGE_S_MAX,
    TOKEN_CHARS_MAX,
)
from onceq.console.people import People, check_url
from onceq.errors import ConfigurationError

T = TypeVar("T")

WELL_KNOWN: Final = "/.well-known/openid-configuration"
HEADERS: Final = {"accept": "application/json", "accept-encoding": "identity"}
PLACES: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class ProviderAway(Exception):
    """The provider does not answer, or not as one does; the text says what."""


class ProviderRefuses(Exception):
    """The provider has refused a sign-in; the text says how it calls that."""


@dataclass(frozen=True, slots=True)
class Description:
    """What a provider says of itself.

    Attributes:
        names_itself: It says in each answer to a browser who it is.
        in_form: It wants the console's secret in the form, not in a header.
    """

    authorization: str
    token: str
    keys: str
    names_itself: bool
    in_form: bool


class Provider:
    """One provider, with what is known of it."""

    def __init__(
        self, people: People, *, monotonic: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        """Note whom to ask; nobody is asked yet.

        Raises:
            ConfigurationError: The file with certificates cannot be used.
        """
        self._people, self._monotonic, self._wall = people, monotonic, wall
        self._tls = _tls(people.authorities)
        self._description: tuple[Description, float] | None = None
        self._away: tuple[str, float] | None = None
        """Why it has not described itself, and when."""
        self._keys: tuple[Keys, float] | None = None
        self._again_at: float | None = None
        """When the keys were asked for last because of a token."""
        self._asking = asyncio.Semaphore(PROVIDER_ASKS_MAX)

    async def description(self) -> Description:
        """What it says of itself, asked for once an hour; raises ProviderAway."""
        known, away = self._description, self._away
        if known is not None and not self._is_old(known[1], PROVIDER_KEPT_S):
            return known[0]
        if away is not None and not self._is_old(away[1], PROVIDER_AGAIN_S):
            raise ProviderAway(away[0])
        try:
            found = await self._within(self._described())
        except ProviderAway as error:
            self._away = str(error), self._monotonic()
            raise
        self._description = found, self._monotonic()
        return found

    def address(self, about: Description, *, back: str, state: str, nonce: str, proof: str) -> str:
        """Where a browser signs in.

        Args:
            back: Where it comes back to.
            proof: Digest of what the console shows with the code (PKCE, S256).
        """
        asked = {
            "response_type": "code", "client_id": self._people.client_id, "redirect_uri": back,
            "scope": "openid profile email", "state": state, "nonce": nonce,
            "code_challenge": proof, "code_challenge_method": "S256",
        }  # fmt: skip
        sign = "&" if urlsplit(about.authorization).query else "?"
        return f"{about.authorization}{sign}{urlencode(asked)}"

    async def person(self, code: str, *, back: str, nonce: str, verifier: str) -> Person:
        """Who has come back with a code.

        Raises:
            ProviderAway: It does not answer as it should.
            ProviderRefuses: It does not take the code.
            TokenRefused: It has said something that is not believed.
        """
        about = await self.description()
        return await self._within(self._person(about, code, back, nonce, verifier))

    async def _person(
        self, about: Description, code: str, back: str, nonce: str, verifier: str
    ) -> Person:
        token = await self._token(about, code, back, verifier)
        try:
            return self._judged(token, await self._known_keys(about), nonce)
        except KeyUnknown:
            # It has changed its keys; or somebody makes tokens up, who shall not have it asked
            # again and again.
            if self._again_at is not None and not self._is_old(self._again_at, KEYS_AGAIN_S):
                raise
        self._keys, self._again_at = None, self._monotonic()
        return self._judged(token, await self._known_keys(about), nonce)

    def _judged(self, token: str, keys: Keys, nonce: str) -> Person:
        people = self._people
        return person_of(
            token, keys, issuer=people.issuer, client_id=people.client_id, nonce=nonce,
            groups_claim=people.groups_claim, name_claim=people.name_claim,
            now_s=int(self._wall()),
        )  # fmt: skip

    async def _described(self) -> Description:
        said = await self._ask("GET", self._people.issuer.rstrip("/") + WELL_KNOWN)
        if said.get("issuer") != self._people.issuer:
            raise ProviderAway("it describes itself under another name than the one configured")
        for name in PLACES:
            place = said.get(name)
            try:
                check_url(place if isinstance(place, str) else "")
            except ConfigurationError as error:
                raise ProviderAway(f"its {name}: {error.text}") from None
        methods = said.get("token_endpoint_auth_methods_supported")
        basic = not isinstance(methods, list) or "client_secret_basic" in methods
        return Description(
            said[PLACES[0]], said[PLACES[1]], said[PLACES[2]],
            said.get("authorization_response_iss_parameter_supported") is True,
            in_form=not basic,
        )  # fmt: skip

    async def _known_keys(self, about: Description) -> Keys:
        if self._keys is None or self._is_old(self._keys[1], PROVIDER_KEPT_S):
            found = (await self._ask("GET", about.keys)).get("keys")
            if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
                raise ProviderAway("it publishes no keys")
            self._keys = found, self._monotonic()
        return self._keys[0]

    async def _token(self, about: Description, code: str, back: str, verifier: str) -> str:
        people = self._people
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": back,
            "client_id": people.client_id, "code_verifier": verifier,
        }  # fmt: skip
        shown = None
        if people.secret and about.in_form:
            form["client_secret"] = people.secret
        elif people.secret:
            shown = (quote_plus(people.client_id), quote_plus(people.secret))  # RFC 6749, 2.3.1
        said = await self._ask("POST", about.token, form, shown)
        token = said.get("id_token")
        if not isinstance(token, str):
            raise TokenRefused("the provider has sent no ID token")
        return token

    async def _ask(
        self, method: str, url: str, form: dict[str, str] | None = None,
        shown: tuple[str, str] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """A JSON object; raises ProviderAway, ProviderRefuses."""
        raw = bytearray()
        try:
            async with (
                httpx.AsyncClient(verify=self._tls, follow_redirects=False) as client,
                client.stream(method, url, data=form, auth=shown, headers=HEADERS) as answer,
            ):
                async for piece in answer.aiter_raw():
                    raw += piece
                    if len(raw) > PROVIDER_BYTES_MAX:
                        raise ProviderAway("it says too much")
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            said = str(error) or type(error).__name__
            raise ProviderAway(f"{urlsplit(url).netloc}: {said}") from None
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError):
            found = None
        if answer.status_code in (400, 401) and form is not None and isinstance(found, dict):
            raise ProviderRefuses(str(found.get("error", "an error"))[:80])
        if answer.status_code != 200 or not isinstance(found, dict):
            raise ProviderAway(f"{urlsplit(url).netloc} answers {answer.status_code}, and not JSON")
        return found

    async def _within(self, asked: Coroutine[Any, Any, T]) -> T:
        """What is asked, in its time; raises ProviderAway."""
        if self._asking.locked():
            asked.close()
            raise ProviderAway("others ask it already; try again in a moment")
        async with self._asking:
            try:
                async with asyncio.timeout(PROVIDER_S_MAX):
                    return await asked
            except TimeoutError:
                raise ProviderAway(f"no answer within {PROVIDER_S_MAX:.0f} s") from None

    def _is_old(self, at: float, most_s: float) -> bool:
        return self._monotonic() - at >= most_s


def _tls(authorities: str) -> ssl.SSLContext:
    try:
        if authorities:
            return ssl.create_default_context(cafile=authorities)
    except OSError as error:
        raise ConfigurationError(f"{authorities} has no certificates: {error}") from None
    return ssl.create_default_context()


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
