"""Programs of servers that their user cannot reach run from a copy, and others from their place."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.programs import NoServer, can_run, within_reach

PARTS = ("server/bin", "server.libs", "absent")


def installed(folder: Path) -> Path:
    for name, mode in (("server/bin/run", 0o700), ("server.libs/so", 0o600), ("other/x", 0o600)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(mode)
    (folder / "server/bin/link").symlink_to("../../server.libs/so")
    (folder / "server").chmod(0o700)
    return folder


def test_what_can_be_run_stays_where_it_is(tmp_path: Path) -> None:
    root = installed(tmp_path / "root")

    def none() -> Path:
        raise AssertionError("no copy is needed")

    asked: list[Path] = []

    def can_run(path: Path) -> bool:
        asked.append(path)
        return True

    found = within_reach(root, PARTS, "server/bin/run", can_run=can_run, place=none)
    assert found == root
    assert asked == [root / "server/bin/run"]


def test_what_cannot_be_run_is_copied_for_everybody(tmp_path: Path) -> None:
    root = installed(tmp_path / "root")
    place = tmp_path / "place"
    place.mkdir(mode=0o700)
    found = within_reach(
        root, PARTS, "server/bin/run", can_run=lambda p: False, place=lambda: place
    )
    assert found == place
    modes = {
        str(path.relative_to(place)): stat.S_IMODE(path.stat().st_mode) & 0o555
        for path in (place, *place.rglob("*"))
    }
    assert modes == {
        ".": 0o555, "server": 0o555, "server/bin": 0o555, "server/bin/run": 0o555,
        "server/bin/link": 0o444, "server.libs": 0o555, "server.libs/so": 0o444,
    }  # fmt: skip
    assert (place / "server/bin/link").is_symlink()
    assert stat.S_IMODE((root / "server").stat().st_mode) == 0o700, "the original stays as it was"


def test_a_program_that_is_not_there_is_no_server(tmp_path: Path) -> None:
    with pytest.raises(NoServer, match="there is no"):
        can_run(tmp_path / "postgres")
