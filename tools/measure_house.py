"""Measures how large a source tree is, and how plain its English is; any tree, given by its path.

    python tools/measure_house.py                    # this tree
    python tools/measure_house.py ../before .        # two trees side by side
    python tools/measure_house.py --run ../before .  # and what a commit and a message enter
    python tools/measure_house.py --words src/onceq/core docs/how-to
    python tools/measure_house.py --write            # the table of words that `make check` holds
    python tools/measure_house.py --rooms            # lines of code by room, for budgets.toml

Counted are the files on disk: a file need not be committed. ``--run`` starts each tree's code with
this Python and counts with a profiler; its figures are the same in every run, but for timers.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeGuard

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "tidy" / "words.toml"
BUDGETS = ROOT / "budgets.toml"
GRACE: Final = 1.02
"""A room may have so much more code than its budget before a change has to raise the budget."""
PARTS: Final = ("src", "tests", "tools", "proof", "demo", "examples")
"""Folders with Python, as far as a tree has them."""
TEXTS: Final = (*PARTS, "changes", "docs", "packaging")
KINDS: Final = (".py", ".md", ".toml", ".txt", ".html", ".j2", ".js", ".service", ".sh", ".yaml")
UNCOUNTED: Final = (Path(__file__).name, TABLE.name, "test_words.py", "test_measure_house.py")
"""Files that name the words because they are about them."""

WORDS: Final = (
    "whoever", "whatever", "so many", "for ever", "is told of", "are told of", "stands in",
    "stand in", "nobody who", "in vain", "anew", "as it is", "that of", "he", "his", "him",
)  # fmt: skip
"""Words and turns that have a plainer form; *for what it is* counts as *as it is* does."""
VERBS: Final = ("told", "said", "made", "look", "shown", "came", "heard", "seen")
"""Verb forms that say nothing as the name of a function: a name is a verb with its object."""
_WORD = re.compile(
    r"\b(?:" + "|".join([*(word.replace(" ", r"\s+") for word in WORDS), r"for\s+what\s+it\s+is"])
    + r")\b"
    + r"|\bdef _?(?:" + "|".join(VERBS) + r")\("
)  # fmt: skip


# ---- words -------------------------------------------------------------------------------------


def find_words(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line number and the word for each word of the list in a text."""
    for match in _WORD.finditer(text.lower()):
        word = " ".join(match.group().rstrip("(").split())
        yield text.count("\n", 0, match.start()) + 1, word


def list_texts(tree: Path) -> Iterator[Path]:
    """Yield every file of a tree that people write, without those that are about the words."""
    yield from sorted(tree.glob("*.md"))
    for part in TEXTS:
        for folder, folders, files in os.walk(tree / part):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(files):
                if name.endswith(KINDS) and name not in UNCOUNTED:
                    yield Path(folder) / name


def name_folder(path: Path) -> str:
    """Return the folder of the table that a file is counted in; its path is relative."""
    depth = 3 if path.parts[0] == "src" else 2
    return "/".join(path.parts[:-1][:depth]) or "."


def count_words(tree: Path) -> dict[str, int]:
    """Return how often words of the list occur in each folder of a tree."""
    found: Counter[str] = Counter()
    for path in list_texts(tree):
        number = len(_WORD.findall(path.read_text(encoding="utf-8").lower()))
        if number:
            found[name_folder(path.relative_to(tree))] += number
    return dict(sorted(found.items()))


def read_table(table: Path = TABLE) -> dict[str, int]:
    """Read the numbers that are allowed for each folder."""
    rows = re.findall(r'(?m)^"(.+)" = (\d+)$', table.read_text(encoding="utf-8"))
    return {folder: int(number) for folder, number in rows}


def compare_words(now: Mapping[str, int], allowed: Mapping[str, int]) -> list[str]:
    """Return one line for each folder whose number is not the one of the table."""
    return [
        f"{folder}: {now.get(folder, 0)} words of the list, {allowed.get(folder, 0)} in the table"
        for folder in sorted({*now, *allowed})
        if now.get(folder, 0) != allowed.get(folder, 0)
    ]


def write_table(now: Mapping[str, int], table: Path = TABLE) -> list[str]:
    """Write lower numbers into the table; returns the folders that rose, and writes nothing then.

    A folder that is new may take words from another one, so that files can be moved: the sum must
    not rise.
    """
    allowed = read_table(table)
    rose = [folder for folder in allowed if now.get(folder, 0) > allowed[folder]]
    if not rose and sum(now.values()) > sum(allowed.values()):
        rose = [folder for folder in now if folder not in allowed]
    if not rose:
        rows = "".join(f'"{folder}" = {number}\n' for folder, number in now.items())
        head = table.read_text(encoding="utf-8").partition('\n"')[0].rstrip("\n")
        table.write_text(f"{head}\n\n{rows}", encoding="utf-8")
    return rose


# ---- code --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Size:
    """What is counted of one part of a tree.

    Attributes:
        lines: All lines.
        code: Lines without blank ones and docstrings.
        modules: Files in Python, ``__init__`` included.
        import_lines: Of ``code``.
        imports: Import statements.
        statements: All others, without docstrings.
        private: The names of private functions and methods.
        used: How often each name is used, also in an import.
        anys: The word ``Any``, also in an import.
        casts: Calls of ``cast`` of typing.
        classes: The modules of each class name.
    """

    lines: int = 0
    code: int = 0
    modules: int = 0
    import_lines: int = 0
    imports: int = 0
    statements: int = 0
    private: list[str] = field(default_factory=list)
    used: Counter[str] = field(default_factory=Counter)
    anys: int = 0
    casts: int = 0
    classes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def measure_part(folder: Path) -> Size:
    """Count every module below a folder; raises SyntaxError."""
    size = Size()
    for path in sorted(folder.rglob("*.py")):
        _measure_module(path, size)
    return size


def _measure_module(path: Path, size: Size) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    lines = text.splitlines()
    code = {number for number, line in enumerate(lines, 1) if line.strip()}
    for node in ast.walk(tree):
        if _is_docstring(node):
            code -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            size.imports += 1
            size.import_lines += (node.end_lineno or node.lineno) - node.lineno + 1
            size.used.update(alias.name for alias in node.names)
        elif isinstance(node, ast.stmt):
            size.statements += 1
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if node.name.startswith("_") and not node.name.endswith("__"):
                size.private.append(node.name)
        elif isinstance(node, ast.ClassDef):
            size.classes[node.name].add(str(path))
        elif isinstance(node, (ast.Name, ast.Attribute)):
            size.used[node.id if isinstance(node, ast.Name) else node.attr] += 1
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            size.casts += node.func.id == "cast"
    size.modules += 1
    size.lines += len(lines)
    size.code += len(code)
    size.anys += len(re.findall(r"\bAny\b", text))


def _is_docstring(node: ast.AST) -> TypeGuard[ast.Expr]:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def measure_rooms(tree: Path) -> dict[str, dict[str, float]]:
    """Return what ``budgets.toml`` limits: lines of code by room, and figures of all ``src``.

    A room is a package of onceq or of proof, with all below it; their own modules, the tests and
    the tools are one each.
    """
    rooms: dict[str, float] = {}
    for base in ("src/onceq", "proof"):
        within = 0
        for folder in sorted((tree / base).iterdir()):
            code = measure_part(folder).code if folder.is_dir() else 0
            if code:
                rooms[folder.relative_to(tree).as_posix()] = code
                within += code
        rooms[base] = measure_part(tree / base).code - within
    rooms |= {part: measure_part(tree / part).code for part in ("tests", "tools")}
    src = measure_part(tree / "src")
    house = {
        "modules": src.modules,
        "import lines, % of code": round(100 * src.import_lines / src.code, 1),
        "private functions used once": sum(src.used[name] == 1 for name in src.private),
        "class names in several modules": sum(len(m) > 1 for m in src.classes.values()),
    }
    return {"rooms": rooms, "house": house}


def compare_rooms(
    now: Mapping[str, Mapping[str, float]], budgets: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """Return one line for each budget that is exceeded, is missing, or limits nothing."""
    found = []
    for kind, grace in (("rooms", GRACE), ("house", 1.0)):
        have, may = now[kind], budgets.get(kind, {})
        found += [f"{name} has no budget" for name in have if name not in may]
        found += [f"{name} has a budget, and is not there" for name in may if name not in have]
        found += [
            f"{name}: {number:g}, and its budget is {may[name]:g}"
            for name, number in have.items()
            if name in may and number > may[name] * grace
        ]
    return found


# ---- runs --------------------------------------------------------------------------------------

_RUN: Final = r"""
import collections, json, socket, sys, tempfile, threading, time

OPERATIONS = 200
SETTLE_S = 1.5  # longer than order and final acknowledgments are put off
calls, files, counting = collections.Counter(), set(), False

def count(frame, event, argument):
    if counting and event in ("call", "c_call"):
        file = frame.f_code.co_filename
        if "/onceq/" in file:
            calls[event] += 1
            if event == "call":
                files.add(file)

threading.setprofile(count)
sys.setprofile(count)
import onceq

def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

def measure(work, settle_s):
    global counting
    for _ in range(20):
        work()
    time.sleep(settle_s)
    calls.clear()
    files.clear()
    counting = True
    for _ in range(OPERATIONS):
        work()
    time.sleep(settle_s)
    counting = False
    python = round(calls["call"] / OPERATIONS)
    return [len(files), python, round(calls.total() / OPERATIONS)]

def commit():
    with one.transaction() as tx:
        tx.send(r"private$\here", b"x")

def message():
    with one.transaction() as tx:
        tx.send(r"DIRECT=OS:TWO\private$\q", b"x")
    two.receive(r"private$\q", timeout=30)

with tempfile.TemporaryDirectory() as folder:
    at = {name: f"127.0.0.1:{port()}" for name in ("ONE", "TWO")}
    one = onceq.open(folder + "/1", name="ONE", create=True, listen=at["ONE"], peers=at)
    one.create_queue(r"private$\here", transactional=True)
    found = {"commit": measure(commit, 0)}
    two = onceq.open(folder + "/2", name="TWO", create=True, listen=at["TWO"], peers=at)
    two.create_queue(r"private$\q", transactional=True)
    found["message"] = measure(message, SETTLE_S)
    sys.setprofile(None)
    one.close()
    two.close()
print(json.dumps(found))
"""
"""A commit of one local message, and a message from its send to its acknowledgment over TCP."""
RUN_FIGURES: Final = ("files entered", "calls of Python", "calls, with those of C")


def run_tree(tree: Path) -> dict[str, int]:
    """Return what a commit and a forwarded message enter and call, counted by a profiler.

    Raises:
        CalledProcessError: The tree's code does not do it.
    """
    done = subprocess.run(
        [sys.executable, "-c", _RUN], check=True, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(tree.resolve() / "src")},
    )  # fmt: skip
    return {
        f"{work}: {name}": number
        for work, numbers in json.loads(done.stdout).items()
        for name, number in zip(RUN_FIGURES, numbers, strict=True)
    }


# ---- the table ---------------------------------------------------------------------------------


def measure_tree(tree: Path, *, run: bool = False) -> dict[str, str]:
    """Return every figure of a tree by its name."""
    figures = {}
    for part in PARTS:
        if not (tree / part).is_dir():
            continue
        size = measure_part(tree / part)
        figures[f"{part}: lines"] = f"{size.lines:,}"
        figures[f"{part}: lines of code"] = f"{size.code:,}"
        figures[f"{part}: modules"] = f"{size.modules:,}"
        if part == "src":
            figures |= _show_quality(size)
    by_part: Counter[str] = Counter()
    for folder, number in count_words(tree).items():
        by_part[folder.partition("/")[0]] += number
    for part in ("src", "tests", "docs"):
        figures[f"{part}: words of the list"] = f"{by_part[part]:,}"
    figures["everything: words of the list"] = f"{sum(by_part.values()):,}"
    pages = sorted((tree / "docs").rglob("*.md"))
    words = sum(len(path.read_text(encoding="utf-8").split()) for path in pages)
    figures["docs: words"] = f"{words:,}"
    if run:
        figures |= {name: f"{number:,}" for name, number in run_tree(tree).items()}
    return figures


def _show_quality(size: Size) -> dict[str, str]:
    once = sum(size.used[name] == 1 for name in size.private)
    twice = sum(len(modules) > 1 for modules in size.classes.values())
    return {
        "src: imports per 100 statements": f"{100 * size.imports / size.statements:.1f}",
        "src: import lines, % of code": f"{100 * size.import_lines / size.code:.1f}",
        "src: private functions used once": f"{once:,}",
        "src: Any": f"{size.anys:,}",
        "src: casts": f"{size.casts:,}",
        "src: class names in several modules": f"{twice:,}",
    }


def print_table(trees: list[Path], *, run: bool) -> None:
    """Print the figures of trees side by side."""
    columns = [measure_tree(tree, run=run) for tree in trees]
    names = dict.fromkeys(name for column in columns for name in column)
    print(f"{'':38}" + "".join(f"{tree.resolve().name:>12}" for tree in trees))
    for name in names:
        print(f"{name:38}" + "".join(f"{column.get(name, '-'):>12}" for column in columns))


def print_words(folders: list[Path]) -> None:
    """Print file, line and word of each word of the list below folders of this tree."""
    for path in list_texts(ROOT):
        if any(path.is_relative_to(folder.resolve()) for folder in folders):
            for line, word in find_words(path.read_text(encoding="utf-8")):
                print(f"{path.relative_to(ROOT)}:{line}: {word}")


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trees", nargs="*", type=Path, default=[ROOT], help="this one by default")
    parser.add_argument("--run", action="store_true", help="also profile a commit and a message")
    parser.add_argument("--words", action="store_true", help="list the words below these folders")
    parser.add_argument("--write", action="store_true", help="lower the table of words")
    parser.add_argument("--rooms", action="store_true", help="print lines of code by room")
    given = parser.parse_args(arguments)
    if given.rooms:
        for kind, figures in measure_rooms(ROOT).items():
            print(f"[{kind}]", *(f'"{name}" = {n:g}' for name, n in figures.items()), sep="\n")
    elif given.words:
        print_words(given.trees)
    elif given.write:
        rose = write_table(count_words(ROOT))
        if rose:
            print("more words of the list than before, nothing was written:", *rose, sep="\n")
            return 1
    else:
        print_table(given.trees, run=given.run)
    return 0


if __name__ == "__main__":
    sys.exit(main())
