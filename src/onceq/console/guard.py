"""What every request passes before anything looks at it, every answer after, and who has signed in.

* Its ``Host`` is a name of this console: a page of another site cannot reach it under a name of its
  own that leads to this computer.
* It is signed in: by the cookie of a session, or by ``Authorization: Bearer`` and the token.
* Its ``Origin`` is this console, if it has one: what is shown is for its own pages.
* It changes something with a cookie only if the form token of the session comes along. A token in a
  header is no browser's doing and does not need it.
* It is not larger than ``limits`` allow, whether it says its length or not.

Answers carry a content policy that runs and loads nothing but what the console ships, and no cache
keeps them.

A one-time link opens one session and is used up then, or after an hour; by OpenID Connect
(``sign_in.py``) a session has a person and a role. A session is a cookie that scripts cannot read
and that no other site can send, and a second secret, the *form token*, which is in every form and
must come back with each change. Everything is in memory: a restart of the console signs everybody
out.

Upholds: secrets are compared in constant time, and only their digests are kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, parse_qsl, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onceq.errors import InvalidParameter
from onceq.model.identity import read_number

# ---- limits --------------------------------------------------------------------------------------
#
# Limits of the console: input from a browser, or from a queue manager, makes it grow no further.
# The name ends with the unit; a name without one is a count.


BODY_BYTES_MAX: Final = 64 * 1024
"""Of a request: forms and JSON objects here have a few short fields."""
HEADER_BYTES_MAX: Final = 16 * 1024
"""Of a request's first lines, its address included."""
FIELD_CHARS_MAX: Final = 1024
"""Of one value in an address, a form or a JSON object; the longest are format names."""
FIELDS_MAX: Final = 32
"""Values in one request."""
CONNECTIONS_MAX: Final = 100
"""Browsers and scripts at a time; a browser has six and one for live numbers."""
SILENT_MAX: Final = 50
"""Of these, connections whose next request is not whole; the oldest goes. The rest is for those who
speak."""
REQUEST_S_MAX: Final = 5.0
"""For a request to come, its body included (seconds): from the connection or its first byte on."""

CODE_S: Final = 3600
"""A sign-in link that nobody has used for so long opens nothing."""
SESSION_S: Final = 12 * 3600
"""A browser signs in again after so long: a working day."""
SESSIONS_MAX: Final = 64
"""Signed-in browsers; the one that has been silent longest goes first."""
ATTEMPT_S: Final = 600
"""For somebody to sign in at the provider, and come back."""
ATTEMPTS_MAX: Final = 4096
"""Sign-ins that are known to be over; the oldest is forgotten first."""
OPENID_BYTES_MAX: Final = 64 * 1024
"""Of the file that says who signs in by OpenID Connect."""
ROLES_MAX: Final = 16
"""Groups in it: the console has a connection for each to each queue manager."""
GROUPS_MAX: Final = 1_000
"""Groups of one person."""
SUBJECT_CHARS_MAX: Final = 255
"""Of what a provider knows somebody by (OpenID Connect Core, 2)."""
NAME_CHARS_MAX: Final = 60
"""Of a person's name."""
TOKEN_CHARS_MAX: Final = 64 * 1024
"""Of an ID token."""
SKEW_S: Final = 60
"""By so much the provider's clock may be another one."""
TOKEN_AGE_S_MAX: Final = 300
"""The console fetches an ID token at once, so an older one is refused."""
PROVIDER_S_MAX: Final = 10.0
"""For all that one sign-in asks of the provider."""
PROVIDER_BYTES_MAX: Final = 256 * 1024
"""Of one of its answers."""
PROVIDER_ASKS_MAX: Final = 8
"""Sign-ins that ask the provider at a time."""
PROVIDER_KEPT_S: Final = 3600
"""So long what the provider says of itself, and its keys, are not asked for again."""
PROVIDER_AGAIN_S: Final = 2
"""Between two requests to a provider that does not describe itself: browsers may come often."""
KEYS_AGAIN_S: Final = 60
"""Between two times that its keys are asked for because a token names one that is not known."""
NOTICES_MAX: Final = 8
"""Sentences that wait for the next page of one browser."""

CONNECT_S_MAX: Final = 2.0
"""To connect to a queue manager: it is near, or away."""
READ_S_MAX: Final = 5.0
"""For all that one page asks of one queue manager."""
AWAY_S_MAX: Final = 30.0
"""A queue manager that is connected, and answers nothing in time, is slow; after so long it is
away."""
ACT_S_MAX: Final = 60.0
"""A page waits so long for what it has asked to be done; it is done all the same."""
JOB_WAIT_S: Final = 1.0
"""A page waits so long for a job that it has started; then it tells that it goes on."""
FIRST_S_MAX: Final = 1.0
"""The first overview waits so long for numbers that are still on their way."""
SAMPLE_S: Final = 2.0
"""Between two looks at the numbers of a queue manager."""
SAMPLE_SHARE: Final = 0.05
"""Most of the time that is spent looking at a queue manager's numbers: one with very many queues is
looked at less often."""
SAMPLES_MAX: Final = 90
"""Kept of each queue manager, for the small pictures: three minutes, if looks are quick."""

ROWS_MAX: Final = 50
"""Of a table on one page, if nobody asks for another number."""
ROWS_LIMIT: Final = 500
"""Of a table on one page, at most."""
LOOKED_MAX: Final = 5_000
"""Messages that one page looks at to find those that fit a filter; the next page goes on there."""
PAGE_MESSAGES: Final = 500
"""Headers asked for in one request."""
LETTERS_MAX: Final = 20_000
"""Dead letters that are counted by their reasons; of more it is said that there are more."""
SHOWN_BYTES_MAX: Final = 64 * 1024
"""Of a body on a page; the rest is said to be there."""
HEX_BYTES_MAX: Final = 4 * 1024
"""Of a body in hexadecimal digits."""
EVENTS_MAX: Final = 32
"""Pages that get live numbers at a time; people reload the others by hand."""


# ---- guard ---------------------------------------------------------------------------------------


POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with none, browsers call the origin of a form "null"
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
"""On every answer."""
OPEN: Final = ("/sign-in", "/static/")
"""What is there before somebody has signed in: the door, and what it looks like."""
SAFE: Final = frozenset(("GET", "HEAD"))
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


class NotLetIn(Exception):
    """A request is not let in.

    Attributes:
        status: Of the answer.
        code: A word for scripts.
    """

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.status, self.code, self.text = status, code, text


def hosts_of(port: int, names: Iterable[str] = ()) -> frozenset[str]:
    """What ``Host`` may say.

    Args:
        names: Further names of this console, with their port if it is not the usual one: of a
            proxy before it.
    """
    return frozenset([*(f"{name}:{port}" for name in LOOPBACK), *(n.casefold() for n in names)])


class Guard:
    """Stands before an ASGI application."""

    def __init__(self, app: ASGIApp, *, keys: Keys, hosts: frozenset[str], cookie: str) -> None:
        """Put it there.

        Args:
            hosts: See ``hosts_of``.
            cookie: Name of the session's cookie.
        """
        self._app, self._keys, self._hosts, self._cookie = app, keys, hosts, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it to the application (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                # A connection is for those who have signed in: others come again.
                if not scope.get("state", {}).get("signed"):
                    headers["connection"] = "close"
            await send(message)

        try:
            body = await self._let_in(scope, receive)
        except NotLetIn as refusal:
            await self._refuse(scope, refusal)(scope, receive, send_guarded)
            return
        await self._app(scope, _Again(body, receive), send_guarded)

    async def _let_in(self, scope: Scope, receive: Receive) -> bytes:
        """Judge a request; returns its body, or raises Refusal."""
        headers = Headers(scope=scope)
        size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        size += sum(len(name) + len(value) for name, value in scope["headers"])
        if size > HEADER_BYTES_MAX:
            raise NotLetIn(431, "too-large", f"a request has at most {HEADER_BYTES_MAX} bytes")
        host = headers.get("host", "").casefold()
        if host not in self._hosts:
            raise NotLetIn(
                421, "wrong-host", "this console is not called so; --host gives it another name"
            )
        changes = scope["method"] not in SAFE
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.casefold() != host:
            raise NotLetIn(403, "wrong-origin", "the request comes from a page of another site")
        body = await _whole(headers, receive) if changes else b""
        scope["state"] = {
            **scope.get("state", {}), "session": None, "cookie": "", "signed": False
        }  # fmt: skip
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        if kind.casefold() == "bearer":
            if not self._keys.is_token(bearer.strip()):
                raise NotLetIn(401, "wrong-token", "the token is not the one of this console")
            scope["state"].update(signed=True)
            return body
        session, cookie = self._session(headers)
        scope["state"].update(session=session, cookie=cookie, signed=session is not None)
        if session is None:
            if scope["path"].startswith(OPEN):
                return body
            raise NotLetIn(
                401, "sign-in", "sign in with the link that the console has printed at its start"
            )
        if changes:
            form = "application/x-www-form-urlencoded"
            token = headers.get("x-form-token", "")
            if not token and headers.get("content-type", "").startswith(form):
                with contextlib.suppress(ValueError):
                    fields = parse_qs(body.decode(), max_num_fields=FIELDS_MAX)
                    token = fields.get("form_token", [""])[0]
            if not session.has_sent(token):
                raise NotLetIn(
                    403, "form-token", "the form is not one of this session: reload its page"
                )
        return body

    def _session(self, headers: Headers) -> tuple[BrowserSession | None, str]:
        cookie = cookie_parser(headers.get("cookie", "")).get(self._cookie, "")
        return self._keys.session(cookie) if cookie else None, cookie

    def _refuse(self, scope: Scope, refusal: NotLetIn) -> Response:
        path = scope["path"]
        if refusal.code == "sign-in" and not path.startswith("/api") and scope["method"] in SAFE:
            return RedirectResponse("/sign-in", status_code=303)
        said = {"error": {"code": refusal.code, "text": refusal.text}}
        more = {"www-authenticate": "Bearer"} if refusal.status == 401 else {}
        return JSONResponse(said, status_code=refusal.status, headers=more)


class _Again:
    """Hands on a body that was read already."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        return await self._receive()


async def _whole(headers: Headers, receive: Receive) -> bytes:
    """The body of a request; raises Refusal if it is too large."""
    refusal = NotLetIn(413, "too-large", f"a request has at most {BODY_BYTES_MAX} bytes")
    told = headers.get("content-length", "0")
    if read_number(told, BODY_BYTES_MAX) is None:
        raise refusal
    found = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise NotLetIn(400, "cut-off", "the request ended in the middle")
        part: bytes = message.get("body", b"")
        found += part
        if len(found) > BODY_BYTES_MAX:
            raise refusal
        if not message.get("more_body"):
            return found


@dataclass(slots=True)
class BrowserSession:
    """One browser that has signed in.

    Attributes:
        form_token: What its forms bring back.
        until: When it ends, in seconds of the console's clock.
        role: The group that it works as; "": as the console itself.
        person: Who it is; "": somebody who had the link or the token.
        notices: Sentences for its next page.
    """

    form_token: str
    until: float
    role: str = ""
    person: str = ""
    notices: list[str] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it ends before its time."""

    def tell(self, text: str) -> None:
        """Say something at the top of the next page."""
        self.notices.append(text)
        del self.notices[:-NOTICES_MAX]

    def take_notices(self) -> list[str]:
        """Return the sentences for this page, and forget them."""
        found, self.notices = self.notices, []
        return found

    def has_sent(self, form_token: str) -> bool:
        """Whether a form is one of this browser's own."""
        return hmac.compare_digest(self.form_token.encode(), form_token.encode())


class Keys:
    """All secrets of one console."""

    def __init__(self, now: Callable[[], float], token: str = "") -> None:
        """Make them.

        Args:
            now: A monotonic clock, in seconds.
            token: For scripts; "": a new one.
        """
        self._now = now
        self.token = token or secrets.token_urlsafe(32)
        self._token = _digest(self.token)
        self._codes: dict[bytes, float] = {}
        self._sessions: OrderedDict[bytes, BrowserSession] = OrderedDict()

    def new_code(self) -> str:
        """A code for a sign-in link, good for once."""
        code = secrets.token_urlsafe(24)
        self._codes[_digest(code)] = self._now() + CODE_S
        return code

    def is_token(self, text: str) -> bool:
        """Whether it is the token for scripts."""
        return hmac.compare_digest(_digest(text), self._token)

    def sign_in(self, secret: str) -> str | None:
        """Open a session with a code, which is used up then, or with the token.

        Returns:
            The value of its cookie; None: it is neither.
        """
        until = self._codes.pop(_digest(secret), None)
        if (until is None or until < self._now()) and not self.is_token(secret):
            return None
        return self.open()

    def open(self, *, role: str = "", person: str = "", session_s: int = SESSION_S) -> str:
        """Open a session for somebody who was let in; returns the value of its cookie."""
        cookie = secrets.token_urlsafe(32)
        until = self._now() + session_s
        made = BrowserSession(secrets.token_urlsafe(32), until, role, person)
        self._sessions[_digest(cookie)] = made
        while len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)[1].over.set()
        return cookie

    def session(self, cookie: str) -> BrowserSession | None:
        """The session of a cookie; None: there is none any more."""
        key = _digest(cookie)
        found = self._sessions.get(key)
        if found is None:
            return None
        if found.until < self._now():
            del self._sessions[key]
            return None
        self._sessions.move_to_end(key)
        return found

    def sign_out(self, cookie: str) -> None:
        """End the session of a cookie."""
        ended = self._sessions.pop(_digest(cookie), None)
        if ended is not None:
            ended.over.set()


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


# ---- form values ---------------------------------------------------------------------------------
#
# What a request has given: values by name, checked as they are taken.


FLAGS = {"": False, "0": False, "no": False, "false": False, "1": True, "yes": True, "on": True,
         "true": True}  # fmt: skip
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class FormValues:
    """The values of one request, as texts."""

    def __init__(self, values: Mapping[str, str]) -> None:
        """Take them; raises InvalidParameter if there are too many, or one is too long."""
        if len(values) > FIELDS_MAX:
            raise InvalidParameter(f"a request has at most {FIELDS_MAX} values")
        for name, value in values.items():
            if len(value) > FIELD_CHARS_MAX:
                raise InvalidParameter(
                    f"{name[:40]} has {len(value)} characters; {FIELD_CHARS_MAX} are the most"
                )
            if not (name + value).isprintable():
                raise InvalidParameter(f"{name[:40]!r} has characters that cannot be printed")
        self.values = dict(values)

    @classmethod
    def of_query(cls, text: str) -> FormValues:
        """From the query of an address, or a form; raises InvalidParameter."""
        try:
            pairs = parse_qsl(
                text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=FIELDS_MAX,
                errors="strict",
            )  # fmt: skip
        except ValueError as error:
            raise InvalidParameter(f"this is no form and no query: {error}") from None
        return cls(dict(pairs))

    @classmethod
    def of_json(cls, value: object) -> FormValues:
        """From a JSON object of texts, whole numbers and truth values; raises InvalidParameter."""
        if not isinstance(value, dict):
            raise InvalidParameter("the body of a request is a JSON object")
        found: dict[str, str] = {}
        for name, one in value.items():
            if isinstance(one, bool):
                found[name] = "yes" if one else "no"
            elif isinstance(one, (str, int)):
                found[name] = str(one)
            else:
                raise InvalidParameter(
                    f"{name[:40]} is a text, a whole number, true or false; not {one!r:.40}"
                )
        return cls(found)

    def only(self, names: Collection[str]) -> None:
        """Raises InvalidParameter if there is a value of another name."""
        for name in self.values:
            if name not in names:
                raise InvalidParameter(
                    f"there is no {name[:40]!r} here; there are {', '.join(sorted(names))}"
                )

    def text(self, name: str, *, needed: bool = False) -> str:
        """A text, "" if it was not given; raises InvalidParameter if it is needed."""
        found = self.values.get(name, "").strip()
        if needed and not found:
            raise InvalidParameter(f"{name} is missing")
        return found

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**63 - 1) -> int:
        """A whole number; raises InvalidParameter."""
        text = self.text(name)
        if not text:
            return default
        found = read_number(text)
        if found is None:
            raise InvalidParameter(f"{name} is a whole number, and not {text[:40]!r}")
        if not least <= found <= most:
            raise InvalidParameter(f"{name} is a number from {least} to {most}, and not {found}")
        return found

    def flag(self, name: str) -> bool:
        """Yes or no; raises InvalidParameter."""
        text = self.text(name).casefold()
        if text not in FLAGS:
            raise InvalidParameter(f"{name} is yes or no, and not {text[:40]!r}")
        return FLAGS[text]

    def seconds(self, name: str) -> int:
        """Seconds of an age such as 90, 30s, 5m, 2h or 1d, 0 if it was not given; raises
        InvalidParameter."""
        text = self.text(name)
        unit = UNITS.get(text[-1:], 0)
        if not text:
            return 0
        number = read_number(text[:-1] if unit else text, 10**9 - 1)
        if number is None:
            raise InvalidParameter(f"{name} is an age such as 30s, 5m, 2h or 1d, not {text[:40]!r}")
        return number * (unit or 1)
