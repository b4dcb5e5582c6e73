"""The style, held by a test; and the test, held by planted offenders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tidy.rules import faults, orphans

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "tests", "tools", "demo")


def test_every_file_is_tidy() -> None:
    found = [
        fault
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for fault in faults(path, path.read_text(), ROOT)
    ]
    assert not found, "\n" + "\n".join(found)


def test_no_module_is_left_over() -> None:
    assert not list(orphans(ROOT))


@pytest.mark.parametrize(
    ("offence", "said"),
    [
        ("import pickle\n", "pickle"),
        ("x = eval('1')\n", "eval"),
        ("# TO" + "DO later\n", "mark"),
        ("try:\n    pass\nexcept:\n    pass\n", "bare except"),
        ("import time\nnow = time.time()\n", "clock"),
        ("import random\n", "random"),
        ("import os\nos.fsync(3)\n", "files"),
        ("print('hello')\n", "prints"),
        ("x = 1\n" * 500, "lines, more than"),
        ("def f():\n" + "    x = 1\n" * 80, "has 81 lines"),
        ("", ""),
    ],
)
def test_offenders_are_found(offence: str, said: str) -> None:
    path = ROOT / "src" / "onceq" / "core" / "planted.py"
    text = '"""A module."""\n' + offence
    found = list(faults(path, text, ROOT))
    if said:
        assert any(said in fault for fault in found), found
    else:
        assert not found


def test_a_missing_docstring_is_found() -> None:
    path = ROOT / "src" / "onceq" / "core" / "planted.py"
    assert any("docstring" in fault for fault in faults(path, "x = 1\n", ROOT))


def test_documents_have_one_title_each() -> None:
    for path in (ROOT / "docs").rglob("*.md"):
        lines = path.read_text().splitlines()
        assert lines, path
        assert lines[0].startswith("# "), f"{path} does not begin with its title"
