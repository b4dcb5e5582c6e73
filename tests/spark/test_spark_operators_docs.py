"""The reference page of the operators says what the code does."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from onceq.spark import operators
from onceq.spark.operators import arrivals, eod, expanding, numbering, rules
from onceq.spark.operators.eod import ORDER_ACK, VERDICT

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "spark-operators.md").read_text()
NEEDED: dict[str, tuple[Mapping[str, tuple[tuple[str, ...], str]], ...]] = {
    "eod_filter": (eod.COLUMNS,),
    "number": (numbering.COLUMNS, numbering.NUMBERED_COLUMNS, numbering.ACKNOWLEDGED),
    "expand_destinations": (expanding.COLUMNS,),
    "settle": (
        arrivals.COLUMNS,
        arrivals.OPTIONAL,
        arrivals.QUEUE_COLUMNS,
        arrivals.QUEUE_OPTIONAL,
    ),
}
ADDED = {
    "number": numbering.ADDED,
    "expand_destinations": expanding.ADDED,
    "settle": arrivals.ADDED,
    "eod_filter": {VERDICT: "string"},
}


def section(name: str) -> str:
    found = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    assert found, f"there is no section {name}"
    return found.group(1)


WHOLE = ("tinyint", "smallint", "int", "bigint")
"""The page calls these a whole number."""


def words(kinds: tuple[str, ...]) -> str:
    if kinds[: len(WHOLE)] == WHOLE:
        kinds = ("whole number", *kinds[len(WHOLE) :])
    return " or ".join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_the_columns_that_an_operator_needs(name: str) -> None:
    for columns in NEEDED[name]:
        rows = [f"* `{c}` ({words(kinds)}): {what}\n" for c, (kinds, what) in columns.items()]
        assert "".join(rows) in section(name).replace("\n  ", " ")


@pytest.mark.parametrize("name", sorted(ADDED))
def test_the_columns_that_an_operator_adds(name: str) -> None:
    assert all(f"`{column}`" in section(name) for column in ADDED[name])


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_the_parameters_and_their_defaults(name: str) -> None:
    parameters = inspect.signature(getattr(operators, name)).parameters
    given = [p if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters.values()]
    first = [p.name for p in parameters.values() if p.kind is not p.KEYWORD_ONLY]
    shown = ", ".join([*first, "*", *(str(g) for g in given[len(first) :])])
    assert f"`{name}({shown})`" in section(name)
    for parameter in list(parameters)[len(first) :]:
        assert f"* `{parameter}` (" in section(name)


def test_every_operator_is_described() -> None:
    assert all(f"`{name}(" in PAGE for name in operators.__all__)


def test_every_verdict_is_described() -> None:
    for word in (*rules.VERDICTS, ORDER_ACK):
        assert f"`{word}`" in section("eod_filter")
