"""A sample of ``make hosts``, its judge, and that a seed says all of a program."""

from __future__ import annotations

import pytest

from proof.torture.hosts import hosts
from proof.torture.hosts.judge import judged
from proof.torture.hosts.ledger import DEEDS, FACES, OF_FACE, PLACES, draw
from proof.torture.hosts.program import Program

PROGRAMS = 14


@pytest.mark.slow
@pytest.mark.parametrize("row", ["a", "b", "c", "d"])
def test_programs_are_told_what_has_happened(row: str, capfd: pytest.CaptureFixture[str]) -> None:
    """I3a, I4, I17 on real processes; ``make hosts`` is the same with more of them."""
    failed = hosts.main(["--programs", str(PROGRAMS), "--from", f"sample-{row}", "--first"])
    said = capfd.readouterr().out
    assert not failed, said
    assert f"{PROGRAMS} programs" in said
    for face in FACES:
        assert f"  {face}: " in said


def test_a_seed_draws_the_same_program_again() -> None:
    made = [draw(f"7/{number}") for number in range(600)]
    assert made == [draw(f"7/{number}") for number in range(600)]
    assert {(one.face, one.place) for one in made} == {(f, p) for f in FACES for p in PLACES}
    drawn = {(one.face, step.deed) for one in made for step in one.steps}
    assert drawn == {(face, deed) for face in FACES for deed in (*DEEDS, *OF_FACE[face])}


@pytest.mark.parametrize("face", FACES)
def test_each_deed_can_be_done(face: str) -> None:
    deeds = (*DEEDS, *OF_FACE[face])
    assert [deed for deed in deeds if not hasattr(Program, "deed_" + deed.replace(" ", "_"))] == []


FILLED = ["i0", "r0"]


@pytest.mark.parametrize(
    ("lines", "there", "says"),
    [
        (["sent a"], ["i0", "r0"], "a was sent 1 times as the program was told: 0 came"),
        (["refused a"], ["a", "i0", "r0"], "a came 1 times, and the program was told"),
        (["doubt a"], ["a", "a", "i0", "r0"], "a came 2 times"),
        (["tries a"], ["a", "a", "i0", "r0"], "a came 2 times"),
        (["sent a", "sent a"], ["a", "i0", "r0"], "a was sent 2 times"),
        (["once a", "sent a", "again sent a"], ["a", "a", "i0", "r0"], "a child has committed"),
        ([], ["a", "i0", "r0"], "nobody has sent a"),
        ([], ["i0", "m-i0", "r0"], "i0 is there 2 times"),
        ([], ["i0"], "r0 is lost"),
        (["moved i0"], ["i0", "r0"], "i0 was moved as the program was told, and it was not"),
        (["handled 2 i0 r0"], ["m-i0", "r0"], "a loop has handled 2 messages as it says, and 1 of"),
        (["took r0"], ["i0", "r0"], "r0 is there 2 times"),
        (["took r0", "took r0"], ["i0"], "r0 is there 2 times"),
        (["fault it was none of ours"], ["i0", "r0"], "it was none of ours"),
    ],
)
def test_the_judge_notices_what_is_wrong(lines: list[str], there: list[str], says: str) -> None:
    assert any(says in fault for fault in judged(lines, there, FILLED))


@pytest.mark.parametrize(
    ("lines", "there"),
    [
        (["sent a"], ["a", "i0", "r0"]),
        (["refused a"], ["i0", "r0"]),
        (["doubt a"], ["i0", "r0"]),
        (["doubt a"], ["a", "i0", "r0"]),
        (["tries a"], ["a", "i0", "r0"]),
        (["sent a", "sent a"], ["a", "a", "i0", "r0"]),
        (["refused a", "sent a"], ["a", "i0", "r0"]),
        (["moved i0"], ["m-i0", "r0"]),
        (["handled 1 i0 i0 r0"], ["m-i0", "r0"]),
        (["took r0"], ["m-i0"]),
        (["took? one"], ["i0"]),
        (["again took r0", "took r0"], ["i0"]),
        (["sent a", "again sent a"], ["a", "i0", "r0"]),
    ],
)
def test_the_judge_accepts_what_is_right(lines: list[str], there: list[str]) -> None:
    assert judged(lines, there, FILLED) == []
