"""What ``make dist`` says of packages that lack something, or have too much."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import dist

MODULES = ("onceq/__init__.py", "onceq/py.typed", "pyspark_onceq/__init__.py")
GOOD = (*MODULES, "onceq-1.dist-info/METADATA", "onceq-1.dist-info/licenses/LICENSE")


def test_nothing_is_wrong_with_a_good_wheel() -> None:
    assert list(dist.faults_of_wheel(GOOD, MODULES)) == []


@pytest.mark.parametrize("name", [*MODULES, "onceq-1.dist-info/licenses/LICENSE"])
def test_what_a_wheel_lacks_is_named(name: str) -> None:
    (fault,) = dist.faults_of_wheel(set(GOOD) - {name}, MODULES)
    assert (name if name in MODULES else "licence") in fault


@pytest.mark.parametrize("name", ["onceq/tests/data.hex", "onceq/test_log.py", "onceq/conftest.py"])
def test_a_wheel_with_tests_is_refused(name: str) -> None:
    assert list(dist.faults_of_wheel([*GOOD, name], MODULES)) == [f"the wheel has a test: {name}"]


def test_a_wheel_that_would_install_other_packages_is_refused() -> None:
    (fault,) = dist.faults_of_wheel([*GOOD, "tools/check.py"], MODULES)
    assert fault.startswith("the wheel would install tools,")


def test_what_a_source_package_lacks_is_named() -> None:
    whole = {*dist.IN_SOURCE, "docs/index.md"}
    assert list(dist.faults_of_source(whole, whole)) == []
    for name in whole:
        assert list(dist.faults_of_source(whole - {name}, whole)) == [
            f"the source package has no {name}"
        ]


def test_what_every_source_package_has_is_here() -> None:
    for name in dist.IN_SOURCE:
        assert (dist.ROOT / name).is_file(), name


def test_the_tutorial_has_code() -> None:
    blocks = dist.BLOCK.findall(dist.TUTORIAL.read_text(encoding="utf-8"))
    assert any("create=True" in block for block in blocks)
    assert not any("no-run" in block for block in blocks)


def test_packages_of_older_builds_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("onceq-0.1-py3-none-any.whl", "onceq-0.1.tar.gz", "other.txt"):
        (tmp_path / name).touch()

    def built(*command: object) -> str:
        for name in ("onceq-0.2-py3-none-any.whl", "onceq-0.2.tar.gz"):
            (tmp_path / name).touch()
        return ""

    monkeypatch.setattr(dist, "run", built)
    wheel, source = dist.build(tmp_path)
    assert (wheel.name, source.name) == ("onceq-0.2-py3-none-any.whl", "onceq-0.2.tar.gz")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        wheel.name, source.name, "other.txt"
    ]  # fmt: skip


def test_a_command_that_fails_is_told_with_what_it_said() -> None:
    code = "print('it is broken'); raise SystemExit(3)"
    with pytest.raises(dist.Failed, match=r"(?s)ended with 3.*it is broken"):
        dist.run(sys.executable, "-c", code)
