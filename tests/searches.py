"""Searches: tests of which some run with a commit, and more where their room has changed.

To plant every mistake, or to judge every image of a disk, takes an hour. Each commit draws some of
them, so that all have their turn. It draws three times as many where a file of their room has
changed within a day before the commit that is tested, and where the history does not say what has
changed: on a day of many commits every room changes, and each commit would repeat what the one
before it has searched. All run with the option ``--all`` of pytest, which ``python -m proof all``
gives.

A test says so itself: ``@pytest.mark.search("store", few=5)`` runs five of its parameters, or
fifteen.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import pytest

from proof.sim.simulate import commit_of

ROOT: Final = Path(__file__).parents[1]
DAY_S: Final = 86_400
ROOMS: Final[dict[str, tuple[str, ...]]] = {
    "store": ("src/onceq/store/", "src/onceq/testing/", "tests/crash/"),
    "worlds": ("src/onceq/core/transfer/", "src/onceq/core/peers/"),
    "partners": ("src/onceq/partners/", "src/onceq/core/transaction/", "tests/partners/"),
    "doors": ("src/onceq/tls/", "src/onceq/wire/", "src/onceq/service/", "proof/torture/"),
    "planted": (),
    "targets": ("proof/bench/",),
}
"""By kind of search: the folders of which a changed file runs more of it."""
MORE: Final = 3
"""Times as many are drawn where the room has changed."""


def changed_files(root: Path) -> list[str] | None:
    """Files that changed within a day before the commit that is checked out.

    Returns:
        Their paths from ``root`` on; None if the history does not say.
    """

    def ask(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, timeout=30, check=True
        )
        return done.stdout.strip()

    try:
        if ask("rev-parse", "--is-shallow-repository") != "false":
            return None
        since = int(ask("log", "-1", "--format=%ct")) - DAY_S
        named = ask("log", f"--since={since}", "--name-only", "--no-renames", "--format=")
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return sorted(set(named.splitlines()))


def rooms_changed(changed: Sequence[str] | None) -> set[str]:
    """The kinds of search of which more run, because of what has changed."""
    if changed is None:
        return set(ROOMS)
    return {
        kind for kind, folders in ROOMS.items() if any(file.startswith(folders) for file in changed)
    }


def left_out(items: Sequence[pytest.Item], commit: str, changed: set[str]) -> list[pytest.Item]:
    """The parameters of searches that this commit does not draw.

    Args:
        items: Tests; of which those that are no search all run.
        commit: What draws.
        changed: Kinds of search of which more run.

    Raises:
        pytest.UsageError: A mark is not as the module says.
    """
    searches: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("search")
        if mark is None:
            continue
        if len(mark.args) != 1 or mark.args[0] not in ROOMS or set(mark.kwargs) != {"few"}:
            raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.search(KIND, few=N)")
        searches[item.nodeid.partition("[")[0]].append(item)
    dropped: list[pytest.Item] = []
    for name, found in searches.items():
        mark = found[0].get_closest_marker("search")
        assert mark is not None
        few = mark.kwargs["few"] * (MORE if mark.args[0] in changed else 1)
        found.sort(key=lambda item: item.nodeid)
        kept = set(Random(f"{commit} {name}").sample(range(len(found)), min(few, len(found))))
        dropped += [item for index, item in enumerate(found) if index not in kept]
    return dropped


def drawn(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """What of these the commit that is checked out leaves out."""
    if not any(item.get_closest_marker("search") for item in items):
        return []
    return left_out(items, commit_of(str(ROOT)), rooms_changed(changed_files(ROOT)))
