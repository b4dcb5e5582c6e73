"""Invitations: codes by which another queue manager gets a certificate, each once.

It also has the side that grants certificates, to clients with an invitation and to those that
renew.

A code contains the address and the GUID of the inviting manager, the fingerprint of the authority
by which it is to be trusted, an end of validity, and a secret. Anyone who reads it can use it, so
it is good for a short time and for one use. Only a hash of the secret is kept; 128 random bits need
no salt and no slow hash.

A used invitation is renamed before anything is signed: of two clients that come at once one is
refused. After a crash between the two the code is used up, and another one has to be made.

In the folder each invitation is a file, ``<hash>-<end>.open`` or ``.used``, with whom it is for.

Upholds: I28.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import logging
import os
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from onceq.errors import AccessDenied, ConfigurationError, InvalidParameter, OnceqError
from onceq.file_access import denied
from onceq.model.identity import GUID_BYTES, NO_GUID, guid_bytes, guid_text
from onceq.model.limits import HANDSHAKE_BYTES_MAX, INVITE_S_MAX, INVITES_MAX
from onceq.tls import authority, folder
from onceq.tls.members import (
    HERE,
    Member,
    again,
    check_names,
    gone,
    listed,
    parse,
    put_member,
    read_members,
    read_removed,
)

# ---- invites -------------------------------------------------------------------------------------


SECRET_BYTES: Final = 16
FINGERPRINT_BYTES: Final = 32
_PREFIX: Final = "onceq1-"
_HEAD: Final = struct.Struct(f">{GUID_BYTES}s{SECRET_BYTES}s{FINGERPRINT_BYTES}sI")
_SUM_BYTES: Final = 4
"""Size of a checksum: a code that was copied with a mistake is no code, and not a wrong secret."""
_SHAPE: Final = re.compile(r"[\x21-\x7e]{3,255}")
OPEN, USED = ".open", ".used"
_FILE: Final = re.compile(r"([0-9a-f]{64})-([0-9]{1,12})(\.open|\.used)")


@dataclass(frozen=True, slots=True)
class InvitationCode:
    """The content of an invitation.

    Attributes:
        address: "host:port" of the inviting manager.
        guid: Its GUID.
        fingerprint: SHA-256 of its authority's certificate.
        expires_s: Seconds since 1970.
    """

    address: str
    guid: bytes
    secret: bytes
    fingerprint: bytes
    expires_s: int

    def __str__(self) -> str:
        raw = _HEAD.pack(self.guid, self.secret, self.fingerprint, self.expires_s)
        raw += self.address.encode()
        raw += hashlib.sha256(raw).digest()[:_SUM_BYTES]
        return _PREFIX + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    def __repr__(self) -> str:
        """Return it without the secret, which must not come into a log by an error."""
        return f"Code({self.address!r})"

    @classmethod
    def parse(cls, text: str) -> InvitationCode:
        """Parse the text that ``str`` returns; raises InvalidParameter."""
        text = "".join(text.split())
        try:
            coded = text.removeprefix(_PREFIX)
            if coded == text:
                raise ValueError
            raw = base64.b64decode(coded + "=" * (-len(coded) % 4), altchars=b"-_", validate=True)
            body, total = raw[:-_SUM_BYTES], raw[-_SUM_BYTES:]
            address = body[_HEAD.size :].decode("ascii")
            if hashlib.sha256(body).digest()[:_SUM_BYTES] != total or not _SHAPE.fullmatch(address):
                raise ValueError
            guid, secret, fingerprint, expires_s = _HEAD.unpack_from(body)
        except (ValueError, struct.error, binascii.Error):
            raise InvalidParameter(
                f"this is no invitation, or a part of one: copy all of what onceq tls invite has "
                f"printed, from {_PREFIX} on"
            ) from None
        return cls(address, guid, secret, fingerprint, expires_s)


@dataclass(frozen=True, slots=True)
class Invited:
    """Whom an invitation is for.

    Attributes:
        name: The name that its certificate is for.
        hosts: Names and addresses of hosts in it, too.
        guid: The only queue manager that may come with it, as text; "": any that is nobody else.
    """

    name: str
    hosts: tuple[str, ...] = ()
    guid: str = ""


class Invites:
    """The invitations of one queue manager: a folder in its ``tls/``."""

    def __init__(self, own: str) -> None:
        """Use a folder; nothing is made before ``make``.

        Args:
            own: The ``tls/`` of a data directory.
        """
        self._path = os.path.join(own, folder.INVITES)

    def open(self, now_s: int) -> list[int]:
        """Return the end of each unused invitation that is still good.

        Raises:
            ConfigurationError, AccessDenied: The folder cannot be read; so ``expected``, ``take``.
        """
        return [
            expires_s
            for _, expires_s, state in self._found()
            if state == OPEN and expires_s > now_s
        ]

    def expected(self, now_s: int) -> bool:
        """Return True if an unexpired invitation exists; a client with a used one hears that it
        was used."""
        return any(expires_s > now_s for _, expires_s, _ in self._found())

    def make(self, whom: Invited, secret: bytes, now_s: int, seconds: int) -> int:
        """Note an invitation; return until when it is good.

        Raises:
            ConfigurationError: It would be good too long, or there are too many.
            AccessDenied: The folder cannot be used.
        """
        if not 0 < seconds <= INVITE_S_MAX:
            raise ConfigurationError(
                f"an invitation is good for 1 to {INVITE_S_MAX} seconds: everybody who reads it "
                "may use it"
            )
        for hashed, expires_s, state in self._found():
            if expires_s + INVITE_S_MAX <= now_s:  # nobody asks for it any more
                with suppress(FileNotFoundError):
                    os.unlink(self._file(hashed, expires_s, state))
        if len(self._found()) >= INVITES_MAX:
            raise ConfigurationError(
                f"there are {INVITES_MAX} invitations already; those that are over are forgotten "
                f"after {INVITE_S_MAX} seconds"
            )
        expires_s = now_s + seconds
        said = json.dumps(asdict(whom)).encode()
        folder.write(self._file(_hashed(secret), expires_s, OPEN), said)
        return expires_s

    def take(
        self, secret: bytes, now_s: int, check: Callable[[Invited], None] = lambda whom: None
    ) -> Invited:
        """Use an invitation up; return whom it is for.

        Args:
            check: Raises AccessDenied if the client is not the invited one; then it is not used up.

        Raises:
            AccessDenied: It was used, has expired, or there is none with this secret.
        """
        wanted = _hashed(secret)
        states = [(at, state) for hashed, at, state in self._found() if hashed == wanted]
        if not states:
            raise AccessDenied("there is no such invitation; ask for another one")
        expires_s, state = states[0]
        name = self._file(wanted, expires_s, OPEN)
        try:
            if state == USED:
                raise FileNotFoundError
            if expires_s <= now_s:
                raise AccessDenied("this invitation has expired; ask for another one")
            said = json.loads(folder.read(name))
            whom = Invited(said["name"], tuple(said["hosts"]), said.get("guid", ""))
            check(whom)
            os.rename(name, self._file(wanted, expires_s, USED))
        except FileNotFoundError:
            raise AccessDenied(
                "this invitation was used already; if it was not by you, somebody else has read "
                "it: 'onceq tls show', where it was made, says by whom"
            ) from None
        folder.sync(self._path)
        return whom

    def _found(self) -> list[tuple[str, int, str]]:
        """Return hash, end and state of each."""
        try:
            names = os.listdir(self._path)
        except FileNotFoundError:
            return []
        except PermissionError:
            raise denied(self._path) from None
        except OSError as error:
            raise ConfigurationError(
                f"{self._path} cannot be read: {(error.strerror or str(error)).lower()}"
            ) from None
        matches = filter(None, map(_FILE.fullmatch, names))
        return [(match[1], int(match[2]), match[3]) for match in matches]

    def _file(self, hashed: str, expires_s: int, state: str) -> str:
        return os.path.join(self._path, f"{hashed}-{expires_s}{state}")


def _hashed(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()


# ---- granting ------------------------------------------------------------------------------------
#
# The side that grants certificates: it answers clients that come with an invitation, or renew.


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
            # `more` are removals that a member knows of, and did not just hear: they were forgotten
            # here.
            member, removals = self._member(), read_removed(self._own, HERE)
            forgotten = [one for guid, one in more.items() if guid not in removals]
            if forgotten:
                self._note(
                    result="a member knows removals that are not known here",
                    peer=member.id, level=logging.WARNING,
                    removed=", ".join(f"{one.name} {one.id}" for one in forgotten),
                    cure="onceq tls remove, if this authority was put back from a copy",
                )  # fmt: skip
            known = tuple(one for one in folder.here(self._own) if one in believes)
            if self._now_s - member.seen_s >= SEEN_S or known != member.believes:
                put_member(self._own, replace(member, seen_s=self._now_s, believes=known))
            return {"removed": listed(removals.values()), "authorities": self._lineage()}
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
        return "".join(folder.here(self._own).values())

    def _member(self) -> Member:
        """Return the member that shows a certificate of this authority; raises AccessDenied."""
        whose = guid_text(self._who.guid)
        member = read_members(self._own).get(whose)
        # Another authority that is trusted here could have signed for anybody's GUID.
        if member is None or self._who.authority not in folder.here(self._own):
            raise AccessDenied("this authority has not signed for this queue manager before")
        removal = read_removed(self._own, HERE).get(whose)
        if removal is not None and self._who.begins_s < removal.at_s:
            raise AccessDenied(f"{removal}, so it gets nothing here; ask for an invitation")
        return member

    def _admitted(
        self, request: authority.SignatureRequest, secret: bytes
    ) -> tuple[str, tuple[str, ...]]:
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
