"""What the judge makes of a restore: its books of one computer are put back with the disk.

An image of a disk has the books of that computer beside it: the content of its queues, what was
received there and by whom. A restore puts both back. Of what others have of the time that is undone
the books know this:

* a unit of work that the image does not have may be there or not, once, and nobody hears of it;
* a message that the computer acknowledged, and that the image does not have, may be gone;
* of every message that was under way to or from it before the restore, the ends that were told
  may be those of the life that is undone.

Everything else is demanded as in any other world, and nothing is excused that was sent later.

Watches: I1, I3, I4, I5, I26 over restores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from onceq.core.manager import Manager
from onceq.core.state.queue_tables import title_of
from onceq.model.message import Delivery
from onceq.store.contract import Store
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.packets import UID_BYTES, body_of
from proof.sim.base.stored import joined, kept
from proof.sim.judge.books import Books, Copy, Key, Message, Place, Snapshot, Status, Unit
from proof.sim.judge.traffic import Traffic


class Restores:
    """The judge's books over restores; see the module."""

    def __init__(self, kernel: Kernel, nodes: list[Node], books: Books, traffic: Traffic) -> None:
        self.kernel, self.nodes, self.books, self.traffic = kernel, nodes, books, traffic
        self.at: dict[int, int] = {}
        """Computer: when it was put back last."""
        self.undone: set[int] = set()
        """Messages outside transactions of lives that are undone."""
        self.gone: set[tuple[int, Key]] = set()
        """Messages that were acknowledged, and are not in what was put back."""

    # ---- an image -------------------------------------------------------------------------

    def quiet(self, node: Node) -> bool:
        """Whether what a computer has is what the books say: nothing is under way in it."""
        engine = node.engine
        return (
            engine is not None
            and not engine.has_work
            and node.paused_us <= self.kernel.now
            and all(
                unit.status not in (Status.ASKED, Status.DOUBT)
                for unit in self.books.units
                if unit.node == node.index
            )
        )

    def snapshot(self, node: Node) -> Snapshot:
        """What is known of a computer now."""
        books = self.books
        snapshot = Snapshot(life=node.life)
        for place in books.everywhere():
            if place.node == node.index:
                old = replace(
                    place, lookups=dict(place.lookups), gone=set(place.gone),
                    sure=dict(place.sure), aborts=dict(place.aborts), held={}, doubtful={},
                    readings=dict(place.readings), removing={}, read_us=dict(place.read_us),
                    forgotten=set(place.forgotten),
                )  # fmt: skip
                snapshot.places.append((place, old))
        for message in books.messages.values():
            for place in message.places:
                if place.node == node.index:
                    key = message.uid, place.key
                    snapshot.copies[key] = replace(message.copies[place.key])
            own = message.node == node.index and message.unit is None and message.done
            if own and message.uid not in self.undone:
                snapshot.sent.add(message.uid)
        for key, places in books.accepted.items():
            if key[1][0] == node.index:
                snapshot.accepted[key] = dict(places)
        for unit in books.units:
            if unit.node != node.index or unit.undone:
                continue
            if unit.status in (Status.COMMITTED, Status.ABORTED):
                snapshot.units.add(unit)
            elif unit.takes:
                self._would_abort(snapshot, unit, node)
        assert node.engine is not None
        snapshot.standing = set(self._standing(node, node.engine.manager, node.engine.store))
        return snapshot

    def _would_abort(self, snapshot: Snapshot, unit: Unit, node: Node) -> None:
        """What is open in an image is undone in it, and may count as given back."""
        for place, lookup, _ in unit.takes:
            old = next(old for here, old in snapshot.places if here is place)
            count, first = old.aborts.get(lookup, (0, node.life))
            old.aborts[lookup] = (count + 1, min(first, node.life))

    def _standing(self, node: Node, manager: Manager, store: Store) -> Iterator[tuple[int, Key]]:
        messages = self.books.messages
        for queue in manager.state.queues.values():
            if queue.system:
                continue
            key = (node.index, title_of(queue))
            lanes = [*queue.lanes.values(), *(
                lane for part in queue.subs.values() for lane in part.lanes.values()
            )]  # fmt: skip
            for lane in lanes:
                for pieces in kept(lane):
                    _, body = body_of(joined(store.read, pieces))
                    message = messages.get(int.from_bytes(body[:UID_BYTES], "little"))
                    if message is not None and _lasts(message):
                        yield message.uid, key

    # ---- a restore ------------------------------------------------------------------------

    def fits(self, node: Node, snapshot: Snapshot) -> bool:
        """Whether an image has the queues that there are: others may have sent to no others."""
        return (
            all(
                (place.created_us, place.deleted_us) == (old.created_us, old.deleted_us)
                for place, old in snapshot.places
            )
            and node.index not in self.books.letter_queues_gone
        )

    def undo(self, node: Node, snapshot: Snapshot) -> None:
        """The process has ended, and what the image does not have with it."""
        books, traffic = self.books, self.traffic
        for unit in books.units:
            if unit.node == node.index:
                unit.undone = unit not in snapshot.units
                unit.was_undone |= unit.undone
        for message in books.messages.values():
            if message.node == node.index and message.unit is None:
                if message.uid in snapshot.sent:
                    self.undone.discard(message.uid)
                else:
                    self.undone.add(message.uid)
            for place in message.places:
                key = (message.uid, place.key)
                gone = message.unit is None and key not in snapshot.standing
                if place.node == node.index and gone:
                    self.gone.add(key)
        for uid, place in traffic.answered(node.index):
            key = (uid, place.key)
            if key not in snapshot.standing and not self._received(snapshot, key):
                self.gone.add(key)

    @staticmethod
    def _received(snapshot: Snapshot, key: tuple[int, Key]) -> bool:
        copy = snapshot.copies.get(key)
        return copy is not None and copy.received > 0

    def put_back(self, node: Node, snapshot: Snapshot) -> None:
        """The disk was put back: so are the books."""
        books = self.books
        self.at[node.index] = self.kernel.now
        for place, old in snapshot.places:
            place.lookups, place.gone = dict(old.lookups), set(old.gone)
            place.sure, place.aborts = dict(old.sure), dict(old.aborts)
            place.held, place.doubtful = {}, {}
            place.readings, place.removing = dict(old.readings), {}
            place.read_us, place.forgotten = dict(old.read_us), set(old.forgotten)
            place.leaks, place.slack = old.leaks, old.slack
        for message in books.messages.values():
            for place in message.places:
                if place.node == node.index:
                    old_copy = snapshot.copies.get((message.uid, place.key), Copy())
                    message.copies[place.key] = replace(old_copy)
        accepted = books.accepted
        for key in [key for key in accepted if key[1][0] == node.index]:
            del accepted[key]
        accepted.update((key, dict(places)) for key, places in snapshot.accepted.items())
        self.traffic.put_back(node)

    # ---- what is demanded -------------------------------------------------------------------

    def is_undone(self, message: Message) -> bool:
        """Whether it was sent by a life that is undone."""
        return message.unit.undone if message.unit is not None else message.uid in self.undone

    def excused(self, message: Message, place: Place) -> bool:
        """Whether it may be there or not."""
        return self.is_undone(message) or (message.uid, place.key) in self.gone

    def touched(self, message: Message, place: Place) -> bool:
        """Whether it was under way to or from a computer before that was put back."""
        return any(
            message.sent_us <= self.at.get(node, -1)
            for node in (message.node, place.node)
        )  # fmt: skip

    def end_is_undone(self, message: Message, place: Place) -> bool:
        """Return whether reports of its end may be of a life that is undone."""
        if self.touched(message, place):
            return True
        admin = message.properties.admin_queue
        return bool(self.at) and any(
            message.sent_us <= when
            and (node.index == message.node or f":m{node.index}\\" in admin.casefold())
            for node, when in ((self.nodes[index], when) for index, when in self.at.items())
        )


def _lasts(message: Message) -> bool:
    return message.unit is not None or message.properties.delivery is Delivery.RECOVERABLE
