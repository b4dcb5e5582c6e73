"""What tests of copies and restores have in common: images of disks, and dead letters."""

from __future__ import annotations

from dataclasses import replace

from onceq.service.restoring import record
from onceq.store.identification import read_identification, write_identification
from onceq.store.log import LogStore
from onceq.testing.disk import Plan, SimFiles
from tests.conformance.world import SEGMENT_BYTES, Node, World


def image(node: Node) -> SimFiles:
    """A copy of its disk as it is now."""
    files = node.files
    return files.image(Plan(files.pending_writes, files.pending_names))


def put_back(node: Node, files: SimFiles) -> None:
    """Kill it, and start it from another disk."""
    if not node.dead:
        node.kill()
    node.files = files.image(Plan((), ()))
    node.files.changed += 1
    node.start()


def dead(node: Node) -> dict[bytes, int]:
    """Bodies and classes of its transactional dead letters."""
    try:
        return {m.body: m.message_class for m in node.messages("SYSTEM$;DEADXACT")}
    except TimeoutError:
        return {}


def twin_of(world: World, node: Node, files: SimFiles) -> Node:
    """Another process with the identity of a manager, on a copy of its disk."""
    twin = Node(world, "TWIN", node.settings)
    twin.kill()
    twin.identity = node.identity
    put_back(twin, files)
    return twin


def clone(world: World, node: Node, files: SimFiles) -> Node:
    """It starts from what was on the disk of a manager, and nothing tells it so."""
    twin = Node(world, "TWIN", node.settings)
    twin.kill()
    twin.identity = node.identity
    twin.files = files.image(Plan((), ()))
    twin.start()
    return twin


def restored(world: World, node: Node) -> Node:
    """The same manager, put back from a backup that is taken now."""
    files = image(node)
    node.kill()
    node.files = files
    _record(world, node, b"")
    node.start()
    return node


def copy_of(world: World, node: Node, name: str = "C") -> Node:
    """Another manager, with an identity of its own, made of a backup that is taken now; the
    original lives on."""
    copy = Node(world, name, node.settings)
    copy.kill()
    copy.files = image(node)
    who = read_identification(copy.files, "/store")
    other = replace(who, identity=copy.identity.pack())
    write_identification(copy.files, "/store", other)
    _record(world, copy, node.identity.guid)
    world.nodes[name] = copy
    copy.start()
    return copy


def _record(world: World, node: Node, previous: bytes) -> None:
    """As ``onceq qm restore`` does it, before the store takes its place."""
    store = LogStore.open("/store", node.files, segment_bytes=SEGMENT_BYTES)
    record(store, node.clock, taken_s=1, position=1, previous=previous, random=world.entropy)
