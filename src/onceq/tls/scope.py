"""The scope of a foreign authority: for whom it may speak.

An owner of an authority's key can make a certificate for any GUID and any name. So a partner's
authority is limited, by a line for its fingerprint, to GUIDs *and* names: a certificate is within
its scope if each of the names in it is. A GUID alone would allow every name to answer under, and a
name alone every GUID to speak for.

Upholds: I28.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from onceq.model.identity import NO_GUID, guid_bytes, guid_text
from onceq.model.loopback import is_loopback
from onceq.tls.identity import guid_of, name_of

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
