"""What an audit is at, told while it works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StageProgress:
    """How far an audit is.

    Attributes:
        stage: What is being done.
        seconds: Since the audit began.
        begins: The stage begins now; else it goes on.
        done, tasks: Of Spark in this stage, where Spark does it; it finds out by and by how many
            there will be.
    """

    stage: str
    seconds: float
    begins: bool = True
    done: int = 0
    tasks: int = 0


Say = Callable[[StageProgress], None]
