"""What goes to the screen: tables, JSON, and nothing that steers the terminal."""

from __future__ import annotations

import json

import pytest

from onceq.cli import out


def test_a_table_in_a_pipe_is_plain_and_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    long = "DIRECT=OS:BETA\\private$\\" + "q" * 300
    out.table(("destination", "messages"), [(long, 5), ("x", 12_345)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["destination", "messages"]
    assert lines[1].split() == [long, "5"]
    assert lines[2].split() == ["x", "12,345"]
    assert all(line == line.rstrip() for line in lines)


def test_numbers_stand_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    out.table(("n",), [(1,), (1000,)])
    assert capsys.readouterr().out.splitlines()[1:] == ["    1", "1,000"]


def test_an_empty_table_has_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    out.table(("queue", "messages"), [])
    assert capsys.readouterr().out.split() == ["queue", "messages"]


def test_markup_in_a_label_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    out.table(("label",), [("[bold red]boo[/]",)])
    assert "[bold red]boo[/]" in capsys.readouterr().out


def test_control_characters_are_shown_not_sent(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;owned\x07 \x9b31m\r"
    out.table(("label",), [(evil,)])
    out.facts([("label", evil)])
    out.line(evil)
    out.note(evil)
    said = capsys.readouterr()
    for character in "\x1b\x07\x9b\r":
        assert character not in said.out + said.err
    assert said.out.count("\\x1b]0;owned\\x07 \\x9b31m\\x0d") == 3


def test_yes_no_and_decimals() -> None:
    assert [out.cell(v) for v in (True, False, 1234567, 0.123456)] == [
        "yes", "no", "1,234,567", "0.123",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3.0 TiB")],
)
def test_sizes(count: int, text: str) -> None:
    assert out.size(count) == text


def test_when_never() -> None:
    assert out.when(0) == "-"
    assert len(out.when(1_795_208_388)) == len("2026-11-20 21:00:00")


def test_errors_as_text_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    out.failure("queue-not-found", "there is no queue x", 2, as_json=False)
    assert capsys.readouterr().err == "onceq: error (queue-not-found): there is no queue x\n"
    out.failure("in-doubt", "ask", 6, as_json=True, transaction="ab-1")
    said = json.loads(capsys.readouterr().err)
    assert said == {
        "error": {"code": "in-doubt", "text": "ask", "exit_code": 6, "transaction": "ab-1"}
    }
