"""Which queues a reader is about: names on one queue manager or on many.

With one queue manager a queue is known by its name, and that stands in offsets. With several it is
known by ``address/name``, because the same name may stand on all of them. An entry of the option
``queue`` that begins with the address of one of the queue managers means that one alone; all other
entries mean a queue on each. A URL with a name behind it says all by itself.

Upholds: I4 at the connector (a place belongs to one queue, whatever else has its name).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from onceq.model.spelling import folded, local, usual
from onceq.model.views.queues import QueueView
from onceq.spark.error_codes import wrong

EARLIEST: Final = -2
LATEST: Final = -1
LOOKUP_MAX: Final = (1 << 63) - 1
QUEUES_MAX: Final = 256
SCHEME: Final = "onceq://"
SCHEMES: Final = (SCHEME, "tls://")
"""Of an address with a port: plainly, and in TLS."""


@dataclass(frozen=True, slots=True)
class Target:
    """One queue to read.

    Attributes:
        key: How offsets name it.
        manager: Address for the driver.
        near: Address for executors; mostly the same.
        queue: Its name there.
    """

    key: str
    manager: str
    near: str
    queue: str

    def __str__(self) -> str:
        return f"{self.queue} of the queue manager at {self.manager}"


def parts_of(text: str) -> list[str]:
    """What stands between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def targets_of(managers: str, executors: str, queues: str) -> tuple[Target, ...]:
    """The queues that three options mean together.

    Args:
        managers, executors: Addresses as the driver and as executors have them.
        queues: Names, with or without an address.

    Raises:
        ConfigurationError: They say nothing, too much, or the same twice.
    """
    addresses = parts_of(managers)
    named = [_url(entry) for entry in parts_of(queues)]
    whole = list(dict.fromkeys([*addresses, *(found[0] for found in named if found)]))
    if not whole:
        raise wrong('say where the queue manager is: .option("queueManager", "host:port")')
    near = _near(addresses, parts_of(executors))
    if not named:
        raise wrong(r'say which queue to read: .option("queue", r"private$\orders")')
    found: list[Target] = []
    for entry, url in zip(parts_of(queues), named, strict=True):
        places = [url] if url else _places(entry, addresses)
        for address, name in places:
            queue = usual(name)
            key = queue if len(whole) == 1 else f"{address}/{queue}"
            found.append(Target(key, address, near.get(address, address), queue))
    if len({(t.manager, local(t.queue)) for t in found}) != len(found):
        raise wrong(f"a queue is named twice in {queues!r}")
    if len(found) > QUEUES_MAX:
        raise wrong(f"{len(found)} queues; one reader takes at most {QUEUES_MAX}")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Queues that are found by their names, also such as come to be later.

    Attributes:
        text: A regular expression for the whole name, with ``private$\\`` or without; capitals do
            not matter.
        managers: Addresses of each queue manager for the driver and for executors.
    """

    text: str
    managers: tuple[tuple[str, str], ...]

    def matching(self, manager: str, near: str, queues: Iterable[QueueView]) -> list[Target]:
        """Of the queues of one queue manager those that are meant: transactional ones only, as
        others cannot be streams, no system queues, and no subqueues."""
        wanted, found = re.compile(self.text, re.IGNORECASE), []
        for queue in queues:
            if queue.transactional and not queue.system and not queue.parent and (
                wanted.fullmatch(queue.path) or wanted.fullmatch(queue.name)
            ):  # fmt: skip
                key = queue.path if len(self.managers) == 1 else f"{manager}/{queue.path}"
                found.append(Target(key, manager, near, queue.path))
        return found


def pattern_of(managers: str, executors: str, text: str) -> Pattern:
    """What three options mean together; raises ConfigurationError."""
    addresses = parts_of(managers)
    if not addresses:
        raise wrong('say where the queue manager is: .option("queueManager", "host:port")')
    try:
        re.compile(text)
    except re.error as error:
        raise wrong(f"subscribePattern {text!r} is no regular expression: {error}") from None
    near = _near(addresses, parts_of(executors))
    return Pattern(text, tuple((one, near.get(one, one)) for one in addresses))


class Everywhere(dict[str, int]):
    """One place for whatever queue is asked for."""

    def __init__(self, place: int = EARLIEST) -> None:
        super().__init__()
        self.place = place

    def __missing__(self, key: str) -> int:
        return self.place


def word_of(text: str, name: str, *, ending: bool) -> Everywhere:
    """Where queues of a pattern begin or end: no JSON, as they are not known beforehand."""
    words = {"latest": LATEST} if ending else {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() not in words:
        raise wrong(f"with subscribePattern {name} is {' or '.join(words)}, not {text!r}")
    return Everywhere(words[text.lower()])


def _url(entry: str) -> tuple[str, str] | None:
    """Address and name of ``onceq://host:port/name`` or ``tls://host:port/name``."""
    scheme = scheme_of(entry)
    if not scheme:
        return None
    address, slash, queue = entry.removeprefix(scheme).partition("/")
    if not slash or not address or not queue:
        raise wrong(f"{entry!r} is not {scheme}host:port/queue")
    return scheme + address, queue


def scheme_of(text: str) -> str:
    """Which of SCHEMES a text begins with; "": none."""
    return next((scheme for scheme in SCHEMES if text.startswith(scheme)), "")


def _places(entry: str, addresses: Sequence[str]) -> list[tuple[str, str]]:
    """A name on one of the queue managers, if it says so, or on all of them."""
    for address in sorted(addresses, key=len, reverse=True):
        if entry.startswith(address + "/"):
            return [(address, entry.removeprefix(address + "/"))]
    if not addresses:
        raise wrong(f"{entry!r} does not say on which queue manager; set queueManager")
    return [(address, entry) for address in addresses]


def _near(addresses: Sequence[str], executors: Sequence[str]) -> dict[str, str]:
    if len(set(addresses)) != len(addresses):
        raise wrong("an address stands twice in queueManager")
    if not executors:
        return {}
    if len(executors) != len(addresses):
        raise wrong(
            f"executorQueueManager has {len(executors)} addresses and queueManager "
            f"{len(addresses)}; each stands for the one at the same place"
        )
    return dict(zip(addresses, executors, strict=True))


def offsets_of(text: str, name: str, targets: Sequence[Target], *, ending: bool) -> dict[str, int]:
    """Places by key: ``earliest``, ``latest``, or JSON with a lookup identifier for each queue.

    Args:
        name: Of the option, for what is said if it makes no sense.
        ending: Whether it is the end; that is never ``earliest``.

    Raises:
        ConfigurationError: It makes no sense.
    """
    special = {"latest": LATEST} if ending else {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in special:
        return {target.key: special[text.lower()] for target in targets}
    words = " or ".join([*special, 'JSON such as {"private$\\\\orders": 17}'])
    try:
        found: Any = json.loads(text)
    except ValueError:
        raise wrong(f"{name} is {words}, not {text!r}") from None
    if not isinstance(found, dict):
        raise wrong(f"{name} is {words}, not {text!r}")
    for key, lookup in found.items():
        good = isinstance(lookup, int) and not isinstance(lookup, bool)
        if not good or not (lookup in special.values() or 0 <= lookup <= LOOKUP_MAX):
            raise wrong(f"{name} of {key} cannot be {lookup!r}")
    return _by_key(found, name, targets)


def _by_key(found: Mapping[str, int], name: str, targets: Sequence[Target]) -> dict[str, int]:
    """A name alone means that queue on every queue manager."""
    places = {folded(key): lookup for key, lookup in found.items()}
    chosen = {
        target.key: places.get(folded(target.key), places.get(folded(target.queue)))
        for target in targets
    }  # fmt: skip
    known = {folded(name) for target in targets for name in (target.key, target.queue)}
    if None in chosen.values() or not known.issuperset(places):
        keys = ", ".join(target.key for target in targets)
        raise wrong(f"{name} names exactly the queues that are read: {keys}")
    return {key: lookup for key, lookup in chosen.items() if lookup is not None}
