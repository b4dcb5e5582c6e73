"""Words that have a plainer form become fewer: each folder has a number that may only fall."""

from __future__ import annotations

from pathlib import Path

import pytest

import measure_house as house
from measure_house import ROOT, TABLE

WRITE = "python tools/measure_house.py --write"


def test_no_folder_has_more_words_of_the_list_than_its_table() -> None:
    now, allowed = house.count_words(ROOT), house.read_table()
    more = {folder for folder in now if now[folder] > allowed.get(folder, 0)}
    lines = house.compare_words(now, allowed)
    hints = [
        *(f"  plainer, please: python tools/measure_house.py --words {name}" for name in more),
        *([] if more else [f"  fewer, good; write it down: {WRITE}"]),
    ]
    assert not lines, "\n".join(["", *lines, *hints])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Whoever asks, and so\nmany more", [(1, "whoever"), (1, "so many")]),
        ("It stands\n  in the log anew", [(1, "stands in"), (2, "anew")]),
        ("as it is, and that of\nhim", [(1, "as it is"), (1, "that of"), (2, "him")]),
        ("for what it is, for ever, in vain",
         [(1, "for what it is"), (1, "for ever"), (1, "in vain")]),
        ("class A:\n    async def told(self): ...\ndef _look(): ...\n",
         [(2, "def told"), (3, "def _look")]),
        ("def told_alike(): ...\ndef look_up(): ...\n", []),
        ("the history of this channel is as its item says; somewhat every", []),
    ],
)  # fmt: skip
def test_words_are_found(text: str, found: list[tuple[int, str]]) -> None:
    assert list(house.find_words(text)) == found


def test_files_are_counted_by_folder(tmp_path: Path) -> None:
    for name in (
        "README.md", "src/onceq/core/deep/er/a.py", "src/onceq/core/b.py", "src/onceq/version.py",
        "tests/unit/core/test_a.py", "docs/how-to/a.md", "docs/pictures/a.svg", "build/a.md",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# He\n")
    assert house.count_words(tmp_path) == {
        ".": 1, "docs/how-to": 1, "src/onceq": 1, "src/onceq/core": 2, "tests/unit": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("now", "written"),
    [
        ({"a": 5, "b": 3}, True),
        ({"a": 2}, True),
        ({"a": 1, "new": 4}, True),
        ({"a": 6}, False),
        ({"a": 5, "b": 3, "new": 1}, False),
    ],
)
def test_a_number_only_falls(tmp_path: Path, now: dict[str, int], written: bool) -> None:
    table = tmp_path / "words.toml"
    table.write_text('# Why.\n# How.\n\n"a" = 5\n"b" = 3\n')
    before = {"a": 5, "b": 3}
    assert (house.write_table(now, table) == []) == written
    assert house.read_table(table) == (now if written else before)
    assert table.read_text().startswith('# Why.\n# How.\n\n"')


def test_the_table_is_read_as_it_is_written() -> None:
    assert house.compare_words(house.read_table(), house.read_table()) == []
    assert house.compare_words({"a": 2}, {"a": 1, "b": 1}) == [
        "a: 2 words of the list, 1 in the table", "b: 0 words of the list, 1 in the table",
    ]  # fmt: skip
    assert TABLE.parent == Path(__file__).parent
