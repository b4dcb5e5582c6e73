"""The side that gives certificates: what it answers whoever comes with an invitation, or renews.

The exchange is one line of JSON each way, inside TLS (ALPN ``onceq-join/1``). First, without a
secret, for the certificate of the authority, which the other side compares with the fingerprint of
its code; then, on a connection that it has checked with that, with the secret and a request to
sign. Who shows a certificate of this authority may have another one for the same GUID without an
invitation.

Who is invited gets an identity of his own, and nobody else's: a GUID is signed for one name only,
and of hosts the one that he is at and those that the invitation names. All that was signed stands
in ``issued.json``.

What goes wrong is told by one sentence, and a stranger learns nothing from it but that his code is
not good.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from onceq.errors import AccessDenied, ConfigurationError, OnceqError
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.limits import HANDSHAKE_BYTES_MAX
from onceq.tls import authority, folder
from onceq.tls.invites import SECRET_BYTES, Invited, Invites


@dataclass(frozen=True, slots=True)
class Asking:
    """Who asks.

    Attributes:
        address: From where.
        guid: The queue manager that he has proven to be; NO_GUID: none.
    """

    address: str
    guid: bytes = NO_GUID


SHARED_HOSTS: Final = frozenset(("localhost", "127.0.0.1", "::1"))
"""Names that every computer has for itself."""

Note = Callable[..., None]
"""Logs what became of it: ``result``, and values by name."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A certificate was made.

    Attributes:
        name: As ``onceq tls show`` calls whoever has it.
        peer: His GUID, as text.
        joined: By an invitation; else it takes the place of another one.
    """

    name: str
    peer: str
    joined: bool


class Granting:
    """One exchange, of whoever has connected to this queue manager."""

    def __init__(self, own: str, guid: bytes, who: Asking, now_s: int, note: Note) -> None:
        """Begin.

        Args:
            own: The ``tls/`` of the data directory.
            guid: Of this queue manager.
        """
        self._own = own
        self._guid = guid
        self._who = who
        self._now_s = now_s
        self._note = note
        self._heard = bytearray()
        self._over = False
        self.signed: Signed | None = None
        """What was signed, if anything was; the answer must not be given before that stands in the
        trail."""

    def data(self, data: bytes) -> bytes:
        """Bytes have come; returns the answer once all are there, and b"" before."""
        if self._over:
            return b""
        self._heard += data
        if b"\n" not in data and len(self._heard) <= HANDSHAKE_BYTES_MAX:
            return b""
        self._over = True
        try:
            answer = self._answer(bytes(self._heard))
        except AccessDenied as error:
            self._note(result="refused", reason=error.text)
            answer = {"error": error.text}
        except OnceqError as error:
            self._note(result="failed", reason=error.text)
            answer = {"error": "the queue manager that invites cannot sign; its log says why"}
        return json.dumps(answer).encode() + b"\n"

    def _answer(self, raw: bytes) -> dict[str, str]:
        line, _, _ = raw.partition(b"\n")
        try:
            asked = json.loads(line)
            want, secret = asked["want"], base64.b64decode(asked.get("secret", ""))
            csr = asked.get("request", "").encode("ascii")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise AccessDenied("this is no request to join") from None
        authority.need()
        if want == "authority":
            return {"authority": self._read(folder.AUTHORITY).decode()}
        if want != "certificate":
            raise AccessDenied("this is no request to join")
        request = authority.read_request(csr)
        whom = self._admitted(request, secret)
        granted = {*whom.hosts, whom.name, self._who.address, *SHARED_HOSTS}
        hosts = tuple(host for host in request.hosts if host in granted)
        return self._sign(replace(request, hosts=hosts), whom.name)

    def _admitted(self, request: authority.Request, secret: bytes) -> Invited:
        """For whom a request may be signed; raises AccessDenied."""
        whose = guid_text(request.guid)
        known = read_issued(self._own).get(whose)
        if self._who.guid != NO_GUID:
            if self._who.guid != request.guid:
                raise AccessDenied("a queue manager renews its own certificate, and no other")
            if known is None:
                raise AccessDenied("this authority has not signed for this queue manager before")
            return Invited(known["name"], tuple(known["hosts"]))
        if len(secret) != SECRET_BYTES:
            raise AccessDenied("there is no such invitation; ask for another one")
        # What is asked for is looked at before the invitation is used up for it.
        if request.guid == self._guid:
            raise AccessDenied(
                f"{whose} is the queue manager that invites: this one is a copy of its data, and "
                "needs a new identity"
            )
        whom = Invites(self._own).take(secret, self._now_s)
        if known is not None and known["name"] != whom.name:
            raise AccessDenied(
                f"queue manager {whose} has joined as {known['name']} before, and this invitation "
                f"is for {whom.name}"
            )
        return whom

    def _sign(self, request: authority.Request, name: str) -> dict[str, str]:
        own = self._read(folder.AUTHORITY)
        made = authority.sign(request, own, self._read(folder.AUTHORITY_KEY), self._now_s)
        note_issued(self._own, request, name, self._now_s)
        joined, peer = self._who.guid == NO_GUID, guid_text(request.guid)
        self._note(result="signed" if joined else "renewed", name=name, peer=peer)
        self.signed = Signed(name, peer, joined)
        return {"certificate": made.decode(), "authority": own.decode()}

    def _read(self, name: str) -> bytes:
        return folder.read(os.path.join(self._own, name))


def read_issued(own: str) -> dict[str, Any]:
    """What an authority has signed: by GUID, name, hosts, and when last (seconds since 1970).

    Raises:
        ConfigurationError, AccessDenied: The file cannot be used.
    """
    name = os.path.join(own, folder.ISSUED)
    if not os.path.exists(name):
        return {}
    try:
        found = json.loads(folder.read(name))
    except ValueError as error:
        raise ConfigurationError(f"{name} is damaged: {error}") from None
    assert isinstance(found, dict), "only note_issued writes it"
    return found


def note_issued(own: str, request: authority.Request, name: str, now_s: int) -> None:
    """Note what was signed; raises ConfigurationError, AccessDenied."""
    issued = read_issued(own)
    issued[guid_text(request.guid)] = {"name": name, "hosts": list(request.hosts), "at_s": now_s}
    said = json.dumps(issued, indent=1, sort_keys=True).encode()
    folder.write(os.path.join(own, folder.ISSUED), said)
