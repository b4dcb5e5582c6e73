"""``make check`` runs every check, and names those that failed."""

from __future__ import annotations

import re
import sys

import pytest

import check


def test_every_check_runs_and_failures_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = [sys.executable, "-c", ""], [sys.executable, "-c", "raise SystemExit('why')"]
    monkeypatch.setattr(check, "CHECKS", {"a": bad, "b": good, "c": bad, "tidy": bad})
    assert check.run(without=("tidy",)) == ["a", "c"]
    said = capsys.readouterr().out
    assert said.count("why") == 2
    assert re.search(r"^b +ok", said, re.M)
