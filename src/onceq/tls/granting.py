"""The side that grants certificates: it answers clients that come with an invitation, or renew.

The exchange is one line of JSON each way, inside TLS (ALPN ``onceq-join/1``). The first request,
without a secret, is for the certificate of the authority, which the client compares with the
fingerprint in its code. The second one, on a connection that it has checked with that, has the
secret and a request to sign. A client with a certificate of this authority may get another one for
the same GUID without an invitation.

An invited member gets an identity of its own, and nobody else's. Only the key and the GUID of the
request count: the names are those of the invitation (``members.py``). A GUID that means something
here already is signed only for the member that has it, or by an invitation that names it. Signed
certificates are listed in ``issued.json``.

A failure is answered by one sentence, and a stranger learns from it only that the code is not good.
The certificate that is made with an invitation uses it up; a refusal does not.

Upholds: I28.
"""

from __future__ import annotations

import base64
import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from onceq.errors import AccessDenied, OnceqError
from onceq.model.identity import NO_GUID, guid_bytes, guid_text
from onceq.model.limits import HANDSHAKE_BYTES_MAX
from onceq.tls import authority, folder, lineage
from onceq.tls.invites import SECRET_BYTES, Invited, Invites
from onceq.tls.members import Member, again, check_names, put_member, read_members
from onceq.tls.removed import HERE, Removal, gone, listed, parse, read_removed


@dataclass(frozen=True, slots=True)
class Asking:
    """The client that asks.

    Attributes:
        address: From where.
        guid: The queue manager that it has proven to be; NO_GUID: none.
        begins_s: From when its certificate is good, seconds since 1970.
        authority: Fingerprint of the authority by which that was trusted.
    """

    address: str
    guid: bytes = NO_GUID
    begins_s: int = 0
    authority: str = ""


SEEN_S: Final = 600
"""Interval at which a member's last request is written down, and not each time."""

Note = Callable[..., None]
"""Logs the outcome: ``result``, and values by name."""
Known = Callable[[bytes, str], str]
"""Returns what a GUID means at this queue manager already, for a client that was invited by a
name; "": nothing, or the GUID answers under that name."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A certificate was made.

    Attributes:
        name: The name of its owner in ``onceq tls show``.
        peer: The GUID of its owner, as text.
        joined: By an invitation; else it replaces another one.
    """

    name: str
    peer: str
    joined: bool


class Granting:
    """One exchange with a client that has connected to this queue manager."""

    def __init__(
        self, own: str, guid: bytes, who: Asking, now_s: int, *, note: Note, known: Known
    ) -> None:
        """Begin.

        Args:
            own: The ``tls/`` of the data directory.
            guid: Of this queue manager.
        """
        self._own = own
        self._guid = guid
        self._known = known
        self._who = who
        self._now_s = now_s
        self._note = note
        self._heard = bytearray()
        self._over = False
        self.signed: Signed | None = None
        """The signed certificate, if there is one; the answer must not be given before the trail
        has it."""

    def data(self, data: bytes) -> bytes:
        """Take bytes; return the answer once all are there, and b"" before."""
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

    def _answer(self, raw: bytes) -> dict[str, Any]:
        line, _, _ = raw.partition(b"\n")
        try:
            asked = json.loads(line)
            want, secret = asked["want"], base64.b64decode(asked.get("secret", ""))
            csr = asked.get("request", "").encode("ascii")
            more = parse(asked.get("removed", []))
            believes = tuple(map(str, asked.get("believes", [])))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise AccessDenied("this is no request to join") from None
        if want == "news":
            return self._news(more, believes)
        authority.need()
        if want == "authority":
            return {"authority": self._read(folder.AUTHORITY).decode()}
        if want != "certificate":
            raise AccessDenied("this is no request to join")
        request = authority.read_request(csr)
        # An obstacle to signing is reported before an invitation is used up.
        own = self._read(folder.AUTHORITY)
        key = folder.read_key(os.path.join(self._own, folder.AUTHORITY_KEY))
        name, hosts = self._admitted(request, secret)
        joined, peer = self._who.guid == NO_GUID, guid_text(request.guid)
        removals, before = read_removed(self._own, HERE), read_members(self._own).get(peer)
        since_s = removals[peer].at_s if peer in removals else 0
        named = replace(request, name=name, hosts=(name, *hosts))
        made = authority.sign(named, own, key, self._now_s, since_s=since_s)
        at_s = max(self._now_s, since_s)
        put_member(
            self._own,
            Member(
                peer, name, hosts, at_s, made.serial, made.ends_s, 0 if joined else self._now_s,
                authority.fingerprint(own).hex(), before.believes if before is not None else (),
            ),
        )  # fmt: skip
        self._note(result="signed" if joined else "renewed", name=name, peer=peer)
        self.signed = Signed(name, peer, joined)
        return {
            "certificate": made.pem.decode(), "authority": own.decode(),
            "removed": listed(removals.values()), "authorities": self._lineage(),
        }  # fmt: skip

    def _lineage(self) -> str:
        return "".join(lineage.here(self._own).values())

    def _news(self, more: dict[str, Removal], believes: tuple[str, ...]) -> dict[str, Any]:
        """Return the answer to a member that asks which members were removed.

        Args:
            more: Removals that it knows of, and did not just hear: they were forgotten here.
            believes: Fingerprints of the authorities that it trusts.
        """
        member, removals = self._member(), read_removed(self._own, HERE)
        forgotten = [one for guid, one in more.items() if guid not in removals]
        if forgotten:
            self._note(
                result="a member knows removals that are not known here",
                peer=member.id, level=logging.WARNING,
                removed=", ".join(f"{one.name} {one.id}" for one in forgotten),
                cure="onceq tls remove, if this authority was put back from a copy",
            )  # fmt: skip
        known = tuple(one for one in lineage.here(self._own) if one in believes)
        if self._now_s - member.seen_s >= SEEN_S or known != member.believes:
            put_member(self._own, replace(member, seen_s=self._now_s, believes=known))
        return {"removed": listed(removals.values()), "authorities": self._lineage()}

    def _member(self) -> Member:
        """Return the member that shows a certificate of this authority; raises AccessDenied."""
        whose = guid_text(self._who.guid)
        member = read_members(self._own).get(whose)
        # Another authority that is trusted here could have signed for anybody's GUID.
        if member is None or self._who.authority not in lineage.here(self._own):
            raise AccessDenied("this authority has not signed for this queue manager before")
        removal = read_removed(self._own, HERE).get(whose)
        if removal is not None and self._who.begins_s < removal.at_s:
            raise AccessDenied(f"{removal}, so it gets nothing here; ask for an invitation")
        return member

    def _admitted(self, request: authority.Request, secret: bytes) -> tuple[str, tuple[str, ...]]:
        """Return the name and the hosts for which a request may be signed; raises AccessDenied."""
        members = read_members(self._own)
        removals = read_removed(self._own, HERE)
        others = [one for one in members.values() if not gone(one, removals)]
        whose = guid_text(request.guid)
        member = members.get(whose)
        if self._who.guid != NO_GUID:
            if self._who.guid != request.guid:
                raise AccessDenied("a queue manager renews its own certificate, and no other")
            member = self._member()
            return member.name, again(member, others)
        if len(secret) != SECRET_BYTES:
            raise AccessDenied("there is no such invitation; ask for another one")

        def check(whom: Invited) -> None:
            self._check(whom, whose, member)
            check_names((whom.name, *whom.hosts), whose, others)

        whom = Invites(self._own).take(secret, self._now_s, check)
        return whom.name, whom.hosts

    def _check(self, whom: Invited, whose: str, member: Member | None) -> None:
        """Raise AccessDenied if a GUID is not for the invited one."""
        if whose == guid_text(self._guid):
            raise AccessDenied(
                f"{whose} is the queue manager that invites: this one is a copy of its data, and "
                "needs a new identity"
            )
        if whom.guid and whom.guid != whose:
            raise AccessDenied(f"this invitation is for queue manager {whom.guid}, not {whose}")
        if whom.guid:
            return
        cure = f"onceq tls invite {whom.name} --guid {whose}, if that is meant"
        if member is not None and member.name.casefold() != whom.name.casefold():
            raise AccessDenied(
                f"queue manager {whose} has joined as {member.name} before, and this invitation "
                f"is for {whom.name}: {cure}"
            )
        means = "" if member is not None else self._known(guid_bytes(whose), whom.name)
        if means:
            raise AccessDenied(f"{means}, and this invitation does not name its GUID: {cure}")

    def _read(self, name: str) -> bytes:
        return folder.read(os.path.join(self._own, name))
