"""What the checks of style need to know of a file in Python, found in one walk through it.

To walk through all files takes seconds, and there are half a dozen checks; so what one walk finds
is kept for the others.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

BUILT_IN: Final = ("eval", "exec", "open", "print")
"""Functions that need no import; any other name that was not imported is a file's own."""
FILES_KEPT: Final = 10_000
"""More than there are: each is walked through once."""


@dataclass(slots=True)
class Source:
    """One file.

    Attributes:
        said: Its docstring; "" if it has none.
        functions: Line, name and lines of each.
        used: Line and full dotted name of every import and every call, whatever it is called here.
        taken: Line, module and name of everything that is imported from a module.
        modules: Every module that is imported as such.
        bare: Lines of every ``except`` that names nothing.
        silent: Lines where a test is skipped without a reason.
    """

    said: str = ""
    functions: list[tuple[int, str, int]] = field(default_factory=list)
    used: list[tuple[int, str]] = field(default_factory=list)
    taken: list[tuple[int, str, str]] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    bare: list[int] = field(default_factory=list)
    silent: list[int] = field(default_factory=list)


@lru_cache(FILES_KEPT)
def read(text: str) -> Source:
    """What is in a file; raises SyntaxError."""
    tree = ast.parse(text)
    found = Source(ast.get_docstring(tree) or "")
    known: dict[str, str] = {}
    calls: list[ast.Call] = []
    skips: list[ast.Attribute] = []
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        kind = type(node)
        if kind is ast.Call:
            assert isinstance(node, ast.Call)
            calls.append(node)
        elif kind is ast.Attribute:
            assert isinstance(node, ast.Attribute)
            if node.attr == "skip":
                skips.append(node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            _imported(node, known, found)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            found.functions.append((node.lineno, node.name, size))
        elif isinstance(node, ast.ExceptHandler) and node.type is None:
            found.bare.append(node.lineno)
        todo += ast.iter_child_nodes(node)
    for call in calls:
        name = dotted(call.func)
        head, dot, rest = name.partition(".")
        if head in known:
            found.used.append((call.lineno, known[head] + dot + rest))
        elif head in BUILT_IN and not dot:
            found.used.append((call.lineno, head))
        if _skips_silently(name, call):
            found.silent.append(call.lineno)
    called = {id(call.func) for call in calls}
    found.silent += [
        node.lineno
        for node in skips
        if dotted(node) == "pytest.mark.skip" and id(node) not in called
    ]
    return found


def _imported(node: ast.Import | ast.ImportFrom, known: dict[str, str], found: Source) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            whole = alias.name if alias.asname else alias.name.partition(".")[0]
            known[alias.asname or whole] = whole
            found.used.append((node.lineno, alias.name))
            found.modules.append(alias.name)
    elif node.module and not node.level:
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            known[alias.asname or alias.name] = name
            found.used.append((node.lineno, name))
            found.taken.append((node.lineno, node.module, alias.name))


def dotted(node: ast.AST) -> str:
    """The dotted name that an expression is; "" if it is none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def _skips_silently(name: str, call: ast.Call) -> bool:
    if name == "pytest.skip":
        return not call.args and not call.keywords
    if name in ("pytest.mark.skip", "pytest.mark.skipif", "pytest.importorskip"):
        return not any(keyword.arg == "reason" for keyword in call.keywords)
    return False
