"""An administrator who looks at everything, again and again, while others lie (``make liar``).

It is a process of its own, so that what is measured is the queue managers', and not how busy the
liars are.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from itertools import chain
from typing import Final

import onceq

LOOK_S_MAX: Final = 5.0
"""Longest time for a look of an administrator."""
EVERY_S: Final = 0.2


class Looks:
    """The process, and what it has measured.

    Attributes:
        took: Seconds of each look, by what was looked at.
    """

    def __init__(self, *places: str) -> None:
        """Begin to look at the queue managers of these directories."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "proof.torture.liar.looks", *places], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self.took: dict[str, list[float]] = {}

    def end(self) -> None:
        """Look no more, and read what was measured."""
        said, _ = self._process.communicate("\n", timeout=60)
        self.took = json.loads(said or "{}")

    def judge(self, wrong: list[str], most_s: float = LOOK_S_MAX) -> str:
        """The figure; what took too long, or that nothing was looked at, is wrong."""
        if not self.took:
            wrong.append("the administrator has not looked")
            return "looks of the administrator: none"
        each = sorted(chain.from_iterable(self.took.values()))
        longest = {what: max(taken) for what, taken in self.took.items()}
        if each[-1] > most_s:
            wrong.append(f"a look took {each[-1]:.1f} s")
        said = ", ".join(f"{what} {taken * 1000:,.0f}" for what, taken in sorted(longest.items()))
        return (
            f"looks of the administrator: {len(each):,}, in the middle "
            f"{each[len(each) // 2] * 1000:.1f} ms; longest, ms: {said} "
            f"(at most {LOOK_S_MAX * 1000:,.0f})"
        )


def time_looks(places: list[str]) -> dict[str, list[float]]:
    """Time looks at each place until something is written on the standard input."""
    over = threading.Event()

    def wait() -> None:
        sys.stdin.readline()
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    took: dict[str, list[float]] = {}
    with contextlib.ExitStack() as stack:
        managers = [stack.enter_context(onceq.connect(place)) for place in places]
        while not over.wait(EVERY_S):
            for qm in managers:
                admin = qm.admin
                for one in (admin.status, qm.queues, admin.outgoing, qm.rights.list, admin.trail):
                    began = time.monotonic()
                    one()
                    took.setdefault(one.__name__, []).append(time.monotonic() - began)
    return took


if __name__ == "__main__":
    print(json.dumps(time_looks(sys.argv[1:])))
