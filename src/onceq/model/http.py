"""Addresses of queue managers that are reached over HTTP, and their translation at borders.

Behind a gateway a queue manager has other names outside than inside (S1; wire-srmp section 8): what
arrives under an outer name is *redirected* to a queue here, and the address to which receipts shall
come is replaced by one that leads back in from outside.
"""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_PORTS = {"http": "80", "https": "443"}
ORDER_QUEUE_PATH = "/msmq/private$/order_queue$"


def host_of(url: str) -> str:
    """Scheme-less host of a URL, with its port if that is not the default; in small letters."""
    scheme, _, rest = url.casefold().partition("://")
    host = rest.partition("/")[0]
    return host.removesuffix(":" + DEFAULT_PORTS.get(scheme, ""))


@dataclass(frozen=True, slots=True)
class HttpNames:
    """What one manager knows of addresses.

    Attributes:
        own: Hosts (as ``host_of`` gives them) under which it is reached.
        receipts: URL of its order queue, where receipts for its streams come.
        receipt_map: (destination, URL): streams to such a destination announce that URL instead. A
            ``*`` at the end of a destination stands for anything; the first that fits counts.
        redirections: (outer URL, URL): what arrives for the first is for the second.
    """

    own: frozenset[str] = frozenset()
    receipts: str = ""
    receipt_map: tuple[tuple[str, str], ...] = ()
    redirections: tuple[tuple[str, str], ...] = ()

    def receipts_for(self, destination: str) -> str:
        """Where receipts for a stream to a destination shall come."""
        return mapped(self.receipt_map, destination) or self.receipts

    def local(self, url: str) -> str | None:
        """The URL of a queue here that an arrived URL means; None if it means none."""
        if host_of(url) in self.own:
            return url
        inner = mapped(self.redirections, url)
        return inner if inner is not None and host_of(inner) in self.own else None


def mapped(pairs: tuple[tuple[str, str], ...], url: str) -> str | None:
    """The second of the first pair that fits; URLs compare without case."""
    key = url.casefold()
    for given, meant in pairs:
        pattern = given.casefold()
        if key == pattern or (pattern.endswith("*") and key.startswith(pattern[:-1])):
            return meant
    return None
