"""``make two-phase``: random transactions over two managers and PostgreSQL, with random kills.

Each case takes a message, writes a row, sends messages to both managers, and is hit at up to three
random points of its commit: ours killed, theirs crashed, both, or the application gone (P11). After
each one all places are compared with each other and with what the application was told.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.partners.crashes import CRASHES, POINTS, Stage  # noqa: E402
from tests.servers import postgres  # noqa: E402

KINDS = (*CRASHES, "application")
TELL_EVERY = 50


def plan(rng: random.Random) -> dict[str, str]:
    """What happens at which points: mostly one thing, sometimes several, sometimes nothing."""
    count = rng.choice((0, 1, 1, 1, 1, 2, 2, 3))
    return {point: rng.choice(KINDS) for point in rng.sample(POINTS, count)}


def main() -> int:
    """The command; 1 at the first violation, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    rng = random.Random(options.seed)
    told: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    started = time.monotonic()
    case: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="onceq-2p-") as folder, postgres() as server:
        stage = Stage(Path(folder), server)
        try:
            for number in range(1, options.cases + 1):
                case = plan(rng)
                hits.update(case.values())
                told[stage.case(case, messages=rng.choice((1, 1, 3, 20)))] += 1
                if sys.stderr.isatty() or number % TELL_EVERY == 0:
                    print(f"{number:,} of {options.cases:,} cases", file=sys.stderr, flush=True)
        except AssertionError as violation:
            print(f"VIOLATION in case {stage.count}: {violation}", file=sys.stderr)
            print(f"again: make two-phase CASES={stage.count} ARGS='--seed {options.seed}'")
            return 1
        except KeyboardInterrupt:
            print("interrupted; everything was stopped", file=sys.stderr)
            return 130
        finally:
            stage.close()
    rows = [
        ("cases", f"{options.cases:,}"),
        *((f"told: {what}", f"{count:,}") for what, count in sorted(told.items())),
        *((f"hit: {what}", f"{count:,}") for what, count in sorted(hits.items())),
        ("left prepared, locked, or of two outcomes", "0"),
        ("seconds", f"{time.monotonic() - started:,.0f}"),
    ]
    print("\n".join(f"{name:44} {value}" for name, value in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
