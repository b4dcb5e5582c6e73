"""``python -m demo``: run the demo; 0 if everything is there once and in order, else 1."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from demo import flights, report
from demo.faults import Rates
from demo.managers import Network, keep_text
from demo.picture import draw
from demo.proofs import Off
from demo.run import Course
from demo.watch import Watch

INTERRUPTED = 130
REPORT = Path("demo-report")
LINE_CHARS = 120
"""Where there is no terminal to ask."""


def main(argv: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--flights", type=_flights, metavar="N", help="only the first N flights")
    parser.add_argument("--keep", action="store_true", help="leave the queue managers running")
    parser.add_argument("--console", action="store_true", help="show it in a browser meanwhile")
    parser.add_argument("--seed", type=int, default=2013, help="of sizes, aborts and faults")
    parser.add_argument("--report", type=Path, default=REPORT, help="directory for the picture")
    parser.add_argument("--svg", type=Path, help="write what the terminal shows into this file")
    options = parser.parse_args(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    console = Console()
    if not console.is_terminal:
        console = Console(width=LINE_CHARS)
    try:
        return _run(console, options)
    except KeyboardInterrupt:
        console.print("stopped; everything is cleaned up")
        return INTERRUPTED
    except Off as error:
        console.print(f"[bold red]Something is off:[/bold red] {error}", highlight=False)
        return 1


def _flights(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of flights: give a whole number from 1, such as 5000"
        )
    return int(text)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _run(console: Console, options: argparse.Namespace) -> int:
    begun = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix="onceq-demo-"))
    network: Network | None = None
    kept = False
    try:
        with Watch(console) as watch:
            watch.say("reading the flights of 2013")
            departures = flights.departures(options.flights)
            count = sum(len(one.bodies) for one in departures)
            rates = Rates.for_messages(count)
            network = Network(directory, seed=options.seed, rates=rates)
            watch.say("starting five queue managers that prove who they are, and bad networks "
                      "between them")  # fmt: skip
            network.start()
            if options.console:
                watch.say(f"look at it, once: {network.console()}")
            course = Course(network, departures, watch, seed=options.seed)
            course.start_spark()
            course.deliver()
            course.land(keep=options.keep)
            found = course.conclude()
            course.prove(options.report, keep=options.keep)
        found.total_s = time.monotonic() - begun
        airlines = flights.airlines()
        report.show(console, found, airlines)
        picture = report.plot(found, airlines, options.report)
        console.print(f"Picture: {picture}", highlight=False)
        console.print(f"Audit:   {found.page}", highlight=False)
        if options.svg:
            draw(options.svg, watch.told, found)
        if options.keep:
            kept = True
            console.print(keep_text(network, directory / "spark" / "flights.parquet"),
                          highlight=False, soft_wrap=True)  # fmt: skip
        return 1 if found.troubles else 0
    finally:
        if not kept:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            if network is not None:
                network.stop()
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
