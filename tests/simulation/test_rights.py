"""Programme P4 with ``--rights``: kept worlds in which applications and managers need rights."""

from __future__ import annotations

from typing import Final

import pytest

from proof.sim.apps import subjects
from proof.sim.base import marks
from proof.sim.faults import lying_members
from proof.sim.simulate import describe, run_seed
from proof.sim.world import World

KEPT = (*range(1, 31), 220, 10217, 0xDBD2C)


@pytest.mark.slow
def test_worlds_in_which_rights_are_given_and_taken_while_messages_flow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subjects, "SHARE", 1.0)
    reached: marks.Marks = marks.Marks()
    for seed in KEPT:
        result = run_seed(seed)
        assert not result.violation, describe(result)
        reached += result.marks
    required = (*marks.OF_RIGHTS, *marks.OF_TOKENS)
    assert not marks.missing(reached, required), dict(reached)


LIED: Final = range(400, 412)
"""Together they have every mark of liars."""


@pytest.mark.slow
def test_worlds_in_which_members_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding S3, finding S4, finding S8: nobody is believed to be another one, nor given anything
    that is not for it."""
    for module, name in ((subjects, "SHARE"), (subjects, "STRICT"), (lying_members, "SHARE")):
        monkeypatch.setattr(module, name, 1.0)
    reached: marks.Marks = marks.Marks()
    for seed in LIED:
        result = run_seed(seed)
        assert not result.violation, describe(result)
        reached += result.marks
    assert not marks.missing(reached, marks.OF_LYING), dict(reached)


def test_a_world_without_proofs_has_no_members_that_lie() -> None:
    worlds = [World(seed) for seed in range(40)]
    with_proofs = [one for one in worlds if one.permissions.active]
    assert [one for one in worlds if one.lying_members is not None] == with_proofs
    for one in worlds:
        assert all((node.door is None) != one.permissions.active for node in one.nodes)
