"""An OpenID provider, asked over HTTPS: what it says of itself, its keys, and ID tokens for codes.

Nothing is believed that it does not say under its own name: the issuer in its description is the
one that was configured, and each address in it is HTTPS (or loopback). Redirections are not
followed. Each answer has a limit of time and of size, and so has the number of those who ask.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx2 as httpx

from onceq.console.id_tokens import Keys, KeyUnknown, Person, TokenRefused, person_of
from onceq.console.limits import (
    KEYS_AGAIN_S,
    PROVIDER_AGAIN_S,
    PROVIDER_ASKS_MAX,
    PROVIDER_BYTES_MAX,
    PROVIDER_KEPT_S,
    PROVIDER_S_MAX,
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
