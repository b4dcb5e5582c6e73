"""The environment for tests: its lock file, and what keeps it from being made."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import setup_venv
from lock import blocks, pins

ROOT = Path(__file__).resolve().parents[3]


def is_for_here(text: str) -> bool:
    """Whether a requirement holds for this Python and platform."""
    marker = Requirement(text).marker
    return marker is None or marker.evaluate({"extra": ""})


def test_the_lock_pins_what_is_installed() -> None:
    text = setup_venv.LOCK.read_text()
    pinned = pins(text)
    here = {name for name, block in blocks(text).items() if is_for_here(block.split(" \\\n")[0])}
    assert {"pytest", "pyspark", "uvloop"} <= set(pinned)
    assert {name: importlib.metadata.version(name) for name in here} == {
        name: pinned[name] for name in here
    }
    assert list(pinned) == sorted(pinned)


def test_what_builds_packages_is_pinned_with_all_that_it_needs() -> None:
    builders = set(pins(setup_venv.BUILD_LOCK.read_text()))
    for name in builders:
        needed = [text for text in importlib.metadata.requires(name) or () if is_for_here(text)]
        names = {canonicalize_name(Requirement(text).name) for text in needed}
        assert names <= builders, name


def test_nothing_is_installed_without_its_hash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And nothing is fetched to build what has no wheel."""
    calls: list[list[str]] = []
    monkeypatch.setattr("subprocess.run", lambda command, **how: calls.append(command))
    monkeypatch.setattr(setup_venv, "works", lambda *arguments: True)
    setup_venv.install()
    *fetching, own = calls
    assert len(fetching) == 2
    for command in fetching:
        assert {"--require-hashes", "--no-build-isolation", "--no-deps"} <= set(command)
    assert {"--no-build-isolation", "--no-deps"} <= set(own)
    assert own[-2:] == ["-e", str(ROOT)]


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
