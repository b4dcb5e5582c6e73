"""``make two-phase``: random transactions over two managers and databases, with random kills.

Each case takes a message, writes a row, sends messages to both managers, and is hit at up to three
random points of its commit: ours killed, theirs crashed, both, or the application gone (P11). After
each one all places are compared with each other and with what the application was told. Of the
databases PostgreSQL takes part in a third of the cases, MariaDB in a third, and both at once in the
rest; ``--database`` chooses.
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

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.partners.bases import KINDS, MARIADB, POSTGRESQL, open_all  # noqa: E402
from tests.partners.crashes import CRASHES, POINTS, SECOND, Stage  # noqa: E402

DATABASES = {POSTGRESQL: (POSTGRESQL,), MARIADB: (MARIADB,), "both": KINDS}
TELL_EVERY = 50


def plan(rng: random.Random, kinds: tuple[str, ...]) -> dict[str, str]:
    """What happens at which points: mostly one thing, sometimes several, sometimes nothing."""
    count = rng.choice((0, 1, 1, 1, 1, 2, 2, 3))
    two = len(kinds) > 1
    points = (*POINTS, *SECOND) if two else POINTS
    crashes = (*CRASHES, "application", *(kinds if two else ()))
    return {point: rng.choice(crashes) for point in rng.sample(points, count)}


def main() -> int:
    """The command; 1 at the first violation, 2 if there is no such server, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=DATABASES, help="that take part; else each in turn")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    rng = random.Random(options.seed)
    told: Counter[str] = Counter()
    hits: Counter[str] = Counter()
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
        stage = Stage(Path(folder))
        try:
            for number in range(1, options.cases + 1):
                name = rng.choice(wanted)
                kinds = DATABASES[name]
                case = plan(rng, kinds)
                used[name] += 1
                hits.update(case.values())
                messages = rng.choice((1, 1, 3, 20))
                told[stage.case(case, [bases[kind] for kind in kinds], messages=messages)] += 1
                if sys.stderr.isatty() or number % TELL_EVERY == 0:
                    print(f"{number:,} of {options.cases:,} cases", file=sys.stderr, flush=True)
        except AssertionError as violation:
            print(f"VIOLATION in case {stage.count}: {violation}", file=sys.stderr)
            chosen = f" --database {options.database}" if options.database else ""
            print(f"again: make two-phase CASES={stage.count} ARGS='--seed {options.seed}{chosen}'")
            return 1
        except KeyboardInterrupt:
            print("interrupted; everything was stopped", file=sys.stderr)
            return 130
        finally:
            stage.close()
    rows = [
        ("cases", f"{options.cases:,}"),
        *((f"with {name}", f"{count:,}") for name, count in sorted(used.items())),
        *((f"NOT RUN with {name}", why) for name, why in lacking.items()),
        *((f"told: {what}", f"{count:,}") for what, count in sorted(told.items())),
        *((f"hit: {what}", f"{count:,}") for what, count in sorted(hits.items())),
        ("left prepared, locked, or of two outcomes", "0"),
        ("seconds", f"{time.monotonic() - begun:,.0f}"),
    ]
    print("\n".join(f"{name:44} {value}" for name, value in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
