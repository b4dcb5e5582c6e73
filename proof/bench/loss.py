"""``make bench-loss``: what a link costs that loses and repeats messages.

Two daemons with default settings and the demo's bad network between them: one message in a thousand
is lost, one is repeated. An application sends to one, another one receives from the other, and the
rate over both is compared with that over a clean link, through the same proxy, in turns. The proxy
counts what it has seen before: resends, for each message that it has lost.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onceq
from proof import ROOT
from proof.bench.client import Client, together
from proof.nodes import Node, free_port

Q = r"DIRECT=OS:B\private$\q"
LOCAL = r"private$\q"
BODY = 1_024
STATS_S = 0.4
"""Longer than the proxy takes to write its counters again."""
GOALS = {"share": 1 / 3, "resends": 2.0}
"""Least share of the clean link's rate, and most resends for each lost message."""


@dataclass
class Way:
    """One round over one link."""

    rate: float
    lost: int
    repeated: int
    resends: int


class Network:
    """The proxy between the daemons, in a process of its own."""

    def __init__(self, folder: Path, port: int, target: int, seed: int, one_in: int) -> None:
        self.stats_file = folder / "stats.json"
        rates = dict.fromkeys(("reorder", "ghost", "stall", "cut"), 0)
        config = folder / "proxy.json"
        config.write_text(json.dumps({
            "seed": seed, "stats": str(self.stats_file), "slice_max": 1,
            "rates": {"drop": one_in, "repeat": one_in, **rates},
            "acks": {"drop": 0, "repeat": 0, **rates},
            "proxies": [{"name": "link", "port": port, "target": target}],
        }))  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-m", "demo.proxies", str(config)], cwd=ROOT, start_new_session=True
        )

    def counted(self) -> dict[str, int]:
        """What it has done and seen, when nothing passes any more."""
        time.sleep(STATS_S)
        found: dict[str, int] = json.loads(self.stats_file.read_text())["link"]
        return found

    def end(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait(10)


def one_way(folder: Path, count: int, seed: int, one_in: int) -> Way:
    """Send messages over one link, and receive them."""
    ports = [free_port() for _ in range(3)]
    a = Node(folder, "A", ports[0], {"B": ports[2]})
    b = Node(folder, "B", ports[1], {})
    network = Network(folder, ports[2], ports[1], seed, one_in)
    try:
        b.start()
        a.start()
        with onceq.connect(str(b.path)) as receiver:
            receiver.create_queue(LOCAL, transactional=True)
        work: dict[str, Any] = {"per_commit": 100, "messages": count, "first": 1, "size": BODY}
        with (
            Client("send", where=str(a.path), destination=Q, threads=1, seconds=600, **work) as one,
            Client("receive", where=str(b.path), queue=LOCAL, **work) as other,
        ):
            rate = together([one, other]) / 2
        counted = network.counted()
    finally:
        for node in (a, b):
            if node.process is not None:
                node.kill(signal.SIGTERM)
        network.end()
    return Way(rate, counted["dropped"], counted["repeated"], counted["resends"])


def describe_way(link: str, way: Way) -> str:
    """A line about one round."""
    return (
        f"{link} link  {way.rate:10,.0f} messages/s  {way.lost:5} lost  {way.repeated:5} repeated  "
        f"{way.resends:7,} resent"
    )


def verdict(found: dict[str, Any]) -> list[str]:
    """Goals that were missed."""
    missed = []
    if found["share"] < GOALS["share"]:
        missed.append(f"share of the clean rate {found['share']:.2f}, goal {GOALS['share']:.2f}")
    if found["resends_per_loss"] > GOALS["resends"]:
        missed.append(f"{found['resends_per_loss']:.2f} resends a loss, goal {GOALS['resends']}")
    return missed


def main(arguments: list[str]) -> int:
    """The command; 1 if a goal was missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=30_000, help="in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one-in", type=int, default=1_000, help="one lost and one repeated")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    ways: dict[str, list[Way]] = {"clean": [], "lossy": []}
    for turn in range(options.rounds):
        for link, one_in in (("clean", 0), ("lossy", options.one_in)):
            with tempfile.TemporaryDirectory(prefix="onceq-l-") as name:
                way = one_way(Path(name), options.messages, options.seed + turn, one_in)
            ways[link].append(way)
            if not options.json:
                print(describe_way(link, way), flush=True)
    clean, lossy = (statistics.median(w.rate for w in ways[link]) for link in ("clean", "lossy"))
    lost = sum(w.lost for w in ways["lossy"])
    found = {
        "clean": clean, "lossy": lossy, "share": lossy / clean,
        "resends_per_loss": sum(w.resends for w in ways["lossy"]) / max(lost, 1),
        "rounds": {link: [asdict(way) for way in each] for link, each in ways.items()},
    }  # fmt: skip
    missed = verdict(found)
    if options.json:
        print(json.dumps(found | {"missed": missed}))
    else:
        print(f"share of the clean link's rate {found['share']:.2f} (goal {GOALS['share']:.2f}), "
              f"resends for each lost message {found['resends_per_loss']:.2f} "
              f"(goal {GOALS['resends']:.0f})")  # fmt: skip
        for line in missed:
            print(f"missed: {line}")
    return 1 if missed else 0
