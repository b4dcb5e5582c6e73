"""``onceq audit`` and ``onceq spark audit``: what they print, how they end, and what they say
without their libraries."""

from __future__ import annotations

import builtins
import io
import json
import re
import signal
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from onceq.audit.command import Wish
from onceq.cli.audit import Teller
from onceq.cli.main import run

FOUND: dict[str, Any] = {
    "messages": 53,
    "verdict": "PROVEN: of 53 messages each met at most one end",
    "violations": 0,
    "managers": [
        {"manager": "ALPHA", "files": 3, "from_s": 1_800_000_000, "up_to_us": 1_800_000_900_000_000,
         "limits": [], "starts": [{}] * 5, "files_without_starts": 0},
        {"manager": "BETA", "files": 1, "from_s": 0, "up_to_us": 0, "limits": ["it is cut off"],
         "starts": [{}] * 7, "files_without_starts": 2},
    ],
    "states": {"received by an application": 50, "in doubt": 3},
    "latencies": [{"route": "A → B", "from": "commit", "to": "acceptance", "messages": 50,
                   "p50_s": 0.001, "p90_s": 0.1, "p99_s": 1.0, "max_s": 2.0}],
    "stuck": [{"route": "A → B", "stream": 7, "messages": 3, "first_number": 17,
               "since_s": 1_800_000_000, "waits_s": 4_000.0}],
    "resends": [{"route": "A → B", "messages": 5, "times": 9, "came_again": 4}],
    "events": 587, "transactions": 19, "streams": 5, "messages_violated": 0,
    "checked": [{"invariant": "I4", "fault": "received-twice", "looks_at": "receptions",
                 "looked_at": 53, "violations": 0}],
    "acts": {
        "by": [{"manager": "BETA", "actor": "account:alice", "action": "purge", "done": 3,
                "refused": 1}],
        "missing": [{"manager": "BETA", "first": 7, "last": 9}], "added": [],
    },
    "stories": [], "notes": ["BETA: it is cut off"], "written": ["r.html"],
}  # fmt: skip
STORY = {
    "title": "message 4",
    "faults": [{"invariant": "I4", "fault": "received-twice", "said": "received 2 times"}],
    "rows": ["first line", "second line"],
}  # fmt: skip


class Command:
    """In place of the work, in this process or by Spark."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.Wish = Wish
        self.found = found
        self.asked: dict[str, Any] = {}
        self.stop: signal.Signals | None = None

    def run(self, folders: list[str], wish: Wish, say: Any, **options: Any) -> dict[str, Any]:
        self.asked = {"folders": folders, "wish": wish, **options}
        say(Told("judging", 1.25))
        if self.stop is not None:
            signal.raise_signal(self.stop)
        return self.found


@dataclass
class Told:
    """As of ``onceq.audit.command.StageProgress``."""

    stage: str
    seconds: float
    begins: bool = True
    done: int = 0
    tasks: int = 0


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Command:
    made = Command(dict(FOUND))
    for name in ("onceq.audit.command", "onceq.spark.audit"):
        monkeypatch.setitem(sys.modules, name, made)
    return made


@pytest.fixture(params=[["audit"], ["spark", "audit"]])
def words(request: pytest.FixtureRequest) -> list[str]:
    """The two commands."""
    found: list[str] = request.param
    return found


def test_tables_and_verdict(
    command: Command, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "a", "b", "--settled", "--stuck", "5", "--html", "r.html"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"ALPHA +3 +5 ", said)
    assert re.search(r"BETA +1 +7\+ ", said)
    assert re.search(r"account:alice +purge +BETA +3 +1\b", said)
    for part in ("ALPHA", "whole", "it is cut off", "received by an application", "A → B",
                 "! BETA", "! acts 7 to 9 of BETA are not told, and were removed",
                 "wrote r.html", "PROVEN"):  # fmt: skip
        assert part in said
    more = {"master": "local[*]"} if words[0] == "spark" else {}
    wish = Wish(settled=True, html="r.html", to="", stuck_s=5.0, proof="")
    assert command.asked == {"folders": ["a", "b"], "wish": wish, **more}


def test_a_violation_is_told_and_ends_with_8(
    command: Command, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command.found.update(violations=1, stories=[STORY], verdict="VIOLATED: 1 violation(s) of I4")
    assert run([*words, "a"]) == 8
    said = capsys.readouterr().out
    assert "message 4:\n  I4 received-twice: received 2 times\n    first line\n" in said
    assert said.rstrip().endswith("VIOLATED: 1 violation(s) of I4")


def test_json(command: Command, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    command.found["violations"] = 2
    assert run([*words, "a", "--json"]) == 8
    said = capsys.readouterr()
    assert json.loads(said.out)["messages"] == 53
    assert said.err == "   1.2 s  judging\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(
    command: Command, words: list[str], capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
) -> None:  # fmt: skip
    command.stop = number
    assert run([*words, "a"]) == 130
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "   1.2 s  judging\ninterrupted: nothing is proven\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_while_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch, words: list[str], capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
) -> None:  # fmt: skip
    """Loading its libraries takes a second: it ended with 130 and not a word."""

    def load(name: str, *_: str) -> Any:
        signal.raise_signal(number)

    monkeypatch.setattr("onceq.cli.audit.import_module", load)
    monkeypatch.setattr("onceq.cli.audit.loaded", load)
    assert run([*words, "a"]) == 130
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "interrupted: nothing is proven\n")


STEPS = (
    Told("judging \x1b", 1.0), Told("judging", 2.0, begins=False),
    Told("judging", 6.0, begins=False, done=5, tasks=1_200),
    Told("judging", 7.0, begins=False, done=6, tasks=1_200), Told("done", 8.0),
)  # fmt: skip


def test_stages_and_a_line_from_time_to_time(capsys: pytest.CaptureFixture[str]) -> None:
    teller = Teller()
    for step in STEPS:
        teller(step)
    teller.clear()
    assert capsys.readouterr().err == (
        "   1.0 s  judging \\x1b\n   6.0 s    5 of 1,200 tasks\n   8.0 s  done\n"
    )


def test_one_line_changes_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    teller = Teller()
    for step in STEPS:
        teller(step)
    teller.clear()
    new = "\r\x1b[K"
    assert terminal.getvalue() == (
        f"{new}   1.0 s  judging \\x1b\n{new}   2.0 s    Spark plans it"
        f"{new}   6.0 s    5 of 1,200 tasks{new}   7.0 s    6 of 1,200 tasks"
        f"{new}   8.0 s  done\n{new}"
    )


@pytest.mark.parametrize(
    ("words", "package", "extra"),
    [
        (["audit", "a"], "pyarrow", "onceq[audit]"),
        (["audit", "a"], "duckdb", "onceq[audit]"),
        (["audit", "a", "--html", "x.html"], "matplotlib", "onceq[audit]"),
        (["spark", "audit", "a"], "pyspark", "onceq[audit,spark,java]"),
    ],
)
def test_a_missing_library_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str],
    package: str, extra: str,
) -> None:  # fmt: skip
    for name in [n for n in sys.modules if n.startswith(("onceq.spark.audit", "onceq.audit"))]:
        monkeypatch.delitem(sys.modules, name)
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert run(words) == 2
    said = capsys.readouterr().err
    assert f"needs the package {package}: pip install '{extra}'" in said
    assert "Traceback" not in said


def test_a_mistyped_option_is_a_mistake(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert run([*words, "a", "--setled"]) == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "cause", "cure"),
    [
        ("--proof", "keeps no proof", "take onceq audit --proof"),
    ],
)
def test_what_spark_does_not_do_is_said_with_who_does(
    command: Command, capsys: pytest.CaptureFixture[str], option: str, cause: str, cure: str
) -> None:
    assert run(["spark", "audit", "a", option, "b"]) == 2
    said = capsys.readouterr().err
    assert "(usage)" in said
    assert cause in said
    assert cure in said
    assert command.asked == {}
    assert run(["spark", "audit", "--help"]) == 0
    assert f"{option} " not in capsys.readouterr().out
