"""Read from a certificate whom it is for.

It also knows the scope of a foreign authority: for whom it may speak.

A queue manager's certificate names it by its GUID, as the URI ``urn:onceq:qm:<guid>`` among its
alternative names; other such names are those of computers that it may answer for. A certificate of
an application has no such URI, and is known by its common name.

The input was checked before: it is what ``getpeercert`` returns of a certificate that an authority
of ours has signed, and is empty where none was checked.

Upholds: I28.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from onceq.model.addresses import is_loopback
from onceq.model.identification import Claims
from onceq.model.identity import NO_GUID, guid_bytes, guid_text

if TYPE_CHECKING:
    import ssl


# ---- identity ------------------------------------------------------------------------------------


URN: Final = "urn:onceq:qm:"
"""Comes before the GUID of a queue manager."""
_DER: Final = 2
"""``_ssl.ENCODING_DER``."""


def urn_of(guid: bytes) -> str:
    """Return the name of a queue manager in its certificate."""
    return URN + guid_text(guid)


def claims_of(certificate: Mapping[str, Any] | None) -> Claims | None:
    """Return the identity in a certificate; None if none was checked.

    Args:
        certificate: As ``getpeercert()`` returns it.
    """
    if not certificate:
        return None
    return Claims(guid_of(certificate), name_of(certificate), hosts_of(certificate))


def hosts_of(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names, then the addresses of computers in a certificate."""
    import ipaddress  # commands that only query load neither this nor OpenSSL

    names = certificate.get("subjectAltName", ())
    hosts = [str(value) for kind, value in names if kind == "DNS"]
    hosts += [str(ipaddress.ip_address(value)) for kind, value in names if kind == "IP Address"]
    return tuple(hosts)


def guid_of(certificate: Mapping[str, Any] | None) -> bytes:
    """Return the queue manager that a certificate is for; NO_GUID if it is for none, or for
    several.

    Args:
        certificate: As ``getpeercert()`` returns it.
    """
    named = [
        value[len(URN) :]
        for kind, value in (certificate or {}).get("subjectAltName", ())
        if kind == "URI" and value.lower().startswith(URN)
    ]
    if len(named) != 1:
        return NO_GUID
    try:
        return guid_bytes(named[0])
    except ValueError:
        return NO_GUID


def authority_of(connection: ssl.SSLObject | ssl.SSLSocket) -> str:
    """Return the fingerprint (SHA-256, hexadecimal) of the authority by which the other side's
    certificate was trusted; "" if none was shown."""
    import hashlib

    one: Any = connection
    # It has a public name from Python 3.13 on.
    chain = (one if hasattr(one, "get_verified_chain") else one._sslobj).get_verified_chain()
    if not chain:
        return ""
    last = chain[-1]
    der = last if isinstance(last, bytes) else last.public_bytes(_DER)
    return hashlib.sha256(der).hexdigest()


def name_of(certificate: Mapping[str, Any] | None) -> str:
    """Return the common name in a certificate; "" if it has none, or several."""
    names = [
        value
        for parts in (certificate or {}).get("subject", ())
        for kind, value in parts
        if kind == "commonName"
    ]
    return names[0] if len(names) == 1 else ""


# ---- scope ---------------------------------------------------------------------------------------
#
# The scope of a foreign authority: for whom it may speak.


ANY: Final = "*"
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{64}")
_HOSTS: Final = frozenset(("DNS", "IP Address"))


@dataclass(frozen=True, slots=True)
class Scope:
    """What the certificates of one authority may be for.

    Attributes:
        peers: GUIDs of queue managers, as text; ANY: every one.
        names: Names and addresses of queue managers, folded; with ``*`` at one end many.
        certificates: Names of applications, in the same way, but not folded.
    """

    peers: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str]) -> Scope:
        """Read ``peer:GUID``, ``name:NAME`` and ``certificate:NAME``; raises ValueError."""
        found: dict[str, list[str]] = {"peer": [], "name": [], "certificate": []}
        for text in texts:
            kind, separator, name = text.partition(":")
            if kind not in found or not separator or not name or ANY in name[1:-1]:
                raise ValueError(
                    f"must be peer:GUID, name:NAME or certificate:NAME, with * at one end for "
                    f"many, not {text!r}"
                )
            if kind == "peer" and name != ANY:
                name = guid_text(guid_bytes(name))
            found[kind].append(name)
        names = tuple(name.casefold() for name in found["name"])
        return cls(frozenset(found["peer"]), names, tuple(found["certificate"]))

    def speaks_for(self, guid: bytes) -> bool:
        """Return True if a certificate may be for a queue manager at all."""
        return bool({ANY, guid_text(guid)} & self.peers)

    def why_not(self, certificate: Mapping[str, Any]) -> str:
        """Return why a certificate is outside; "" if it is within.

        Args:
            certificate: As ``getpeercert()`` returns one that was checked.
        """
        guid, name = guid_of(certificate), name_of(certificate)
        if guid == NO_GUID:
            return "" if _within(name, self.certificates) else f"the application {name!r}"
        if not self.speaks_for(guid):
            return f"queue manager {guid_text(guid)}"
        said = certificate.get("subjectAltName", ())
        hosts = [value for kind, value in said if kind in _HOSTS]
        for one in (name, *hosts):
            # What every computer calls itself is no name of anybody.
            if one and not is_loopback(one) and not _within(one.casefold(), self.names):
                return f"the name {one!r}"
        return ""


def fingerprint_of(text: str) -> str:
    """Return a SHA-256 fingerprint, as ``onceq tls show`` and openssl print it, in one form;
    raises ValueError."""
    found = text.replace(":", "").casefold()
    if not _FINGERPRINT.fullmatch(found):
        raise ValueError(
            "must be the SHA-256 fingerprint of an authority: openssl x509 -fingerprint -sha256 "
            "-noout -in FILE, or onceq tls show where it is"
        )
    return found


def scopes(given: object) -> dict[str, Scope]:
    """Read a table of scopes, by fingerprint; raises ValueError."""
    if not isinstance(given, Mapping):
        raise ValueError("must be a table: write [authorities] and its entries below")
    found = {}
    for key, texts in given.items():
        if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
            raise ValueError(
                f'{key} must be a list such as ["peer:GUID", "name:*.partner.example"]'
            )
        found[fingerprint_of(key)] = Scope.of(texts)
    return found


def _within(name: str, patterns: Iterable[str]) -> bool:
    for one in patterns:
        if one in (ANY, name):
            return True
        if one.startswith(ANY) and name.endswith(one[1:]):
            return True
        if one.endswith(ANY) and name.startswith(one[:-1]):
            return True
    return False
