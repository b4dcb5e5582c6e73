"""Values of requests are checked, and what is wrong is named."""

from __future__ import annotations

import pytest

from onceq.console.guard import FIELD_CHARS_MAX, FIELDS_MAX, FormValues
from onceq.errors import InvalidParameter


def test_values_are_what_they_shall_be() -> None:
    given = FormValues.of_query(
        "queue=private%24%5Corders&limit=7&dry_run=yes&older_than=2h&empty="
    )
    assert given.text("queue", needed=True) == r"private$\orders"
    assert given.number("limit", 50) == 7
    assert given.number("skip", 3) == 3
    assert given.flag("dry_run")
    assert not given.flag("second")
    assert given.seconds("older_than") == 7200
    assert given.seconds("younger_than") == 0
    assert FormValues({"a": "90"}).seconds("a") == 90


def test_json_is_taken_by_kind() -> None:
    given = FormValues.of_json({"a": True, "b": 5, "c": "x"})
    assert (given.flag("a"), given.number("b", 0), given.text("c")) == (True, 5, "x")
    wrongs: list[object] = [[], "x", {"a": None}, {"a": 1.5}, {"a": {}}]
    for wrong in wrongs:
        with pytest.raises(InvalidParameter):
            FormValues.of_json(wrong)


@pytest.mark.parametrize("text", ["x", "-1", "1e3", "٣", "1" * 30])
def test_what_is_no_number_is_said(text: str) -> None:
    with pytest.raises(InvalidParameter, match="limit"):
        FormValues({"limit": text}).number("limit", 0)
    with pytest.raises(InvalidParameter, match="limit"):
        FormValues({"limit": text}).seconds("limit")


def test_bounds_hold() -> None:
    with pytest.raises(InvalidParameter, match="from 1 to 5"):
        FormValues({"limit": "6"}).number("limit", 1, least=1, most=5)
    with pytest.raises(InvalidParameter, match="missing"):
        FormValues({"queue": " "}).text("queue", needed=True)
    with pytest.raises(InvalidParameter, match="yes or no"):
        FormValues({"dry_run": "maybe"}).flag("dry_run")
    with pytest.raises(InvalidParameter, match="there are id, queue"):
        FormValues({"qeue": "x"}).only({"queue", "id"})
    with pytest.raises(InvalidParameter):
        FormValues({"x": "y" * (FIELD_CHARS_MAX + 1)})
    with pytest.raises(InvalidParameter):
        FormValues.of_query("&".join(f"a{n}=1" for n in range(FIELDS_MAX + 1)))
    for query in ("a=%ff", "a=%00", "a=%0a"):
        with pytest.raises(InvalidParameter):
            FormValues.of_query(query)
    for text in ("\ud800", "\x1b[31m"):
        with pytest.raises(InvalidParameter, match="printed"):
            FormValues.of_json({"a": text})
