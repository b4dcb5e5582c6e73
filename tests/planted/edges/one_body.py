"""Planted mistakes about bodies that are written once for several destinations."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import pytest

from onceq.model.run import InTwoParts
from tests.planted.planted import Planted, edited

ONCE = "tests/conformance/test_one_body.py::"
BRANCH = ONCE + "test_a_branch_writes_it_once_with_its_promise_and_once_with_its_commit"


def _written_for_each(patch: pytest.MonkeyPatch) -> None:
    from onceq.core import send

    edited(send, "if p.one_rest and not told and", "if False and")(patch)


def _rests_are_forgotten_when_moved(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.state.positions import Positions

    original = Positions.stored

    def stored(
        self: Positions, first: int, count: int
    ) -> Iterator[tuple[int, array[int], InTwoParts | None]]:
        for address, lengths, _ in original(self, first, count):
            yield address, lengths, None

    patch.setattr(Positions, "stored", stored)


def _a_new_copy_keeps_its_old_rest(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.state.position_block import PositionBlock

    patch.setattr(PositionBlock, "in_one_part", lambda self, at: None)


def _damage_is_looked_for_in_fronts(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.management import damage

    edited(damage, "if block.rising and block.rests is None:", "if True:")(patch)


def _branches_write_for_each(patch: pytest.MonkeyPatch) -> None:
    from onceq.core import send

    patch.setattr(send, "_shared", lambda batch: False)


def _a_restart_forgets_what_is_shared(patch: pytest.MonkeyPatch) -> None:
    from onceq.core.transaction import xa_branch

    patch.setattr(xa_branch, "one_rest", lambda templates: False)


PLANTED = (
    Planted("body-for-each", _written_for_each, ONCE + "test_a_body_is_written_once"),
    Planted("branch-body-for-each", _branches_write_for_each, BRANCH),
    Planted("rest-of-a-promise", _a_restart_forgets_what_is_shared, BRANCH),
    Planted(
        "rests-forgotten", _rests_are_forgotten_when_moved,
        ONCE + "test_each_destination_has_its_own_end",
    ),
    Planted(
        "old-rest-kept", _a_new_copy_keeps_its_old_rest,
        ONCE + "test_what_is_written_anew_lies_in_one_part",
    ),
    Planted(
        "rests-not-damaged", _damage_is_looked_for_in_fronts,
        ONCE + "test_a_damaged_rest_costs_its_message_everywhere_and_no_other",
    ),
)  # fmt: skip
