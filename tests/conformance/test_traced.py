"""Messages of a trace: they bring it to queue managers that know of traces, and to nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.model.marks import TRACED_MARK, trace_trailer
from onceq.model.message import Journal
from tests.conformance.world import World, Worlds, fast, routed

Q, PLAIN = r"private$\q", r"private$\n"
HERE = r"DIRECT=OS:.\private$\q"
THERE, THERE_PLAIN = r"DIRECT=OS:B\private$\q", r"DIRECT=OS:B\private$\n"
DEAD = r"system$;deadxact"
TEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
MARK = trace_trailer(TEXT)


def peopled(world: World) -> World:
    for node in (world["A"], world["B"]):
        node.create("q")
        node.create("n", transactional=False)
    return world


def told(node: Any, queue: str) -> list[tuple[bytes, bytes, str]]:
    """Of each message body, extension and trace."""
    return [(m.body, m.extension, m.traceparent) for m in node.messages(queue)]


def test_a_trace_goes_along_and_survives_crashes(worlds: Worlds) -> None:
    world = peopled(worlds("A", "B"))
    a, b = world["A"], world["B"]
    a.once(HERE, b"0", extension=b"x" + MARK)
    world.cut("A", "B")
    a.once(THERE, b"1", b"2", extension=b"x" + MARK)
    a.once(THERE, b"3", extension=b"x")
    a.send(0, THERE_PLAIN, b"4", extension=MARK)
    a.kill()
    a.start()
    world.mend("A", "B")
    world.run(20)
    b.kill()
    b.start()
    assert told(a, Q) == [(b"0", b"x", TEXT)]
    assert told(b, Q) == [(b"1", b"x", TEXT), (b"2", b"x", TEXT), (b"3", b"x", "")]
    assert told(b, PLAIN) == [(b"4", b"", TEXT)]


def test_a_dead_letter_keeps_it(worlds: Worlds) -> None:
    world = peopled(worlds("A", "B"))
    a = world["A"]
    a.once(rf"{THERE}nowhere", b"1", extension=MARK, journal=Journal.DEADLETTER)
    world.run(20)
    assert told(a, DEAD) == [(b"1", b"", TEXT)]


def test_a_delayed_message_brings_its_trace(worlds: Worlds) -> None:
    world = peopled(worlds("A", "B"))
    world["A"].once(THERE, b"1", extension=b"x" + MARK, delay=10)
    world.run(5)
    assert world["B"].bodies(Q) == []
    world.run(20)
    assert told(world["B"], Q) == [(b"1", b"x", TEXT)]


def foreign(worlds: Worlds) -> World:
    """Two queue managers that do not speak of extensions."""
    return peopled(worlds("A", "B", settings=fast(settle_doubts=False)))


def test_no_byte_of_it_goes_to_one_that_knows_of_no_traces(worlds: Worlds) -> None:
    world = foreign(worlds)
    a, b = world["A"], world["B"]
    world.cut("A", "B")
    a.once(THERE, b"1", b"22", extension=b"x" + MARK)
    a.once(THERE, b"333", extension=b"y")
    a.once(THERE, b"4", extension=MARK)
    a.once(THERE, b"5", extension=MARK, delay=1)
    a.send(0, THERE_PLAIN, b"6", extension=MARK)
    world.run(5)
    world.mend("A", "B")
    world.run(60)
    assert told(b, Q) == [
        (b"1", b"x", ""), (b"22", b"x", ""), (b"333", b"y", ""), (b"4", b"", ""), (b"5", b"", ""),
    ]  # fmt: skip
    assert told(b, PLAIN) == [(b"6", b"", "")]
    for queue in (Q, PLAIN):
        assert TRACED_MARK not in bytes(b.messages(queue).run.data)


def test_what_was_sent_before_the_other_side_has_forgotten_the_word(worlds: Worlds) -> None:
    """The same stored messages, transmitted again in a session without the word."""
    world = foreign(worlds)
    a, b = world["A"], world["B"]
    a.once(THERE, b"1", extension=MARK)
    b.kill()
    a.once(THERE, b"2", extension=MARK)
    a.kill()
    a.start()
    b.start()
    world.run(60)
    assert told(b, Q) == [(b"1", b"", ""), (b"2", b"", "")]


@pytest.mark.inside("routes are set in the test")
def test_a_message_that_is_led_through_another_one_brings_its_trace(worlds: Worlds) -> None:
    world, to = routed(worlds)
    world["A"].once(to, b"1", extension=b"x" + MARK)
    world.run(20)
    assert told(world["B"], Q) == [(b"1", b"x", TEXT)]


def test_bytes_in_bad_shape_are_a_part_of_the_extension(worlds: Worlds) -> None:
    world = peopled(worlds("A", "B"))
    wrong = b"\x01" + MARK[1:]
    world["A"].once(THERE, b"1", extension=wrong)
    world.run(5)
    assert told(world["B"], Q) == [(b"1", wrong, "")]
