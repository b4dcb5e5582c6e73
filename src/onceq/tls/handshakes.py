"""Handshakes with a bound: limit what a stranger may send before it is identified.

TLS is set up before any of our own code sees a byte, and its library takes messages of more than
100 KiB there. Here the bytes of a handshake are counted as they are used, towards the same bound as
what comes behind it (HANDSHAKE_BYTES_MAX). The event loop bounds its time.

A handshake that fails ends without a word, because the event loop does not send the alert that the
library has written. So a client with a wrong certificate hears the same as one without any.

Upholds: I24.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, Final

from onceq.model.limits import HANDSHAKE_BYTES_MAX

if TYPE_CHECKING:
    import asyncio

TOO_MUCH: Final = "it sent much and did not say who it is"


class Handshake(ssl.SSLObject):
    """One connection of a ``Guarded`` context."""

    heard = 0
    """Bytes that its handshake has used so far."""
    incoming: ssl.MemoryBIO
    """The source of these bytes; bytes behind the handshake stay in there."""

    def do_handshake(self) -> None:
        """Do a step of the handshake; raises SSLError when too much was used."""
        before = self.incoming.pending
        try:
            super().do_handshake()
        except ssl.SSLWantReadError:
            self._used(before)
            raise
        self._used(before)

    def _used(self, before: int) -> None:
        self.heard += before - self.incoming.pending
        if self.heard > HANDSHAKE_BYTES_MAX:
            error = ssl.SSLError(ssl.SSL_ERROR_SSL, TOO_MUCH)
            error.reason = TOO_MUCH
            raise error from None


class Guarded(ssl.SSLContext):
    """A context for accepting connections of strangers."""

    sslobject_class = Handshake

    def wrap_bio(self, incoming: ssl.MemoryBIO, *args: Any, **options: Any) -> ssl.SSLObject:
        """Return a connection whose handshake is counted."""
        made = super().wrap_bio(incoming, *args, **options)
        assert isinstance(made, Handshake), "see sslobject_class"
        made.incoming = incoming
        return made


def heard(transport: asyncio.BaseTransport) -> int:
    """Return the bytes that the handshake of a connection has used; 0 where there was none."""
    found = transport.get_extra_info("ssl_object")
    return found.heard if isinstance(found, Handshake) else 0
