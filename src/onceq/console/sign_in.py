"""Sign-in by OpenID Connect: a browser goes to the provider, and comes back with a code.

The console stores nothing when a sign-in begins. The browser has a secret in a cookie. The console
derives all else from it and from a secret of its own: the *state* that the provider hands back, the
*nonce* that the ID token repeats, and the verifier that goes with the code (PKCE). So an answer
counts only for the browser that has begun, for some minutes, once; and a client that only begins
sign-ins uses up no memory. No request says where a browser goes afterwards: it goes to the
overview.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from onceq.console.desk import Desk, tell
from onceq.console.guard import ATTEMPT_S, ATTEMPTS_MAX, FIELDS_MAX
from onceq.console.people import People
from onceq.console.provider import Person, Provider, ProviderAway, ProviderRefuses, TokenRefused
from onceq.console.table import environment
from onceq.model.identity import read_number

BEGIN: Final = "/sign-in/begin"
BACK: Final = "/sign-in/back"


class NotSignedIn(Exception):
    """Somebody is not let in.

    Attributes:
        status: Of the answer.
        cure: What to do.
    """

    def __init__(self, status: int, text: str, cure: str) -> None:
        super().__init__(text)
        self.status, self.text, self.cure = status, text, cure


_AGAIN: Final = "Begin again."
_AWAY: Final = (
    "Try again in a moment. If it stays so, who runs the console sees to the provider, or "
    "starts a console without --openid meanwhile."
)


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """One sign-in that has begun: what is made of the secret in the browser's cookie."""

    cookie: str
    key: bytes

    @property
    def state(self) -> str:
        """What the provider hands back."""
        return self._derive("state")

    @property
    def nonce(self) -> str:
        """What the ID token repeats."""
        return self._derive("nonce")

    @property
    def verifier(self) -> str:
        """The secret that is sent with the code."""
        return self._derive("verifier")

    @property
    def proof(self) -> str:
        """The digest of the verifier, which the provider gets before it (PKCE)."""
        return _text(hashlib.sha256(self.verifier.encode()).digest())

    @property
    def until(self) -> int:
        """When it is over, by the console's clock (seconds)."""
        return read_number(self.cookie.partition(".")[0]) or 0

    def _derive(self, what: str) -> str:
        said = f"{what} {self.cookie}".encode("utf-8", "surrogatepass")
        return _text(hmac.digest(self.key, said, "sha256"))


class SignIn:
    """The way in by a provider."""

    def __init__(self, desk: Desk, people: People, *, address: str) -> None:
        """Nobody has begun yet.

        Args:
            address: Where browsers reach the console, without a slash at the end.

        Raises:
            ConfigurationError: The file with certificates cannot be used.
        """
        self._desk, self._people, self._address = desk, people, address
        self._provider = Provider(people, monotonic=desk.monotonic, wall=desk.wall)
        self._cookie = f"{desk.cookie}-attempt"
        self._key = secrets.token_bytes(32)
        self._used: OrderedDict[str, None] = OrderedDict()
        self._templates: Environment = environment(desk.now_s)

    @property
    def title(self) -> str:
        """The provider, for people."""
        return urlsplit(self._people.issuer).netloc

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route(BEGIN, self.begin, methods=["GET"]),
            Route(BACK, self.back, methods=["GET"]),
        ]

    async def begin(self, request: Request) -> Response:
        """Lead a browser to the provider."""
        if request.headers.get("host", "").casefold() != urlsplit(self._address).netloc:
            # The provider leads back to the address that is configured: a cookie of another name
            # of this console would not be there then.
            return RedirectResponse(self._address + BEGIN, status_code=303)
        try:
            about = await self._provider.description()
        except ProviderAway as error:
            return self._refused(NotSignedIn(503, f"{self.title} is away: {error}.", _AWAY))
        until = int(self._desk.monotonic()) + ATTEMPT_S
        made = SignInAttempt(f"{until}.{secrets.token_urlsafe(32)}", self._key)
        place = self._provider.address(
            about, back=self._address + BACK, state=made.state, nonce=made.nonce, proof=made.proof
        )
        answer = RedirectResponse(place, status_code=303)
        answer.set_cookie(
            self._cookie, made.cookie, max_age=ATTEMPT_S, path="/", httponly=True,
            samesite="lax",  # it must be there when the provider leads back
            secure=self._desk.secure,
        )  # fmt: skip
        return answer

    async def back(self, request: Request) -> Response:
        """Take a browser that comes back."""
        try:
            attempt = SignInAttempt(request.cookies.get(self._cookie, ""), self._key)
            person = await self._person(attempt, request.url.query)
            role = self._people.role_of(person.groups)
            if role is None:
                groups = person.groups[:20]
                tell("nobody's group was let in", person=str(person), groups=groups)
                claim = self._people.groups_claim
                text = f"The provider names no groups of yours (claim {claim})."
                if named := ", ".join(groups):
                    text = f"The provider names these groups of yours: {named}."
                raise NotSignedIn(
                    403, f"You are {person}, and no group of yours may use this console. {text}",
                    "Who runs the console lets groups in; who runs the provider puts you into "
                    "them.",
                )  # fmt: skip
        except NotSignedIn as refused:
            return self._refused(refused)
        cookie = self._desk.keys.open(
            role=role, person=str(person), session_s=self._people.session_s
        )
        tell("signed in", person=str(person), group=role)
        # A redirection would come from the provider's site, where no strict cookie is sent.
        answer = self._page("welcome.html", 200, person=str(person), role=role)
        answer.set_cookie(
            self._desk.cookie, cookie, max_age=self._people.session_s, path="/", httponly=True,
            samesite="strict", secure=self._desk.secure,
        )  # fmt: skip
        answer.delete_cookie(
            self._cookie, path="/", httponly=True, samesite="lax", secure=self._desk.secure
        )
        return answer

    async def _person(self, attempt: SignInAttempt, query: str) -> Person:
        """Who comes back; raises NotSignedIn."""
        said = self._read_answer(attempt, query)
        if "error" in said:
            raise NotSignedIn(403, f"{self.title} has not signed you in: {said['error'][:80]}.",
                              _AGAIN)  # fmt: skip
        try:
            about = await self._provider.description()
            issuer = said.get("iss", None if about.names_itself else self._people.issuer)
            if issuer != self._people.issuer:
                raise NotSignedIn(403, "Another provider than this console's has answered.", _AGAIN)
            if not said.get("code"):
                raise NotSignedIn(403, "The provider has sent no code.", _AGAIN)
            return await self._provider.person(
                said["code"], back=self._address + BACK, nonce=attempt.nonce,
                verifier=attempt.verifier,
            )  # fmt: skip
        except ProviderAway as error:
            raise NotSignedIn(503, f"{self.title} is away: {error}.", _AWAY) from None
        except ProviderRefuses as error:
            raise NotSignedIn(
                403, f"{self.title} does not take this sign-in: {error}.",
                "Begin again. If it stays so, who runs the console compares its client with what "
                "the provider has.",
            ) from None  # fmt: skip
        except TokenRefused as error:
            tell("an ID token was refused", provider=self.title, reason=str(error))
            raise NotSignedIn(
                403, f"What {self.title} says of you is not believed: {error}.",
                "Begin again. If it stays so, tell who runs the console.",
            ) from None  # fmt: skip

    def _read_answer(self, attempt: SignInAttempt, query: str) -> Mapping[str, str]:
        """Return the provider's answer to this attempt, from its browser; raises NotSignedIn."""
        try:
            pairs = parse_qsl(query, max_num_fields=FIELDS_MAX, errors="strict")
        except ValueError:
            pairs = []
        said = dict(pairs)
        state = said.get("state", "")
        if len(said) != len(pairs) or not hmac.compare_digest(
            state.encode(), attempt.state.encode()
        ):
            raise NotSignedIn(403, "This sign-in was not begun in this browser.", _AGAIN)
        if attempt.until < self._desk.monotonic():
            raise NotSignedIn(403, "This sign-in has taken too long.", _AGAIN)
        if state in self._used:
            raise NotSignedIn(403, "This sign-in is over already.", _AGAIN)
        self._used[state] = None
        if len(self._used) > ATTEMPTS_MAX:
            self._used.popitem(last=False)
        return said

    def _refused(self, refused: NotSignedIn) -> Response:
        # The attempt stays: a link of somebody else's ends none that this browser has begun.
        return self._page(
            "refused.html", refused.status, text=refused.text, cure=refused.cure, begin=BEGIN
        )

    def _page(self, template: str, status: int, **values: Any) -> Response:
        text = self._templates.get_template(template).render(
            title="Sign in", watched=None, screen="", managers=[], session=None, notices=[],
            **values,
        )  # fmt: skip
        return HTMLResponse(text, status_code=status)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
