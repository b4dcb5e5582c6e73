"""The style of this project as rules over its files, so that it need not be remembered.

Each rule takes a file's path and text and gives its faults as "file:line: what, and what to do".
Calls and imports are looked up in the syntax tree, so that a word in a text is no offence; what
people read (marks, paths, addresses) is looked for in the lines of every kind of file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.tidy.source import Source, read

FUNCTION_LINES = 70
TEST_FOLDER = "tests/"
PRODUCT = "src/onceq/"
SIMULATOR = "proof/sim/"


@dataclass(frozen=True, slots=True)
class Ban:
    """A call or an import that belongs into few places.

    Attributes:
        names: Dotted names; one ending in "." stands for everything below it.
        instead: What to do.
        homes: Where it is allowed: files, and folders that end in "/", below ``where``.
        where: The tree that the rule is about.
    """

    names: tuple[str, ...]
    instead: str
    homes: tuple[str, ...] = ()
    where: str = ""

    def is_about(self, file: str) -> bool:
        """Whether its names may not stand in that file."""
        if not file.startswith(self.where):
            return False
        return not file.removeprefix(self.where).startswith(self.homes)

    def names_it(self, name: str) -> bool:
        """Whether it is one of its names."""
        return any(
            name == banned or (banned.endswith(".") and name.startswith(banned))
            for banned in self.names
        )


_CLOCKS = (
    "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter",
    "time.perf_counter_ns", "datetime.now", "datetime.utcnow", "datetime.datetime.now",
    "datetime.datetime.utcnow",
)  # fmt: skip
BANS = (
    Ban(("pickle", "pickle.", "marshal", "marshal.", "shelve", "shelve."),
        "it runs what it reads; use the codecs of wire/ and core/state/records.py"),
    Ban(("eval",), "eval runs text; parse it"),
    Ban(("exec",), "exec runs text", ("tests/nursery.py",)),
    Ban(("yaml.load", "yaml.unsafe_load"), "use tomllib"),
    Ban(("xml.etree", "xml.etree.", "xml.dom", "xml.dom.", "xml.sax", "xml.sax."),
        "XML goes through wire/srmp/envelope.py", (), PRODUCT),
    Ban(_CLOCKS, "reads a clock; take a Clock (service/clock.py) as an argument",
        ("service/clock.py", "service/data_directory.py", "client/", "cli/", "otel/", "spark/",
         "audit/command.py"),
        PRODUCT),
    Ban(_CLOCKS, "reads a clock; a world has the time of its kernel", ("simulate.py",), SIMULATOR),
    Ban(("random", "random."), "random belongs into proof/sim/; take what you need as an argument",
        ("testing/",), PRODUCT),
    Ban(("os.open", "os.fsync", "os.fdatasync", "os.rename", "os.replace", "os.unlink", "open"),
        "touches files; store/files.py is the door",
        ("store/files.py", "service/api.py", "service/config.py", "service/daemon.py",
         "service/data_directory.py", "service/listening.py", "service/peer_transports.py",
         "directory/rights_file.py", "console/people.py", "client/", "cli/", "tls/", "spark/",
         "testing/", "__init__.py", "aio.py"),
        PRODUCT),
    Ban(("print",), "prints; only cli/ talks to people", ("cli/",), PRODUCT),
    Ban(("time.sleep",),
        "sleeps through a signal that came just before; use pause of client/stopping.py",
        ("testing/",), PRODUCT),
    Ban(("time.sleep",), "sleeps; a test hands in the time, or waits for what shall happen", (),
        TEST_FOLDER),
)  # fmt: skip

_MARKS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
_PATHS = re.compile(r"(?<![\w.$}/-])/(work|farm|root|home)/")
_INDEXES = re.compile(r"pypi\.org|pythonhosted|artifactory|index-url|index_url|trusted-host")


def faults(path: Path, text: str, root: Path) -> Iterator[str]:
    """Everything that is wrong with one file."""
    name = path.relative_to(root).as_posix()
    yield from _lines(name, text)
    if path.suffix == ".py":
        source = read(text)
        yield from _sizes(name, source)
        yield from _bans(name, source)
        yield from _habits(name, text, source)
    if path.suffix == ".md":
        yield from _headings(name, text)


_REAL = tuple(
    f"tests/{folder}/"
    for folder in ("daemon", "docs", "history", "hosts", "matrix", "partners", "spark")
)
"""Folders whose queue managers have real sockets."""
_ADDRESS = re.compile(r"DIRECT=(?:TCP:|HTTPS?://(?:localhost|\d))(?!\{)", re.IGNORECASE)
"""A destination that some program may listen at. tests/closed_port.py closes the usual port to the
Python code of tests; this rule is about all other programs that they start, too."""


_DIGITS = re.compile(r"\.is(digit|decimal|numeric)\(")
_READS_NUMBERS = PRODUCT + "model/identity.py"


def _lines(name: str, text: str) -> Iterator[str]:
    if name.startswith("tests/tidy/"):
        return
    counts = name.startswith(PRODUCT) and name != _READS_NUMBERS
    for number, line in enumerate(text.splitlines(), 1):
        if _MARKS.search(line):
            yield f"{name}:{number}: a leftover mark; do it or file it"
        if _PATHS.search(line):
            yield f"{name}:{number}: a path of one machine"
        if _INDEXES.search(line):
            yield f"{name}:{number}: the address of a package index; that is each machine's matter"
        if counts and _DIGITS.search(line):
            yield f"{name}:{number}: int may fail on what this lets through; read_number does not"
        if name.startswith(_REAL) and _ADDRESS.search(line):
            yield (
                f"{name}:{number}: a destination that this test has not started; name a host in "
                ".invalid, or a port of its own in the address book"
            )


def _sizes(name: str, source: Source) -> Iterator[str]:
    for line, function, size in source.functions:
        if size > FUNCTION_LINES:
            yield f"{name}:{line}: {function} has {size} lines, over {FUNCTION_LINES}"


def _bans(name: str, source: Source) -> Iterator[str]:
    said: set[tuple[int, str]] = set()
    bans = [ban for ban in BANS if ban.is_about(name)]
    for line, used in source.used:
        for ban in bans:
            if ban.names_it(used) and (line, ban.instead) not in said:
                said.add((line, ban.instead))
                yield f"{name}:{line}: {used}: {ban.instead}"


def _habits(name: str, text: str, source: Source) -> Iterator[str]:
    if name.startswith((PRODUCT, "proof/", "tools/")) and text.strip() and not source.said:
        yield f"{name}:1: no docstring; say what the module is for"
    for line in source.bare:
        yield f"{name}:{line}: a bare except; name what you expect"
    for line in source.silent:
        yield f"{name}:{line}: skips without saying why; give a reason"


def _headings(name: str, text: str) -> Iterator[str]:
    """One title, first; no level left out."""
    inside = False
    level = 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            inside = not inside
        match = re.match(r"(#+) ", line)
        if inside or match is None:
            if number == 1:
                yield f"{name}:1: does not begin with its title"
            continue
        now = len(match.group(1))
        if now == 1 and number > 1:
            yield f"{name}:{number}: a second title"
        if now > level + 1:
            yield f"{name}:{number}: a heading of level {now} below one of level {level}"
        level = now
    if inside:
        yield f"{name}: a block of code does not end"


def orphans(root: Path) -> Iterator[str]:
    """Modules of product and proof that nobody imports, apart from what is started by name."""
    bases = {"src": root / "src", "proof": root}
    modules = {
        path.relative_to(base).with_suffix("").as_posix().replace("/", ".")
        for folder, base in bases.items()
        for path in (root / folder).rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
    }
    used = set(re.findall(r"\b[\w.]+\b", (root / "pyproject.toml").read_text()))
    for folder in ("src", "proof", "tests", "tools", "demo", "examples"):
        for path in (root / folder).rglob("*.py"):
            own = "-"
            if folder in bases:
                own = path.relative_to(bases[folder]).with_suffix("").as_posix().replace("/", ".")
            text = path.read_text()
            named = (name for _, name in read(text).used)
            used.update(n for n in named if n != own and not n.startswith(own + "."))
            used.update(re.findall(r'"((?:onceq|proof)\.[\w.]+)[:"]', text))  # python -m
    below = {
        ".".join(parts[:n])
        for parts in (name.split(".") for name in used)
        for n in range(1, len(parts) + 1)
    }
    for module in sorted(modules):
        if module not in below:
            yield f"{module} is imported by nobody"


_NAMED_FILE = re.compile(r"(?<![\w/.*-])((?:[\w-]+/)*\w+\.py)\b")
_ROOTS = ("", "src", "src/onceq", "tests", "tests/unit", "proof", "proof/sim", "proof/torture")
"""Folders that a text may take a path from, beside its own."""


def lost_files(root: Path) -> Iterator[str]:
    """Modules that lines with backquotes name in product and proof, and that are gone.

    A text names a file by its path from the top, from the room of its kind, or from its own folder.
    """
    for folder in ("src", "proof"):
        for path in sorted((root / folder).rglob("*.py")):
            bases = [path.parent, *(root / one for one in _ROOTS)]
            for number, line in enumerate(path.read_text().splitlines(), 1):
                for name in _NAMED_FILE.findall(line) if "`" in line else ():
                    if not any((base / name).exists() for base in bases):
                        yield f"{path.relative_to(root).as_posix()}:{number}: there is no {name}"
