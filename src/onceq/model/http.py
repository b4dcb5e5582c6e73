"""Addresses of queue managers that are reached over HTTP, and their translation at borders.

Behind a gateway a queue manager has other names outside than inside (S1; MC-MQSRM 3.1.1.1.10):

* What arrives under an outer name is *redirected*: to a queue here, or to one on another host, to
  which it is passed on (a border server).
* What leaves for some destinations goes to the host of another URL, which passes it on unchanged
  (*outbound redirection* to a store-and-forward server), but for exceptions.
* The address to which receipts shall come is replaced by one that leads back in from outside.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

DEFAULT_PORTS = {"http": "80", "https": "443"}
ORDER_QUEUE_PATH = "/msmq/private$/order_queue$"

Pairs = tuple[tuple[str, str], ...]
"""URLs and what each stands for. A ``*`` at the end of the first stands for anything; the first
pair that fits counts. URLs compare without case."""


def host_of(url: str) -> str:
    """Scheme-less host of a URL, with its port if that is not the default; in small letters."""
    scheme, _, rest = url.casefold().partition("://")
    host = rest.partition("/")[0]
    return host.removesuffix(":" + DEFAULT_PORTS.get(scheme, ""))


@dataclass(frozen=True, slots=True)
class Mappings:
    """Translations of addresses, from a configuration or from mapping files.

    Attributes:
        redirections: Outer URL to the URL of a queue here, or on another host.
        receipts: Destination to the URL that streams to it announce for their receipts.
        outbound: Destination to a URL to whose host the connection is made instead.
        exceptions: Destinations that ``outbound`` is not about.
    """

    redirections: Pairs = ()
    receipts: Pairs = ()
    outbound: Pairs = ()
    exceptions: tuple[str, ...] = ()

    def __add__(self, other: Mappings) -> Mappings:
        """Both; where both fit, the left one counts."""
        return Mappings(
            self.redirections + other.redirections,
            self.receipts + other.receipts,
            self.outbound + other.outbound,
            self.exceptions + other.exceptions,
        )


@dataclass(frozen=True, slots=True)
class Arrival:
    """Where something that came over HTTP goes.

    Attributes:
        url: Of its queue.
        here: Whether that is a queue of this manager; otherwise it is passed on.
    """

    url: str
    here: bool


@dataclass(frozen=True, slots=True)
class HttpNames:
    """What one manager knows of addresses.

    Attributes:
        own: Hosts (as ``host_of`` gives them) under which it is reached.
        receipts: URL of its order queue, where receipts for its streams come.
        mappings: Translations at a border.
        forward: Whether messages for hosts that no redirection names are passed on (HTTP-8).
    """

    own: frozenset[str] = frozenset()
    receipts: str = ""
    mappings: Mappings = Mappings()
    forward: bool = False

    def receipts_for(self, destination: str) -> str:
        """Where receipts for a stream to a destination shall come."""
        return mapped(self.mappings.receipts, destination) or self.receipts

    def arrival(self, url: str) -> Arrival | None:
        """Where a message that has come for a URL goes; None: it has no business here.

        A redirection goes before a name of this computer: the outer name of a border server is one.
        """
        inner = mapped(self.mappings.redirections, url)
        if inner is not None:
            return Arrival(inner, here=host_of(inner) in self.own)
        if host_of(url) in self.own:
            return Arrival(url, here=True)
        return Arrival(url, here=False) if self.forward else None

    def way(self, destination: str) -> str:
        """The URL to whose host a connection for a destination is made; the message itself does
        not change."""
        if fits(self.mappings.exceptions, destination):
            return destination
        return mapped(self.mappings.outbound, destination) or destination

    def mapped_by(self, more: Mappings) -> HttpNames:
        """The same with further mappings, which count after those that there are."""
        return replace(self, mappings=self.mappings + more)


def mapped(pairs: Pairs, url: str) -> str | None:
    """The second of the first pair that fits."""
    return next((meant for given, meant in pairs if fits((given,), url)), None)


def fits(patterns: Iterable[str], url: str) -> bool:
    """Whether a URL is one of these, or begins as one that ends in ``*``."""
    key = url.casefold()
    return any(
        key == pattern or (pattern.endswith("*") and key.startswith(pattern[:-1]))
        for pattern in map(str.casefold, patterns)
    )
