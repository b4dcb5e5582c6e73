"""What the report of an audit says: every number under its own name, and no picture without names.

The histories are those of ``test_planted``: many ends, and a violation of most invariants.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from onceq.audit import command, measure, report
from onceq.audit.command import Wish
from onceq.audit.report import INVARIANTS
from onceq.errors import ConfigurationError
from tests.audit.corruptions import corrupt
from tests.audit.histories import peopled
from tests.audit.planting import Row
from tests.scratch import scratch

pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install onceq[audit]")
LOST = 37
"""A number of the stream that has no acceptance any more: several rules find that."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Row, str]]:
    """Findings, and the text of their report."""
    with scratch(tmp_path_factory, "report") as path:
        place = peopled(path / "all")
        plants = corrupt(place)
        plants.b.drop("accepted", **plants.mine(LOST))
        plants.save()
        page = path / "report.html"
        found = command.run([str(place)], Wish(html=str(page)), lambda _: None)
        yield found, page.read_text()


def words(html: str) -> str:
    return " ".join(
        unescape(re.sub(r"<(style|svg).*?</\1>|<[^>]+>", " ", html, flags=re.S)).split()
    )


def test_tiles_tell_what_waits_from_what_is_on_its_way(told: tuple[Row, str]) -> None:
    found, html = told
    tiles = dict(
        reversed(pair)
        for pair in re.findall(r'<div class="tile"><b>([\d,]+)</b><span>(.*?)</span>', html)
    )
    for name, state in (
        ("waiting in their queues", "waiting"), ("on their way", "in flight"),
        ("received", "received"), ("in doubt", "in doubt"),
    ):  # fmt: skip
        assert tiles[name] == f"{found['states'].get(measure.NAMES[state], 0):,}", name
    assert tiles["violations"] == f"{found['violations']:,}"
    assert found["states"][measure.NAMES["waiting"]] > 0


def test_each_step_of_a_message_has_its_picture(told: tuple[Row, str]) -> None:
    _, html = told
    for heading in ("Committed", "Accepted by another manager", "Received"):
        assert re.search(rf"<h3>{heading}</h3><figure.*?<svg", html, re.S), heading


def test_what_was_compared_is_listed_with_how_much(told: tuple[Row, str]) -> None:
    found, html = told
    text = words(html.split("What was compared")[1])
    for one in found["checked"]:
        assert f"{one['fault']} {one['looked_at']:,} {one['violations']:,}" in text, one
    assert f"{found['events']:,} events of {found['messages']:,} messages" in text
    assert "What an audit cannot see" in text


def test_violations_are_named_in_words(told: tuple[Row, str]) -> None:
    found, html = told
    text = words(html.split("<h2>Violations</h2>")[1].split("</section>")[0])
    violated = {one["invariant"] for one in found["checked"] if one["violations"]}
    assert len(violated) > 8
    for name in violated:
        assert f"{name} {INVARIANTS[name]}" in text
    assert "lookup -" not in text
    assert "lookup " in text


def test_one_message_is_one_story_whatever_is_wrong_with_it(told: tuple[Row, str]) -> None:
    found, html = told
    titles = [story["title"] for story in found["stories"]]
    assert len(titles) == len(set(titles))
    assert max(len(story["faults"]) for story in found["stories"]) > 1
    assert html.count("<details") == len(titles)


def test_every_row_of_the_latencies_has_a_place_in_the_picture(told: tuple[Row, str]) -> None:
    found, html = told
    section = html.split("<h2>Latencies</h2>")[1].split("</section>")[0]
    text = words(section)
    for at, row in enumerate(found["latencies"], 1):
        assert re.search(rf"\b{at} .*{re.escape(row['to'])}", text)
    (said,) = {unescape(one) for one in re.findall(r'aria-label="(Latency of [^"]+)"', section)}
    assert "dots at 50, 90 and 99 %" in said
    if len(found["latencies"]) <= report.LATENCIES_MAX:
        assert "each row of the table" in said
    else:
        assert f"the first {report.LATENCIES_MAX} rows of the table" in said


def test_routes_with_the_same_numbers_are_two_lines_that_can_be_seen() -> None:
    points = [
        {"route": route, "event": "committed", "second": 15 * step, "messages": 40 + step}
        for route in ("EWR → AUDIT", "EWR → HUB") for step in range(30)
    ]  # fmt: skip
    drawn = report.traffic(points, "committed", narrow=False)
    lines = re.findall(
        r'<path d="[^"]*"[^>]*style="([^"]*stroke: (?:#2f6fde|#e0862f)[^"]*)"', drawn
    )
    assert len(lines) == 2
    assert len({"dasharray" in line for line in lines}) == 2


def full(*args: object, **kwargs: object) -> None:
    """In place of what writes a file: the disk has no room for the whole."""
    with open(args[0], "wb") as file:  # type: ignore[call-overload]
        file.write(b"half")
    raise OSError(errno.ENOSPC, "No space left on device")


WORDS = r"cannot be written \(No space left on device\).* ended with: VIOLATED: "


def test_a_full_disk_does_not_hide_the_verdict(
    told: tuple[Row, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = told
    place = tmp_path / "there"
    place.write_text("of yesterday")
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(ConfigurationError, match=rf"{place} {WORDS}"):
        command.save(str(place), "<html>", found)
    assert place.read_text() == "of yesterday"
    assert list(tmp_path.iterdir()) == [place]


def test_of_tables_for_which_there_is_no_room_none_is_left(
    told: tuple[Row, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corrupt(peopled(tmp_path / "all"))
    monkeypatch.setattr("onceq.audit.proof.pq.ParquetWriter", full)
    with pytest.raises(ConfigurationError, match=rf"{tmp_path / 'there'} {WORDS}"):
        command.run([str(tmp_path / "all")], Wish(to=str(tmp_path / "there")), lambda _: None)
    assert not (tmp_path / "there").exists()
