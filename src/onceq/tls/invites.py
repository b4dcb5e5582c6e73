"""Invitations: codes by which another queue manager gets a certificate, each once.

A code contains the address and the GUID of the inviting manager, the fingerprint of the authority
by which it is to be trusted, an end of validity, and a secret. Anyone who reads it can use it, so
it is good for a short time and for one use. Only a hash of the secret is kept; 128 random bits need
no salt and no slow hash.

A used invitation is renamed before anything is signed: of two clients that come at once one is
refused. After a crash between the two the code is used up, and another one has to be made.

In the folder each invitation is a file, ``<hash>-<end>.open`` or ``.used``, with whom it is for.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final

from onceq.errors import AccessDenied, ConfigurationError, InvalidParameter
from onceq.model.identity import GUID_BYTES
from onceq.model.limits import INVITE_S_MAX, INVITES_MAX
from onceq.permission import denied
from onceq.tls import folder

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
class Code:
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
    def parse(cls, text: str) -> Code:
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
                f"an invitation is good for 1 to {INVITE_S_MAX} seconds: whoever reads it may use "
                "it"
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
