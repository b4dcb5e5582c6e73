"""The judge of several sources and places: it is handed losses, repetitions and disorder."""

from __future__ import annotations

from proof.torture.kill_judge import Outcome, Streams

KEYS = 2


def judged(
    *received: tuple[str, list[tuple[str, int]]], roaming: tuple[int, ...] = ()
) -> list[str]:
    """Of two sources that have committed 6 and 4 messages."""
    judge = Streams(("A", "B"), KEYS, roaming)
    judge.sources["A"].commit(6)
    judge.sources["B"].commit(4)
    for place, messages in received:
        judge.receive(place, messages, {})
    judge.end()
    return judge.violations


def of(name: str, *numbers: int) -> list[tuple[str, int]]:
    return [(name, number) for number in numbers]


ALL_B = ("x", of("B", 0, 1, 2, 3))


def test_streams_are_in_order_each_and_go_on_in_another_place() -> None:
    """Nothing is said about the order of two streams, of sources or of keys."""
    assert judged(("x", of("A", 1, 0, 3, 2)), ALL_B, ("y", of("A", 5, 4))) == []


def test_losses_in_the_middle_and_at_the_end_are_found() -> None:
    assert judged(("x", of("A", 0, 1, 4, 5)), ("x", of("B", 0, 1, 2))) == [
        "lost: 2 messages of A, such as number 2", "lost: 1 messages of B, such as number 3",
    ]  # fmt: skip
    assert judged(ALL_B) == ["lost: 6 messages of A, such as number 0"]


def test_repetitions_are_found_in_one_place_and_in_two() -> None:
    assert judged(("x", of("A", 0, 1, 1, 2, 3, 4, 5)), ALL_B) == ["repeated: A 1 came again, in x"]
    assert judged(("x", of("A", 0, 1, 2, 3, 4, 5)), ALL_B, ("y", of("B", 3))) == [
        "repeated: B 3 came again, in y"
    ]


def test_disorder_of_a_stream_is_found() -> None:
    assert judged(("x", of("A", 0, 4, 1, 2, 3, 5)), ALL_B) == [
        "out of order: A 2 came behind 4 of its stream in x"
    ]


def test_a_stream_that_comes_back_to_a_place_is_found_unless_it_may() -> None:
    back = ("x", of("A", 0, 1, 4, 3, 5)), ("y", of("A", 2)), ALL_B
    assert judged(*back) == ["out of order: stream 0 of A had come to 2 in y, and 4 came in x"]
    assert judged(*back, roaming=(0,)) == []


def test_what_was_never_committed_is_found() -> None:
    judge = Streams(("A",), KEYS)
    judge.sources["A"].commit(1)
    judge.receive("x", of("A", 0, 1), {"A": 1})
    assert judge.violations == []
    judge.receive("x", of("A", 2), {})
    assert judge.violations == ["phantom: A 2 was received, 1 were committed"]


def test_counts_are_of_all_sources() -> None:
    judge = Streams(("A", "B"), KEYS)
    judge.sources["A"].commit(3)
    judge.sources["B"].commit(2)
    judge.receive("x", of("B", 0), {})
    assert (judge.committed, judge.received, judge.waiting) == (5, 1, 4)
    assert judge.sources["B"].waiting == 1
    whole = Outcome(received=1)
    whole.add(Outcome(received=2, in_doubt=1, seed=9))
    assert (whole.received, whole.in_doubt, whole.seed) == (3, 1, 0)
