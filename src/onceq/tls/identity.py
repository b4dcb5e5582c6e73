"""Who a certificate is for: the name that stands in it.

A queue manager's certificate names it by its GUID, as the URI ``urn:onceq:qm:<guid>`` among its
alternative names; other such names (of hosts) say where it can be reached, and nothing else. A
certificate of an application has no such URI, and is known by its common name.

What is read here was checked before: it is what ``getpeercert`` returns of a certificate that an
authority of ours has signed, and is empty where none was checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onceq.model.identity import NO_GUID, guid_bytes, guid_text

URN: Final = "urn:onceq:qm:"
"""Before the GUID of a queue manager."""


def urn_of(guid: bytes) -> str:
    """The name of a queue manager in its certificate."""
    return URN + guid_text(guid)


def guid_of(certificate: Mapping[str, Any] | None) -> bytes:
    """The queue manager that a certificate is for; NO_GUID if it is for none, or for several.

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


def name_of(certificate: Mapping[str, Any] | None) -> str:
    """The common name of the one that a certificate is for; "" if it has none, or several."""
    names = [
        value
        for parts in (certificate or {}).get("subject", ())
        for kind, value in parts
        if kind == "commonName"
    ]
    return names[0] if len(names) == 1 else ""
