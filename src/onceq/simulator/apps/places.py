"""The queues of a world, and the distribution lists of its directory: drawn from the seed."""

from __future__ import annotations

from onceq.directory import MemoryDirectory
from onceq.model.directory import DistributionList
from onceq.model.identity import guid_text
from onceq.simulator.judge.books import Books, Place
from onceq.simulator.sim.kernel import Kernel
from onceq.simulator.sim.node import Node

LISTS = 3


def make_places(kernel: Kernel, books: Books, nodes: list[Node]) -> None:
    """Queues of these managers, and one that is nowhere; some are made late, or never."""
    rng, options = kernel.stream("choices"), kernel.options
    for node in nodes:
        for number in range(options.queues):
            late = number > 0 and rng.random() < options.wrong
            name = f"private$\\q{number}"
            _make(kernel, books, _at(kernel, node, name, late=late, plain=number == 1), node)
    if options.wrong:
        name = "private$\\nowhere"
        nowhere = Place(-1, name, [f"DIRECT=OS:NOWHERE\\{name}"], late=True)
        nowhere.quota_kb = _quota(kernel)
        _make(kernel, books, nowhere, None)


def _quota(kernel: Kernel) -> int:
    rng = kernel.stream("choices")
    return rng.choice([1, 4, 16]) if rng.random() < 0.2 else 0


def _at(kernel: Kernel, node: Node, name: str, *, late: bool, plain: bool) -> Place:
    rng = kernel.stream("choices")
    spellings = [f"DIRECT=OS:{node.name}\\{name}", f"DIRECT=TCP:{node.ip}\\{name}"]
    rng.shuffle(spellings)
    if not late and rng.random() < 0.25:
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


def make_lists(kernel: Kernel, books: Books, directory: MemoryDirectory) -> None:
    """Some lists, of which some contain others, and each other."""
    rng = kernel.stream("lists")
    places = [place for place in books.places.values() if place.node >= 0]
    made: list[tuple[DistributionList, set[tuple[int, str]]]] = []
    for index in range(LISTS):
        chosen = rng.sample(places, min(rng.randint(1, 3), len(places)))
        members = [next(s for s in place.spellings if "OS:" in s) for place in chosen]
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
