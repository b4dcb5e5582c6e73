"""``make bench-pauses``: how long a queue manager stands still, with a million messages waiting.

A daemon holds messages of all kinds in some tens of queues. While applications send and receive at
a moderate rate, queues are purged, deleted and made again, messages expire one by one and thousands
at once, checkpoints are made and old segments emptied; the run fails if one of these did not
happen. Meanwhile each time is noted in which the daemon's loop served nobody, and what for; and
from outside, how long an answer takes that costs nothing.

A time counts as a *pause* without what it has waited for a core (other programs have them) and for
the disk (``make bench`` says how fast that is): both are printed beside it. A pause at a moment at
which the *yardstick*, a process that has nothing to do with the queue manager, needed over twice
its usual processor time for the same small work is told, and is not what the goal is about.
"""

from __future__ import annotations

import argparse
import bisect
import json
import signal
import statistics
import tempfile
import time
from collections import Counter
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import onceq
from proof.bench.depth import counted
from proof.bench.pauses_load import DEAD, Load, fill, share
from proof.nodes import Node, free_port

GOAL_MS: Final = 20.0
SLOW: Final = 2.0
"""How much slower than usual the yardstick must be, for the machine to be the cause."""
NEAR_S: Final = 0.06
"""How near to a pause it must have been so."""
SHARES: Final = ("worked", "others", "core", "disk", "stolen")
SETTINGS: Final = "checkpoint_log_bytes = 16777216\nconnect_retry_s = 1\n"
SHOWN_MS: Final = 2.0
"""What has never taken so long has no line of its own."""
CAUSES: Final = 3
"""Longest parts of a pause that are named."""
NEEDED: Final = {
    "snapshot": 2, "checkpoint installed": 2, "Relocate": 2, "expiry": 2, "PurgeQueue": 2,
    "DeleteQueue": 1,
}  # fmt: skip
"""How often this must have happened at least."""
SETTLE_S: Final = 30.0


def ours(pause: dict[str, Any]) -> float:
    """Milliseconds of a pause that the daemon itself is the cause of."""
    return float(pause["long"] - pause["core"] - pause["disk"])


class Yardstick:
    """How fast the machine was, from moment to moment.

    Args:
        samples: When the small work was done, and the milliseconds of processor time it took.
    """

    def __init__(self, samples: list[tuple[float, float]]) -> None:
        self._at = [at for at, _ in samples]
        self._took = [ms for _, ms in samples]
        self.usual_ms = statistics.median(self._took)

    def slowness(self, pause: dict[str, Any]) -> float:
        """How many times its usual time the work took at the pause."""
        first = bisect.bisect_left(self._at, pause["at"] - pause["long"] / 1e3 - NEAR_S)
        last = bisect.bisect_right(self._at, pause["at"] + NEAR_S)
        return max(self._took[first:last], default=self.usual_ms) / self.usual_ms

    def tell(self) -> None:
        """How even the machine was."""
        took = sorted(self._took)
        slow = sum(ms > SLOW * self.usual_ms for ms in took)
        print(f"yardstick: {self.usual_ms:.2f} ms of processor time (half of {len(took):,}), "
              f"{percentile(took, 0.999):.2f} (999 of 1,000), {took[-1]:.2f} (the longest); over "
              f"{SLOW:.0f} times its usual {slow} times")  # fmt: skip


def inside(found: dict[str, Any], began: float, ended: float) -> dict[str, Any]:
    """What the daemon has noted in the time that counts."""
    return {
        "pauses": [p for p in found["pauses"] if began <= p["at"] <= ended],
        "pumps": [ms for at, ms in found["pumps"] if began <= at <= ended],
        "counted": {
            what: sorted(ms for at, ms in each if began <= at <= ended)
            for what, each in found["counted"].items()
        },
    }


def asked_at(done: list[tuple[str, float, float]], at: float) -> str:
    """What the operator was doing then."""
    return next((what for what, began, ended in done if began <= at <= ended + 0.1), "")


def causes(pause: dict[str, Any]) -> list[tuple[str, float, float]]:
    """The parts of a pause with most work, with how often they ran if that was more than once, and
    how long they lasted; what no name is known for is the rest."""
    work: list[tuple[Any, ...]] = [
        (what if calls == 1 else f"{calls} x {what}", long, worked)
        for what, (long, worked, calls) in pause["work"].items()
    ]
    rest = (
        pause[each] - sum(part[at] for part in work) for at, each in ((1, "long"), (2, "worked"))
    )
    parts = sorted([*work, ("the rest", *rest)], key=lambda part: -part[2])
    longest = max(parts, key=lambda part: part[1])
    return [part for part in parts[:CAUSES] if part[2] >= 1 or part is longest] or [longest]


def percentile(values: list[float], share: float) -> float:
    """Of sorted values; 0 if there are none."""
    return values[min(int(len(values) * share), len(values) - 1)] if values else 0.0


def missed(found: dict[str, Any]) -> list[str]:
    """What did not happen, or took too long."""
    lines = [
        f"happened {times} times, {least} are needed: {what}"
        for what, least in NEEDED.items()
        if (times := len(found["counted"].get(what, ()))) < least
    ]
    own = sum(ours(pause) > GOAL_MS and pause["slowness"] <= SLOW for pause in found["pauses"])
    if own:
        lines.append(f"{own} pauses over {GOAL_MS:.0f} ms while the machine was as fast as usual")
    return lines


def settled(qm: onceq.QueueManager) -> None:
    """Wait until the dead letters are dead."""
    until = time.monotonic() + SETTLE_S
    seen = -1
    while time.monotonic() < until:
        count = qm.queue(DEAD).messages
        if count and count == seen:
            return
        seen = count
        time.sleep(1.5)


def run(folder: Path, seconds: float, messages: int, queues: int) -> dict[str, Any]:
    """Fill a daemon, put it to work, and say what was noted."""
    result = folder / "noted.json"
    node = Node(folder, "PAUSES", free_port(), {}, settings=SETTINGS)
    node.program = ["-m", "proof.bench.pauses_daemon", str(result)]
    node.start()
    try:
        with onceq.connect(str(node.path)) as qm:
            each = share(messages, queues)
            fill(qm, seconds, each, queues)
            settled(qm)
            options = {"where": str(node.path), "seconds": seconds}
            with (
                Load("traffic", **options) as traffic, Load("probe", **options) as probe,
                Load("operate", each=each, queues=queues, **options) as operator,
                Load("yardstick", **options) as measure,
            ):  # fmt: skip
                began = time.monotonic()
                for load in (traffic, probe, operator, measure):
                    load.go()
                count, answers = traffic.result()["messages"], probe.result()["answers"]
                done: Any = operator.result()["done"]
                samples: Any = measure.result()["samples"]
                ended = time.monotonic()
            waiting = sum(view.messages for view in qm.queues())
    finally:
        node.kill(signal.SIGTERM)
    found = inside(json.loads(result.read_text()), began, ended)
    yardstick = Yardstick(samples)
    for pause in found["pauses"]:
        pause["slowness"] = yardstick.slowness(pause)
    took: Any = answers
    return found | {
        "samples": samples,
        "began": began, "seconds": ended - began, "messages_s": count / (ended - began),
        "waiting": waiting, "answers_ms": sorted(ms for _, ms in took), "done": done,
    }  # fmt: skip


def tell(found: dict[str, Any]) -> None:
    """Print it."""
    times = Counter(what for what, _, _ in found["done"])
    print(f"{found['seconds']:.0f} s, {found['waiting']:,} messages waiting at the end, "
          f"{found['messages_s']:,.0f} messages/s passed")  # fmt: skip
    print("asked for: " + ", ".join(f"{what} {count}" for what, count in times.items()))
    answers = found["answers_ms"]
    print(f"an answer took {percentile(answers, 0.5):.2f} ms (half of them), "
          f"{percentile(answers, 0.99):.1f} ms (99 of 100), {percentile(answers, 1):.1f} ms (the "
          f"longest of {len(answers):,})")  # fmt: skip
    Yardstick(found["samples"]).tell()
    pauses = sorted(found["pauses"], key=ours, reverse=True)
    print(
        f"{'times':>8} {'half':>6} {'99 of 100':>9} {'longest':>7} ms of work, with what it calls"
    )
    for what, took in sorted(found["counted"].items(), key=lambda each: -max(each[1], default=0)):
        if percentile(took, 1) >= SHOWN_MS or what in NEEDED:
            print(f"{len(took):8,} {percentile(took, 0.5):6.1f} {percentile(took, 0.99):9.1f} "
                  f"{percentile(took, 1):7.1f}    {what}")  # fmt: skip
    print(f"longest pump {max(found['pumps'], default=0):.1f} ms; longest pause "
          f"{ours(pauses[0]) if pauses else 0:.1f} ms")  # fmt: skip
    for least in (10.0, GOAL_MS, 50.0):
        long, whole, worked = (
            sum(length(pause) > least for pause in pauses)
            for length in (ours, itemgetter("long"), itemgetter("worked"))
        )
        print(f"pauses over {least:.0f} ms: {long}; with cores and the disk: {whole}; in which the "
              f"loop worked for so long: {worked}")  # fmt: skip
    slow = sum(ours(pause) > GOAL_MS and pause["slowness"] > SLOW for pause in pauses)
    print(f"pauses over {GOAL_MS:.0f} ms while the machine was over {SLOW:.0f} times slower than "
          f"usual: {slow}")  # fmt: skip
    if pauses:
        print(
            f"{'at s':>7} {'pause':>7} {'worked':>7} {'others':>7} {'core':>7} {'disk':>7} "
            f"{'stolen':>7} ms {'slower':>6}"
        )
    for pause in pauses[:30]:
        parts = causes(pause)
        work = ", ".join(f"{what} {worked:.0f} of {long:.0f}" for what, long, worked in parts)
        asked = asked_at(found["done"], pause["at"])
        print(f"{pause['at'] - found['began']:7.2f} {ours(pause):7.1f} "
              + " ".join(f"{pause[each]:7.1f}" for each in SHARES)
              + f"   {pause['slowness']:5.1f}x  {work} ({asked or 'nothing asked'})")  # fmt: skip


def main(arguments: list[str]) -> int:
    """The command; 1 if a goal was missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--messages", type=counted, default=1_000_000, help="that wait")
    parser.add_argument("--queues", type=counted, default=40, help="that they wait in")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="onceq-p-") as name:
        found = run(Path(name), options.seconds, options.messages, options.queues)
    lines = missed(found)
    if options.json:
        print(json.dumps(found | {"missed": lines}))
    else:
        tell(found)
        for line in lines:
            print(f"missed: {line}")
    return 1 if lines else 0
