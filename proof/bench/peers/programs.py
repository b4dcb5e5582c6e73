"""Where the programs of the systems come from: of the PATH, or, where the tests' databases come
from too, of Debian's packages, which are unpacked and not installed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.programs import CACHE, NoServer, can_run, debian

_fetching = True


def fetch(allowed: bool) -> None:
    """Whether what is not installed may be fetched."""
    global _fetching
    _fetching = allowed


def fetching(what: str) -> None:
    """Raises NoServer if that may not be fetched."""
    if not _fetching:
        raise NoServer(f"{what} is not installed, and nothing was to be fetched")


def program(name: str, packages: tuple[str, ...], path: str) -> tuple[str, dict[str, str]]:
    """A program that the user of servers can run, and its environment.

    Args:
        name: What it is called on a PATH.
        packages: Debian's.
        path: Of the program, in these packages.
    """
    found = shutil.which(name)
    if found and can_run(Path(found).resolve()):
        return str(Path(found).resolve()), dict(os.environ)
    if not (CACHE / name / path).exists():
        fetching(name)
    try:
        root, env = debian(name, packages, path)
    except NoServer as error:
        raise NoServer(f"no {name} on the PATH; {error}") from None
    return str(root / path), env
