"""``python -m proof NAME``: one of the programmes that prove onceq; without a name, their list."""

from __future__ import annotations

import sys

from proof.programmes import run_programme

if __name__ == "__main__":
    try:
        sys.exit(run_programme(sys.argv[1:]))
    except KeyboardInterrupt:
        if "--json" not in sys.argv:  # who asked for it is a program
            sys.stderr.write("\nstopped\n")
        sys.exit(130)
