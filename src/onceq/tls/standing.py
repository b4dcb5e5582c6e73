"""Decide whether a signed, unexpired certificate of an authority of ours counts here.

The handshake has checked signature and time. What it does not know is checked behind it, before an
inner byte is parsed: whether its member was removed (``removed.py``).

Upholds: I28.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final

from onceq.model.identity import NO_GUID
from onceq.tls.identity import guid_of
from onceq.tls.removed import Removed
from onceq.tls.scope import Scope

_LIMITED: Final = "[authorities] in onceq.toml"


class Standing:
    """Judges the certificates for one queue manager."""

    def __init__(self, own: str) -> None:
        """Prepare; nothing was read yet, and everything counts.

        Args:
            own: The ``tls/`` of its data directory.
        """
        self.removed = Removed(own)
        self._scopes: Mapping[str, Scope] = {}
        self._naming: str | None = None

    def limit(self, scopes: Mapping[str, Scope], naming: str | None) -> None:
        """Limit authorities to their scopes, from now on.

        Args:
            scopes: By their fingerprints; the others may name any queue manager.
            naming: The one of the others that may name applications; None: each may, because there
                is one only.
        """
        self._scopes, self._naming = scopes, naming

    def why_not(self, certificate: Mapping[str, Any] | None, authority: str) -> str:
        """Return why a certificate does not count; "" if it does, or none was shown.

        Args:
            certificate: As ``getpeercert()`` returns one that was checked.
            authority: Fingerprint of the authority by which it was.
        """
        if not certificate:
            return ""
        guid, scope = guid_of(certificate), self._scopes.get(authority)
        removal = self.removed.of(guid, begins_of(certificate))
        if removal is not None:
            return f"{removal}: invite it again, if it shall come back"
        outside = scope.why_not(certificate) if scope is not None else ""
        if outside:
            return f"its authority {authority} may not speak for {outside} ({_LIMITED})"
        if scope is None and guid == NO_GUID and self._naming not in (None, authority):
            return (
                f"its authority {authority} is one of several, and nothing says which applications "
                f"it may name ({_LIMITED})"
            )
        return ""


def begins_of(certificate: Mapping[str, Any] | None) -> int:
    """Return from when a certificate is good, seconds since 1970; 0 if it does not say."""
    said = (certificate or {}).get("notBefore")
    return int(ssl.cert_time_to_seconds(said)) if isinstance(said, str) else 0
