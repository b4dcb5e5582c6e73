"""Programs that use onceq, and what hosts do to them: ``make hosts SECONDS=3600``.

What the simulator is for the network this is for the computer: programs are forked, spawned,
signalled, stopped, left by exceptions, collected as garbage, closed and ended at any line of what
they do; their queue manager, a daemon or in the program itself, stands still or is killed; nobody
reads what they and it write. The judge compares the answers to each program with the content of its
queues afterwards, and wants that nothing hangs. All of a program is drawn from its seed; a failure
prints the line that repeats it.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import onceq
from onceq.client import link
from onceq.embedded import data_directory
from onceq.errors import ManagerAway, OnceqError, ReceiveTimeout, StoreLocked
from onceq.sockets import both_ends
from proof.torture.hosts import spawned
from proof.torture.hosts.host import CHILD_S, Daemons, Host
from proof.torture.hosts.judge import FATES, judged
from proof.torture.hosts.ledger import FILLED, Drawn, Place, draw
from proof.torture.hosts.program import Program

IMPATIENT: tuple[tuple[object, str, object], ...] = (
    (both_ends, "GRACE_S", 0.1), (both_ends, "SILENT_S", 0.5),
    (link, "RECONNECT_S", (0.05, 0.2)),
)  # fmt: skip


class Bed:
    """Daemons, the directory of a queue manager that runs in programs, and programs one after
    another.

    Attributes:
        done: By deed: to how many programs it was done, and how the calls ended, by "ended".
        places: How many programs had their queue manager where.
        fates: What was told, how often.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._embedded = folder / "embedded"
        data_directory.init(str(self._embedded), name="E", listen="")
        self._daemons = Daemons(folder)
        self._programs = 0
        self.done: dict[str, Counter[str]] = {}
        self.places: Counter[str] = Counter()
        self.fates: Counter[str] = Counter()

    def close(self) -> None:
        """End them."""
        self._daemons.close()

    def run(self, drawn: Drawn) -> list[str]:
        """Let a program live, and judge it: what is wrong."""
        self._programs += 1
        number = self._programs
        queues = tuple(rf"private$\{kind}{number}" for kind in ("in", "plain", "out"))
        filled = [f"{kind}{k}" for kind in ("i", "r") for k in range(FILLED)]
        with self._manager(drawn.place) as qm:
            for queue in queues:
                qm.create_queue(queue, transactional=queue != queues[1])
            qm.send_many(queues[0], filled[:FILLED], transactional=True)
            qm.send_many(queues[1], filled[FILLED:])
        with Host(self._folder, self._daemons.of(drawn.place)) as host:
            found = self._live(drawn, queues, host)
            try:
                with self._manager(drawn.place) as qm:
                    there = [body for queue in queues for body in _bodies(qm, queue)]
                    for queue in queues:
                        qm.delete_queue(queue)
            except StoreLocked as error:
                return [*found, *host.release(), f"a child holds the store: {error}"]
            found += host.release()
            lines = host.told.read_text().splitlines()
        self._count(drawn, lines)
        return found + judged(lines, there, filled)

    def _count(self, drawn: Drawn, lines: list[str]) -> None:
        self.places[f"{drawn.face} {drawn.place}"] += 1
        deed, deeds = "", set()
        for line in lines:
            fate, _, what = line.partition(" ")
            if fate == "deed":
                deed = f"{drawn.face}: {what}"
                self.done.setdefault(deed, Counter())["done"] += 1
                deeds.add(deed)
            elif fate == "ended":
                self.done[deed][what] += 1
            elif fate in FATES:
                self.fates[fate] += 1
        for deed in deeds:
            self.done[deed]["programs"] += 1

    @contextlib.contextmanager
    def _manager(self, place: str) -> Iterator[onceq.QueueManager]:
        """The judge's own way to a queue manager, which is started again if it was killed."""
        with self._reached(place) as qm:
            while place != "embedded" and qm.admin.transactions():
                time.sleep(0.005)  # until it has noticed that the program is gone
            yield qm

    def _reached(self, place: str) -> onceq.QueueManager:
        """A child that was forked just now may not have let go of the store yet, and a daemon that
        was killed just now not be over."""
        daemon, until = self._daemons.of(place), time.monotonic() + CHILD_S
        while True:
            try:
                if daemon is None:
                    return onceq.open(self._embedded)
                daemon.revive()
                return onceq.connect(str(daemon.node.path))
            except (StoreLocked, ManagerAway):
                if time.monotonic() > until:
                    raise
            time.sleep(0.01)

    def _live(self, drawn: Drawn, queues: tuple[str, ...], host: Host) -> list[str]:
        ingoing, plain, outgoing = queues
        place = Place(
            drawn.place, self._daemons.where(drawn.place) or str(self._embedded),
            self._daemons.tls if drawn.place == "tls" else None,
            self._daemons.token(drawn.place), (ingoing, plain, outgoing),
            str(host.told), str(host.pid_file), host.orders, host.hold,
        )  # fmt: skip
        program = os.fork()
        if not program:
            host.become_program()
            live(drawn, place)
        return host.attend(program)


def _bodies(qm: onceq.QueueManager, queue: str) -> list[str]:
    try:
        return [bytes(body).decode() for body in qm.peek_many(queue, 10_000).bodies()]
    except ReceiveTimeout:
        return []


def live(drawn: Drawn, place: Place) -> None:
    """The whole life of a program, in the process that was forked for it; it ends that."""
    faulthandler.enable(all_threads=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Ignored, where a shell began this.
    # What multiprocessing loads in a child first.
    sys.modules["__main__"] = spawned
    if drawn.impatient:
        for module, name, value in IMPATIENT:
            setattr(module, name, value)
    code = 1
    try:
        program = Program(drawn, place)
        program.run()
        code = 0
    except (SystemExit, KeyboardInterrupt):
        code = 0
    except BaseException as error:  # noqa: BLE001 - the only way to hear of it
        with open(place.told, "a") as told:
            told.write(f"fault the program ended with {error!r}\n")
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(arguments: list[str]) -> int:
    """Run the programme; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--programs", type=int, default=0, help="this many, without --seconds")
    parser.add_argument("--seed", default="", help="one program, as a failure has printed it")
    parser.add_argument("--from", dest="start", default="1", help="another row of programs")
    parser.add_argument("--first", action="store_true", help="end with the first failure")
    args = parser.parse_args(arguments)
    began, failed, count = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory(prefix="onceq-hosts-") as name:
        bed = Bed(Path(name))
        try:
            while True:
                seed = args.seed or f"{args.start}/{count}"
                drawn = draw(seed)
                faults = bed.run(drawn)
                count += 1
                if faults:
                    failed += 1
                    print(f"FAILED: {drawn}")
                    print("\n".join(f"  {fault}" for fault in faults))
                    print(f"make hosts SEED={seed}", flush=True)
                late = time.monotonic() - began > args.seconds
                enough = count >= args.programs if args.programs else late
                if args.seed or (failed and args.first) or enough:
                    break
        finally:
            with contextlib.suppress(OnceqError):
                bed.close()
    print(f"{count} programs in {time.monotonic() - began:.0f} s, {failed} failed")
    _show(bed)
    return 1 if failed else 0


def _show(bed: Bed) -> None:
    print("  programs: " + ", ".join(f"{n} {where}" for where, n in sorted(bed.places.items())))
    print("    done  programs  what was done, and how the calls ended (or the program)")
    for deed, ended in sorted(bed.done.items()):
        done, programs = ended.pop("done"), ended.pop("programs")
        over = done - ended.total()
        calls = [f"{n} {how}" for how, n in ended.most_common()] + [f"{over} over"] * (over > 0)
        print(f"  {done:6}  {programs:8}  {deed}: {', '.join(calls)}")
    print("  told: " + ", ".join(f"{n} {fate}" for fate, n in sorted(bed.fates.items())))
