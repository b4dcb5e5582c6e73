"""The report of an audit in a real browser, as on a desktop and on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceq.audit.report import INVARIANTS, page
from tests.browser import NoBrowser, chromium, look, picture

pytestmark = [pytest.mark.slow, pytest.mark.tier("rest")]

ROUTES = [rf"ALPHA → BETA-{at}\private$\a-rather-long-name-of-a-queue-{at}" for at in range(9)]
NAMELESS = "$\\alpha_<b>\x07"
"""What nobody may call a computer."""
HOSTILE = '<script>alert("x")</script>' + "wide" * 60


def starts(name: str) -> list[dict[str, Any]]:
    """Many of one manager, closer to each other than their names are wide; few of another."""
    every = 9 if name == "ALPHA" else 400
    return [
        {"life": 1, "position": at, "at_us": (1_800_000_000 + at) * 1_000_000,
         "orderly": None if not at else at % 2 == 0, "again": at > 0}
        for at in range(0, 850, every)
    ]  # fmt: skip


def acts() -> dict[str, Any]:
    said = {"manager": HOSTILE, "act": 1_234_567, "actor": "account:" + HOSTILE, "result": "",
            "address": "2001:0db8:85a3:0000:0000:8a2e:0370:7334", "action": "set properties",
            "about": ROUTES[0] * 3, "at_us": 1_800_000_000_000_000}  # fmt: skip
    by = {"manager": HOSTILE, "actor": said["actor"], "action": "purge", "done": 12_345,
          "refused": 1}  # fmt: skip
    return {
        "count": 12_346, "refused": 1, "by": [by] * 3, "last": [said] * 5,
        "last_refused": [said | {"result": "access-denied"}],
        "missing": [{"manager": HOSTILE, "first": 7, "last": 7}],
        "added": [{"manager": "ALPHA", "first": 9, "last": 11}],
    }  # fmt: skip


def findings(*, violated: bool) -> dict[str, Any]:
    stories = [
        {"faults": [{"invariant": "I4", "fault": "received-twice", "said": HOSTILE}],
         "rows": [HOSTILE, "b\x1b"],
         "key": {"source": "01010141-0101-0101-0101-010101010101", "stream": 7, "number": 4,
                 "message": None},
         "title": "message 4 of 01010141-0101-0101-0101-010101010101 (" + ROUTES[0] + ")"}
    ]  # fmt: skip
    return {
        "made": "2026-11-21T10:00:00+00:00",
        "messages": 1_234_567,
        "verdict": "VIOLATED: 1 violation(s) of I4" if violated else "PROVEN: of 1,234,567 ...",
        "violations": int(violated),
        "messages_violated": int(violated), "events": 9_876_543, "transactions": 12_345,
        "streams": 18,
        "checked": [
            {"invariant": name, "fault": "received-twice", "looks_at": "receptions" * 3,
             "looked_at": 1_234_567, "violations": int(violated and name == "I4")}
            for name in INVARIANTS
        ],
        "stories": stories if violated else [],
        "acts": acts(),
        "states": {"received by an application": 1_234_560, "in doubt": 7},
        "latencies": [
            {"route": route, "from": "commit", "to": "acceptance", "messages": 1_000 * at + 1,
             "p50_s": 0.001 * 3**at, "p90_s": 0.002 * 3**at, "p99_s": 0.01 * 3**at,
             "max_s": 0.05 * 3**at}
            for at, route in enumerate(ROUTES)
        ],
        "resends": [{"route": ROUTES[1], "messages": 5, "times": 9, "came_again": 4}],
        "stuck": [{"route": ROUTES[2], "stream": 7, "messages": 3, "first_number": 17,
                   "since_s": 1_800_000_000, "waits_s": 4_000.0}],
        "notes": ["BETA: its beginning is cut off (up to log position 1,234,567)", HOSTILE],
        "managers": [
            {"manager": name, "id": "01010141-0101-0101-0101-010101010101", "files": 12,
             "from_s": 1_800_000_000, "up_to_us": 1_800_000_900_000_000,
             "limits": ["its beginning is cut off"] if name == "BETA" else [],
             "files_without_starts": int(name == "BETA"), "starts": starts(name)}
            for name in ("ALPHA", "BETA", NAMELESS)
        ],
        "written": [],
    }  # fmt: skip


def points() -> list[dict[str, Any]]:
    return [
        {"route": route, "event": event, "second": 1_800_000_000 + 15 * step,
         "messages": 40 + (step * (at + 3)) % 17}
        for at, route in enumerate(ROUTES) for event in ("committed", "accepted", "received")
        for step in range(60)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    try:
        chromium()
    except NoBrowser as error:
        pytest.skip(f"not run: the report was looked at in no browser: {error}")
    folder = tmp_path_factory.mktemp("pages")
    made = {}
    for name, violated in (("proven", False), ("violated", True)):
        made[name] = folder / f"{name}.html"
        made[name].write_text(page(findings(violated=violated), points()), encoding="utf-8")
    return made


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["proven", "violated"])
def test_it_looks_right(pages: dict[str, Path], name: str, width: int, tmp_path: Path) -> None:
    seen = look(pages[name], width, tmp_path)
    found = seen.measured
    assert found["inner"] == width
    assert found["scroll"] <= width, found["wide"]
    assert found["wide"] == []
    assert len(found["pictures"]) == 4
    for drawn in found["pictures"]:
        assert drawn["width"] > 0.7 * min(width, 1_000)
        assert drawn["height"] > 100
        assert drawn["label"]
        assert drawn["marks"] > 10
    assert min(found["text"]) > 8, "text in pictures can be read"
    headings = {"Audit of ALPHA, BETA, $\\alpha_<b>\\x07", "What became of them",
                "What was compared", "Who did what", "Traffic by route", "Latencies",
                "Worth a look", "Histories"}  # fmt: skip
    assert headings | ({"Violations"} if name == "violated" else set()) == set(found["headings"])
    assert len(found["ids"]) == len(set(found["ids"])), "pictures do not share identifiers"
    assert found["fetched"] == [], "it needs no network"
    assert seen.complaints == []


def test_a_screenshot_is_not_empty(pages: dict[str, Path], tmp_path: Path) -> None:
    shot = picture(pages["violated"], 390, tmp_path)
    assert shot.startswith(b"\x89PNG")
    assert int.from_bytes(shot[16:20], "big") == 390
    assert len(shot) > 20_000


def test_what_came_from_outside_stays_text() -> None:
    text = page(findings(violated=True), points())
    assert "<script" not in text
    assert "&lt;script&gt;alert" in text
    assert "\x1b" not in text
    assert "http" not in text.replace("http://www.w3.org/", "")
