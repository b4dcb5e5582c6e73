"""Queues of a checkpoint are found again by what they are, and not by where they are."""

from __future__ import annotations

import json

import pytest

from onceq.spark.source.offsets import Offset, Range, Sight
from onceq.spark.source.queue_matching import Resolved, resolve

Q = r"private$\q"
A, B, C = "aa" * 16, "bb" * 16, "cc" * 16


def sight(instance: str, apart: str = "") -> Sight:
    return Sight(instance, 1, 9, 9, 0, apart=apart)


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
    return resolve(Offset.unpack(packed), sights, dict.fromkeys(sights, Q))


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


@pytest.mark.parametrize(
    ("key", "now"),
    [(Q, Q), (Q, f"one:1/{Q}"), (f"one:1/{Q}", Q), (f"one:1/{Q}", f"two:1/{Q}"),
     (f"one:1/{Q}", r"onceq://x:1/Private$/Q"), (Q, r"DIRECT=OS:.\PRIVATE$\Q")],
)  # fmt: skip
def test_both_forms_of_keys_of_older_checkpoints(key: str, now: str) -> None:
    """As tree ee9035e has written them."""
    text = json.dumps({"from": {key: 3}, "queues": {key: A}, "to": {key: 5}})
    name = r"Private$/Q" if now.startswith("onceq:") else Q
    found = resolve(Offset.unpack(json.loads(text)), {now: sight(A)}, {now: name})
    assert (found.place.to, found.place.begins) == ({now: 5}, {now: 3})
    assert not found.joined


def test_queues_that_share_an_instance_are_told_apart_by_their_names() -> None:
    dead, journal = "SYSTEM$;DEADXACT", "SYSTEM$;JOURNAL"
    old = {"queues": {dead: A, journal: A}, "to": {dead: 4, journal: 6}}
    sights = {
        f"x/{name}": sight(A, name.casefold()) for name in (journal, dead)
    }  # fmt: skip
    names = {f"x/{name}": name for name in (journal, dead)}
    found = resolve(Offset.unpack(old), sights, names)
    assert found.place.to == {f"x/{dead}": 4, f"x/{journal}": 6}
    again = resolve(Offset.unpack(found.place.pack()), sights, names)
    assert again.place == found.place
    unknown = {"queues": {dead: "0" * 32}, "to": {dead: 4}}
    found = resolve(Offset.unpack(unknown), sights, names)
    assert found.place.to == {f"x/{dead}": 4}


def test_a_journal_is_not_its_queue() -> None:
    own, journal = sight(A), sight(A, "q")
    old = Offset.unpack({"queues": {Q + ";journal": A}, "to": {Q + ";journal": 4}})
    both = resolve(
        old, {Q: own, Q + ";journal": journal}, {Q: Q, Q + ";journal": Q + ";journal"}
    )  # fmt: skip
    assert both.place.to == {Q + ";journal": 4}
    assert both.joined == {Q}
    alone = resolve(old, {Q: own}, {Q: Q})
    assert alone.joined == {Q}
    assert list(alone.place.left.values()) == [Range(Q + ";journal", 4, 4)]
    new = Offset.unpack(Offset({Q: 4}, None, {Q: own.identity}).pack())
    other = resolve(new, {Q + ";journal": journal}, {Q + ";journal": Q + ";journal"})
    assert other.joined == {Q + ";journal"}
