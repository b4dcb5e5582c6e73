"""The content of the own certificate: its owner, its end, its names.

It also notes the acts that commands do to these files, for the trail of the running manager.

The standard library reads a certificate only after a handshake has checked it; so the files shake
hands with themselves, in memory. That is the whole check at a start: they can be read, belong
together, and are an identity at this time.

Upholds: I28 (who did something is known).
"""

from __future__ import annotations

import json
import os
import pwd
import re
import secrets
import ssl
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from onceq.errors import ConfigurationError
from onceq.model.identity import NO_GUID, guid_text
from onceq.tls import folder
from onceq.tls.contexts import TIMES, IdentityFiles, server_context, trust
from onceq.tls.identity import authority_of, guid_of, hosts_of, urn_of

# ---- own -----------------------------------------------------------------------------------------


_TURNS: Final = 8


@dataclass(frozen=True, slots=True)
class Own:
    """The own certificate.

    Attributes:
        guid: The queue manager that it is for; NO_GUID if it is not valid now.
        ends_s: Until when, seconds since 1970; 0 if it is not valid now.
        hosts: Names and addresses of hosts that it is for, too.
        serial: The number that its authority has given it; "" if it is not valid now.
        authority: Fingerprint of its authority, if that is trusted here.
        problem: Why nobody will trust it; "": it is good.
    """

    guid: bytes = NO_GUID
    ends_s: int = 0
    hosts: tuple[str, ...] = ()
    problem: str = ""
    serial: str = ""
    authority: str = ""


def read_own(files: IdentityFiles, guid: bytes) -> Own:
    """Read the own certificate.

    Args:
        guid: Of the queue manager, which it must be for.

    Raises:
        ConfigurationError, AccessDenied: The files cannot be used, or belong to another one.
    """
    server = server_context(files, peers=False)
    server.verify_mode = ssl.CERT_NONE
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    # It is its own anchor here: the managers that see it judge the signature of its authority.
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(files.certificate)
    try:
        found = dict(_shaken(client, server).getpeercert() or {})
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in TIMES:
            return Own(problem=f"{files.certificate}: {error.verify_message}")
        raise ConfigurationError(
            f"{files.certificate} cannot be used: {error.verify_message}"
        ) from None
    except ssl.SSLError as error:
        raise ConfigurationError(f"{files.certificate} cannot be used: {error.reason}") from None
    named = guid_of(found)
    if named != guid:
        whose = f"queue manager {guid_text(named)}" if named != NO_GUID else "no queue manager"
        raise ConfigurationError(
            f"{files.certificate} is for {whose}; the one here needs the alternative name "
            f"URI:{urn_of(guid)} in its certificate: onceq tls init, or have one made with it"
        )
    ends_s = int(ssl.cert_time_to_seconds(str(found["notAfter"])))
    serial, authority = str(found["serialNumber"]), _signer(files, server)
    return Own(named, ends_s, hosts_of(found), serial=serial, authority=authority)


def _signer(files: IdentityFiles, server: ssl.SSLContext) -> str:
    """Return the fingerprint of the own certificate's authority, among the trusted ones."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    trust(client, files.authorities)
    try:
        return authority_of(_shaken(client, server))
    except ssl.SSLError:
        return ""


def _shaken(client: ssl.SSLContext, server: ssl.SSLContext) -> ssl.SSLObject:
    """Return the client's side of a handshake; raises ssl.SSLError."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(down, up),
        server.wrap_bio(up, down, server_side=True),
    ]
    for _ in range(_TURNS):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
        if sides[0].version() and sides[0].getpeercert():
            return sides[0]
    raise AssertionError("a handshake takes too many turns")


# ---- acts ----------------------------------------------------------------------------------------
#
# Acts of administration that commands do to files, and that belong into the audit trail.


FOLDER: Final = "acts"
_FILE: Final = re.compile(r"[0-9]{1,16}-[0-9a-f]{16}\.json")
_TEXT_CHARS_MAX: Final = 300
ACTS_AT_ONCE: Final = 1_000
"""Acts taken in one check."""


@dataclass(frozen=True, slots=True)
class LeftAct:
    """An act that a command has left.

    Attributes:
        file: Where it waits.
        who: An actor, as text.
        what, about: In words.
    """

    file: str
    who: str
    what: str
    about: str


def leave(own: str, what: str, about: str, now_s: int) -> None:
    """Leave an act for the trail.

    Args:
        own: The ``tls/`` of a data directory.

    Raises:
        ConfigurationError, AccessDenied: It cannot be written.
    """
    try:
        who = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        who = str(os.geteuid())
    said = json.dumps({"who": f"account:{who}", "what": what, "about": about}).encode()
    name = f"{now_s}-{secrets.token_hex(8)}.json"
    folder.write(os.path.join(own, FOLDER, name), said)


def forget(file: str) -> None:
    """Remove the file of an act that is durable in the trail."""
    with suppress(OSError):
        os.unlink(file)


def left(own: str) -> list[LeftAct]:
    """Return the waiting acts, the earliest first; those that cannot be read are left out."""
    path = os.path.join(own, FOLDER)
    try:
        files = [os.path.join(path, name) for name in os.listdir(path) if _FILE.fullmatch(name)]
        files.sort(key=lambda file: os.stat(file).st_mtime_ns)
    except OSError:
        return []
    found = []
    for file in files[:ACTS_AT_ONCE]:
        with suppress(OSError, ValueError, TypeError, KeyError), open(file, "rb") as opened:
            said = json.loads(opened.read(1 << 14))
            texts = (str(said[key])[:_TEXT_CHARS_MAX] for key in ("who", "what", "about"))
            found.append(LeftAct(file, *texts))
    return found
