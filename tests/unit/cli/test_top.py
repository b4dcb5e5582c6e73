"""What top says of two looks: rates that are true, and nothing where nothing is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onceq.cli import top
from onceq.cli.main import run
from onceq.cli.top import TopMoment, lines_of, log_rate, summary
from onceq.model.views.managers import StatusView
from onceq.model.views.queues import OutgoingView, QueueView

LANE = 4 << 56
NOW_S = 1_800_000_000


def queue(messages: int, last: int, **more: object) -> QueueView:
    values = {"path": "private$\\q", "instance": "1", **more}
    return QueueView(messages=messages, last_lookup=last, **values)  # type: ignore[arg-type]


def seen(at_s: float, *views: QueueView | OutgoingView, life: str = "1", log: int = 0) -> TopMoment:
    return TopMoment(
        at_s, NOW_S, StatusView(name="ALPHA", life=life, log_position=log),
        [one for one in views if isinstance(one, QueueView)],
        [one for one in views if isinstance(one, OutgoingView)], 0,
    )  # fmt: skip


def rates(old: QueueView, new: QueueView, span: float = 2.0) -> tuple[float | None, float | None]:
    ((line,), _) = lines_of(seen(10.0, old), seen(10.0 + span, new))
    return line.came_s, line.left_s


@pytest.mark.parametrize(
    ("old", "new", "came", "left"),
    [
        ((5, LANE + 5), (9, LANE + 9), 2.0, 0.0),
        ((5, LANE + 5), (5, LANE + 105), 50.0, 50.0),  # as many have gone as have come
        ((5, LANE + 5), (1, LANE + 5), 0.0, 2.0),
        ((0, 0), (4, LANE + 400), 2.0, 0.0),  # at least
        ((4, LANE + 4), (0, 0), 0.0, 2.0),  # at least
        ((0, 0), (0, 0), None, None),  # thousands may have come and gone
        ((5, LANE + 5), (6, LANE + (7 << 30)), 0.5, 0.0),  # the first one since the last start
        ((5, LANE + 5), (6, (2 << 56) + 3), 0.5, 0.0),  # lanes of other priorities do not tell
    ],
)
def test_rates(
    old: tuple[int, int], new: tuple[int, int], came: float | None, left: float | None
) -> None:
    assert rates(queue(*old), queue(*new)) == (came, left)


def test_the_first_look_knows_no_rates() -> None:
    ((line,), _) = lines_of(None, seen(1.0, queue(5, LANE + 5)))
    assert (line.came_s, line.left_s, line.note) == (None, None, "")


def test_what_another_life_has_counted_is_not_compared() -> None:
    before, now = seen(1.0, queue(5, LANE + 5)), seen(2.0, queue(9, LANE + 9), life="2", log=7)
    ((line,), _) = lines_of(before, now)
    assert (line.came_s, line.left_s) == (None, None)
    assert log_rate(before, now) is None


def test_a_queue_that_was_made_again_is_another_one() -> None:
    ((line,), _) = lines_of(
        seen(1.0, queue(5, LANE + 5)), seen(2.0, queue(9, LANE + 9, instance="2"))
    )
    assert line.messages == 9
    assert line.came_s is None


def test_what_stands_still_is_said() -> None:
    still = queue(5, LANE + 5)
    ((line,), _) = lines_of(seen(1.0, still), seen(2.0, still))
    assert line.note == "nobody takes them"
    delayed = replace(still, path="private$\\q;delayed", parent="q")
    ((line,), _) = lines_of(seen(1.0, delayed), seen(2.0, delayed))
    assert line.note == "received later"
    held = queue(5, LANE + 5, locked=5)
    ((line,), _) = lines_of(seen(1.0, held), seen(2.0, held))
    assert line.note == "5 in transactions"


def test_outgoing_queues_say_why_and_what_is_in_doubt() -> None:
    old = OutgoingView(destination="x", messages=9, transmitted=10)
    new = OutgoingView(destination="x", messages=5, transmitted=14, in_doubt=2, paused_since=1)
    _, (line,) = lines_of(seen(1.0, old), seen(3.0, new))
    assert (line.left_s, line.note) == (2.0, "paused; 2 in doubt")


def test_how_old_the_first_message_is_comes_with_the_queue() -> None:
    views = queue(5, LANE + 5, oldest=NOW_S - 90), OutgoingView(destination="x", oldest=NOW_S + 5)
    ((line,), (far,)) = lines_of(None, seen(1.0, *views))
    assert (line.age_s, far.age_s) == (90, 0)  # the clocks differ


def test_a_queue_that_is_empty_now_has_been_emptied() -> None:
    """Only those in which something is are looked at."""
    before, now = seen(1.0, queue(8, LANE + 8)), seen(3.0)
    ((line,), _) = lines_of(before, now)
    assert (line.name, line.messages, line.left_s) == ("private$\\q", 0, 4.0)
    cut = replace(now, left_out=1)
    assert lines_of(before, cut)[0] == [], "it may be one of those that were not looked at"


def test_a_queue_that_was_empty_has_rates() -> None:
    """It was not told of then."""
    before, now = seen(1.0), seen(3.0, queue(8, LANE + 8))
    ((line,), _) = lines_of(before, now)
    assert (line.came_s, line.left_s) == (4.0, 0.0)
    ((line,), _) = lines_of(replace(before, left_out=1), now)
    assert line.came_s is None, "it may be one of those that were not looked at"


def test_where_most_moves_stands_first() -> None:
    def named(name: str, messages: int, last: int) -> QueueView:
        return queue(messages, last, path=name)

    before = seen(1.0, named("a", 1, LANE + 1), named("b", 9, LANE + 9), named("c", 1, LANE + 1))
    now = seen(2.0, named("a", 1, LANE + 1), named("b", 9, LANE + 9), named("c", 5, LANE + 5))
    assert [one.name for one in lines_of(before, now)[0]] == ["c", "b", "a"]


def test_the_line_about_all_of_it() -> None:
    assert log_rate(seen(1.0), seen(3.0, log=4096)) == 2048
    assert "log 2.0 KiB/s" in summary(seen(1.0), 2048)
    one = TopMoment(
        1.0, NOW_S, StatusView(space_low=True, offline_since=7, dead_letters=1), [], [], None
    )
    said = summary(one, None)
    assert "? in doubt" in said
    assert "1 dead letter" in said
    assert "disconnected by an operator" in said
    assert "the disk is nearly full" in said
    assert "log" not in said


@pytest.mark.parametrize("words", [("--every", "0"), ("--once", "--every", "61")])
def test_intervals_that_nobody_means(words: tuple[str, ...]) -> None:
    assert run(["top", "-q", "nowhere", *words]) == 2


def test_a_manager_that_is_away_at_the_start_is_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["top", "-q", "onceq://127.0.0.1:1"]) == 3
    assert "is it running" in capsys.readouterr().err


def test_a_narrow_terminal_keeps_names_and_counts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onceq.cli.out.width", lambda: 40)
    name = "private$\\" + "n" * 24
    top._table("queue", "in/s", [top.QueueLine(name, 12345, 1 << 40, None, 7.25, 60, "why")], None)
    top._table("queue", "in/s", [top.QueueLine("a", 1, 1, 1234.5, None, None, "")] * 5, 3)
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["private$/" + "n" * 24, "12345", "-", "7.2"]
    assert lines[-1] == "... 2 more"
    assert lines[-2].split()[:5] == ["a", "1", "1234", "-", "-"]
