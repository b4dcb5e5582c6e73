"""Two embedded managers that know each other, and the names of their queues."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onceq

Q, PLAIN = r"private$\q", r"private$\plain"
HERE, THERE = rf"DIRECT=OS:ALPHA\{Q}", rf"DIRECT=OS:BETA\{Q}"
NOWHERE = r"DIRECT=OS:BETA\private$\nowhere"
WAIT = 30.0


@dataclass
class Two:
    """Two embedded managers that know each other."""

    alpha: onceq.QueueManager
    beta: onceq.QueueManager
    path: Path
