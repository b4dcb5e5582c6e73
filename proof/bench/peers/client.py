"""One client process of ``make bench-peers``: it says "ready", waits for "go", works, reports in
JSON.

Every body carries its number, and the receiver compares each with what is due.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

from onceq.cli.bench import Bodies, WrongMessages, percentile
from proof.bench.client import SENDER_SHIFT, Client, go
from proof.bench.peers.contract import BODY, Link
from proof.bench.peers.systems import system

ENDING = 1 << 62
"""In the numbers of a sender's last transaction."""
DRAIN = 1_000
"""Messages a transaction when only their order is of interest."""

Options = dict[str, Any]
Figures = dict[str, Any]


class PeerClient(Client):
    """A process that runs one of the below."""

    program: ClassVar[str] = "proof.bench.peers.client"


def _link(options: Options) -> Link:
    return system(options["system"]).link(options["address"])


def _bodies(sender: int) -> Bodies:
    return Bodies(BODY, first=sender << SENDER_SHIFT)


def _send(link: Link, bodies: Bodies, options: Options, per: int) -> tuple[int, float]:
    """Send for a time, or up to a number of messages; return the count and the seconds."""
    count, began = 0, time.perf_counter()
    while True:
        link.send(bodies.make(per))
        count += per
        spent = time.perf_counter() - began
        if spent >= options["seconds"] or count >= options["messages"]:
            return count, spent


def _receive(link: Link, bodies: Bodies, per: int, count: int) -> float:
    """Receive ``count`` messages that are all there; return the seconds."""
    left, began = count, time.perf_counter()
    while left:
        got = link.receive(min(per, left))
        bodies.check(got)
        left -= len(got)
    return time.perf_counter() - began


def _warm(link: Link, bodies: Bodies, seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for per in (1, 5, 50):
            link.send(bodies.make(per))
            _receive(link, bodies, per, per)
    link.rest()


def alone(options: Options) -> Figures:
    """Send, then receive all of it, for each size of transactions; then single messages."""
    link, bodies = _link(options), _bodies(options["sender"])
    _warm(link, bodies, options["warm"])
    go()
    found: Figures = {}
    for per in options["sizes"]:
        count, spent = _send(link, bodies, options, per)
        found[f"send {per}"] = count / spent
        found[f"receive {per}"] = count / _receive(link, bodies, per, count)
        link.rest()
    found |= _single(link, bodies, options)
    link.close()
    return found


def single(options: Options) -> Figures:
    """Single messages, one after another."""
    link, bodies = _link(options), _bodies(options["sender"])
    _warm(link, bodies, options["warm"])
    go()
    found = _single(link, bodies, options)
    link.close()
    return found


def _single(link: Link, bodies: Bodies, options: Options) -> Figures:
    """In milliseconds: until its commit, and until its removal was committed."""
    commits: list[float] = []
    wholes: list[float] = []
    until = time.perf_counter() + options["seconds"]
    while time.perf_counter() < until or not wholes:
        body = bodies.make(1)
        began = time.perf_counter()
        link.send(body)
        committed = time.perf_counter()
        _receive(link, bodies, 1, 1)
        wholes.append((time.perf_counter() - began) * 1e3)
        commits.append((committed - began) * 1e3)
    return {
        "commit p50": percentile(commits, 0.5), "commit p99": percentile(commits, 0.99),
        "whole p50": percentile(wholes, 0.5), "whole p99": percentile(wholes, 0.99),
        "singles": len(wholes),
    }  # fmt: skip


def source(options: Options) -> Figures:
    """The sender while another process receives. Its first transaction is before the start of
    time, and its last one tells the receiver that it is."""
    link, bodies = _link(options), _bodies(options["sender"])
    per = options["per"]
    link.send(bodies.make(per))
    go()
    began = time.monotonic()
    count, _ = _send(link, bodies, options, per)
    link.send(Bodies(BODY, first=ENDING | bodies.made).make(per))
    ended = time.monotonic()
    link.close()
    return {"began": began, "ended": ended, "messages": count + per}


def sink(options: Options) -> Figures:
    """The receiver at the same time, from the first transaction to the last."""
    link, bodies = _link(options), _bodies(options["sender"])
    per = options["per"]
    _receive(link, bodies, per, per)
    go()
    last: Bodies | None = None
    while last is None or last.seen < (ENDING | bodies.seen) + per:
        got = link.receive(per)
        ending = len(got)
        if _is_last(got[-1]):
            ending = next(at for at, body in enumerate(got) if _is_last(body))
        bodies.check(got[:ending])
        if ending < len(got):
            last = last or Bodies(BODY, first=ENDING | bodies.seen)
            last.check(got[ending:])
    ended = time.monotonic()
    link.close()
    return {"ended": ended}


def _is_last(body: bytes) -> bool:
    return bool(body[7] & (ENDING >> 56))


def several(options: Options) -> Figures:
    """Threads with a link each, which send single messages. The first one of each is before the
    start of time."""
    links = [_link(options) for _ in range(options["threads"])]
    bodies = [_bodies(options["sender"] + at) for at in range(len(links))]
    counts = [0] * len(links)
    for link, numbers in zip(links, bodies, strict=True):
        link.send(numbers.make(1))
    go()
    began = time.monotonic()

    def work(at: int) -> None:
        counts[at], _ = _send(links[at], bodies[at], options, 1)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(len(links))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended = time.monotonic()
    if not all(counts):
        raise RuntimeError("a sending thread has failed")
    for link in links:
        link.close()
    return {"began": began, "ended": ended, "messages": sum(counts)}


def drain(options: Options) -> Figures:
    """Receive what several senders have sent: each one's messages in their order."""
    link = _link(options)
    go()
    left: int = options["messages"]
    next_of: dict[int, int] = {}
    while left:
        got = link.receive(min(left, DRAIN))
        for body in got:
            number = int.from_bytes(body[:8], "little")
            due = next_of.setdefault(number >> SENDER_SHIFT, number >> SENDER_SHIFT << SENDER_SHIFT)
            if number != due or len(body) != BODY:
                raise WrongMessages(f"message {number} came where {due} was due")
            next_of[number >> SENDER_SHIFT] = due + 1
        left -= len(got)
    link.close()
    return {"senders": len(next_of)}


WORK: dict[str, Callable[[Options], Figures]] = {
    work.__name__: work for work in (alone, single, source, sink, several, drain)
}


def main() -> int:
    """What the first argument says, with the options of the second."""
    try:
        found = WORK[sys.argv[1]](json.loads(sys.argv[2]))
    except WrongMessages as error:
        found = {"wrong": str(error)}
    except Exception as error:  # noqa: BLE001 - any error of a system's client fails the case
        found = {"failed": f"{type(error).__name__}: {error}"}
    print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
