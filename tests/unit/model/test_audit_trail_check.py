"""A trail is whole, or it is said what was removed, changed or put in, and where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onceq.model.audit_trail import (
    BEGIN,
    DAMAGED,
    FORK,
    MISSING,
    REMOVED,
    RESTORE,
    TrailCheck,
    TrailReport,
    digest_act,
    line_of,
    note_line,
)
from onceq.model.views.managers import ActView, HeadView, TrailView


def act(number: int, before: str, what: str = "purge") -> ActView:
    said = (number, 100 + number, "account:a", "local", what, f"q{number}", "")
    return ActView(*said, before=before, digest=digest_act(bytes.fromhex(before), *said).hex())


def chain(count: int, *, after: tuple[ActView, ...] = (), what: str = "purge") -> list[ActView]:
    acts = list(after)
    for number in range(len(acts) + 1, len(acts) + 1 + count):
        acts.append(act(number, acts[-1].digest if acts else BEGIN.hex(), what))
    return acts


ACTS = chain(6)
BACK = chain(1, after=tuple(ACTS[:3]), what=RESTORE)


def lines(acts: list[ActView]) -> bytes:
    return b"".join(map(line_of, acts))


def checked(
    acts: list[ActView], data: bytes = b"", held: tuple[ActView, ...] = (), *,
    end: ActView | None = None, broken: int = 0,
) -> TrailReport:  # fmt: skip
    check, last = TrailCheck(), end or acts[-1]
    check.store(TrailView("id", last.number, last.digest, broken), acts)
    check.files([("f1", data)] if data else [])
    check.heads([HeadView("id", "", one.number, one.digest) for one in held], "BETA")
    return check.report


def test_a_whole_trail_is_whole_also_where_acts_are_not_kept_any_more() -> None:
    assert checked(ACTS, lines(ACTS), (ACTS[1], ACTS[5])) == TrailReport(acts=12, heads=2)
    kept = [ACTS[0], ACTS[3], ACTS[5]]
    assert checked(kept, lines(ACTS), (ACTS[1], ACTS[2])).wrong == []
    old = [replace(ACTS[0], before="", digest="")]
    assert checked(old, lines(old)).wrong == []


@pytest.mark.parametrize(
    ("acts", "data", "said"),
    [
        ([*ACTS[:2], replace(ACTS[2], who="account:b"), *ACTS[3:]], b"", "act 3 was changed"),
        ([*ACTS[:2], act(3, "11" * 32), *ACTS[3:]], b"", "act 3 does not go on from act 2"),
        (ACTS, lines([*ACTS[:2], *ACTS[3:]]), "f1, line 3: acts 3 to 3 were removed"),
        (ACTS, lines([replace(ACTS[0], about="x"), *ACTS[1:]]), "f1, line 1: act 1 was changed"),
        (ACTS, lines([*ACTS, ACTS[4]]), "f1, line 7: act 5 stands behind act 6"),
        (ACTS, lines([*ACTS[:4], act(5, ACTS[3].digest, "x"), act(6, "22" * 32)]),
         "act 5 is one in the store, and another one in the files"),
        (ACTS[:4], lines(ACTS), "the files have acts 5 to 6, and the store lacks them"),
        (ACTS, lines(ACTS[:2]) + b"garbage\n" + lines(ACTS[3:]), "f1, line 3: it is damaged"),
        (ACTS[:4], lines(ACTS[:4]) + note_line(FORK, behind=2) + lines(ACTS[2:4]),
         "the store lacks acts behind act 2, and no restore says so"),
    ],
)  # fmt: skip
def test_what_was_changed_is_named_with_its_place(
    acts: list[ActView], data: bytes, said: str
) -> None:
    assert any(said in wrong for wrong in checked(acts, data).wrong), checked(acts, data)


def test_the_end_of_the_chain_and_of_the_log_count() -> None:
    assert "behind the last one" in checked(ACTS, end=ACTS[4]).wrong[0]
    assert "not the last one" in checked(ACTS, end=act(6, "33" * 32)).wrong[0]
    assert "the log: act 4" in checked(ACTS, broken=4).wrong[0]
    behind = checked(ACTS, lines(ACTS[:5]))
    assert (behind.wrong, len(behind.notes)) == ([], 1)


def test_others_hold_digests_that_nobody_here_can_change() -> None:
    forged = chain(3, what="look")
    assert "acts up to there were changed" in checked(forged, b"", (ACTS[2],)).wrong[0]
    assert "acts behind 3 were removed" in checked(ACTS[:3], b"", (ACTS[5],)).wrong[0]
    unknown = checked([ACTS[5]], b"", (ACTS[1],))
    assert unknown.wrong == []
    assert "neither in the store nor in the files" in unknown.notes[0]


def test_a_restore_is_told_as_one_and_not_as_a_change() -> None:
    data = lines(ACTS) + note_line(FORK, behind=3) + lines(BACK[3:])
    found = checked(BACK, data, (ACTS[4], ACTS[5]))
    assert found.wrong == []
    assert "a restore has undone the acts behind act 3" in " ".join(found.notes)
    assert sum("which a restore has undone" in note for note in found.notes) == 2


def test_notes_of_the_files_are_told() -> None:
    data = lines(ACTS[:2]) + note_line(MISSING, first=3, last=4) + lines(ACTS[4:])
    data = note_line(REMOVED, files=["f0"]) + note_line(DAMAGED, file="f0", behind=0) + data
    found = checked(ACTS, data)
    assert found.wrong == []
    assert ["went before" in note for note in found.notes] == [False, False, True]
