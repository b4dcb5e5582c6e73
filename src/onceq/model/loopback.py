"""Addresses that only this computer reaches."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this computer reaches an address; a name but ``localhost`` may be any.

    Args:
        host: An IP address, with or without a zone, or a name.
    """
    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
