"""Each written trace is what the core does now; the traces can be read; mistakes in them show."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest

from tests.traces.arguments import UnknownCommand
from tests.traces.commands import COMMANDS, perform
from tests.traces.script import FOLDER, INDENT, REWRITE, files, heading, run
from tests.traces.world import World

TRACES = files()
RULE = re.compile(r"\b(?:[A-Z]{2,4}|[QXI])-?\d+\b|MS-MQQB [\d.]+")


@pytest.mark.parametrize("file", TRACES, ids=lambda file: file.stem)
def test_a_trace_is_what_the_core_does(file: Path) -> None:
    written = file.read_text()
    now = run(written)
    if now != written:
        changed = difflib.unified_diff(
            written.splitlines(), now.splitlines(), file.name, "what the core does", lineterm=""
        )
        pytest.fail("\n".join((*changed, f"If this is what it shall do: {REWRITE}")))


@pytest.mark.parametrize("file", TRACES, ids=lambda file: file.stem)
def test_a_trace_begins_with_what_its_reader_learns(file: Path) -> None:
    text = file.read_text()
    told = heading(text)
    assert len(told) > 80, f"{file.name} says at its top in two or three sentences what it shows"
    assert RULE.search(told), f"{file.name} names the rules that it shows (docs/reference/rules.md)"
    assert max(map(len, text.split("\n\n", 1)[0].splitlines())) <= 100


def test_there_are_no_other_texts_in_the_folder() -> None:
    assert len(TRACES) >= 30
    assert {file.name for file in FOLDER.glob("*.txt")} == {file.name for file in TRACES}


def test_every_command_is_shown_by_a_trace() -> None:
    lines = [line for file in TRACES for line in file.read_text().splitlines()]
    used = {line.split()[0] for line in lines if line and line[0] not in "# "}
    assert used == set(COMMANDS)


@pytest.mark.parametrize(
    "line",
    [
        "forget A",
        "begin A",
        "deliver A",
        "deliver A->B",
        "receive Z 0 orders",
        "time 5s",
        "show A weather",
        "branch A vote T1",
    ],
)
def test_what_is_no_command_is_refused(line: str) -> None:
    world = World()
    perform(world, "manager A")
    with pytest.raises(UnknownCommand):
        perform(world, line)


def test_a_mistake_is_told_with_its_line() -> None:
    with pytest.raises(UnknownCommand, match="line 3: there is no command 'mangaer'"):
        run("# What.\n\nmangaer A\n")


def test_old_output_is_replaced() -> None:
    text = "# What.\nmanager A\n" + INDENT + "something that never happened\n"
    made = run(text)
    assert "never happened" not in made
    assert made.startswith("# What.\nmanager A\n" + INDENT + "A records setup life")
    assert run(made) == made


def test_a_trace_is_the_same_each_time() -> None:
    text = (FOLDER / "remote-exactly-once.txt").read_text()
    assert run(text) == run(text)
