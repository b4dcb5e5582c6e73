"""What every request passes before anything looks at it, and every answer after.

* Its ``Host`` is a name of this console: a page of another site cannot reach it under a name of its
  own that leads to this computer.
* It is signed in: by the cookie of a session, or by ``Authorization: Bearer`` and the token.
* Its ``Origin`` is this console, if it has one: what is shown is for its own pages.
* It changes something with a cookie only if the form token of the session comes along. A token in a
  header is no browser's doing and does not need it.
* It is not larger than ``limits`` allow, whether it says its length or not.

Answers carry a content policy that runs and loads nothing but what the console ships, and are kept
by nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onceq.console.keys import Keys, Session
from onceq.console.limits import BODY_BYTES_MAX, FIELDS_MAX, HEADER_BYTES_MAX
from onceq.model.numbers import read_number

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


class Refusal(Exception):
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
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def said(message: Message) -> None:
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
        except Refusal as refusal:
            await self._refuse(scope, refusal)(scope, receive, said)
            return
        await self._app(scope, _Again(body, receive), said)

    async def _let_in(self, scope: Scope, receive: Receive) -> bytes:
        """Judge a request; returns its body, or raises Refusal."""
        headers = Headers(scope=scope)
        self._small(scope)
        host = headers.get("host", "").casefold()
        if host not in self._hosts:
            raise Refusal(
                421, "wrong-host", "this console is not called so; --host gives it another name"
            )
        changes = scope["method"] not in SAFE
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.casefold() != host:
            raise Refusal(403, "wrong-origin", "the request comes from a page of another site")
        body = await _whole(headers, receive) if changes else b""
        scope["state"] = {
            **scope.get("state", {}), "session": None, "cookie": "", "signed": False
        }  # fmt: skip
        shown, bearer = _bearer(headers)
        if shown:
            if not self._keys.is_token(bearer):
                raise Refusal(401, "wrong-token", "the token is not that of this console")
            scope["state"].update(signed=True)
            return body
        session, cookie = self._session(headers)
        scope["state"].update(session=session, cookie=cookie, signed=session is not None)
        if session is None:
            if scope["path"].startswith(OPEN):
                return body
            raise Refusal(
                401, "sign-in", "sign in with the link that the console has printed at its start"
            )
        if changes and not session.has_sent(_form_token(headers, body)):
            raise Refusal(
                403, "form-token", "the form is not one of this session: read its page anew"
            )
        return body

    def _small(self, scope: Scope) -> None:
        size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        size += sum(len(name) + len(value) for name, value in scope["headers"])
        if size > HEADER_BYTES_MAX:
            raise Refusal(431, "too-large", f"a request has at most {HEADER_BYTES_MAX} bytes")

    def _session(self, headers: Headers) -> tuple[Session | None, str]:
        cookie = cookie_parser(headers.get("cookie", "")).get(self._cookie, "")
        return self._keys.session(cookie) if cookie else None, cookie

    def _refuse(self, scope: Scope, refusal: Refusal) -> Response:
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
    refusal = Refusal(413, "too-large", f"a request has at most {BODY_BYTES_MAX} bytes")
    told = headers.get("content-length", "0")
    if read_number(told, BODY_BYTES_MAX) is None:
        raise refusal
    found = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Refusal(400, "cut-off", "the request ended in the middle")
        part: bytes = message.get("body", b"")
        found += part
        if len(found) > BODY_BYTES_MAX:
            raise refusal
        if not message.get("more_body"):
            return found


def _bearer(headers: Headers) -> tuple[bool, str]:
    """Whether a token was shown, and which."""
    kind, _, value = headers.get("authorization", "").partition(" ")
    return kind.casefold() == "bearer", value.strip()


def _form_token(headers: Headers, body: bytes) -> str:
    """The form token that came along: in a header, or in a form."""
    told = headers.get("x-form-token", "")
    if told or not headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return told
    try:
        fields = parse_qs(body.decode(), max_num_fields=FIELDS_MAX)
    except ValueError:
        return ""
    return fields.get("form_token", [""])[0]
