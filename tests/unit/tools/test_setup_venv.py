"""The environment for tests: its lock file, and what keeps it from being made."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest

import setup_venv

ROOT = Path(__file__).resolve().parents[3]


def test_the_lock_pins_what_is_installed() -> None:
    pins = dict(line.split("==") for line in (ROOT / "requirements.lock").read_text().split())
    assert {name: importlib.metadata.version(name) for name in pins} == pins
    assert list(pins) == sorted(pins, key=str.casefold)


def test_every_direct_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        wanted += extra
    names = {re.split(r"[\[<>=;! ]", text)[0] for text in wanted} - {"onceq"}
    lock = (ROOT / "requirements.lock").read_text()
    assert {name for name in names if not re.search(rf"^{name}==", lock, re.M | re.I)} == set()


def test_an_old_python_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup_venv, "PYTHON_MIN", (99, 0))
    with pytest.raises(SystemExit, match=r"3\.11 or newer"):
        setup_venv.main()


def test_a_python_without_environments_is_told_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(setup_venv, "PYTHON", tmp_path / "python")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="python3-venv"):
        setup_venv.make()
