"""The real daemon in a world with two places: whoever connects from ``ELSEWHERE``, an address of
loopback, is on another computer for it. It waits for no disk, as nothing here asks what a power cut
leaves, and it has the mistake that ONCEQ_PLANT names."""

from __future__ import annotations

import ipaddress
import os
import sys
from typing import Any, Final

ELSEWHERE: Final = "127.0.0.9"
FAR: Final = "192.0.2.9"
"""What the daemon takes it for."""
PARSED: Final = "bytes for the parser"
"""What the log says when bytes of another queue manager come as far as the parser."""
ASKED: Final = "bytes of an application over TCP"
"""The same of an application that does not come by the Unix socket."""


def _far() -> None:
    kept = ipaddress.ip_address

    def ip_address(address: Any) -> Any:
        return kept(FAR if address == ELSEWHERE else address)

    ipaddress.ip_address = ip_address


def _quickly() -> None:
    def nothing(file: Any, /) -> None:
        """It is as if it had been synced."""

    setattr(os, "fdatasync", nothing)
    setattr(os, "fsync", nothing)


def _watched() -> None:
    from onceq.service.api import ApiConnection
    from onceq.service.logs import event
    from onceq.wire.mqqb.session import Session
    from onceq.wire.srmp.session import Taking

    def watched(kept: Any) -> Any:
        def receive(self: Any, data: Any, now_us: int) -> Any:
            event(PARSED, count=len(data))
            return kept(self, data, now_us)

        return receive

    for kind in (Session, Taking):
        setattr(kind, "receive", watched(kind.receive))

    heard = ApiConnection.data_received

    def data_received(self: Any, data: Any) -> None:
        if not self._local:
            event(ASKED, count=len(data))
        heard(self, data)

    setattr(ApiConnection, "data_received", data_received)


def _planted() -> None:
    name = os.environ.get("ONCEQ_PLANT", "")
    if name:
        import pytest

        from tests.planted.planted import all_planted

        all_planted()[name].plant(pytest.MonkeyPatch())


if __name__ == "__main__":
    _far()
    _quickly()
    _watched()
    _planted()
    from onceq.service.main import main

    sys.exit(main())
