"""Searches: tests of which some run with a commit, and all where the code of their room changed.

To plant every mistake, or to judge every image of a disk, takes an hour. Each commit draws some of
them, so that all have their turn. All run where the code of their room differs from what it was a
day before the commit that is tested, where the history does not say that, and with the option
``--all`` of pytest, which ``python -m proof all`` gives. Docstrings, comments and layout are no
code: a day of plainer words repeats no search.

A test says so itself: ``@pytest.mark.search("store", few=5)`` runs five of its parameters.
"""

from __future__ import annotations

import ast
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
"""By kind of search: the folders in which changed code runs all of it."""


def changed_rooms(root: Path) -> set[str]:
    """Return the kinds of search of which all run: code in their folders has changed within a day
    before the commit that is checked out, or the history does not say."""

    def ask(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, timeout=30, check=True
        )
        return done.stdout.strip()

    found: set[str] = set()
    try:
        since = int(ask("log", "-1", "--format=%ct")) - DAY_S
        before = ask("rev-list", "-1", f"--before={since}", "HEAD")
        if not before or ask("rev-parse", "--is-shallow-repository") != "false":
            return set(ROOMS)
        named = ask("diff", "--name-status", "--no-renames", before, "HEAD").splitlines()
        for status, _, file in (line.partition("\t") for line in named):
            kinds = {kind for kind, folders in ROOMS.items() if file.startswith(folders)} - found
            if kinds and not (
                status == "M"
                and file.endswith(".py")
                and is_same_code(ask("show", f"{before}:{file}"), ask("show", f"HEAD:{file}"))
            ):
                found |= kinds
    except (OSError, ValueError, SyntaxError, subprocess.SubprocessError):
        return set(ROOMS)
    return found


def is_same_code(before: str, after: str) -> bool:
    """Return whether two texts of a module differ in docstrings, comments and layout alone."""
    trees = [ast.parse(text) for text in (before, after)]
    for tree in trees:
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list):
                body[:] = [one for one in body if not _is_text(one)]
    return ast.dump(trees[0]) == ast.dump(trees[1])


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def left_out(items: Sequence[pytest.Item], commit: str, full: set[str]) -> list[pytest.Item]:
    """The parameters of searches that this commit does not draw.

    Args:
        items: Tests; of which those that are no search all run.
        commit: What draws.
        full: Kinds of search of which all run.

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
        if mark.args[0] not in full:
            searches[item.nodeid.partition("[")[0]].append(item)
    dropped: list[pytest.Item] = []
    for name, found in searches.items():
        mark = found[0].get_closest_marker("search")
        assert mark is not None
        few = mark.kwargs["few"]
        found.sort(key=lambda item: item.nodeid)
        kept = set(Random(f"{commit} {name}").sample(range(len(found)), min(few, len(found))))
        dropped += [item for index, item in enumerate(found) if index not in kept]
    return dropped


def drawn(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """What of these the commit that is checked out leaves out."""
    if not any(item.get_closest_marker("search") for item in items):
        return []
    return left_out(items, commit_of(str(ROOT)), changed_rooms(ROOT))
