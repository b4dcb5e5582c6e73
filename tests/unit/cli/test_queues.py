"""``onceq queue show``: the table of those who work on a queue."""

from __future__ import annotations

import time

import pytest

from onceq.cli import out, queues
from onceq.model.views.queues import ConsumerView

XID = "1869509489-6f6e6365712d3764356134323566-626f6f6b696e67"
PLACE = "local, process 4194304"
HOLDS = ConsumerView(
    "orders", "account:anna", PLACE, 3, opened=1, access="receive", denies="receive",
    says="the nightly run of accounting, second attempt", holds=12_000, since=1_700_000_000,
)  # fmt: skip
BRANCH = ConsumerView("orders", "certificate:billing", holds=2, since=1_700_000_000, branch=XID)
OWN = ConsumerView("orders", connection=1, waiting=4)
WAITS = ConsumerView("orders", "token:web", "10.120.130.140", 9, waiting=16, opened=2,
                     access="receive, peek", since=1_700_000_000)  # fmt: skip


@pytest.fixture(autouse=True)
def _a_clock_that_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_700_000_090.0)


def test_every_column_is_there_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    queues._show_consumers([HOLDS, BRANCH, OWN, WAITS])
    empty, header, holds, branch, own, waits = capsys.readouterr().out.split("\n")[:-1]
    assert empty == ""
    assert header.split("  ")[0] == "who"
    assert [cell.strip() for cell in holds.split("  ") if cell] == [
        "account:anna", PLACE, "12000", "0", "90 s", "receive alone", HOLDS.says, "-",
    ]  # fmt: skip
    assert [cell.strip() for cell in branch.split("  ") if cell] == [
        "certificate:billing", "-", "2", "0", "90 s", "-", "-", XID,
    ]  # fmt: skip
    assert own.startswith("in its own process")
    assert "receive, peek" in waits
    assert "alone" not in waits


def test_at_80_columns_who_and_from_where_and_the_numbers_are_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(out, "width", lambda: 80)
    queues._show_consumers([HOLDS, BRANCH, OWN, WAITS])
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[2].split("  ")[0] == "account:anna"
    assert PLACE in lines[2]
    assert "12000" in lines[2].split()
    assert "90 s" in lines[2]
    assert "left out for want of room" in said.err


def test_what_nobody_has_is_no_column(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(out, "width", lambda: 80)
    queues._show_consumers([OWN])
    said = capsys.readouterr()
    assert said.out.splitlines()[1].split() == ["who", "holds", "waiting"]
    assert said.err == ""


def test_nobody_is_told_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    queues._show_consumers([])
    assert capsys.readouterr().out == "nobody waits at it, has it open or holds messages of it\n"


def test_a_list_that_is_cut_is_said_to_be(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "CONSUMERS_SHOWN_MAX", 2)
    queues._show_consumers([HOLDS])
    assert capsys.readouterr().err == ""
    queues._show_consumers([HOLDS, WAITS])
    assert "only 2 are shown" in capsys.readouterr().err
