"""Read from a certificate whom it is for.

A queue manager's certificate names it by its GUID, as the URI ``urn:onceq:qm:<guid>`` among its
alternative names; other such names are those of computers that it may answer for. A certificate of
an application has no such URI, and is known by its common name.

The input was checked before: it is what ``getpeercert`` returns of a certificate that an authority
of ours has signed, and is empty where none was checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from onceq.model.identification import Claims
from onceq.model.identity import NO_GUID, guid_bytes, guid_text

if TYPE_CHECKING:
    import ssl

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
