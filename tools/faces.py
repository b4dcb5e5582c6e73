"""Write (or compare) the client's face for threads, which is made from the one for tasks.

``client/tasks`` is written by hand, and says for both faces what a call does. The modules of
``client/threads`` are made of it: without ``async`` and ``await``, with the names of ``NAMES``, and
put in order by ruff. Two comments say what must differ:

    return self._on.alive  # tasks              a line that the face for threads does not have
    # threads: return self._on.check_alive()           a line that only this one has

Upholds: what one face does the other does, but for the modules of ``BY_HAND``.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
TASKS: Final = ROOT / "src" / "onceq" / "client" / "tasks"
THREADS: Final = TASKS.with_name("threads")
RUFF: Final = str(Path(sys.executable).parent / "ruff")
HEAD: Final = "# Made from client/tasks/{} by tools/faces.py: edit that, and run `make format`.\n"

BY_HAND: Final = {
    "__init__.py": "says which face it is",
    "connected.py": "a signal handler or a fork may come in the middle of a call of a thread",
    "recovering.py": "recovery is a thread, which needs a way into the event loop of tasks",
    "workers.py": "threads are joined while signals come; tasks are a group",
}
"""Modules that both faces have, and why none is made of the other."""

NAMES: Final = {
    "AsyncAsking": "ThreadLink",
    "AsyncGenerator": "Generator",
    "AsyncIterator": "Iterator",
    "ForTasks": "StaysHere",
    "TasksFace": "ThreadsFace",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclosing": "closing",
    "asked_to_stop_in_task": "asked_to_stop",
    "drive_in_task": "drive",
    "in_tasks": "in_threads",
    "tasks": "threads",
}
"""Beside these, a name that begins with ``Async`` loses it."""

PHRASES: Final = (
    ("threads = True", "tasks = False"),
    ("asyncio . sleep", "pause"),
    ("asyncio", "threading"),
    ("Awaitable [ object ]", "None"),
)
"""What is one thing in tasks and another in threads, in words of code."""
IMPORTS: Final = (
    "from onceq.client.link import after_call\n",
    "from onceq.client.stopping import pause\n",
)
"""What a module for threads may need beside what is imported for tasks."""
WRAPPERS: Final = ("Awaitable [", "Coroutine [ Any , Any ,", "awaiting (", "counted (")
"""What goes, with the bracket that ends it."""
PROSE: Final = (
    (re.compile(r"\b(a?sync )?(with|for) await\b|\basync (with|for)\b"), r"\2\3"),
    (re.compile(r"\bawait "), ""),
    (re.compile(r"\b([Aa])n (`*)Async([A-Z])"), r"\1 \2\3"),
    (re.compile(r"\bAsync([A-Z])"), r"\1"),
    (re.compile(r"\bonceq\.aio\."), "onceq."),
)
"""The same in docstrings and comments."""


def threads_module(name: str, source: str) -> str:
    """Return the text of a module for threads.

    Args:
        name: Of the file in ``client/tasks``.
        source: The text of that file.
    """
    lines = [line for line in source.splitlines() if not line.endswith("  # tasks")]
    own = [re.sub(r"^( *)# threads: ", r"\1", line) for line in lines]
    future = "from __future__ import annotations\n"
    text = _translated("\n".join([*own, ""])).replace(future, "".join([future, *IMPORTS]), 1)
    text = HEAD.format(name) + text
    where = str(THREADS / name)
    for command in (
        ["check", "--fix-only", "--select", "F401,I,UP028", "--unsafe-fixes", "--quiet"],
        ["format", "--quiet"],
    ):
        done = subprocess.run(
            [RUFF, *command, "--stdin-filename", where, "-"], input=text, cwd=ROOT,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        text = done.stdout
    return text


def modules() -> dict[str, str]:
    """Every module that is made, by the name of its file.

    Raises:
        ValueError: A module of one face is neither made nor written by hand in both.
    """
    written, there = ({path.name for path in face.glob("*.py")} for face in (TASKS, THREADS))
    alone = sorted(set(BY_HAND) - written | set(BY_HAND) - there)
    if alone:
        raise ValueError(f"tools/faces.py: written by hand, and not in both faces: {alone}")
    made = sorted(written - set(BY_HAND))
    if more := sorted(there - written):
        raise ValueError(f"client/threads: made of nothing in client/tasks: {more}")
    return {name: threads_module(name, (TASKS / name).read_text()) for name in made}


def differing() -> list[str]:
    """Names of the files of ``client/threads`` that are not as they would be made now."""
    return [
        name
        for name, text in modules().items()
        if not (THREADS / name).is_file() or (THREADS / name).read_text() != text
    ]


def _translated(source: str) -> str:
    """The words of the code, one after another, each with the space before it."""
    words: list[list[str]] = []
    lines = source.splitlines(keepends=True)
    row, column = 1, 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.INDENT, tokenize.DEDENT, tokenize.NL, tokenize.ENDMARKER):
            continue
        (start, left), (row_after, column_after) = token.start, token.end
        if start == row:
            gap = lines[row - 1][column:left]
        else:
            between = "".join(lines[row : start - 1])
            gap = lines[row - 1][column:] + between + lines[start - 1][:left]
        word = NAMES.get(token.string, re.sub(r"^Async(?=[A-Z])", "", token.string))
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            for pattern, plain in PROSE:
                word = pattern.sub(plain, word)
        words.append([gap, word])
        row, column = row_after, column_after
    for phrase, other in PHRASES:
        size, new = len(phrase.split()), other.split()
        for place in _find(words, phrase):
            gaps = [words[place][0], *[""] * (len(new) - 1)]
            words[place : place + size] = [[gap, word] for gap, word in zip(gaps, new, strict=True)]
    _unwrap(words)
    _leave_the_thread(words)
    _drop(words, [place for place, entry in enumerate(words) if entry[1] in ("async", "await")])
    return "".join(gap + word for gap, word in words)


def _find(words: list[list[str]], phrase: str) -> list[int]:
    """Where a phrase begins, the last place first."""
    wanted = phrase.split()
    said = [word for _, word in words]
    return [
        place
        for place in range(len(said) - len(wanted), -1, -1)
        if said[place : place + len(wanted)] == wanted
    ]


def _drop(words: list[list[str]], places: list[int]) -> None:
    """Leave words out. What follows one stands where it stood, and behind a bracket in its line."""
    for place in sorted(places, reverse=True):
        gap, word = words.pop(place)
        words[place][0] = gap + words[place][0] if word in (")", "]") else gap


def _unwrap(words: list[list[str]]) -> None:
    for phrase in WRAPPERS:
        size = len(phrase.split())
        for place in _find(words, phrase):
            end, depth = place + size, 1
            while depth := depth + {"(": 1, "[": 1, ")": -1, "]": -1}.get(words[end][1], 0):
                end += 1
            _drop(words, [*range(place, place + size), end])


def _leave_the_thread(words: list[list[str]]) -> None:
    """``in_thread(work, it)`` is ``work(it)``."""
    for place in _find(words, "in_thread ("):
        behind = place + 2
        while re.fullmatch(r"\w+|\.", words[behind][1]):
            behind += 1
        if words[behind][1] == ",":
            words[behind] = ["", "("]
        else:
            words.insert(behind, ["", "("])
        _drop(words, [place, place + 1])


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--write"]):
        sys.exit("usage: tools/faces.py [--write]")
    for changed in differing():
        print(f"client/threads/{changed} is not what client/tasks/{changed} gives")
        if sys.argv[1:]:
            (THREADS / changed).write_text(threads_module(changed, (TASKS / changed).read_text()))
    if not sys.argv[1:] and differing():
        sys.exit(1)
