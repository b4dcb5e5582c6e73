"""Which message is next where several workers keep the order of a key."""

from __future__ import annotations

import random

from onceq.client.ordered import AHEAD, KeyOrder, of_stream
from tests.unit.client.placed import message


def order_of(*keys: str) -> KeyOrder:
    made = KeyOrder(lambda m: m.label)
    made.add([message(place, key) for place, key in enumerate(keys, 1)])
    return made


def test_messages_of_one_key_come_one_after_another() -> None:
    made = order_of("a", "a", "b", "a")
    assert [made.next(), made.next(), made.next()] == [1, 3, None]
    made.done(3, gone=True)
    assert made.next() is None
    made.done(1, gone=True)
    assert [made.next(), made.next()] == [2, None]
    made.done(2, gone=True)
    assert made.next() == 4
    made.done(4, gone=True)
    assert made.empty
    assert made.at_work == 0


def test_what_failed_is_the_next_of_its_key_again() -> None:
    made = order_of("a", "a", "b")
    assert made.next() == 1
    made.done(1, gone=False)
    assert [made.next(), made.next()] == [1, 3]


def test_what_is_seen_twice_is_known_once() -> None:
    made = order_of("a", "b")
    assert made.after == 2
    made.from_the_front()
    made.add([message(1, "a"), message(2, "b"), message(3, "c")])
    assert [made.next() for _ in range(4)] == [1, 2, 3, None]


def test_what_comes_back_before_others_is_handed_out_before_them() -> None:
    made = order_of()
    made.add([message(5, "a"), message(7, "a")])
    assert made.next() == 5
    made.add([message(2, "a"), message(3, "b")])
    assert made.next() == 3
    made.done(5, gone=True)
    assert made.next() == 2, "it stands before the other one"


def test_no_more_is_looked_at_than_there_is_room_for() -> None:
    made = KeyOrder(of_stream)
    made.add(message(place) for place in range(1, AHEAD + 1))
    assert made.full
    assert made.next() == 1
    made.done(1, gone=True)
    assert not made.full


def test_the_stream_is_that_of_the_sender() -> None:
    one, two = message(1), message(2)
    assert of_stream(one) == of_stream(two)


def test_any_interleaving_keeps_the_order_of_each_key() -> None:
    """Workers that take, fail and finish at random."""
    for seed in range(200):
        rng = random.Random(seed)
        keys = [rng.choice("abc") for _ in range(20)]
        made = order_of(*keys)
        done: list[int] = []
        at_work: list[int] = []
        while not made.empty:
            place = made.next() if rng.random() < 0.6 else None
            if place is not None:
                assert keys[place - 1] not in [keys[p - 1] for p in at_work]
                at_work.append(place)
            elif at_work:
                ended = at_work.pop(rng.randrange(len(at_work)))
                gone = rng.random() < 0.8
                made.done(ended, gone=gone)
                if gone:
                    done.append(ended)
        for key in "abc":
            mine = [place for place in done if keys[place - 1] == key]
            assert mine == sorted(mine)
        assert len(done) == 20
