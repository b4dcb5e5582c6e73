"""Who has signed in: the one-time link, the token for scripts, and the sessions of browsers.

Where people sign in by OpenID Connect (``sign_in.py``), a session has a person and a role, and ends
when the console's configuration says.

A link opens one session and is used up then, or after an hour. A session is a cookie that scripts
cannot read and that no other site can send; with it goes a second secret, the *form token*, which
stands in every form and must come back with whatever changes something. Everything is in memory: a
new start of the console signs everybody out.

Upholds: secrets are compared in constant time, and only their digests are kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from onceq.console.limits import CODE_S, NOTICES_MAX, SESSION_S, SESSIONS_MAX


@dataclass(slots=True)
class Session:
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

    def told(self) -> list[str]:
        """What is to be said now, once."""
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
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()

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
        made = Session(secrets.token_urlsafe(32), until, role, person)
        self._sessions[_digest(cookie)] = made
        while len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)[1].over.set()
        return cookie

    def session(self, cookie: str) -> Session | None:
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
