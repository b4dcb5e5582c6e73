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
    assert lines[2].split() == ["x", "12345"]
    assert all(line == line.rstrip() for line in lines)


def test_numbers_stand_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    out.table(("n",), [(1,), (1000,)])
    assert capsys.readouterr().out.splitlines()[1:] == ["   1", "1000"]


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
    assert [out.cell(v) for v in (True, False, 1234567, 0.123456, 123456.7)] == [
        "yes", "no", "1234567", "0.123", "123457",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3.0 TiB")],
)
def test_sizes(count: int, text: str) -> None:
    assert out.size(count) == text


def test_sizes_are_exact_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out.SHAPE, "exact", True)
    assert out.size(5 << 20) == "5242880"


GUID = "838e095e-ac71-4bff-9c74-73017d238197"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("there is no queue private$\\orders here", "there is no queue private$/orders here"),
        ("DIRECT=OS:BETA\\private$\\stock waits", "DIRECT=OS:BETA/private$/stock waits"),
        ("DIRECT=OS:BETA\\stock waits", "DIRECT=OS:BETA/stock waits"),
        ("DIRECT=TCP:10.0.0.7\\PRIVATE$\\q", "DIRECT=TCP:10.0.0.7/PRIVATE$/q"),
        (".\\private$\\q;poison", "./private$/q;poison"),
        (f"message {GUID}\\17 is gone", f"message {GUID}/17 is gone"),
        (f"tracked: {{{GUID}}}\\17; ask", f"tracked: {{{GUID}}}/17; ask"),
        ("'private$\\\\orders' is none", "'private$/orders' is none"),
        ("a\\b stays, C:\\data too", "a\\b stays, C:\\data too"),
        ("no backslash", "no backslash"),
    ],
)
def test_names_in_sentences_can_be_pasted(
    said: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out.line(said)
    out.note(said)
    out.failure("x", said, 2, as_json=False)
    told = capsys.readouterr()
    assert told.out == f"{shown}\n"
    assert told.err == f"{shown}\nonceq: error (x): {shown}\n"


def test_json_and_bodies_have_what_the_interface_has(capsys: pytest.CaptureFixture[str]) -> None:
    out.body("private$\\orders")
    out.failure("x", "no private$\\orders", 2, as_json=True)
    told = capsys.readouterr()
    assert told.out == "private$\\orders\n"
    assert json.loads(told.err)["error"]["text"] == "no private$\\orders"


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 40 columns."""
    monkeypatch.setattr(out, "terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")


@pytest.mark.usefixtures("narrow")
def test_a_table_on_a_terminal_says_what_had_no_room(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("private$/" + "n" * 25, 5, "x" * 30)]
    out.table(("queue", "messages", "label"), rows, give=("label",))
    told = capsys.readouterr()
    assert "private$/" + "n" * 25 in told.out
    assert "left out for want of room: label; --wide shows them" in told.err


@pytest.mark.usefixtures("narrow")
def test_wide_leaves_nothing_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(out.SHAPE, "wide", True)
    out.table(("queue", "label"), [("q" * 30, "x" * 30)], texts=("label",), give=("label",))
    told = capsys.readouterr()
    assert "x" * 30 in told.out
    assert told.err == ""


@pytest.mark.usefixtures("narrow")
def test_a_long_fact_goes_on_below_itself_between_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = "DIRECT=OS:BETA/private$/" + "n" * 30
    out.facts([("queue", name), ("why", "one two three four five six seven eight nine")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"queue  {name}"
    assert [line.split()[0] for line in lines[1:]] == ["why", "eight"]


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
