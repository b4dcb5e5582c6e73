"""Who writes what in the core: found in the text of its rules.

A rule is handed the ``Step`` of the core. What is durable hangs on ``step.state`` and changes by
records alone; what is running hangs on four tables, each written by few rooms.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

CORE = Path("src/onceq/core")
TABLES = {
    "units": {"transaction"},
    "readers": {"receive"},
    "sessions": {"transfer", "peers"},
    "names": {"names", "management"},
}
"""Running table of a step: rooms that write it."""
CHANGES = frozenset(
    ("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem",
     "popleft", "remove", "setdefault", "update")
)  # fmt: skip
"""Methods of containers that change them."""


def path_of(node: ast.expr) -> list[str]:
    """``step.units.deciding[x].y`` as its names; [] if it begins with anything but a name."""
    names: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Name):
            return [node.id, *names[::-1]]
        else:
            return []


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from target.elts if isinstance(target, ast.Tuple) else [target]
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        yield node.target
    elif isinstance(node, ast.Delete):
        yield from node.targets
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CHANGES
    ):
        yield node.func.value


def writes(text: str) -> Iterator[tuple[int, list[str]]]:
    """Line, and path from ``step`` on, of everything that a module writes through a step."""
    for node in ast.walk(ast.parse(text)):
        for target in _targets(node):
            names = path_of(target)
            if "step" in names:
                names = names[names.index("step") + 1 :]
            elif names[:2] == ["self", "_step"]:
                names = names[2:]
            else:
                continue
            if len(names) > 1:
                yield node.lineno, names  # type: ignore[attr-defined]


def faults(path: Path, text: str) -> list[str]:
    """Writes of one module of the core that its room may not do."""
    room = path.relative_to(CORE).parts[0].removesuffix(".py")
    found = []
    for line, (table, field, *_) in writes(text):
        if room == "step":
            continue
        if table == "state":
            found.append(f"{path}:{line}: writes state.{field}; what is durable changes by records")
        elif table in TABLES and room not in TABLES[table]:
            rooms = " and ".join(sorted(TABLES[table]))
            found.append(f"{path}:{line}: writes {table}.{field}, which only {rooms} may")
    return found
