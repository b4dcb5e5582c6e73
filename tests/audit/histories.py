"""Histories of managers whose messages meet every end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from onceq.audit import command
from onceq.audit.command import Wish
from onceq.model.message import Acknowledge, Journal
from proof.sim.base.node import Node
from proof.sim.simulate import small_world
from proof.sim.world import World as Simulated
from tests.history.worlds import History, Kept, keep, save

Q, LOCAL = r"DIRECT=OS:B\private$\q", r"private$\q"
MESSAGES = 40
"""Numbers 1 to this of the stream to q are received in order; others have other ends."""


def peopled(path: Path, *names: str) -> Path:
    """Two managers with messages of every end, and a third that refuses what it has not."""
    names = names or ("A", "B", "C")
    world = Kept(*names)
    a, b = world[names[0]], world[names[1]]
    to = rf"DIRECT=OS:{names[1]}\private$"
    b.create("q")
    b.create("j", journal=True)
    b.create("slow")
    a.create("adm", transactional=False)
    a.create("own")
    admin = rf"DIRECT=OS:{names[0]}\private$\adm"
    asks: dict[str, Any] = {"acknowledge": Acknowledge(15), "admin_queue": admin}
    for at in range(MESSAGES // 4):
        a.once(rf"{to}\q", *[b"%d" % at] * 4, journal=Journal.DEADLETTER, **asks)
    a.once(rf"{to}\j", b"1", b"2", b"3", journal=Journal.JOURNAL)
    a.once(rf"DIRECT=OS:{names[2]}\private$\none", b"refused", journal=Journal.DEADLETTER)
    a.once(rf"{to}\slow", b"purged", b"too", journal=Journal.DEADLETTER)
    a.once(r"private$\own", b"at home", b"twice at home")
    a.once(rf"{to}\slow", b"short", time_to_be_received=60)
    world.run(20)
    while b.bodies(LOCAL):
        tx = b.begin()
        b.receive(LOCAL, tx=tx, count=7)
        b.commit(tx)
    b.receive(r"private$\j", count=3)
    world.run(120)
    b.purge(r"private$\slow")
    a.receive(r"private$\own", count=2)
    world.run(20)
    world.cut(names[0], names[1])
    for body in (b"late", b"later"):
        a.once(rf"{to}\q", body, time_to_reach_queue=30, journal=Journal.DEADLETTER)
    a.once(rf"{to}\q", b"on its way")
    world.run(200)
    b.once(LOCAL, b"at home")
    b.receive(LOCAL)
    world.save(path)
    return path


def hostile(path: Path, seeds: tuple[int, ...]) -> Path:
    """Managers that crash at any moment, on networks that lose, repeat and reorder; the
    simulator's own ledger has found nothing wrong with them."""
    for seed in seeds:
        with small_world():
            world = Simulated(seed, keep=keep)
            fast = replace(world.kernel.options.settings, history=True, history_roll_s=3_600)
            world.kernel.options = replace(world.kernel.options, settings=fast)
            world.run()
            world.rest()
            for node in world.nodes:
                assert node.engine is not None
                node.engine.checkpoint()
                save(History(node.disk, Node.path), path / f"{seed}-{node.name}")
    return path


def audited(*paths: Path, settled: bool = False) -> dict[str, Any]:
    """What it says of histories."""
    return command.run([str(path) for path in paths], Wish(settled=settled), lambda _: None)
