"""Mistakes about who a queue manager is, and for whom it may speak, as patches (programme P15).

In every world that looks for them managers prove to each other who they are, and members lie
(``faults/lying_members.py``); see ``mistakes.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from onceq.core.peers import duplicate_identity, trust
from onceq.core.step import step
from onceq.core.transfer import arrival
from onceq.model import identification
from onceq.tls import members
from proof.sim.apps import subjects
from proof.sim.faults import lying_members
from tests.planted.mistakes import Mistake, Plant
from tests.planted.planted import edited


@dataclass(frozen=True)
class Lied:
    """A mistake in worlds with members that lie."""

    plant: Plant

    def __call__(self, patch: pytest.MonkeyPatch) -> None:
        for module, name in ((subjects, "SHARE"), (subjects, "STRICT"), (lying_members, "SHARE")):
            patch.setattr(module, name, 1.0)
        self.plant(patch)


def _lied(plant: Plant, *expected: str, first: int = 0) -> Mistake:
    return Mistake(0, Lied(plant), frozenset(("I28", *expected)), first)


LYING_MISTAKES: dict[str, Mistake] = {
    "a plain host may say any GUID": _lied(
        edited(identification, "    if proven:\n", "    if False:\n"),
        "I3", "I13",
    ),
    "a member may say any GUID": _lied(
        edited(identification, "        if guid == who.guid:\n", "        if True:\n"),
        "I3", "I13",
    ),
    "a member answers for any name": _lied(
        edited(identification,
               "    if bound or not host or names is not Names.CERTIFIED or is_for(",
               "    if True or is_for("),
    ),
    "a name goes to whoever answers": _lied(
        edited(identification, "    if bound and (pinned or names is Names.CERTIFIED):\n",
               "    if False:\n"),
    ),
    "that a member has proven itself is not kept": _lied(
        edited(trust, "        step.setup(PeerProven(guid=item.peer), forced=False)\n",
               "        pass\n"),
    ),
    "an order acknowledgment counts from anybody": _lied(
        edited(trust, "    if not serves(step, peer, outgoing, ack.acker, counter):\n",
               "    if False:\n"),
        "I1", "I12", "I1 or I12",
    ),
    "a final acknowledgment counts from anybody": _lied(
        edited(trust, "    if not served and not _told_on_the_way(", "    if False and not ("),
        "I1", "I11", "I12", "I13",
    ),
    "a member may bring what others have sent": _lied(
        edited(arrival, "if elsewhere or not own:", "if False:"),
        "I3", "I9", "I12",
    ),
    "a member that was removed comes in again": _lied(
        edited(members, "        if removal is not None:\n", "        if False:\n"),
    ),
    "anybody may tell of a second process": _lied(
        edited(duplicate_identity, "    if not known(step, peer.peer):\n", "    if False:\n"),
    ),
    "answers about doubts count from anybody": _lied(
        edited(trust, "        return guid in doubt.given and not peer.http\n",
               "        return True\n"),
        "I11", "I12", "I13", "I14",
    ),
    "an act goes on from the beginning of the trail": _lied(
        edited(step, "since, trail.head or BEGIN\n", "since, BEGIN\n"),
    ),
}  # fmt: skip
