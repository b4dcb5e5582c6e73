"""Mistakes about the ends of messages: counted wrongly, said of the wrong ones, or to nobody."""

from __future__ import annotations

import pytest

from onceq.core.change_builder import ChangeBuilder
from onceq.core.records import Move, Put
from tests.planted.planted import Planted

BUILDER = "tests/unit/core/test_change_builder.py::"


def laid_packets_weigh_nothing(patch: pytest.MonkeyPatch) -> None:
    """A change does not count packets that a prepare has written."""
    before = ChangeBuilder.put

    def put(self: ChangeBuilder, put: Put) -> None:
        counted = self._coming.get(put.holder, 0)
        before(self, put)
        if put.address:
            self._coming[put.holder] = counted

    patch.setattr(ChangeBuilder, "put", put)


def quota_forgets_the_change(patch: pytest.MonkeyPatch) -> None:
    """The room of a dead-letter queue is asked for without what the same record brings."""
    patch.setattr(ChangeBuilder, "holding", lambda self, queue: self.desk.holding(queue))


def counted_anew_for_each(patch: pytest.MonkeyPatch) -> None:
    """What a change hands on is added up again for every range."""
    before = ChangeBuilder.move

    def move(self: ChangeBuilder, move: Move) -> None:
        before(self, move)
        sum(one.count for one in self.change.moves if one.to == move.to)

    patch.setattr(ChangeBuilder, "move", move)


PLANTED = (
    Planted(
        "laid-packets-weigh-nothing", laid_packets_weigh_nothing,
        BUILDER + "test_refused_sends_of_a_prepared_branch_stay_within_the_quota",
    ),
    Planted(
        "quota-forgets-the-change", quota_forgets_the_change,
        BUILDER + "test_refused_sends_of_a_transaction_stay_within_the_quota_of_their_dead_letter_"
        "queue",
    ),
    Planted(
        "counted-anew-for-each-range", counted_anew_for_each,
        BUILDER + "test_work_grows_with_the_number_of_messages_and_no_faster",
    ),
)  # fmt: skip
"""Mistakes, each with what finds it."""
