"""The tools that set this project up: a Java from a package, the lock file, the stamp."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import check
import setup_venv

ROOT = Path(__file__).resolve().parents[3]


def test_java_is_found_without_one_on_the_path(tmp_path: Path) -> None:
    """The packaged runtime, behind a script that drops the module which it lacks."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PATH")
    }
    done = subprocess.run(
        [sys.executable, "tools/java.py"],
        cwd=ROOT, env={**environment, "PATH": str(tmp_path)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    java = Path(done.stdout.strip()) / "bin" / "java"
    asked = [str(java), "--add-modules=jdk.incubator.vector", "-version"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    match = re.search(r'version "(\d+)', said.stderr)
    assert match is not None
    assert int(match.group(1)) >= 17


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


def test_every_check_runs_and_failures_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = [sys.executable, "-c", ""], [sys.executable, "-c", "raise SystemExit('why')"]
    monkeypatch.setattr(check, "CHECKS", {"a": bad, "b": good, "c": bad, "tidy": bad})
    assert check.run(without=("tidy",)) == ["a", "c"]
    said = capsys.readouterr().out
    assert said.count("why") == 2
    assert re.search(r"^b +ok", said, re.M)
