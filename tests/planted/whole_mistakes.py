"""Mistakes about whole transactions where they meet delays, retries and moves, as patches.

See ``mistakes.py``. Every world that looks for them has whole receives, and delayed messages.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from onceq.core import send
from onceq.core.receive import entrance
from onceq.packet import survey
from proof.sim.apps import delaying, wholes
from tests.planted.mistakes import Mistake, Plant
from tests.planted.planted import edited, replaced


@dataclass(frozen=True)
class InWholes:
    """A mistake in worlds with whole receives.

    Attributes:
        delays: Whether messages are delayed there, too.
    """

    plant: Plant
    delays: bool = False

    def __call__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(wholes, "SHARE", 1.0)
        if self.delays:
            patch.setattr(delaying, "SHARE", 1.0)
        self.plant(patch)


def _one(plant: Plant, *expected: str, delays: bool = False) -> Mistake:
    return Mistake(0, InWholes(plant, delays), frozenset(expected))


WHOLE_MISTAKES: dict[str, Mistake] = {
    "neighbours of a transaction are all of it, though one is delayed": _one(
        edited(survey, "ordinal = head.ordinal", "ordinal = member.lookup"),
        "I2", "I26", delays=True,
    ),
    "a member that was tried again has left its transaction": _one(
        edited(survey, "found = self._numbers.add(_stream_of(head), ordinal, member)",
               "found = self._numbers.add(_stream_of(head), member.lookup, member)"),
        "I2", "I26",
    ),
    "what is sent here says its message number alone": _one(
        edited(send, "(message - before - 1) & 0xFFFF_FFFF", "0"),
        "I26", delays=True,
    ),
    "a transaction without its last message is whole": _one(
        edited(survey, "if not (run.begins and run.ends):",
               "if not run.begins:"),
        "I2", "I26",
    ),
    "a queue of this computer is as unknown as others when it is opened": _one(
        replaced(entrance, "kind_of", lambda targets: None), "I2",
    ),
}  # fmt: skip
