"""Queues of a checkpoint are found again by what they are, and not by where they are."""

from __future__ import annotations

import json

from onceq.spark.source.offsets import Offset, QueueSample, Range
from onceq.spark.source.queue_matching import Resolved, resolve

Q = r"private$\q"
A, B, C = "aa" * 16, "bb" * 16, "cc" * 16


def sight(instance: str, apart: str = "") -> QueueSample:
    return QueueSample(instance, 1, 9, 9, 0, apart=apart)


def place(**places: tuple[str, int, int]) -> Offset:
    """By key (``_`` for a slash): identity, beginning and end."""
    found = {key.replace("_", "/") + Q: value for key, value in places.items()}
    return Offset(
        {key: to for key, (_, _, to) in found.items()},
        {key: begin for key, (_, begin, _) in found.items()},
        {key: identity for key, (identity, _, _) in found.items()},
    )


def seen(offset: Offset, **now: str) -> Resolved:
    sights = {key.replace("_", "/") + Q: sight(identity) for key, identity in now.items()}
    packed = json.loads(json.dumps(offset.pack()))
    return resolve(Offset.unpack(packed), sights)


def test_another_host_name_and_one_more_manager() -> None:
    found = seen(place(one_=(A, 3, 5), two_=(B, 2, 7)), uno_=A, two_=B, three_=C)
    assert found.place.to == {f"uno/{Q}": 5, f"two/{Q}": 7}
    assert found.place.begins == {f"uno/{Q}": 3, f"two/{Q}": 2}
    assert found.place.instances == {f"uno/{Q}": A, f"two/{Q}": B}
    assert found.joined == {f"three/{Q}"}
    assert (found.returned, found.again, found.place.left) == ((), (), {})


def test_two_hosts_that_changed_their_names() -> None:
    found = seen(place(one_=(A, 3, 5), two_=(B, 2, 7)), two_=A, one_=B)
    assert found.place.to == {f"two/{Q}": 5, f"one/{Q}": 7}
    assert not found.again


def test_one_that_leaves_keeps_its_place_and_goes_on_when_it_is_back() -> None:
    gone = seen(place(one_=(A, 3, 5), two_=(B, 2, 7)), one_=A)
    assert gone.place.to == {f"one/{Q}": 5}
    assert gone.place.left == {B: Range(f"two/{Q}", 2, 7)}
    assert f"two/{Q}" not in gone.keys
    still = seen(gone.place, one_=A)
    assert still.place == gone.place
    back = seen(still.place, one_=A, zwei_=B)
    assert back.place.to == {f"one/{Q}": 5, f"zwei/{Q}": 7}
    assert back.place.begins == {f"one/{Q}": 3, f"zwei/{Q}": 7}
    assert back.returned == (Range(f"zwei/{Q}", 2, 7),)
    assert (back.joined, back.place.left) == (frozenset(), {})


def test_one_that_was_made_again_is_another_one() -> None:
    found = seen(place(one_=(A, 3, 5)), one_=C)
    assert found.again == (f"one/{Q}",)


def test_queues_that_share_an_instance_are_told_apart() -> None:
    dead, journal = "SYSTEM$;DEADXACT", "SYSTEM$;JOURNAL"
    old = Offset(
        {dead: 4, journal: 6}, None, {name: f"{A}/{name.casefold()}" for name in (dead, journal)}
    )
    sights = {f"x/{name}": sight(A, name.casefold()) for name in (journal, dead)}
    found = resolve(Offset.unpack(old.pack()), sights)
    assert found.place.to == {f"x/{dead}": 4, f"x/{journal}": 6}
    assert resolve(Offset.unpack(found.place.pack()), sights).place == found.place


def test_a_journal_is_not_its_queue() -> None:
    own, journal, name = sight(A), sight(A, "q"), Q + ";journal"
    old = Offset.unpack(Offset({name: 4}, None, {name: journal.identity}).pack())
    both = resolve(old, {Q: own, name: journal})
    assert both.place.to == {name: 4}
    assert both.joined == {Q}
    alone = resolve(old, {Q: own})
    assert alone.joined == {Q}
    assert alone.place.left == {journal.identity: Range(name, 4, 4)}
    new = Offset.unpack(Offset({Q: 4}, None, {Q: own.identity}).pack())
    assert resolve(new, {name: journal}).joined == {name}


def test_a_checkpoint_of_tree_484d1753_opens() -> None:
    """The first offset of a query there, and the end of its second batch; one queue has left."""
    first = {"names": {A: f"one/{Q}", B: f"two/{Q}"}, "query": "01ab", "to": {A: 0, B: 0}}
    end = {
        "from": {A: 3}, "names": {A: f"one/{Q}"}, "subscription": "etl", "messages": {A: 2},
        "ended": {A: {"expired": 1}}, "left": {B: {"from": 2, "messages": 5, "name": f"two/{Q}",
                                                   "to": 7}},
        "query": "01ab", "to": {A: 6},
    }  # fmt: skip
    sights = {f"uno/{Q}": sight(A), f"zwei/{Q}": sight(B)}
    assert resolve(Offset.unpack(first), sights).place.to == {f"uno/{Q}": 0, f"zwei/{Q}": 0}
    for packed in (first, end):
        assert json.loads(json.dumps(Offset.unpack(packed).pack())) == packed
    found = resolve(Offset.unpack(end), sights)
    assert found.place.ranges() == [Range(f"uno/{Q}", 3, 6, 2, {"expired": 1})]
    assert found.returned == (Range(f"zwei/{Q}", 2, 7, 5),)
    assert (found.place.query, found.place.subscription) == ("01ab", "etl")
