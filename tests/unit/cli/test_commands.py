"""The table of commands: all of it can be called, and asking loads little."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from onceq.cli import commands
from onceq.cli.commands import everything, function_of
from onceq.cli.main import run
from tests.unit.client.scripted import Scripted, begun

FORBIDDEN = (
    "asyncio", "email", "importlib.metadata", "pydantic", "rich", "ssl", "typer",
    "onceq.client.loops", "onceq.client.plans.receive", "onceq.client.plans.unit_of_work",
    "onceq.client.tasks", "onceq.client.threads.manager", "onceq.core", "onceq.directory",
    "onceq.embedded", "onceq.history", "onceq.partners.contract", "onceq.public", "onceq.service",
    "onceq.spark", "onceq.store",
)  # fmt: skip
"""What takes long to load, and is of no use to a command that looks once."""
PAGES = (*FORBIDDEN, "onceq.client", "onceq.model", "pathlib")
"""What a page about commands needs less still."""
OF_MANAGERS = (
    "asyncio", "onceq.client.link", "onceq.client.plans", "onceq.core",
    "onceq.directory", "onceq.model.requests", "onceq.model.views", "onceq.packet",
    "onceq.wire.app",
)  # fmt: skip
"""What a queue manager at work needs, or who talks to one, and a data directory alone does not."""
LOOKS = (
    "queue list", "outgoing list", "stream list", "peer list", "rights show", "token list",
    "damage list", "list show", "tx groups", "trail",
)  # fmt: skip
"""Those that are answered by an empty list."""
WHOLE = 1000
"""Characters: nothing that a command says of itself is longer."""
PROGRAM = """
import json, sys
from onceq.cli.main import run
code = run(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""


COMPLETING = """
import json, sys
from onceq.cli.main import main
main()
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
EVERY_PAGE = """
import json, sys
from onceq.cli import commands
from onceq.cli.main import run
for path in commands.COMMANDS:
    run([*path.split(), "--help"])
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
OF_COMMANDS = {target.partition(":")[0] for target in commands.COMMANDS.values()}
"""The modules of all commands."""


def python(program: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, with more in its environment."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | more, timeout=60,
    )  # fmt: skip


def loaded(*arguments: str) -> tuple[int, set[str]]:
    """The exit code of a command in a process of its own, and what it has loaded."""
    done = python(PROGRAM, *arguments)
    code, modules = json.loads(done.stderr.splitlines()[-1])
    return code, set(modules)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Scripted]:
    with Scripted(tmp_path) as made:
        yield made


def heavy(modules: set[str], which: Sequence[str] = FORBIDDEN) -> Iterator[str]:
    return (m for m in sorted(modules) if any(m == f or m.startswith(f"{f}.") for f in which))


@pytest.mark.slow
@pytest.mark.parametrize("path", LOOKS)
def test_a_command_that_asks_loads_what_asking_needs(path: str, server: Scripted) -> None:
    future = begun(lambda: loaded("-q", server.address.path, *path.split()))
    server.greet(name="ALPHA", id=bytes(range(16)), now_s=77)
    request, code, _, _ = server.read()
    server.say(request, [] if path == "trail" else {"views": []}, code)
    code, modules = future.result(60)
    assert (code, list(heavy(modules))) == (0, [])


@pytest.mark.slow
def test_the_version_needs_no_command_line_library() -> None:
    code, modules = loaded("--version")
    assert code == 0
    assert list(heavy(modules)) == []
    assert "click" not in modules


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "expected"),
    [("--help", 0), ("", 2), ("quue", 2), ("queue --help", 0), ("spark", 2), ("tx lst", 2)],
)
def test_a_page_that_lists_commands_loads_none(line: str, expected: int) -> None:
    code, modules = loaded(*line.split())
    assert (code, list(heavy(modules, PAGES))) == (expected, [])
    assert not OF_COMMANDS & modules


@pytest.mark.slow
def test_the_help_of_a_command_loads_no_client_library() -> None:
    """All pages in one process: what any of them loads is found."""
    done = python(EVERY_PAGE)
    modules = set(json.loads(done.stderr.splitlines()[-1]))
    assert list(heavy(modules, (*FORBIDDEN, "onceq.client.threads", "onceq.client.plans"))) == []
    assert modules >= OF_COMMANDS
    assert done.stdout.count("Usage: onceq ") == len(commands.COMMANDS)


@pytest.mark.slow
def test_what_is_done_to_a_data_directory_loads_no_core_and_no_client_library(
    tmp_path: Path,
) -> None:
    directory = str(tmp_path / "a")
    for line in (
        ("qm", "init", directory),
        ("tls", "show", "--directory", directory),
        ("mapping", "check", "--directory", directory),
    ):
        code, modules = loaded(*line)
        assert (line, code, list(heavy(modules, OF_MANAGERS))) == (line, 0, [])
        assert "onceq.store.files" in modules


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "found"), [("onceq ", "receive"), ("onceq tx f", "forget"), ("onceq qm -", "--help")]
)
def test_completing_the_name_of_a_command_loads_none(typed: str, found: str) -> None:
    done = python(
        COMPLETING, _ONCEQ_COMPLETE="zsh_complete", COMP_WORDS=typed,
        COMP_CWORD=str(len(typed.split(" ")) - 1),
    )  # fmt: skip
    assert found in done.stdout.splitlines()
    modules = set(json.loads(done.stderr.splitlines()[-1]))
    assert list(heavy(modules, PAGES)) == []
    assert not OF_COMMANDS & modules


@pytest.mark.parametrize("path", commands.COMMANDS)
def test_every_command_of_the_table_is_a_function_that_says_what_it_does(path: str) -> None:
    assert (inspect.getdoc(function_of(path)) or "").endswith(".")


def test_a_list_says_of_every_command_what_it_says_of_itself() -> None:
    said = {
        f"{group} {word}".strip(): text
        for group in ("", *commands.GROUPS)
        for word, text in commands.summaries(group)
    }
    own = {path: one.get_short_help_str(WHOLE) for path, one in everything()}
    assert {path: said[path] for path in own} == own


@pytest.mark.parametrize("group", ["", *commands.GROUPS])
def test_a_help_page_lists_every_command_with_a_whole_line(
    group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*group.split(), "--help"]) == 0
    _, _, listed = capsys.readouterr().out.partition("\nCommands:\n")
    found = [one.split()[0] for one in listed.splitlines() if one[2:3] > " "]
    assert found == [word.split()[0] for word in commands.below(group)]
    words = " ".join(f"{word} {said}" for word, said in commands.summaries(group))
    assert listed.split() == words.split()


def test_every_group_has_commands_and_every_command_its_group() -> None:
    first = {path.partition(" ")[0] for path in commands.COMMANDS if " " in path}
    assert first - set(commands.COMMANDS) == set(commands.GROUPS)
    assert not set(commands.COMMANDS) & set(commands.GROUPS)
    assert all(commands.below(group) for group in commands.GROUPS)


def test_a_command_that_stands_alone_may_have_others_behind_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words in (["trail"], ["trail", "verify"], ["trail", "heads"]):
        assert run([*words, "--help"]) == 0
        said = inspect.getdoc(function_of(" ".join(words))) or ""
        assert said.split()[:4] == capsys.readouterr().out.split("\n\n")[1].split()[:4]
    assert run(["trail", "nonsense"]) == 2


def test_what_can_be_said_of_tables_is_said_of_commands_that_exist() -> None:
    assert set(commands.COMMANDS) >= commands.TABLES
    by_path = dict(everything())
    assert all(
        any("--wide" in one.opts for one in by_path[path].params) == (path in commands.TABLES)
        for path in by_path
    )
