"""The record of a measurement."""

from __future__ import annotations

from dataclasses import dataclass, field

from proof.bench.peers.contract import About

SIZES = (1, 10, 100, 1000)
"""Messages a transaction."""
CLIENTS = 16

Figures = dict[str, float]


@dataclass(frozen=True)
class Scale:
    """How much is measured.

    Attributes:
        sizes: Messages a transaction.
        seconds: How long a sender sends in each case,
        messages: or how many messages, if that is less.
        warm: Times as long as a system wants to be used before.
    """

    rounds: int = 5
    sizes: tuple[int, ...] = SIZES
    seconds: float = 0.6
    messages: int = 120_000
    warm: float = 1.0


QUICK = Scale(rounds=1, sizes=(1, 100), seconds=0.02, messages=1_000, warm=0.0)


@dataclass
class Outcome:
    """What a run has found of one system.

    Attributes:
        rounds: Figures by name, one dictionary for each round.
        reason: Why there are none, or no more.
    """

    name: str
    about: About | None = None
    rounds: list[Figures] = field(default_factory=list)
    reason: str = ""


@dataclass
class Run:
    """A whole measurement.

    Attributes:
        made: The day.
        machine: What it ran on.
    """

    made: str
    machine: str
    scale: Scale
    outcomes: dict[str, Outcome]
