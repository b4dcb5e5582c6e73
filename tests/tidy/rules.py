"""The style of this project as rules over source files, so that it need not be remembered.

Each rule takes a file's path and text and gives its faults as "line: what, and what to do".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

MODULE_LINES = 450
MODULE_LINES_LONG = 700
FUNCTION_LINES = 70
BANNED = {
    r"\bpickle\b": "pickle runs what it reads; use the codecs of wire/ and core/records.py",
    r"(?<![\w.])eval\(": "eval runs text; parse it",
    r"(?<![\w.])exec\(": "exec runs text",
    r"\byaml\.load\(": "use tomllib",
    r"\bxml\.(etree|dom)\b": "XML goes through wire/srmp/guard.py",
}
CLOCKS = re.compile(r"\btime\.(time|time_ns|monotonic|monotonic_ns)\(")
CLOCK_HOMES = ("service/clock.py", "service/directory.py", "client/plans.py", "cli/", "spark/")
RANDOM = re.compile(r"^\s*(import random|from random import)", re.M)
MARKS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
PATHS = re.compile(r"(?<![\w.])/(work|farm|root)/|bash_jobs")
FILE_CALLS = re.compile(
    r"\bos\.(open|fsync|fdatasync|rename|replace|unlink)\(|(?<!def )(?<![\w.])open\("
)
FILE_HOMES = (
    "store/files.py", "service/config.py", "service/daemon.py", "service/directory.py",
    "service/network.py", "client/", "cli/", "spark/", "testing/",
)  # fmt: skip


def faults(path: Path, text: str, root: Path) -> Iterator[str]:
    """Everything that is wrong with one Python file."""
    name = path.relative_to(root).as_posix()
    product = name.startswith("src/onceq/")
    inner = name.removeprefix("src/onceq/")
    yield from _sizes(name, text)
    yield from _lines(name, text)
    if product:
        yield from _homes(name, inner, text)
        if not ast.get_docstring(ast.parse(text)) and text.strip():
            yield f"{name}:1: no docstring; say what the module is for"


def _sizes(name: str, text: str) -> Iterator[str]:
    lines = text.count("\n") + 1
    most = MODULE_LINES_LONG if "\nLONG: " in text[:3000] or "tests/" in name else MODULE_LINES
    if lines > most:
        yield f"{name}:1: {lines} lines, more than {most}; look for a seam, or say LONG: why"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > FUNCTION_LINES:
                yield f"{name}:{node.lineno}: {node.name} has {size} lines, over {FUNCTION_LINES}"


def _lines(name: str, text: str) -> Iterator[str]:
    if name.startswith("tests/tidy/"):
        return
    for number, line in enumerate(text.splitlines(), 1):
        if MARKS.search(line):
            yield f"{name}:{number}: a leftover mark; do it or file it"
        if PATHS.search(line):
            yield f"{name}:{number}: a path of one machine"
        for pattern, instead in BANNED.items():
            if re.search(pattern, line):
                yield f"{name}:{number}: {instead}"
        if re.match(r"\s*except\s*:", line):
            yield f"{name}:{number}: a bare except; name what you expect"


def _homes(name: str, inner: str, text: str) -> Iterator[str]:
    if CLOCKS.search(text) and not inner.startswith(CLOCK_HOMES):
        yield f"{name}: reads a clock; take a Clock (service/clock.py) as an argument"
    if RANDOM.search(text) and not inner.startswith("testing/"):
        yield f"{name}: random belongs into testing/; take what you need as an argument"
    if FILE_CALLS.search(text) and not inner.startswith(FILE_HOMES):
        yield f"{name}: touches files; store/files.py is the door"
    if re.search(r"(?<![\w.])print\(", text) and not inner.startswith("cli/"):
        yield f"{name}: prints; only cli/ talks to people"


def orphans(root: Path) -> Iterator[str]:
    """Modules of the product that nobody imports."""
    source = root / "src"
    modules = {
        path.relative_to(source).with_suffix("").as_posix().replace("/", "."): path
        for path in source.rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
    }
    texts = [
        path.read_text()
        for folder in ("src", "tests", "tools", "demo")
        for path in (root / folder).rglob("*.py")
    ]
    whole = "\n".join(texts) + (root / "pyproject.toml").read_text()
    for module in modules:
        package, _, last = module.rpartition(".")
        used = re.search(
            rf"\b{re.escape(module)}\b|from {re.escape(package)} import [^\n]*\b{last}\b"
            rf"|from {re.escape(package)} import \([^)]*\b{last}\b",
            whole,
        )
        if not used:
            yield f"{module} is imported by nobody"
