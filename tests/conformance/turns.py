"""Conformance cases as they are, with one thing turned that must not matter.

``make conformance TURN=public`` runs all cases that have their managers in this process, and calls
the queues of each by another name; ``ONCEQ_TURN`` says which turn. Worlds and nodes ask their turn
at a few places: when a world is made, before and after a request, when a manager starts and when it
is killed. A case that the turn has nothing to do with is not counted. One that it cannot be turned
for says why, with the mark ``unturned``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec import Struct

from onceq.model import requests
from onceq.model.identification import ON_THIS_COMPUTER, Claims, Identification, certified
from onceq.model.identity import guid_text
from onceq.model.marks import NEVER_S
from onceq.model.queue import QueueProperties
from onceq.model.requests import Request, SendItem
from onceq.packet.arrived import Batch
from onceq.service import restoring
from onceq.store.log import LogStore

if TYPE_CHECKING:
    from tests.conformance.world import Node, World

VARIABLE: Final = "ONCEQ_TURN"
"""Of the environment: the turn of this process; without it cases are as they are."""
QUEUE: Final = re.compile(r"(?i)^(?:DIRECT=(?:OS|TCP):([^\\]+)\\)?private\$\\([^;\\]+)(;.*)?$")
"""A private queue by its path, or by the name or address of its computer."""
REGISTERED_S: Final = 2.0
"""By then everybody has read in the directory that a queue was made."""


class Turn:
    """Nothing is changed: what worlds have that are not turned."""

    name: ClassVar = ""
    latency_us: ClassVar = 100
    touched: ClassVar = False
    """Whether it has changed anything in the case that is run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._at_work = False
        """It asks something itself."""

    @classmethod
    def touch(cls) -> None:
        """It has changed something."""
        Turn.touched = True

    def with_directory(self, wanted: bool) -> bool:
        """Whether a world has a directory."""
        return wanted

    def request(self, node: Node, request: Request) -> Request:
        """What is asked in place of a request."""
        return request

    def answered(self, node: Node, request: Request, result: Any) -> Any:
        """What is answered in place of a result."""
        return result

    def starts(self, node: Node) -> None:
        """A manager is about to start on a disk that it has worked on before."""

    def started(self, node: Node) -> None:
        """A manager has started."""

    def dies(self, node: Node) -> None:
        """A manager is about to be killed, between two things that it does."""

    def shown(self, node: Node) -> Identification:
        """What the other side of a connection knows of a manager."""
        return ON_THIS_COMPUTER

    def _ask(self, node: Node, request: Request) -> Any:
        """Ask something that no turn changes."""
        self._at_work = True
        try:
            return node.ask(request)
        finally:
            self._at_work = False


# ---- other names ------------------------------------------------------------------------------


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A value with every text in it changed, in whatever it stands."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, (tuple, list)):
        found = [mapped(one, change) for one in value]
        same = all(one is before for one, before in zip(found, value, strict=True))
        return value if same else type(value)(found)
    if isinstance(value, Struct) or is_dataclass(value):
        new: dict[str, Any] = {}
        for field in fields(value):  # type: ignore[arg-type]
            before = getattr(value, field.name)
            after = mapped(before, change)
            if after is not before:
                new[field.name] = after
        return replace(value, **new) if new else value  # type: ignore[type-var]
    return value


def _reading_back(back: Callable[[str], str]) -> type[Batch]:
    """Batches whose messages have other texts."""

    class Renamed(Batch):
        __slots__ = ()

        def __getitem__(self, index: Any) -> Any:
            found = super().__getitem__(index)
            return found if isinstance(index, slice) else mapped(found, back)

    return Renamed


class OtherNames(Turn):
    """Queues that a case makes are called by another name wherever it names them."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.known: dict[tuple[str, str], str] = {}
        """By manager and queue: the name."""
        self._read_back = _reading_back(self.back)
        self.used: set[tuple[str, str]] = set()
        """What was named before it was made keeps its name."""

    def request(self, node: Node, request: Request) -> Request:
        """See Turn."""
        if self._at_work or isinstance(request, requests.CreateQueue):
            return request
        found: Request = mapped(request, lambda text: self._all(node, text))
        if isinstance(found, requests.SetRights):
            found.check()  # as whoever asks has done with the names that he has given
        return found

    def _all(self, node: Node, text: str) -> str:
        found = ",".join(self._one(node, one) for one in text.split(","))
        if found == text:
            return text
        self.touch()
        return found

    def _one(self, node: Node, text: str) -> str:
        match = QUEUE.match(text)
        if match is None:
            return text
        host, queue, tail = match[1], match[2], match[3] or ""
        there = node if host in (None, ".") else self.world.find(host, b"")
        if there is None:
            return text
        place = (there.identity.name, queue.casefold())
        if place not in self.known:
            self.used.add(place)
            return text
        return self.called(text, self.known[place], by_path=host is None, queue=queue, tail=tail)

    def answered(self, node: Node, request: Request, result: Any) -> Any:
        """See Turn: the case sees the names that it has given."""
        if isinstance(request, requests.CreateQueue) and isinstance(result, QueueProperties):
            name = self.named(node, result)
            if name:
                self.known[node.identity.name, result.name.casefold()] = name
        if isinstance(result, Batch):
            result.__class__ = self._read_back
            return result
        return mapped(result, self.back)

    def back(self, text: str) -> str:
        """A name as the case has given it."""
        return ",".join(self._given(one) for one in text.split(",")) if "=" in text else text

    def _given(self, text: str) -> str:
        for (host, queue), name in self.known.items():
            if text.casefold() in (name.casefold(), *self.printed(host, queue)):
                return f"DIRECT=OS:{host}\\private$\\{queue}"
        return text

    def printed(self, host: str, queue: str) -> tuple[str, ...]:
        """Other names that managers may print, in small letters."""
        host, queue = host.casefold(), queue.casefold()
        return (f"direct=os:{host}\\private$\\{queue}", f"direct=os:{host}\\{queue}")

    def named(self, node: Node, made: QueueProperties) -> str:
        """The name of a queue that was made; "" for one that keeps its own."""
        raise NotImplementedError

    def called(self, text: str, name: str, *, by_path: bool, queue: str, tail: str) -> str:
        """What a queue that is known is called in place of a text.

        Args:
            name: What is known of it.
            by_path: Whether the text is only its path.
            queue, tail: The queue in the text, and what stands behind it there.
        """
        raise NotImplementedError


class Public(OtherNames):
    """Queues are public, and are called by their GUID, where there are several managers."""

    name = "public"

    def with_directory(self, wanted: bool) -> bool:
        """See Turn."""
        return True

    def request(self, node: Node, request: Request) -> Request:
        """See Turn."""
        if isinstance(request, requests.CreateQueue) and not self._at_work:
            properties = request.properties
            assert properties is not None
            place = (node.identity.name, properties.name.casefold())
            alone = len(self.world.nodes) < 2
            if not properties.private or place in self.used or alone:
                return request
            instance = f"{place[0]}:{place[1]}:{len(self.known)}".encode()[:16].ljust(16, b"P")
            return replace(
                request, properties=replace(properties, private=False), instance=instance
            )
        return super().request(node, request)

    def named(self, node: Node, made: QueueProperties) -> str:
        """See OtherNames."""
        return "" if made.private else f"PUBLIC={guid_text(made.instance)}"

    def answered(self, node: Node, request: Request, result: Any) -> Any:
        """See Turn."""
        if isinstance(request, requests.CreateQueue) and not self._at_work and not result.private:
            self.world.run(REGISTERED_S)
        return super().answered(node, request, result)

    def called(self, text: str, name: str, *, by_path: bool, queue: str, tail: str) -> str:
        """See OtherNames."""
        if by_path or tail:
            return text.replace(text[text.casefold().index("private$") :], queue + tail)
        return name


class Private(OtherNames):
    """Messages go to queues by the GUID of their manager and their number."""

    name = "private"

    def named(self, node: Node, made: QueueProperties) -> str:
        """See OtherNames."""
        guid = guid_text(node.identity.guid)
        return f"PRIVATE={guid}\\{made.number:08x}" if made.private else ""

    def called(self, text: str, name: str, *, by_path: bool, queue: str, tail: str) -> str:
        """See OtherNames."""
        return text if by_path or tail else name


class Letters(OtherNames):
    """Names are written in other letters than a queue was made with."""

    name = "letters"

    def named(self, node: Node, made: QueueProperties) -> str:
        """See OtherNames."""
        return made.name if made.private else ""

    def called(self, text: str, name: str, *, by_path: bool, queue: str, tail: str) -> str:
        """See OtherNames."""
        return text.swapcase()


# ---- more of something ------------------------------------------------------------------------


class Second(Turn):
    """Each send that asks for nothing has a second destination, a queue of its manager."""

    name = "second"

    def request(self, node: Node, request: Request) -> Request:
        """See Turn."""
        sends = (requests.Send, requests.Commit, requests.PrepareBranch, requests.Promise)
        if self._at_work or not isinstance(request, sends):
            return request
        plain = isinstance(request, requests.Send) and not request.transaction
        items = [self._with_second(node, one, plain=plain) for one in request.items]
        return replace(request, items=items) if items != list(request.items) else request

    def _with_second(self, node: Node, item: SendItem, *, plain: bool) -> SendItem:
        """A batch for one more queue, if nothing is asked to be told or kept of it: that would be
        told and kept twice."""
        p = item.properties
        asks = p.acknowledge or p.journal or p.delay or p.deliver_at or p.trace
        mortal = min(p.time_to_reach_queue, p.time_to_be_received) < NEVER_S
        if asks or mortal or not item.destination.upper().startswith(("DIRECT=OS", "DIRECT=TCP")):
            return item
        queue = "turned-plain" if plain else "turned"
        if f"private$\\{queue}" not in node.running.manager.state.queues:
            properties = QueueProperties(queue, transactional=not plain)
            instance = queue.encode().ljust(16, b"T")
            self._ask(node, requests.CreateQueue(properties=properties, instance=instance))
        self.touch()
        second = f"DIRECT=OS:.\\private$\\{queue}"
        return replace(item, destination=f"{item.destination},{second}")


class InDirectory(Turn):
    """Each world has a directory."""

    name = "directory"

    def with_directory(self, wanted: bool) -> bool:
        """See Turn."""
        if not wanted:
            self.touch()
        return True


class Identity(Turn):
    """Each manager proves who it is, and has rights by that alone."""

    name = "identity"

    def started(self, node: Node) -> None:
        """See Turn: others may send here, as ``onceq invite`` lets them."""
        if node.life == 1:
            for word, queue in (("send", "*"), ("forward", "")):
                grant = requests.SetRights("peer:*", [word], queue, False)
                grant.check()
                self._ask(node, grant)

    def shown(self, node: Node) -> Identification:
        """See Turn."""
        self.touch()
        found = certified(Claims(node.identity.guid, node.identity.name, (node.address,)))
        assert found is not None, "it is a queue manager's"
        return found


class Lines(Turn):
    """Whatever is said takes 20 ms to arrive."""

    name = "lines"
    latency_us = 20_000

    def shown(self, node: Node) -> Identification:
        """See Turn: there is a connection."""
        self.touch()
        return ON_THIS_COMPUTER


# ---- other ways to end and to begin -----------------------------------------------------------


class Restore(Turn):
    """Whoever starts again was put back to the moment at which it ended."""

    name = "restore"

    def starts(self, node: Node) -> None:
        """See Turn."""
        self.touch()
        from tests.conformance.world import SEGMENT_BYTES

        store = LogStore.open("/store", node.files, segment_bytes=SEGMENT_BYTES)
        restoring.record(
            store, node.clock, taken_s=node.clock.read().wall_s, position=store.position,
            random=self.world.entropy,
        )  # fmt: skip


class Checkpoint(Turn):
    """Before a manager is killed it makes a checkpoint."""

    name = "checkpoint"

    def dies(self, node: Node) -> None:
        """See Turn."""
        engine = node.engine
        well = all(node.files.fail(kind, 0) is None for kind in ("sync", "write"))
        if engine is not None and not engine.stopped and well:
            self.touch()
            engine.checkpoint()
            node.pump()


TURNS: Final[dict[str, type[Turn]]] = {
    turn.name: turn
    for turn in (
        Public, Private, Letters, Second, InDirectory, Identity, Lines, Restore, Checkpoint,
    )
}  # fmt: skip


def chosen() -> type[Turn]:
    """The turn of this process."""
    return TURNS.get(os.environ.get(VARIABLE, ""), Turn)
