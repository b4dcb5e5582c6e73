"""Who may begin, and go on, where others have read."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from onceq.errors import ReadBefore
from onceq.model.views.queues import ReaderView
from onceq.spark.source.conflicts import StreamIdentity, check, who
from onceq.spark.source.offsets import Offset

Q = r"private$\q"


def view(reader: str = "", query: str = "one", to: int = 100) -> ReaderView:
    return ReaderView(Q, reader, query, to, 1_700_000_000, "a Spark stream, process 7 on host h")


def begins(query: str = "two") -> Offset:
    return Offset({"k": 0}, None, {"k": "i"}, query=query)


def goes_on(to: int, query: str = "one") -> Offset:
    return Offset({"k": to}, {"k": 0}, {"k": "i"}, query=query)


def found(*views: ReaderView) -> Mapping[str, list[ReaderView]]:
    return {"k": list(views)}


def test_a_query_that_begins_anew_is_told_everything() -> None:
    with pytest.raises(ReadBefore) as refused:
        check(begins(), found(view("orders")), StreamIdentity("orders"), told=False)
    text = refused.value.text
    for words in (
        "[read-before] ", r"private$\q", "of subscription 'orders'", "identifier 100",
        "2023-11-14 22:13:20 UTC", "query one", "process 7 on host h", "the old checkpoint",
        "new checkpoint AND a new folder", "startingOffsets",
        r"onceq spark forget 'private$\q' --subscription orders",
    ):  # fmt: skip
        assert words in text


def test_who_may_begin() -> None:
    check(begins(), found(), StreamIdentity(), told=False)
    check(begins(), {}, StreamIdentity(), told=False)
    check(begins(), found(view("other")), StreamIdentity(), told=False)
    check(begins(), found(view()), StreamIdentity(), told=True)


@pytest.mark.parametrize("to", [100, 101])
def test_a_checkpoint_that_is_as_far_as_what_was_removed_goes_on(to: int) -> None:
    check(goes_on(to), found(view()), StreamIdentity(), told=False)


def test_a_checkpoint_that_is_older_is_refused() -> None:
    for told in (False, True):
        with pytest.raises(ReadBefore, match="is older than what it has done: it is at lookup"):
            check(goes_on(99), found(view()), StreamIdentity(), told=told)


def test_an_older_place_of_another_query_is_its_own() -> None:
    """Whoever has another checkpoint has other numbers of batches."""
    check(goes_on(99, "two"), found(view()), StreamIdentity(), told=False)
    check(goes_on(99, ""), found(view(query="")), StreamIdentity(), told=False)
    check(goes_on(99), found(view("other")), StreamIdentity(), told=False)


def test_a_queue_that_joins_is_no_step_back() -> None:
    check(goes_on(99), {"new": [view()]}, StreamIdentity(), told=False)


def test_the_identifier_stays_in_the_checkpoint() -> None:
    place = goes_on(99, "me")
    assert place.pack()["query"] == "me"
    assert Offset.unpack(place.pack()).query == "me"
    assert "query" not in goes_on(99, "").pack()


def test_who_says_what_people_look_for() -> None:
    assert "of subscription 'x', process" in who("x")
    assert "subscription" not in who("")
