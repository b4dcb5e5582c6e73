"""A text that all spellings of a name have in common, so that Spark brings them into one task.

Names compare in any case and with either slash (``spelling.folded``). Spark's own functions fold
some letters otherwise than Python does, so they are told letter by letter what to do. Some letters
become several by folding (``ß`` becomes ``ss``); what is not ASCII of these is left out wherever it
stands. So other names may share a text, and meet in one task for nothing; but spellings of one name
always do, because what a text is made of is the folded name alone.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from onceq.model.spelling import folded

LETTERS: Final = 0x20000
"""No letter from here on has another case."""


def alike(name: str) -> str:
    """What ``alike_column`` makes of a name."""
    _, _, left_out = _letters()
    return "".join(letter for letter in folded(name) if letter not in left_out)


def alike_column(name: Any) -> Any:
    """The text that spellings of a name share, as an expression; ``name``: a column of text."""
    from pyspark.sql import functions as sql

    several, single, left_out = _letters()
    foreign = name
    for letter, letters in several.items():
        foreign = sql.replace(foreign, sql.lit(letter), sql.lit(letters))
    # Letters for which nothing is left in the third text are dropped.
    foreign = sql.translate(
        foreign, "".join(single) + "".join(sorted(left_out)), "".join(single.values())
    )
    plain = sql.replace(sql.lower(name), sql.lit("/"), sql.lit("\\"))
    return sql.when(sql.octet_length(name) == sql.char_length(name), plain).otherwise(foreign)


@cache
def _letters() -> tuple[dict[str, str], dict[str, str], frozenset[str]]:
    """Letters that become several ones, of which the ASCII ones stay; letters that become another
    one; and letters that are left out."""
    folds = {chr(code): folded(chr(code)) for code in range(LETTERS)}
    many = [letter for letter, fold in folds.items() if len(fold) > 1]
    parts = {part for letter in many for part in folds[letter] if not part.isascii()}
    kept = {
        letter: "".join(part for part in fold if part not in parts)
        for letter, fold in folds.items()
        if fold != letter or letter in parts
    }
    several = {letter: kept[letter] for letter in many if kept[letter]}
    single = {letter: one for letter, one in kept.items() if one and letter not in several}
    left_out = frozenset(letter for letter, text in kept.items() if not text)
    return several, single, left_out
