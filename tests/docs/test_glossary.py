"""The glossary: each word once, each name of the code that it gives exists, and no name of the code
is made of other words than its own and plain ones."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import onceq
from onceq.model.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
FIELDS = {"MSMQ", "XA", "databases", "SRMP", "Spark", "onceq"}


class Word(NamedTuple):
    """A row of the page."""

    word: str
    code: str
    field: str
    meaning: str


ROW = re.compile(r"^\* \*\*(.+?)\*\*(?: \(([^()]+)\))?: (.+?)(?=\n\* |\n\n|\Z)", re.M | re.S)


def words() -> list[Word]:
    page = (ROOT / "docs" / "reference" / "glossary.md").read_text()
    found = []
    for word, about, meaning in ROW.findall(page):
        *code, last = " ".join(about.split()).split(", ") if about else [""]
        field = last if last in FIELDS else "MSMQ"
        names = ", ".join([*code, *([] if last in FIELDS else [last])])
        found.append(Word(word, names, field, meaning.strip()))
    return found


def test_each_word_stands_there_once() -> None:
    known = [word for row in words() for word in row.word.split(", ")]
    assert len(known) > 100
    assert sorted(known) == sorted(set(known))


def test_each_word_has_a_field_and_a_meaning() -> None:
    for row in words():
        assert row.field in FIELDS, row
        assert row.meaning.endswith("."), row


def stands(name: str, code: str) -> bool:
    """Whether a name stands there as a word: an expression looks at each byte, which takes long."""
    at = code.find(name)
    while at >= 0:
        around = code[max(at - 1, 0) : at] + code[at + len(name) : at + len(name) + 1]
        if not re.search(r"\w", around):
            return True
        at = code.find(name, at + 1)
    return False


def test_names_of_the_code_exist() -> None:
    homes = (ROOT / "src", ROOT / "proof", ROOT / "tests" / "planted")
    code = "\n".join(path.read_text() for home in homes for path in home.rglob("*.py"))
    missing = [
        f"{row.word}: {name}"
        for row in words()
        for name in re.findall(r"`([^`]+)`", row.code)
        if not stands(name, code)
    ]
    assert not missing, "the glossary names what is not in the code any more"


def names() -> Iterator[str]:
    """Yield what a user or a newcomer meets: public classes, modules and settings."""
    for name in onceq.__all__:
        kind = getattr(onceq, name)
        if isinstance(kind, type):
            yield name
    yield from (path.stem for path in (ROOT / "src" / "onceq").rglob("[a-z]*.py"))
    yield from (field.name for field in dataclasses.fields(Settings))


def split_name(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]{2,}", name)}


def test_names_are_made_of_terms_and_plain_words() -> None:
    text = (Path(__file__).parent / "plain_words.txt").read_text()
    plain = {word for line in text.splitlines() if line[:1] != "#" for word in line.split()}
    terms = set[str]()
    for row in words():
        terms |= set(re.findall(r"[a-z]+", row.word.lower()))
        for code in re.findall(r"`([^`]+)`", row.code):
            terms |= split_name(code)
    odd = {name: rest for name in names() if (rest := split_name(name) - terms - plain)}
    assert not odd, "names of words that neither the glossary nor plain_words.txt has"
    used = set[str]().union(*map(split_name, names()))
    assert plain <= used, f"plain_words.txt has words that no name has: {sorted(plain - used)}"
