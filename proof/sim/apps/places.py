"""The queues of a world, their names, and the distribution lists of its directory: drawn from the
seed.

In some of the worlds that have a directory most queues are public, and are called so: by their
GUID, by the name or the address of their computer, by their number if they are private, in small
and capital letters, and through lists. The judge goes by the queue, not by its name.
"""

from __future__ import annotations

import os
from random import Random
from typing import Final

from onceq.directory import MemoryDirectory
from onceq.model.directory import DistributionList
from onceq.model.identity import guid_text
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.judge.books import NOWHERE, Books, Place

LISTS = 3
EVERYWHERE: Final = "ONCEQ_SIM_NAMES"
"""Environment variable, for the processes of a batch: so it is in every world with a directory."""
WINDOWS: tuple[tuple[float, float], ...] = (
    ((0.0, 1.0),) if os.environ.get(EVERYWHERE) else ((0.121, 0.276), (0.577, 0.738), (0.894, 1.0))
)
"""Where the draw of such worlds falls, between 0 and 1: so that no seed that was kept before there
were any (``tests/simulation/seeds.txt``) is among them, and all of those keep their stories.
Everything with ``make sim ARGS=--names``."""
PUBLIC: Final = 0.6
"""Of the queues there that are not made late."""
LETTERS: Final = 0.3
"""Of the names there by which messages are sent: in small letters, or in capital ones."""
MEMBERS: Final = 0.5
"""Of the members of lists there that are public queues: by their GUID."""


def everywhere() -> None:
    """Let every world with a directory of this process, and of those that it starts, be so."""
    global WINDOWS
    WINDOWS = ((0.0, 1.0),)
    os.environ[EVERYWHERE] = "1"


class Names:
    """How the queues of a world are called."""

    def __init__(self, kernel: Kernel, *, directory: bool) -> None:
        """Draw whether some are public.

        Args:
            directory: Whether there is one.
        """
        drawn = kernel.fresh("public names").random()
        self.active = directory and any(first <= drawn < end for first, end in WINDOWS)
        self._rng: Random = kernel.fresh("ways to name a queue")
        self._kernel = kernel

    def instance(self, *, late: bool) -> bytes:
        """The GUID of a queue that is public; empty for a private one."""
        if not self.active or late or self._rng.random() >= PUBLIC:
            return b""
        return self._rng.randbytes(16)

    def written(self, name: str) -> str:
        """A name as somebody writes it who sends."""
        if not self.active or self._rng.random() >= LETTERS:
            return name
        self._kernel.marks[marks.LETTERS] += 1
        return name.upper() if self._rng.random() < 0.5 else name.lower()

    def member(self, place: Place) -> str:
        """How a list names a queue."""
        if place.instance and self._rng.random() < MEMBERS:
            return public_name(place.instance)
        return next(spelled for spelled in place.spellings if "OS:" in spelled)


def public_name(instance: bytes) -> str:
    """Of the queue with a GUID."""
    return f"PUBLIC={guid_text(instance)}"


def make_places(kernel: Kernel, books: Books, nodes: list[Node], names: Names) -> None:
    """Queues of these managers, and one that is nowhere; some are made late, or never."""
    rng, options = kernel.stream("choices"), kernel.options
    for node in nodes:
        for number in range(options.queues):
            late = number > 0 and rng.random() < options.wrong
            instance = names.instance(late=late)
            name = f"q{number}" if instance else f"private$\\q{number}"
            place = _at(kernel, node, name, late=late, plain=number == 1)
            if instance:
                place.instance = instance
                place.spellings.insert(0, public_name(instance))
            _make(kernel, books, place, node)
    if options.wrong:
        name = "private$\\nowhere"
        nowhere = Place(-1, name, [f"DIRECT={NOWHERE.upper()}\\{name}"], late=True)
        nowhere.quota_kb = _quota(kernel)
        _make(kernel, books, nowhere, None)


def _quota(kernel: Kernel) -> int:
    rng = kernel.stream("choices")
    return rng.choice([1, 4, 16]) if rng.random() < 0.2 else 0


def _at(kernel: Kernel, node: Node, name: str, *, late: bool, plain: bool) -> Place:
    rng = kernel.stream("choices")
    spellings = [f"DIRECT=OS:{node.name}\\{name}", f"DIRECT=TCP:{node.ip}\\{name}"]
    rng.shuffle(spellings)
    if not late and rng.random() < 0.25 and name.startswith("private$"):
        spellings.insert(0, "PRIVATE=")
    return Place(node.index, name, spellings, not plain, _quota(kernel), late=late)


def _make(kernel: Kernel, books: Books, place: Place, node: Node | None) -> None:
    """Draw what else a queue has, and enter it."""
    more = kernel.stream("parts")
    if node is not None and place.transactional:
        place.poison = more.random() < kernel.options.poison
        place.retry_s = more.choice([0, 1, 60]) if place.poison else 0
        for part in ("aside", "retry", "poison"):
            if part == "aside" if not place.poison else part != "aside":
                place.parts.append(Place(place.node, f"{place.name};{part}", [], parent=place))
    place.journal = kernel.stream("journals").random() < kernel.options.journals
    books.places[place.key] = place


def make_lists(kernel: Kernel, books: Books, directory: MemoryDirectory, names: Names) -> None:
    """Some lists, of which some contain others, and each other."""
    rng = kernel.stream("lists")
    places = [place for place in books.places.values() if place.node >= 0]
    made: list[tuple[DistributionList, set[tuple[int, str]]]] = []
    for index in range(LISTS):
        chosen = rng.sample(places, min(rng.randint(1, 3), len(places)))
        for place in chosen:
            # By the same name in each: a name of a place that is not known to be the same one as
            # another leads to a stream of its own.
            books.members.setdefault(place.key, names.member(place))
        members = [books.members[place.key] for place in chosen]
        keys = {place.key for place in chosen}
        if made and rng.random() < 0.5:
            inner, inside = rng.choice(made)
            members.append(f"DL={guid_text(inner.guid)}")
            keys |= inside
        guid = bytes((index + 1,)) * 16
        if rng.random() < 0.5:
            members.append(f"DL={guid_text(guid)}")
        one = DistributionList(guid, f"list{index}", tuple(members))
        directory.put_list(one, None)
        made.append((one, keys))
    for one, keys in made:
        books.lists[f"DL={guid_text(one.guid)}"] = tuple(
            place for place in places if place.key in keys
        )
