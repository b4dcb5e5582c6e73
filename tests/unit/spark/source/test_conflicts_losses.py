"""What has gone from a batch is told with its cause, and what has expired is no loss."""

from __future__ import annotations

import logging

import pytest

from onceq.errors import MessagesMissing
from onceq.model.views.queues import RangeView
from onceq.spark.source.conflicts import causes, judge
from onceq.spark.source.offsets import Range

PART = Range("q", 100, 120, 15, {"expired": 3})


def judged(seen: int, *, fail: bool = True, locked: int = 0, **ended: int) -> None:
    view = RangeView(ended=ended, locked=locked)
    judge("q of HUB", PART, seen, lambda: view, fail=fail, done="read")


def nobody() -> RangeView:
    raise AssertionError("there is nothing to ask")


@pytest.mark.parametrize("part", [PART, Range("q", 100, 120)])
def test_nothing_is_missing(part: Range) -> None:
    judge("q", part, 15, nobody, fail=True, done="read")


def test_what_has_expired_since_is_no_loss(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "onceq.spark"):
        judged(13, expired=5)
    assert "of the 15 messages of q of HUB" in caplog.text
    assert "2 have gone before they were read: 2 expired" in caplog.text


def test_what_had_expired_before_excuses_nothing() -> None:
    with pytest.raises(MessagesMissing, match="2 received by somebody else"):
        judged(13, expired=3)
    with pytest.raises(MessagesMissing, match="1 expired, 1 received by somebody else"):
        judged(13, expired=4)


def test_a_cause_is_told_with_the_cure() -> None:
    with pytest.raises(MessagesMissing) as told:
        judged(10, expired=4, purged=2, moved=1)
    assert told.value.text == (
        "[messages-missing] of the 15 messages of q of HUB after lookup identifier 100 and up to "
        "120, 5 have gone before they were read: 1 expired, 2 purged by an operator, 1 moved to a "
        "subqueue, 1 received by somebody else, or ended before the queue manager was started "
        "last. Set the option failOnDataLoss to false to go on with what is left"
    )


def test_what_is_let_pass_is_said_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "onceq.spark"):
        judged(14, fail=False)
    assert "1 has gone before they were read: 1 received" in caplog.text
    assert "failOnDataLoss" not in caplog.text


def test_causes_are_never_more_than_what_is_missing() -> None:
    assert causes(2, {"purged": 9, "moved": 1}, 0) == "2 purged by an operator"
    assert causes(1, {}, 77) == "1 held by an open transaction (the first: 77), or received"
    assert causes(1, {"later": 1}, 0) == "1 later"
