"""What tests of copies and restores have in common: images of disks, and dead letters."""

from __future__ import annotations

from onceq.simulator.sim.disk import SimFiles
from onceq.simulator.sim.power import Plan
from tests.conformance.world import Node, World


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
