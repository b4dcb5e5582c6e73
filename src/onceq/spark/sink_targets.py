"""Which queue a row is for: the names of the source, and those of the queue manager.

A queue is named in the sink as in the source: by its name, by ``host:port/name`` with an address
that ``queueManager`` has, or by ``onceq://host:port/name``. Beside these there are the names that a
queue manager knows, of queues anywhere: path names and format names. A name that mixes both would
be taken for a computer that nobody ever finds, and its messages would wait there until they expire;
so it is refused before anything is sent.

Upholds: I3 at the connector (nothing is taken that can go nowhere).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from onceq.errors import IllegalFormatName, OnceqError
from onceq.model.names import parse_any
from onceq.spark.targets import SCHEME, parts_of, scheme_of, wrong

_ADDRESS: Final = re.compile(
    r"(?:(?:onceq|tls)://[^/\\]*|unix://.*?|[^/\\=,\s]+:\d+)[/\\]", re.DOTALL
)
"""What a name begins with whose writer means a queue manager, and no computer."""
_PLACE: Final = re.compile(r"[:/\\.]")
_PORT: Final = re.compile(r"[^:\[\]]+:\d+|\[[^\]]*\]:\d+")


def sink_of(managers: str, queue: str) -> tuple[tuple[str, ...], str]:
    """Addresses of queue managers, and the queue (with an address where there are several), out of
    two options.

    Args:
        managers: The option ``queueManager``; may be empty where ``queue`` is a URL.
        queue: The option ``queue``; empty: each row has its own.

    Raises:
        ConfigurationError: They do not say which queue manager, or name one that they do not have.
    """
    addresses = tuple(dict.fromkeys(parts_of(managers)))
    scheme = scheme_of(queue)
    if not addresses and scheme:
        address, _, name = queue.removeprefix(scheme).partition("/")
        if not address or not name:
            raise wrong(f"{queue!r} is not {scheme}host:port/queue")
        return (scheme + address,), name
    if not addresses:
        raise wrong('say where the queue manager is: .option("queueManager", "host:port")')
    try:
        if len(addresses) == 1:
            return addresses, name_there(addresses[0], queue)
        place_of(addresses, queue)
    except OnceqError as error:
        raise wrong(f"queue: {error.text}") from None
    return addresses, queue


def place_of(addresses: Sequence[str], name: str) -> int:
    """Which of these queue managers a name begins with the address of; -1: none, so any will do.

    Raises:
        IllegalFormatName: As of ``name_there``.
    """
    for at, address in enumerate(addresses):
        if _own(address, name):
            return at
    name_there(", ".join(addresses), name)
    return -1


def name_there(address: str, name: str) -> str:
    """A destination as the queue manager at an address knows it.

    Raises:
        IllegalFormatName: It begins with the address of another, or of a computer that there
            cannot be.
    """
    own = _own(address, name)
    if own:
        return own
    if not _ADDRESS.match(name) and _possible(name):
        return name
    raise IllegalFormatName(
        f"{name!r} names the address of a queue manager that this write does not go through (it "
        f"goes through {address}), and a computer cannot be called so: messages to it would wait "
        f"until they expire. Write {address}/NAME or NAME for a queue of that queue manager, and "
        r"COMPUTER\private$\NAME or a format name, without a port, for one that it forwards to"
    )


def _possible(name: str) -> bool:
    """Whether no computer in it has a port for a part of its name."""
    if ":" not in name:
        return True
    try:
        elements = parse_any(name)
    except OnceqError:
        return True  # What is wrong with it is told where it is sent.
    return not any(e.protocol == "OS" and _PORT.fullmatch(e.host) for e in elements)


def _own(address: str, name: str) -> str:
    """What stands behind that address and a slash; empty: the name does not begin so."""
    scheme = scheme_of(address) or SCHEME
    bare = address.removeprefix(scheme)
    # A directory of one word could be a computer as well, and is.
    for own in (scheme + bare, bare) if _PLACE.search(bare) else ():
        if name.startswith(f"{own}/"):
            return name.removeprefix(f"{own}/")
    return ""
