"""Completion: what a shell is told, where its script goes, and silence when all else fails."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

import pytest

from onceq.cli import commands
from onceq.cli.common import TOP
from onceq.cli.main import app, main, run
from onceq.model.requests import Look
from tests.unit.client.scripted import WAIT_S, Scripted, begun


def asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> list[str]:
    """What is offered for the last word of a line."""
    words = line.split(" ")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    monkeypatch.setenv(commands.VARIABLE, "bash_complete")
    main()
    said = capsys.readouterr()
    assert said.err == ""
    return [row.partition(",")[2] for row in said.out.splitlines() if row]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ONCEQ_QM", raising=False)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("onceq que", ["queue"]), ("onceq queue pu", ["purge"]),
        ("onceq queue list --wi", ["--wide"]),
    ],
)  # fmt: skip
def test_commands_and_options_are_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str,
    offered: list[str],
) -> None:  # fmt: skip
    assert asked(monkeypatch, capsys, line) == offered


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("onceq dead list --reason in", ["in-doubt"]),
        ("onceq dead return --reason re", ["refused", "rejected", "removed"]),
        ("onceq qm settings connect_r", ["connect_retry_s"]),
    ],
)
def test_words_are_offered_without_a_manager(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str,
    offered: list[str],
) -> None:  # fmt: skip
    assert asked(monkeypatch, capsys, line) == offered


def test_contexts_are_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["context", "add", "prod", "onceq://127.0.0.1:1"]) == 0
    capsys.readouterr()
    for line in ("onceq -q p", "onceq queue list -q pr", "onceq context use p"):
        assert asked(monkeypatch, capsys, line) == ["prod"], line


@pytest.mark.parametrize("where", ["nowhere", "onceq://127.0.0.1:1", "."])
def test_a_daemon_that_is_away_is_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    assert asked(monkeypatch, capsys, f"onceq -q {where} queue show ") == []
    assert asked(monkeypatch, capsys, "onceq outgoing why ") == []
    for words in ("dead show 5", "dead purge --id {", "journal show ", "tx commit "):
        assert asked(monkeypatch, capsys, f"onceq -q {where} {words}") == []


@pytest.mark.parametrize("line", ["onceq -q {} queue show pr", "onceq queue show -q {} pr"])
def test_names_are_those_of_the_manager_that_the_line_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str
) -> None:
    TOP.forget()
    with Scripted(tmp_path) as server:

        def answers() -> None:
            server.greet()
            request, code, look, _ = server.read()
            assert look == Look("queues", part="pr")
            server.say(request, {"views": [{"path": "private$\\one", "number": 1}]}, code)

        done = begun(answers)
        assert asked(monkeypatch, capsys, line.format(server.address.path)) == ["private$/one"]
        done.result(WAIT_S)
    TOP.forget()


def test_whatever_goes_wrong_is_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.answer(app(), "no_such_thing")
    monkeypatch.delenv("COMP_WORDS", raising=False)
    commands.answer(app(), "bash_complete")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")


@pytest.mark.parametrize("shell", commands.SHELLS)
def test_each_shell_has_a_script_that_it_understands(shell: str) -> None:
    text = commands.script(shell)
    assert "_ONCEQ_COMPLETE" in text
    if which(shell) is not None:
        done = subprocess.run(
            [shell, "-n"], input=text, text=True, capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", commands.SHELLS)
def test_the_script_is_put_where_the_shell_looks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    assert run(["--install-completion"]) == 0
    said = capsys.readouterr().out
    (written,) = (path for path in Path().rglob("*onceq*") if path.is_file())
    assert str(written) in said
    assert written.read_text() == commands.script(shell)
    assert run(["--show-completion"]) == 0
    assert "_ONCEQ_COMPLETE" in capsys.readouterr().out


def test_a_shell_that_cannot_be_taught_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert run(["--install-completion"]) == 2
    assert "tcsh cannot be taught" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SHELL", "/bin/bash")
    (tmp_path / "XDG_DATA_HOME").write_text("a file")
    assert run(["--install-completion"]) == 2
    assert "--show-completion prints it" in capsys.readouterr().err
