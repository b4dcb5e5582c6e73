"""The rounds of ``make bench-peers``: every system does every case, then all of them again.

Servers run from the first round to the last one, and those whose turn it is not are halted
(SIGSTOP): they take neither processor nor disk from the one that is measured. The disk's own rate
is measured before each turn.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from onceq.cli.bench import WrongMessages, sync_rate
from proof.bench.peers.client import PeerClient
from proof.bench.peers.contract import System
from proof.bench.peers.run import CLIENTS, Figures, Outcome, Scale
from proof.bench.peers.server import signal_all
from proof.bench.peers.systems import system
from tests.programs import NoServer

PROCESSES = 4
"""Processes; the sixteen clients are their threads."""
YARD_S = 0.25
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
Say = Callable[[str], None]
Keep = Callable[[dict[str, Outcome]], None]


class Turns:
    """Systems that run, of which one at a time is not halted."""

    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        self.running: dict[str, System] = {}
        self._senders = 0

    @contextmanager
    def turn(self, chosen: System) -> Iterator[None]:
        """Only this one runs meanwhile."""
        for other in self.running.values():
            if other is not chosen:
                signal_all(other.pids(), signal.SIGSTOP)
        signal_all(chosen.pids(), signal.SIGCONT)
        try:
            yield
        finally:
            signal_all(chosen.pids(), signal.SIGSTOP)

    def measure(self, chosen: System) -> Figures:
        """All cases, once."""
        found: Figures = {}
        case = "alone" if chosen.alone else "single"
        with self._client(chosen, case, 1) as client:
            client.go()
            found |= _answer(client)
        if chosen.shared:
            for per in self.scale.sizes:
                found[f"through {per}"] = self._through(chosen, per)
        if chosen.shared and chosen.alone:
            found["sixteen"] = self._sixteen(chosen)
        return found

    def _client(self, chosen: System, case: str, senders: int, **more: Any) -> PeerClient:
        first = self._senders
        self._senders += senders
        scale = self.scale
        options = {
            "system": chosen.name, "address": chosen.address(), "sender": first,
            "sizes": scale.sizes, "seconds": scale.seconds, "messages": scale.messages,
            "warm": chosen.warm_s * scale.warm,
        }  # fmt: skip
        return PeerClient(case, **{**options, **more})

    def _through(self, chosen: System, per: int) -> float:
        """A sender and a receiver at once: messages a second until the last one was received."""
        with (
            self._client(chosen, "source", 1, per=per) as sender,
            self._client(chosen, "sink", 0, per=per, sender=self._senders - 1) as receiver,
        ):
            receiver.go()
            sender.go()
            sent, got = _answer(sender), _answer(receiver)
        return sent["messages"] / (got["ended"] - sent["began"])

    def _sixteen(self, chosen: System) -> float:
        """Sixteen senders of single messages at once; afterwards all of these are received."""
        threads = CLIENTS // PROCESSES
        with ExitStack() as stack:
            clients = [
                stack.enter_context(self._client(chosen, "several", threads, threads=threads))
                for _ in range(PROCESSES)
            ]
            for client in clients:
                client.go()
            found = [_answer(client) for client in clients]
        count = sum(f["messages"] for f in found)
        span = max(f["ended"] for f in found) - min(f["began"] for f in found)
        with self._client(chosen, "drain", 0, messages=int(count) + CLIENTS) as client:
            client.go()
            if _answer(client)["senders"] != CLIENTS:
                raise WrongMessages("a sender's messages are missing")
        return count / span


def _answer(client: PeerClient) -> Figures:
    found: dict[str, Any] = client.result()
    if "wrong" in found:
        raise WrongMessages(found["wrong"])
    if "failed" in found:
        raise RuntimeError(found["failed"])
    return found


def _started(
    names: Sequence[str], folder: Path, turns: Turns, stack: ExitStack, say: Say
) -> dict[str, Outcome]:
    """Start what can be had, one after another, each halted when it runs."""
    outcomes = {name: Outcome(name) for name in names}
    for name, outcome in outcomes.items():
        say(f"starting {name}")
        try:
            place = folder / name
            place.mkdir(mode=0o755)
            chosen = system(name)(place)
            stack.callback(chosen.close)
            chosen.start()
            outcome.about = chosen.about()
        except NoServer as error:
            outcome.reason = str(error)
            continue
        except ImportError as error:
            outcome.reason = f"{error}: pip install 'onceq[bench]' brings it"
            continue
        turns.running[name] = chosen
        signal_all(chosen.pids(), signal.SIGSTOP)
    return outcomes


def run(
    names: Sequence[str], folder: Path, scale: Scale, say: Say, keep: Keep
) -> dict[str, Outcome]:
    """Run the whole measurement; return outcomes by name. Servers end in every case.

    Args:
        keep: Is shown what there is after every turn.

    Raises:
        WrongMessages: A system lost, repeated or reordered messages.
    """
    turns = Turns(scale)
    stack = ExitStack()
    try:
        outcomes = _started(names, folder, turns, stack, say)
        for number in range(scale.rounds):
            order = list(turns.running)
            random.Random(number).shuffle(order)
            for name in order:
                say(f"round {number + 1} of {scale.rounds}: {name}")
                _turn(turns, outcomes[name], folder)
                keep(outcomes)
    finally:
        with _deaf():
            stack.close()
    return outcomes


def conditions(folder: Path) -> Figures:
    """The disk's own rate, and the part of the processors' time that others take meanwhile."""
    own, (used, whole) = time.process_time(), _processors_s()
    yard = sync_rate(str(folder), YARD_S)
    own, (used_then, whole_then) = time.process_time() - own, _processors_s()
    others = (used_then - used - own) / max(whole_then - whole, TICK_S)
    return {"yard": yard, "others": min(max(others, 0.0), 1.0)}


def _processors_s() -> tuple[float, float]:
    """Of all processors since the start of the machine: used, and all."""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    whole = sum(ticks)
    return (whole - ticks[3] - ticks[4]) * TICK_S, whole * TICK_S


def _turn(turns: Turns, outcome: Outcome, folder: Path) -> None:
    """One system's turn. One that fails is out, with the reason."""
    chosen = turns.running[outcome.name]
    try:
        with turns.turn(chosen):
            before = conditions(folder)
            outcome.rounds.append({**turns.measure(chosen), **before})
    except WrongMessages as error:
        raise WrongMessages(f"{outcome.name}: {error}") from None
    except (RuntimeError, OSError) as error:
        outcome.reason = f"failed in round {len(outcome.rounds) + 1}: {error}"
        del turns.running[outcome.name]
        chosen.close()


@contextmanager
def _deaf() -> Iterator[None]:
    """Ignore signals: a user who presses Ctrl-C twice still leaves no process."""
    before = {n: signal.signal(n, signal.SIG_IGN) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
