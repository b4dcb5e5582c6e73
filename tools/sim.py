"""``make sim``: simulated networks of queue managers, one for each seed."""

from __future__ import annotations

import sys

from onceq.simulator.simulate import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
