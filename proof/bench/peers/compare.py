"""``make bench-peers``: onceq beside other systems that keep messages, in one run.

The same work for all: messages of 1 KiB, 1 to 1,000 a transaction, durable on both sides (nothing
is answered before it survives a power cut), every message checked. Rounds are interleaved; systems
whose turn it is not are halted; each runs in a temporary folder on free ports of the loopback. What
cannot be had is said with its reason.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import os
import platform
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from onceq.cli.bench import WrongMessages
from proof import ROOT
from proof.bench.peers import pages, plot, programs, rounds
from proof.bench.peers.run import QUICK, Outcome, Run, Scale
from proof.bench.peers.summary import text as told
from proof.bench.peers.systems import SYSTEMS

SIGNALS = (signal.SIGINT, signal.SIGTERM)
OUT = ROOT / "build" / "bench-peers"


def options(arguments: list[str]) -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run: figures mean nothing")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0, help="of each case")
    parser.add_argument("--only", default="", help=f"of {','.join(SYSTEMS)}")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="on the disk to measure")
    parser.add_argument("--out", type=Path, default=OUT, help="where run.json and plot.svg go")
    parser.add_argument(
        "--no-fetch", action="store_true", help="use installed servers, and fetch none"
    )
    parser.add_argument("--write", action="store_true", help="write the figures into docs/")
    parser.add_argument("--kept", type=Path, help="a run.json to show, or write, instead of a run")
    parser.add_argument("--json", action="store_true", help="print every round, for a program")
    found = parser.parse_args(arguments)
    found.names = [name for name in found.only.split(",") if name] or list(SYSTEMS)
    strange = [name for name in found.names if name not in SYSTEMS]
    if strange:
        parser.error(f"no such system: {', '.join(strange)}; there are {', '.join(SYSTEMS)}")
    return found


def measured(given: argparse.Namespace) -> Run:
    """A run, with everything ended and removed."""
    scale = QUICK if given.quick else Scale()
    changes = {name: getattr(given, name) for name in ("rounds", "seconds")}
    scale = dataclasses.replace(scale, **{name: v for name, v in changes.items() if v})
    line, end = ("\r{:70}", "") if sys.stderr.isatty() else ("{}", "\n")

    def say(text: str) -> None:
        print(line.format(text), end=end, file=sys.stderr, flush=True)

    machine = (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, "
        f"Python {platform.python_version()}"
    )
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    given.out.mkdir(parents=True, exist_ok=True)

    def keep(outcomes: dict[str, Outcome]) -> None:
        found = pages.encoded(Run(today, machine, scale, outcomes))
        (given.out / "run.json").write_bytes(found)

    folder = Path(tempfile.mkdtemp(prefix="onceq-peers-", dir=given.folder))
    folder.chmod(0o755)  # servers that root may not run are run as another user
    try:
        outcomes = rounds.run(given.names, folder, scale, say, keep)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Run(today, machine, scale, outcomes)


def interrupted(number: int, frame: object) -> None:
    """Of several signals only the first one is heard: what was started is being ended then."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """The command; 1 if messages were wrong, or a system failed while it was measured."""
    given = options(arguments)
    programs.fetch(not given.no_fetch)
    for number in SIGNALS:
        signal.signal(number, interrupted)
    try:
        run = pages.decoded(given.kept.read_bytes()) if given.kept else measured(given)
    except KeyboardInterrupt:
        print("interrupted; everything was stopped", file=sys.stderr)
        return 130
    except WrongMessages as error:
        print(f"WRONG MESSAGES: {error}", file=sys.stderr)
        return 1
    kept = pages.encoded(run)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "run.json").write_bytes(kept)
    plot.draw(run, given.out / "plot.svg", pages.mark(kept))
    if given.write:
        pages.KEPT.write_bytes(kept)
        plot.draw(run, pages.PICTURE, pages.mark(kept))
        for path, text in pages.texts().items():
            path.write_text(text)
    if given.json:
        print(kept.decode())
    else:
        print(f"\n{told(run)}")
        print(f"\nwritten: {given.out / 'run.json'}, {given.out / 'plot.svg'}")
    failed = [one for one in run.outcomes.values() if one.about is not None and one.reason]
    return 1 if failed else 0
