"""Which conformance case is run by which test, found in the tests themselves.

A test of cases 4 and 5 is called ``test_case_004_005_...``. Where it runs follows from how it gets
its queue managers (``tests/conformance/conftest.py``): through the fixture ``worlds`` in both
kinds of world, unless a mark says otherwise.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
CASES = TESTS / "conformance" / "cases.txt"
SHARED = TESTS / "conformance" / "one_queue.py"
"""Fixtures that several modules of cases share."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
NAME = re.compile(r"test_case((?:_\d{3})+)_")
INSIDE, PROCESSES, CLIENT = "inside", "processes", "client"


@dataclass(frozen=True, slots=True)
class Test:
    """One test of one or more cases.

    Attributes:
        where: ``INSIDE``, ``PROCESSES``, ``CLIENT``: each that it runs in.
        reason: Why it runs inside only; "" if it need not, or nobody says.
    """

    name: str
    file: str
    cases: tuple[int, ...]
    where: frozenset[str]
    reason: str = ""


def groups() -> list[tuple[str, dict[int, str]]]:
    """Headings, and the cases below each."""
    found: list[tuple[str, dict[int, str]]] = []
    for line in CASES.read_text().splitlines():
        if line.startswith("# "):
            found.append((line[2:], {}))
        else:
            number, text = line.split(" ", 1)
            found[-1][1][int(number)] = text
    return found


def tests() -> list[Test]:
    """Every test that is named after a case."""
    return [test for path in sorted(TESTS.rglob("test_*.py")) for test in _tests_of(path)]


def _functions(path: Path) -> dict[str, Function]:
    """The functions of a module."""
    return {
        node.name: node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }


def _tests_of(path: Path) -> list[Test]:
    own = _functions(path)
    functions = (_functions(SHARED) if path.parent == SHARED.parent else {}) | own
    found = []
    for name, node in own.items():
        match = NAME.match(name)
        if match is None:
            continue
        marks = _marks(node)
        if path.parent.name == "daemon":
            where = {PROCESSES}
        elif CLIENT in marks:
            where = {PROCESSES, CLIENT}
        elif PROCESSES in marks:
            where = {PROCESSES}
        elif INSIDE in marks or not _reaches(name, functions):
            where = {INSIDE}
        else:
            where = {INSIDE, PROCESSES}
        cases = tuple(map(int, match[1].strip("_").split("_")))
        file = path.relative_to(ROOT).as_posix()
        found.append(Test(name, file, cases, frozenset(where), marks.get(INSIDE, "")))
    return found


def _marks(node: Function) -> dict[str, str]:
    """Marks of a test, and the first argument of each."""
    marks = {}
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        mark = call.func if call is not None else decorator
        if isinstance(mark, ast.Attribute):
            first = call.args[0] if call is not None and call.args else None
            marks[mark.attr] = str(first.value) if isinstance(first, ast.Constant) else ""
    return marks


def _reaches(name: str, functions: dict[str, Function], most: int = 5) -> bool:
    """Whether a test gets its world from ``worlds``, itself or through fixtures of its file, or
    those of SHARED."""
    if name == "worlds":
        return True
    node = functions.get(name)
    if node is None or not most:
        return False
    return any(_reaches(item.arg, functions, most - 1) for item in node.args.args)


def page(note: str) -> str:
    """docs/reference/conformance.md."""
    known = tests()
    cases = {number for _, group in groups() for number in group}
    run = {number for test in known for number in test.cases}
    processes = {n for test in known if PROCESSES in test.where for n in test.cases}
    lines = [
        "# Conformance cases", "", note.rstrip(), "",
        "What a queue manager with transactions must do, as numbered cases. "
        "A test of case 4 is called `test_case_004_...`; `make test ARGS='-k case_004'` runs it. "
        "Most tests run twice: with the queue managers inside the test's process, on simulated "
        "disks, and with a daemon process for each, killed with `kill -9`. The test controls the "
        "clock and the network.", "",
        f"{len(run)} of {len(cases)} cases have tests, {len(processes)} on processes.",
    ]  # fmt: skip
    for heading, group in groups():
        lines += ["", f"## {heading}", ""]
        lines += [f"{number}. {text}" for number, text in group.items()]
    return "\n".join(lines) + "\n"
