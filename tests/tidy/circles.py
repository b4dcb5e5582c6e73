"""Circles of imports between modules, found in their text.

An import counts wherever it stands: in a function, or for types alone. Two modules that need each
other are one module in two files; who reads one has to read both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.tidy.source import read

Graph = Mapping[str, set[str]]
"""Modules, and those that each imports."""


def imports(src: Path, package: str = "") -> Graph:
    """Every module below a folder, or of one package in it, and those of them that it imports."""
    paths = {
        ".".join(path.relative_to(src).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((src / package).rglob("*.py"))
    }
    return {
        name: {found for found in _imported(path, paths) if found != name}
        for name, path in paths.items()
    }


def _imported(path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    source = read(path.read_text())
    yield from (name for name in source.modules if name in modules)
    for _, module, name in source.taken:
        inside = f"{module}.{name}"
        found = inside if inside in modules else module
        if found in modules:
            yield found


def circles(graph: Graph) -> list[list[str]]:
    """Modules that reach each other; each circle sorted, and all of them."""
    reached = {name: _reached(graph, name) for name in graph}
    found = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in graph
        if name in reached[name]
    }
    return [list(circle) for circle in sorted(found)]


def _reached(graph: Graph, name: str) -> set[str]:
    seen: set[str] = set()
    todo = list(graph[name])
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo += graph[one]
    return seen
