"""Texts from outside show all of their characters."""

from __future__ import annotations

import json
import shlex

import pytest

from onceq.cli.out import render_json
from onceq.hidden import quote_word, show_hidden


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, grün → \U0001f600", "plain, grün → \U0001f600"),
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[31m\r\x7f\x9b", r"\x1b[31m\x0d\x7f\x9b"),
        ("gnp.\u202efdp.exe\u2066\u200f", r"gnp.\u202efdp.exe\u2066\u200f"),
        ("\ufeffa\u200bb\u2028", r"\ufeffa\u200bb\u2028"),
        ("\U000e0041", r"\U000e0041"),
        ("क्‍ष", "क्‍ष"),
        ("a\u00adb\u180ec", r"a\xadb\u180ec"),
        ("a\u034f\u115f\u3164\uffa0\u17b4", r"a\u034f\u115f\u3164\uffa0\u17b4"),
        ("a\ufe0f\U000e0101", r"a\ufe0f\U000e0101"),
    ],
    ids=["printable", "lines", "control", "direction", "no-room", "tags", "joiner", "soft",
         "fillers", "variants"],
)  # fmt: skip
def test_what_is_hidden_is_shown_and_json_keeps_its_value(text: str, shown: str) -> None:
    assert show_hidden(text) == shown
    said = render_json({"text": text})
    assert json.loads(said) == {"text": text}
    assert show_hidden(said) == said


@pytest.mark.parametrize(
    "word",
    ["private$\\orders", "it's", "''", "$(reboot)", "a|b", "`id`", "a b", "", "*", "!x", "-x", "\\",
     "a;b", "&", "<", "~", "#x", "{a,b}"],
)  # fmt: skip
def test_a_word_of_a_command_is_one_word_whatever_is_in_it(word: str) -> None:
    assert shlex.split(f"onceq grant x send {quote_word(word)}")[4:] == [word]


def test_a_word_needs_no_quotes_if_no_shell_changes_it() -> None:
    assert quote_word("account:alice") == "account:alice"
    assert quote_word("a\u202eb") == r"'a\u202eb'", "and nothing in it is hidden"
