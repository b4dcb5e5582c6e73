"""Mistakes about who may do what, as patches (programme P15).

Every world that looks for them has applications that are somebody, and in half of them managers
prove to each other who they are; see ``mistakes.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from onceq.core import rights as required_rights
from onceq.core.management import rights
from onceq.core.state import snapshot, state
from onceq.core.transfer import admission
from onceq.model import patterns, policy
from onceq.model import rights as model
from onceq.model import tokens as token_model
from onceq.service import naming
from proof.sim.apps import subjects
from tests.planted.mistakes import Mistake, Plant
from tests.planted.planted import edited

DOOMED = "S0: a unit of work is committed although a send in it was refused"


@dataclass(frozen=True)
class Named:
    """A mistake in worlds with applications that are somebody."""

    plant: Plant

    def __call__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(subjects, "SHARE", 1.0)
        self.plant(patch)


def _named(plant: Plant, *expected: str, first: int = 0) -> Mistake:
    return Mistake(0, Named(plant), frozenset(expected or ("I28",)), first)


RIGHTS_MISTAKES: dict[str, Mistake] = {
    "a receive needs no right": _named(
        edited(required_rights, "return Demand((Right.RECEIVE,), place.queue, place.said)",
               "return Demand((Right.RECEIVE, Right.PEEK, Right.SEND), place.queue, place.said)"),
    ),
    "a right here is a right elsewhere": _named(
        edited(required_rights, "return Demand((Right.SEND,), place.queue, place.said)",
               'return Demand((Right.SEND,), place.queue.rpartition("\\\\")[2] and "*", "")'),
    ),
    "a commit is not judged": _named(
        edited(required_rights,
               "    yield from sends(step, item.items)\n"
               "    yield from work_of(step, step.units.transactions.get((item.owner, "
               "item.transaction)))\n\n\ndef _takes_part",
               "    yield from sends(step, item.items)\n\n\ndef _takes_part"),
        "I28", "I3", first=300,
    ),
    "a refused send does not doom": _named(
        edited(required_rights, "        if tx.doomed is None:\n", "        if False:\n"),
        DOOMED, "I28", "I3",
    ),
    "what is taken away comes back with a checkpoint": _named(
        edited(snapshot, "(name, getattr(state, attribute).dump(), lambda row: row)",
               '(name, [row for row in state.policy.dump() if not row[0].startswith("account")] '
               'if name == "rights" else getattr(state, attribute).dump(), lambda row: row)'),
        "I28", "I22",
    ),
    "rights that are taken stay": _named(
        edited(policy, "self._put(replace(one, rights=one.rights - rights))", "pass"),
        "I28", "I22", first=50,
    ),
    "other managers need no right": _named(
        edited(admission, "    if not peer.actor.free:\n", "    if False:\n"),
        "I28", "I3", "I12", "I13",
    ),
    "other managers are always refused": _named(
        edited(admission, "        if not may or run.barred:", "        if True:"),
        "I28", "I1", "I12", "I13", "I26",
    ),
    "holders of a token that is revoked stay": _named(
        edited(rights, "    for owner in holders:\n        _send_away(",
               "    for owner in holders[:0]:\n        _send_away("),
    ),
    "the end of a token is not looked at when something is asked": _named(
        edited(rights, "if token is None or token.over(step.now.wall_s):", "if token is None:"),
    ),
    "who waits outlives his token": _named(
        edited(rights,
               "            _send_away(step, owner, f\"the token {token.name!r} has expired\")\n"
               "        else:\n", "            pass\n        else:\n"),
    ),
    "what was granted to a token outlives it": _named(
        edited(state, "self.policy.forget_actor(ActorPattern.exactly(revoked.actor))", "pass"),
        first=140,
    ),
    "a checkpoint forgets tokens": _named(
        edited(snapshot, "        members.append((",
               '        name != "tokens" and members.append(('),
        "I28", "I22",
    ),
    "a token is known by its name": _named(
        edited(token_model, "return token if same and token is not None",
               "return token if token is not None"),
    ),
    "an older copy of the directory's rights is followed": _named(
        edited(model, "return self.id == other.id and self.number", "return False and self.number"),
    ),
    "what is revoked in the directory stays": _named(
        edited(rights, "dump_grants(grants)", "dump_grants((*grants, *known.grants))"),
    ),
    "a checkpoint forgets the rights in the directory": _named(
        edited(snapshot, "dump_grants(state.policy.shared.grants), list)", "[], list)"),
        "I28", "I22",
    ),
    "the directory's rights are read at the start alone": _named(
        edited(naming, "        self._learn_rights(now, rights)\n",
               "        if self._rights is None:\n"
               "            self._learn_rights(now, rights)\n"),
    ),
    "a pattern covers nothing": _named(
        edited(patterns, "        first, *others = self.parts\n",
               "        first, *others = [str(self)]\n"),
    ),
}  # fmt: skip
