"""How far a batch goes: limits are counted in messages, and a locked one ends it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onceq.model.views.queues import RangeView
from onceq.spark.source.offsets import QueueSample, Range, limit_batch

SIZE = 10
"""Bytes of each message."""


class Queues:
    """Some queues as texts: a message, a hole, a locked one (``.``, ``x``, ``L``) at each place."""

    def __init__(self, **queues: str) -> None:
        self.queues = queues
        self.asked = 0

    def sights(self) -> dict[str, QueueSample]:
        found = {}
        for key, text in self.queues.items():
            there = [at for at, state in enumerate(text, 1) if state != "x"]
            first, last = (there[0], there[-1]) if there else (0, 0)
            found[key] = QueueSample("i", first, last, len(there), text.count("L"))
        return found

    def count(self, part: Range, *, messages: int = 0, bytes: int = 0) -> RangeView:
        self.asked += 1
        most = min(messages or 1 << 60, max(bytes // SIZE, 1) if bytes else 1 << 60)
        found = 0
        for at in range(part.after + 1, part.to + 1):
            state = self.queues[part.key][at - 1]
            if state == "L":
                return RangeView(to=at - 1, messages=found, locked=at)
            found += state == "."
            if found == most:
                return RangeView(to=at, messages=found)
        return RangeView(to=part.to, messages=found)

    def reach(self, messages: int = 100, bytes: int = 0, **begins: int) -> dict[str, RangeView]:
        sights = self.sights()
        starts = {key: begins.get(key, max(sight.first - 1, 0)) for key, sight in sights.items()}
        ends = {key: sight.last for key, sight in sights.items()}
        return limit_batch(starts, ends, sights, self.count, messages=messages, bytes=bytes)


def test_a_queue_without_holes_is_not_asked() -> None:
    queues = Queues(a="....", b="xx....")
    assert queues.reach() == {"a": RangeView(4, 4), "b": RangeView(6, 4)}
    assert queues.reach(6) == {"a": RangeView(3, 3), "b": RangeView(5, 3)}
    assert queues.reach(1) == {"a": RangeView(1, 1), "b": RangeView(2)}
    assert queues.asked == 0


def test_a_limit_is_one_of_messages_and_not_of_places() -> None:
    queues = Queues(a=".xxxxxxx.xxx.", b="......")
    assert queues.reach(4) == {"a": RangeView(9, 2), "b": RangeView(2, 2)}
    assert queues.reach(100) == {"a": RangeView(13, 3), "b": RangeView(6, 6)}


def test_it_ends_before_a_locked_message_and_says_which() -> None:
    queues = Queues(a="..x.L..", b="...")
    assert queues.reach() == {"a": RangeView(4, 3, locked=5), "b": RangeView(3, 3)}
    assert queues.reach(a=4)["a"] == RangeView(4, locked=5)
    assert Queues(a="x.xL").reach(a=2)["a"].locked == 4


def test_queues_share_bytes() -> None:
    queues = Queues(a="x..x....", b="x", c="........")
    assert queues.reach(bytes=4 * SIZE) == {
        "a": RangeView(3, 2), "b": RangeView(0), "c": RangeView(2, 2)
    }  # fmt: skip
    assert queues.reach(bytes=1)["c"] == RangeView(1, 1)


@given(
    texts=st.lists(st.text("...xxL", max_size=12), min_size=1, max_size=4),
    most=st.integers(1, 30), size=st.sampled_from([0, 0, 1, 35, 100]),
)  # fmt: skip
def test_batch_by_batch_it_has_everything_up_to_the_lock(
    texts: list[str], most: int, size: int
) -> None:
    queues = Queues(**{f"q{at}": text for at, text in enumerate(texts)})
    places: dict[str, int] = {}
    had = dict.fromkeys(queues.queues, 0)
    while True:
        found = queues.reach(most, size, **places)
        total = sum(view.messages for view in found.values())
        if not total:
            break
        assert total <= most
        for key, view in found.items():
            had[key] += view.messages
            if view.messages:
                places[key] = view.to
    expected = {key: text.split("L")[0].count(".") for key, text in queues.queues.items()}
    assert had == expected
