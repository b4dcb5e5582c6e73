"""``onceq events``: which rows, how they are written, and what is said without a history."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from onceq.cli import events
from onceq.cli.main import run
from onceq.history.columns import Span
from onceq.model.views.managers import ActView

AT = datetime.datetime(2026, 11, 26, 12, tzinfo=datetime.UTC)
SOURCE = "838e095e-ac71-4bff-9c74-73017d238197"


def row(event: str, queue: str | None = "private$\\q", **more: Any) -> dict[str, Any]:
    base = {
        "event": event, "eventTime": AT, "queue": queue, "source": SOURCE, "message": 7,
        "stream": None, "number": None, "className": None, "act": None, "actor": None,
        "action": None, "about": None, "result": None,
    }  # fmt: skip
    return {**base, **more}


ACT = row("act", None, source=None, message=None, act=3, actor="account:a", action="purge",
          about="private$\\other", result="")  # fmt: skip
ROWS = [
    row("committed", stream=5, number=1), row("received"), ACT,
    row("not-delivered", "DIRECT=OS:B\\private$\\q", className="reach-queue-timeout"),
]  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> str:
    """The data directory of a queue manager that has kept a history."""
    folder = tmp_path / "a" / "history"
    folder.mkdir(parents=True)
    schema = pa.schema([
        (name, pa.timestamp("us", tz="UTC") if name == "eventTime"
         else pa.int64() if name in ("message", "stream", "number", "act") else pa.string())
        for name in ROWS[0]
    ])  # fmt: skip
    pq.write_table(pa.Table.from_pylist(ROWS, schema), folder / Span(1, 0, 9).name)
    return str(tmp_path / "a")


def said(capsys: pytest.CaptureFixture[str], place: str, *words: str, code: int = 0) -> str:
    assert run(["events", "-q", place, *words]) == code
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    return told.out if code == 0 else told.err


def test_a_line_for_each(capsys: pytest.CaptureFixture[str], place: str) -> None:
    lines = [line.split("  ", 1)[1] for line in said(capsys, place).splitlines()]
    assert [" ".join(line.split()) for line in lines] == [
        f"committed private$/q {{{SOURCE}}}/7 number 1",
        f"received private$/q {{{SOURCE}}}/7",
        "act 3 account:a purge private$/other",
        f"not-delivered DIRECT=OS:B/private$/q {{{SOURCE}}}/7 reach-queue-timeout",
    ]


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (("--last", "1"), ["not-delivered"]), (("--last", "0"), []),
        (("--event", "received", "--event", "act"), ["received", "act"]),
        (("--queue", "private$/Q",), ["committed", "received", "not-delivered"]),
        (("--queue", "other",), ["act"]),
    ],
)  # fmt: skip
def test_which(
    capsys: pytest.CaptureFixture[str], place: str, words: tuple[str, ...], kinds: list[str]
) -> None:
    told = said(capsys, place, "--json", *words)
    assert [json.loads(line)["event"] for line in told.splitlines()] == kinds


def test_json_has_names_as_they_are_and_nothing_that_is_null(
    capsys: pytest.CaptureFixture[str], place: str
) -> None:
    assert json.loads(said(capsys, place, "--json", "--event", "received")) == {
        "event": "received", "eventTime": "2026-11-26T12:00:00+00:00", "queue": "private$\\q",
        "source": SOURCE, "message": 7,
    }  # fmt: skip


def test_an_event_that_there_is_not(capsys: pytest.CaptureFixture[str], place: str) -> None:
    assert "there is no event 'recieved'" in said(capsys, place, "--event", "recieved", code=2)


def test_what_comes_is_told_until_somebody_interrupts(
    capsys: pytest.CaptureFixture[str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = 0

    def pause(seconds: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 3:
            raise KeyboardInterrupt
        if waits == 2:
            folder = Path(place) / "history"
            (folder / Span(1, 9, 12).name).write_bytes((folder / Span(1, 0, 9).name).read_bytes())

    monkeypatch.setattr(events, "pause", pause)
    told = said(capsys, place, "--follow", "--last", "1")
    assert [line.split()[2] for line in told.splitlines()] == [
        "not-delivered", "committed", "received", "act", "not-delivered",
    ]  # fmt: skip


def test_without_a_history_here_the_trail_is_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["qm", "init", str(tmp_path / "b"), "--name", "B"]) == 0
    assert run(["events", "-q", str(tmp_path / "b")]) == 3
    told = capsys.readouterr().err
    assert "has no history here" in told
    assert "is not running" in told


def test_an_act_of_the_trail_is_written_as_one_of_a_history(
    capsys: pytest.CaptureFixture[str],
) -> None:
    act = ActView(number=3, at=1, who="account:a\x1b", what="purge", about="private$\\q",
                  result="access-denied")  # fmt: skip
    events._line(events._row(act))
    told = capsys.readouterr().out
    assert told.endswith("  act 3  account:a\\x1b purge private$/q  refused: access-denied\n")
