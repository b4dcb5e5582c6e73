"""``make bench-tenants``: what two tenants with very many queues and grants cost a third one.

Two daemons do the same work in turn: at one of them two tenants, each with a token, have made
10,000 queues and given 10,000 grants each. A third one commits one message after another at both;
its p99 beside the tenants, divided by that alone, is what is printed. In as many slices more the
tenants ask, each from a process of its own, one after another with a pause between: for those of
its queues with a name, for all rights at a queue, and whether it may do something. The first two
look at everything that there is, in small portions, and take the loop's time while they do.

Every message is received and counted, and a run that loses one fails. A goal that is missed is
said, and is no failure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import onceq
from onceq import aio
from onceq.model.limits import SILENT_S
from proof.nodes import Node, free_port

TENANTS: tuple[str, ...] = ("north", "south")
THIRD = "third"
QUEUE = "private$\\third"
AT_ONCE = 64
"""Requests of a tenant that are under way while it makes what it has."""
GOAL = 1.2
"""The most by which a commit of the third one may take longer, as a factor."""
ALONE, BESIDE, ASKED = "alone", "beside", "asked"
GO, STOP = "go", "stop"


@dataclass
class Third:
    """The one whose commits are measured, at one of the daemons."""

    qm: onceq.QueueManager
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def commits(self, what: str, count: int) -> None:
        """Time commits of one message each, and as many receptions."""
        took = self.seconds.setdefault(what, [])
        for number in range(count):
            began = time.perf_counter()
            with self.qm.transaction() as tx:
                tx.send(QUEUE, b"%d" % number)
            took.append(time.perf_counter() - began)
        with self.qm.transaction() as tx:
            bodies = tx.receive_many(QUEUE, count, timeout=SILENT_S).bodies()
        if bodies != [b"%d" % number for number in range(count)]:
            raise SystemExit(f"{count} messages were sent, and {len(bodies)} came in order")


@dataclass
class Asker:
    """A tenant that asks, in a process of its own, while it is told to."""

    process: subprocess.Popen[str]

    def command(self, word: str) -> str:
        """Tell it to begin or to end; return its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


async def furnish(where: str, token: str, name: str, count: int) -> float:
    """Make the queues and the grants of a tenant; returns the seconds that it took."""
    began = time.monotonic()

    async def at_once(work: Callable[[int], Awaitable[object]]) -> None:
        for first in range(0, count, AT_ONCE):
            await asyncio.gather(*map(work, range(first, min(first + AT_ONCE, count))))

    async with await aio.connect(where, token=token) as qm:
        await at_once(lambda at: qm.create_queue(f"private$\\{name}-{at}", transactional=True))
        await at_once(lambda at: qm.rights.grant(f"reader{at}", "peek", f"private$\\{name}-{at}"))
    return time.monotonic() - began


def ask(where: str, name: str, pause_s: float) -> None:
    """Ask while the one that has started this says so; tell it how often it was."""
    with onceq.connect(where, token=os.environ["ONCEQ_BENCH_TOKEN"]) as qm:
        print("ready", flush=True)
        while line := sys.stdin.readline():
            if line.strip() == GO:
                print(GO, flush=True)
                asked = asyncio.run(_asking(qm, name, pause_s))
                print(asked, flush=True)


async def _asking(qm: onceq.QueueManager, name: str, pause_s: float) -> int:
    """Looks, one after another, until the next line."""
    loop, asked = asyncio.get_running_loop(), 0
    over = loop.run_in_executor(None, sys.stdin.readline)
    looks: tuple[Callable[[int], object], ...] = (
        lambda at: qm.queues(part=f"{name}-{at % 100}"),
        lambda at: qm.rights.list(f"private$\\{name}-{at}"),
        lambda at: qm.rights.explain("peek", f"private$\\{name}-{at}"),
    )
    while not over.done():
        await loop.run_in_executor(None, looks[asked % len(looks)], asked)
        asked += 1
        await asyncio.sleep(pause_s)
    return asked


@contextmanager
def asking(node: Node, tokens: dict[str, str], pause_s: float) -> Iterator[list[Asker]]:
    """The tenants as processes, which ask when they are told to."""
    askers = []
    try:
        for name in TENANTS:
            command = [sys.executable, "-m", "proof", "bench-tenants"]
            command += ["--ask", node.clients_at, name, str(pause_s)]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env={**os.environ, "ONCEQ_BENCH_TOKEN": tokens[name]},
            )  # fmt: skip
            askers.append(Asker(process))
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "ready"
        yield askers
    finally:
        for one in askers:
            one.process.kill()
            one.process.wait()


def measure(folder: Path, wish: argparse.Namespace) -> dict[str, float]:
    """Everything that is printed."""
    with ExitStack() as stack:
        nodes = [Node(folder, name, free_port(), {}, clients=True) for name in ("ALONE", "BESIDE")]
        thirds, tokens = [], {}
        for node in nodes:
            node.start()
            stack.callback(node.kill, signal.SIGTERM)
            with onceq.connect(str(node.path)) as admin:
                admin.create_queue(QUEUE, transactional=True)
                token = admin.tokens.create(THIRD, grants={QUEUE: "send,receive"}).token
                for name in TENANTS if node is nodes[1] else ():
                    created = {f"private$\\{name}-*": "create"}
                    tokens[name] = admin.tokens.create(name, grants=created).token
            qm = stack.enter_context(onceq.connect(f"onceq://{node.clients_at}", token=token))
            thirds.append(Third(qm))
        alone, beside = thirds
        found: dict[str, float] = {}
        for name in TENANTS:
            where = f"onceq://{nodes[1].clients_at}"
            found[f"{name}_s"] = asyncio.run(furnish(where, tokens[name], name, wish.count))
        askers = stack.enter_context(asking(nodes[1], tokens, wish.pause))
        for third in thirds:
            third.commits("warm up", wish.commits)
        looks, span = 0, 0.0
        for number in range(wish.slices):
            for third in thirds if number % 2 else thirds[::-1]:
                third.commits(ALONE if third is alone else BESIDE, wish.commits)
            began = time.monotonic()
            for one in askers:
                one.command(GO)
            beside.commits(ASKED, wish.commits)
            looks += sum(int(one.command(STOP)) for one in askers)
            span += time.monotonic() - began
        took = {ALONE: alone.seconds[ALONE], **beside.seconds}
        for what in (ALONE, BESIDE, ASKED):
            found |= {f"{what}_p50_ms": _quantile(took[what], 50) * 1e3}
            found |= {f"{what}_p99_ms": _quantile(took[what], 99) * 1e3}
        for what in (BESIDE, ASKED):
            found[f"{what}_ratio"] = found[f"{what}_p99_ms"] / found[f"{ALONE}_p99_ms"]
        return {**found, "looks_s": looks / span}


def _quantile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1]


def show(found: dict[str, float], wish: argparse.Namespace) -> None:
    """The figures, for people."""
    many = wish.slices * wish.commits
    print(f"a third one's commits of one message over TCP, {many:,} of each, in turn:")
    for what, said in (
        (ALONE, "alone"),
        (BESIDE, f"beside two tenants with {wish.count:,} queues and grants each"),
        (ASKED, f"and these ask {found['looks_s']:.0f} times a second"),
    ):
        ratio = found.get(f"{what}_ratio")
        met = "" if ratio is None else f"  {ratio:.2f} times"
        met += "" if ratio is None or ratio <= GOAL else f" (goal: {GOAL})"
        times = f"p50 {found[f'{what}_p50_ms']:6.2f} ms  p99 {found[f'{what}_p99_ms']:6.2f} ms"
        print(f"  {said:<62} {times}{met}")


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="queues, and grants, of a tenant")
    parser.add_argument("--commits", type=int, default=200, help="in one slice")
    parser.add_argument("--slices", type=int, default=40)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between a tenant's looks")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--folder", help="where the daemons keep their messages meanwhile")
    parser.add_argument("--ask", nargs=3, help=argparse.SUPPRESS)
    wish = parser.parse_args(arguments)
    if wish.ask:
        where, name, pause = wish.ask
        ask(f"onceq://{where}", name, float(pause))
        return 0
    with tempfile.TemporaryDirectory(prefix="onceq-", dir=wish.folder) as folder:
        found = measure(Path(folder), wish)
    if wish.json:
        print(json.dumps(found))
    else:
        show(found, wish)
    return 0
