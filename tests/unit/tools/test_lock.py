"""What onceq takes of others: no version with a known weakness, and no file of unknown contents."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import lock as lock_tool
from lock import blocks, pins

ROOT = Path(__file__).resolve().parents[3]
LOCKS = (lock_tool.LOCK, lock_tool.CONTAINER, lock_tool.BUILD)
Range = tuple[Version, Version]


def advisories() -> list[tuple[str, str, list[Range]]]:
    """Identifier, package, and the versions that have the weakness."""
    listed = tomllib.loads((ROOT / "packaging" / "advisories.toml").read_text())["advisory"]
    return [
        (one["id"], canonicalize_name(one["package"]),
         [(Version(since), Version(mended)) for since, mended in one["ranges"]])
        for one in listed
    ]  # fmt: skip


def direct() -> Iterator[Requirement]:
    """What pyproject.toml names, but for onceq itself."""
    text = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = text["project"]
    wanted = [*project["dependencies"], *text["build-system"]["requires"]]
    for extra in project["optional-dependencies"].values():
        wanted += extra
    for one in map(Requirement, wanted):
        if one.name != "onceq":
            yield one


def oldest(requirement: Requirement) -> Version:
    """The lower bound; raises AssertionError if there is none."""
    bounds = [Version(one.version) for one in requirement.specifier if one.operator in (">=", "==")]
    assert bounds, f"{requirement} has no lower bound"
    return max(bounds)


def allowed_weaknesses(requirement: Requirement) -> list[str]:
    """Advisories about a version that a requirement allows."""
    least = oldest(requirement)
    above = [Version(one.version) for one in requirement.specifier if one.operator == "<"]
    return [
        identifier
        for identifier, package, ranges in advisories()
        if package == canonicalize_name(requirement.name)
        for since, mended in ranges
        if least < mended and not any(since >= most for most in above)
    ]


def test_no_version_that_is_allowed_has_a_known_weakness() -> None:
    assert {str(one): found for one in direct() if (found := allowed_weaknesses(one))} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("h11>=0.14,<1", ["CVE-2025-43859"]), ("h11>=0.16,<1", []),
        ("protobuf>=5", ["CVE-2025-4565", "CVE-2025-4565", "CVE-2026-0994", "CVE-2026-0994"]),
        ("protobuf>=5.29.6", ["CVE-2025-4565", "CVE-2026-0994"]), ("protobuf>=5.29.6,<6", []),
        ("cryptography>=44", ["CVE-2024-12797", "CVE-2026-26007"]), ("cryptography>=46.0.7", []),
        ("starlette>=0.46", ["CVE-2025-62727", "CVE-2025-54121"]),
        ("PyMySQL>=1.1", ["CVE-2024-36039"]),
    ],
)  # fmt: skip
def test_a_weak_bound_is_found(text: str, found: list[str]) -> None:
    assert allowed_weaknesses(Requirement(text)) == found


def test_the_list_of_advisories_is_about_what_is_needed() -> None:
    needed = {canonicalize_name(one.name) for one in direct()}
    listed = advisories()
    assert {package for _, package, _ in listed} <= needed
    assert len({identifier for identifier, _, _ in listed}) == len(listed)
    assert all(since < mended for _, _, ranges in listed for since, mended in ranges)


@pytest.mark.parametrize("lock", LOCKS, ids=str)
def test_no_version_that_is_pinned_has_a_known_weakness(lock: Path) -> None:
    pinned = pins(lock.read_text())
    weak = [
        (identifier, package)
        for identifier, package, ranges in advisories()
        for since, mended in ranges
        if package in pinned and since <= Version(pinned[package]) < mended
    ]
    assert weak == []


@pytest.mark.parametrize("lock", LOCKS, ids=str)
def test_each_package_of_a_lock_has_hashes_and_nothing_else(lock: Path) -> None:
    text = lock.read_text()
    found = blocks(text)
    assert "".join(found.values()) == text, "every line belongs to a package"
    for name, block in found.items():
        first, *rest = block.rstrip("\n").split(" \\\n")
        assert re.fullmatch(r"[a-z0-9-]+==[^ ;]+( ; .+)?", first), first
        assert rest, f"{name} has no hash"
        assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}", one) for one in rest), name


@pytest.mark.parametrize("lock", LOCKS[1:], ids=str)
def test_what_images_and_builds_use_is_a_part_of_what_is_tested(lock: Path) -> None:
    whole, part = blocks(lock_tool.LOCK.read_text()), blocks(lock.read_text())
    assert set(part) <= set(whole)
    for name, block in part.items():
        version = block.split(" ", 1)[0]
        hashes = set(re.findall(r"--hash=\S+", block))
        assert whole[name].split(" ", 1)[0] == version
        assert hashes == set(re.findall(r"--hash=\S+", whole[name]))


def test_an_image_has_what_runs_and_nothing_that_tests_or_builds() -> None:
    found = set(pins(lock_tool.CONTAINER.read_text()))
    assert {"msgspec", "click", "cryptography", "h11", "starlette", "uvloop"} <= found
    assert not {"pytest", "pyspark", "setuptools"} & found


def test_the_image_has_the_extras_that_its_file_installs() -> None:
    text = (ROOT / "packaging" / "container" / "Containerfile").read_text()
    assert set(re.findall(r"onceq\[([a-z,]+)\]", text)) <= {",".join(lock_tool.CONTAINER_EXTRAS)}
