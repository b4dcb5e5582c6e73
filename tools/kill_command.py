"""The command of the tools that kill: options, a folder that is kept if anything was violated."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from kill_judge import Outcome


class Run(Protocol):
    """What a tool does; every process is gone when it returns or raises."""

    def __call__(
        self, *, kills: int, seed: int, folder: Path, say: Callable[[str], None]
    ) -> tuple[Outcome, Mapping[str, int]]:
        """The outcome, and more figures for people."""


def command(
    tool: str, about: str, run: Run, table: Callable[[Outcome, Mapping[str, int]], str],
    *, kills: int, what: str, telling: bool = False,
) -> int:  # fmt: skip
    """Run a tool as ``make TOOL`` does; 1 if anything was violated, 130 after Ctrl-C.

    Args:
        about: Its documentation.
        table: The result for people.
        kills: How many, if nobody says.
        what: What an interrupt stops.
        telling: Tell of each kill also where nobody looks: a run that takes hours leaves a log.
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--kills", type=int, default=kills)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="on the disk to use")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix=f"onceq-{tool}-", dir=options.folder))
    quiet = not telling and (options.json or not sys.stderr.isatty())

    def say(text: str) -> None:
        if not quiet:
            print(text, file=sys.stderr, flush=True)

    kept = False
    try:
        outcome, more = run(kills=options.kills, seed=options.seed, folder=folder, say=say)
        kept = bool(outcome.violations)
    except KeyboardInterrupt:
        print(f"interrupted; {what} were stopped", file=sys.stderr)
        return 130
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({**asdict(outcome), **more}) if options.json else table(outcome, more))
    for violation in outcome.violations[:20]:
        print(f"VIOLATION {violation}", file=sys.stderr)
    if kept:
        print(f"history, stores and logs are kept in {folder}", file=sys.stderr)
        print(f"again: make {tool} KILLS={options.kills} ARGS='--seed {options.seed}'")
    return int(kept)
