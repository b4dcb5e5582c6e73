"""A message that is moved to a subqueue and back has another place each time, and each is told."""

from __future__ import annotations

from tests.conformance.reading import move
from tests.history.worlds import HISTORY, Kept

LOCAL, ASIDE = r"private$\q", r"private$\q;aside"


def test_each_move_is_told_with_where_it_comes_from() -> None:
    world = Kept("A", settings=HISTORY)
    a = world["A"]
    a.create("q")
    a.once(LOCAL, b"1", b"2")
    first = a.messages(LOCAL)[0].lookup_id
    move(a, LOCAL, first, ASIDE)
    world.run(1)
    there = a.messages(ASIDE)[0].lookup_id
    move(a, ASIDE, there, LOCAL)
    world.run(1)
    back = next(m.lookup_id for m in a.messages(LOCAL) if m.body == b"1")
    a.receive(LOCAL, count=2)
    world.run(1)
    story = world.told("A").story("event", "queue", "lookupId", "fromLookupId", "message", "kind")
    put, moved, ended = (
        [row for row in story if row[0] == what] for what in ("committed", "moved", "received")
    )
    message = next(row[4] for row in put if row[2] == first)
    assert moved == [
        ("moved", ASIDE, there, first, message, "queue"),
        ("moved", LOCAL, back, there, message, "queue"),
    ]
    assert (LOCAL, back) in {(row[1], row[2]) for row in ended}
    assert len(put) + len(moved) + len(ended) == len(story), "nothing else is told of them"
