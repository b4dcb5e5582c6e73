"""``make two-phase``: random transactions over two managers and databases, with random kills.

Each case takes a message, writes a row, sends messages to both managers, and is hit at up to three
random points of its commit: ours killed, theirs crashed, both, or the application gone (P11). After
each one all places are compared with each other and with what the application was told. Of the
databases PostgreSQL takes part in a quarter of the cases, MariaDB in a quarter, both at once in a
quarter, and in the rest one is the last agent of one manager: PostgreSQL, MariaDB or SQLite, whose
commit may also land in the middle of recovery; ``--database`` chooses.

Of the cases with PostgreSQL as the last agent some have two servers. Where one would crash and
start again, its synchronous standby takes its place. Or an asynchronous one does that lacks the
last commits, and each application must be told before it works there.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.partners import last_crashes
from tests.partners.bases import KINDS, MARIADB, POSTGRESQL, Base, open_all
from tests.partners.crashes import CRASHES, POINTS, SECOND, Stage
from tests.partners.pair import Pair
from tests.programs import PUBLIC
from tests.servers import MariaDB, Postgres

LAST = "last-agent"
DATABASES = {
    POSTGRESQL: (POSTGRESQL,), MARIADB: (MARIADB,), "both": KINDS, LAST: KINDS
}  # fmt: skip
TELL_EVERY = 50
PAIR_SHARE = 0.3
"""Of the cases of a last agent, those with two servers; half of them lose commits."""
SLOW_SHARE = 0.2
"""Of the cases of a last agent, those whose commit is slow."""


def plan(rng: random.Random, kinds: tuple[str, ...]) -> dict[str, str]:
    """What happens at which points: mostly one thing, sometimes several, sometimes nothing."""
    count = rng.choice((0, 1, 1, 1, 1, 2, 2, 3))
    two = len(kinds) > 1
    points = (*POINTS, *SECOND) if two else POINTS
    crashes = (*CRASHES, "application", *(kinds if two else ()))
    return {point: rng.choice(crashes) for point in rng.sample(points, count)}


def plan_last(rng: random.Random) -> dict[str, str]:
    """The same of a last agent, whose commit may be slow: for how many rounds of recovery."""
    count = rng.choice((0, 1, 1, 1, 1, 2))
    found = {
        point: rng.choice(last_crashes.CRASHES) for point in rng.sample(last_crashes.POINTS, count)
    }
    if rng.random() < SLOW_SHARE:
        found = {point: what for point, what in found.items() if point == "before promise"}
        found[last_crashes.SLOW] = rng.choice("0123")
    return found


class Play:
    """Both stages, and a case on one of them at a time."""

    def __init__(self, folder: Path, bases: dict[str, Base], rng: random.Random) -> None:
        self._rng = rng
        self._bases = bases
        self._stage = Stage(folder)
        self._last = last_crashes.LastStage(folder)
        self._lasts: list[last_crashes.LastBase] = [last_crashes.LastSqlite(folder / "done.db")]
        if POSTGRESQL in bases:
            server = bases[POSTGRESQL].server
            assert isinstance(server, Postgres)
            self._lasts.append(last_crashes.LastPostgres(server))
        if MARIADB in bases:
            server = bases[MARIADB].server
            assert isinstance(server, MariaDB)
            self._lasts.append(last_crashes.LastMariadb(server))
        self._paired = POSTGRESQL in bases
        self._pairs = contextlib.ExitStack()
        if self._paired:
            self._synchronous, self._behind = (
                last_crashes.LastPair(
                    self._pairs.enter_context(Pair(PUBLIC, synchronous=synchronous))
                )
                for synchronous in (True, False)
            )
        self.count = 0
        self.hits: Counter[str] = Counter()

    def case(self, name: str) -> str:
        """One case with databases of that name; returns what the application was told."""
        self.count += 1
        messages = self._rng.choice((1, 1, 3, 20))
        if name == LAST and self._paired and self._rng.random() < PAIR_SHARE:
            return self._with_a_pair(messages)
        if name == LAST:
            made = plan_last(self._rng)
            self._hit(made)
            return self._last.case(made, self._rng.choice(self._lasts), messages=messages)
        kinds = DATABASES[name]
        made = plan(self._rng, kinds)
        self._hit(made)
        return self._stage.case(made, [self._bases[kind] for kind in kinds], messages=messages)

    def _with_a_pair(self, messages: int) -> str:
        if self._rng.random() < 0.5:
            self.hits["a failover that loses commits"] += 1
            self._last.set_back(self._behind, self._rng.choice((1, 1, 3)))
            return "set back"
        made = plan_last(self._rng)
        self._hit(made)
        before = self._synchronous.pair.failovers
        self._synchronous.follow()
        told = self._last.case(made, self._synchronous, messages=messages)
        self.hits["a failover"] += self._synchronous.pair.failovers - before
        return told

    def _hit(self, made: dict[str, str]) -> None:
        for point, what in made.items():
            self.hits["a slow commit" if point == last_crashes.SLOW else what] += 1

    def close(self) -> None:
        """Stop what runs."""
        self._stage.close()
        self._last.close()
        self._pairs.close()


def main(arguments: list[str]) -> int:
    """The command; 1 at the first violation, 2 if there is no such server, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=DATABASES, help="that take part; else each in turn")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    rng = random.Random(options.seed)
    told: Counter[str] = Counter()
    used: Counter[str] = Counter()
    begun = time.monotonic()
    wanted = [options.database] if options.database else list(DATABASES)
    with tempfile.TemporaryDirectory(prefix="onceq-2p-") as folder, contextlib.ExitStack() as stack:
        bases, missing = open_all({kind for name in wanted for kind in DATABASES[name]})
        for base in bases.values():
            stack.callback(base.server.close)
        lacking = {
            name: why for name in wanted for kind, why in missing.items() if kind in DATABASES[name]
        }
        for name, why in lacking.items():
            print(f"NOT RUN with {name}: {why}", file=sys.stderr)
        wanted = [name for name in wanted if name not in lacking]
        if not wanted:
            return 2
        play = Play(Path(folder), bases, rng)
        try:
            for number in range(1, options.cases + 1):
                name = rng.choice(wanted)
                used[name] += 1
                told[play.case(name)] += 1
                if sys.stderr.isatty() or number % TELL_EVERY == 0:
                    print(f"{number:,} of {options.cases:,} cases", file=sys.stderr, flush=True)
        except AssertionError as violation:
            print(f"VIOLATION in case {play.count}: {violation}", file=sys.stderr)
            chosen = f" --database {options.database}" if options.database else ""
            print(f"again: make two-phase CASES={play.count} ARGS='--seed {options.seed}{chosen}'")
            return 1
        except KeyboardInterrupt:
            print("interrupted; everything was stopped", file=sys.stderr)
            return 130
        finally:
            play.close()
    rows = [
        ("cases", f"{options.cases:,}"),
        *((f"with {name}", f"{count:,}") for name, count in sorted(used.items())),
        *((f"NOT RUN with {name}", why) for name, why in lacking.items()),
        *((f"told: {what}", f"{count:,}") for what, count in sorted(told.items())),
        *((f"hit: {what}", f"{count:,}") for what, count in sorted(play.hits.items())),
        ("left prepared, locked, or of two outcomes", "0"),
        ("seconds", f"{time.monotonic() - begun:,.0f}"),
    ]
    print("\n".join(f"{name:44} {value}" for name, value in rows))
    return 0
