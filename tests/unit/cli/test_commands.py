"""The table of commands: all of it can be called, and asking loads little."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceq.cli import commands
from onceq.cli.building import everything, function_of
from tests.unit.client.scripted import Scripted, begun

FORBIDDEN = (
    "asyncio", "email", "importlib.metadata", "pydantic", "rich", "ssl", "typer",
    "onceq.client.link", "onceq.client.plans", "onceq.client.tasks", "onceq.client.threads",
    "onceq.core", "onceq.directory", "onceq.embedded", "onceq.history", "onceq.packet",
    "onceq.partners", "onceq.public", "onceq.service", "onceq.spark", "onceq.store",
    "onceq.model.requests", "onceq.wire.app.answers", "onceq.wire.app.requests",
)  # fmt: skip
"""What takes long to load, and is of no use to who looks once. In all, it took five times as long
as what is needed."""
LOOKS = (
    "queue list", "outgoing list", "stream list", "peer list", "rights show", "token list",
    "damage list", "list show", "tx groups", "trail",
)  # fmt: skip
"""Those that are answered by an empty list."""
PROGRAM = """
import json, sys
from onceq.cli.main import run
code = run(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""


def loaded(*arguments: str) -> tuple[int, set[str]]:
    """The exit code of a command in a process of its own, and what it has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, timeout=60,
    )  # fmt: skip
    code, modules = json.loads(done.stderr.splitlines()[-1])
    return code, set(modules)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Scripted]:
    with Scripted(tmp_path) as made:
        yield made


def heavy(modules: set[str]) -> Iterator[str]:
    return (m for m in sorted(modules) if any(m == f or m.startswith(f"{f}.") for f in FORBIDDEN))


@pytest.mark.slow
@pytest.mark.parametrize("path", LOOKS)
def test_a_command_that_asks_loads_what_asking_needs(path: str, server: Scripted) -> None:
    future = begun(lambda: loaded("-q", server.address.path, *path.split()))
    server.greet(name="ALPHA", id=bytes(range(16)), now_s=77)
    request, code, _, _ = server.read()
    server.say(request, [], code)
    code, modules = future.result(60)
    assert (code, list(heavy(modules))) == (0, [])


@pytest.mark.slow
def test_the_version_needs_no_command_line_library() -> None:
    code, modules = loaded("--version")
    assert code == 0
    assert list(heavy(modules)) == []
    assert "click" not in modules


@pytest.mark.slow
def test_help_of_one_group_does_not_load_the_others() -> None:
    _, modules = loaded("queue", "--help")
    assert "onceq.cli.queues" in modules
    assert not {"onceq.cli.spark_land", "onceq.cli.transactions"} & modules


@pytest.mark.parametrize("path", commands.COMMANDS)
def test_every_command_of_the_table_is_a_function_that_says_what_it_does(path: str) -> None:
    assert (inspect.getdoc(function_of(path)) or "").endswith(".")


def test_every_group_has_commands_and_every_command_its_group() -> None:
    assert {path.partition(" ")[0] for path in commands.COMMANDS if " " in path} == set(
        commands.GROUPS
    )
    assert all(commands.below(group) for group in commands.GROUPS)


def test_what_can_be_said_of_tables_is_said_of_commands_that_exist() -> None:
    assert set(commands.COMMANDS) >= commands.TABLES
    by_path = dict(everything())
    assert all(
        any("--wide" in one.opts for one in by_path[path].params) == (path in commands.TABLES)
        for path in by_path
    )
