"""The command of the tools that kill: options, a folder that is kept if anything was violated."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar


class Judged(Protocol):
    """What a tool finds: a dataclass with the violations among its fields."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    violations: list[str]


Found = TypeVar("Found", bound=Judged)


def command(
    arguments: Sequence[str], tool: str, about: str,
    run: Callable[..., tuple[Found, Mapping[str, int]]],
    table: Callable[[Found, Mapping[str, int]], str],
    *, count: int, what: str, unit: str = "kills", telling: bool = False,
    choices: Mapping[str, Sequence[str]] | None = None,
) -> int:  # fmt: skip
    """Run a tool as ``make TOOL`` does; 1 if anything was violated, 130 after Ctrl-C.

    Args:
        arguments: Of the command line.
        about: Its documentation.
        run: What it does, given ``unit``, seed, folder and say (whom to tell); the outcome, and
            more figures for people. Every process is gone when it returns or raises.
        table: The result for people.
        count: How many, if nobody says.
        unit: Of what.
        what: What an interrupt stops.
        telling: Tell of each kill also where nobody looks: a run that takes hours leaves a log.
        choices: More options by name, each with its values, of which the first is the default;
            ``run`` is given what was chosen.
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument(f"--{unit}", dest="count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="on the disk to use")
    parser.add_argument("--json", action="store_true")
    for name, values in (choices or {}).items():
        parser.add_argument(f"--{name}", choices=values, default=values[0])
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix=f"onceq-{tool}-", dir=options.folder))
    quiet = not telling and (options.json or not sys.stderr.isatty())

    def say(text: str) -> None:
        if not quiet:
            print(text, file=sys.stderr, flush=True)

    chosen = {name: getattr(options, name) for name in choices or {}}
    kept = False
    try:
        counted: dict[str, Any] = {unit: options.count}
        outcome, more = run(**counted, **chosen, seed=options.seed, folder=folder, say=say)
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
        print(f"stores and logs are kept in {folder}", file=sys.stderr)
        words = {"seed": options.seed, **chosen}
        again = " ".join(f"--{name} {value}" for name, value in words.items())
        print(f"again: make {tool} {unit.upper()}={options.count} ARGS='{again}'")
    return int(kept)
