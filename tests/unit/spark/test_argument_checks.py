"""Public functions say what they were given, and what they need; and refusals have one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")

from onceq.errors import ConfigurationError
from onceq.model.wording import one_line
from onceq.spark import decoded, lag, lag_bytes, operators, ship
from onceq.spark.argument_checks import (
    SHOWN,
    described,
    require_flag,
    require_integer,
    require_names,
)
from onceq.spark.operators.expanding import Expander

NO_FRAMES: tuple[tuple[object, str], ...] = (
    ([1, 2], r"list: \[1, 2\]"), (None, "NoneType: None"), ("orders", "str: 'orders'"),
    ({"queue": ["q"]}, r"dict: \{'queue': \['q'\]\}"),
)  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(operators.__all__) - {"state"}))
@pytest.mark.parametrize(("value", "shown"), NO_FRAMES)
def test_an_operator_that_is_given_no_frame(name: str, value: object, shown: str) -> None:
    function: Callable[..., object] = getattr(operators, name)
    more = [value] if name == "settle" else []
    with pytest.raises(ConfigurationError, match=rf"^\[configuration\] {name} needs a DataFrame of"
                       rf" Spark, and was given {shown}; .*createDataFrame"):  # fmt: skip
        function(value, *more)


def test_other_functions_that_are_given_something_else() -> None:
    faults: tuple[tuple[Callable[[], Any], str], ...] = (
        (lambda: decoded([1], "id int"), r"decoded needs a DataFrame of Spark.*list: \[1\]"),
        (lambda: ship("spark"), "ship needs a session of Spark, and was given str: 'spark'"),
        (lambda: ship(type("SparkSession", (), dict.fromkeys(("read", "readStream", "conf")))),
         "ship needs a session of Spark"),
        (lambda: operators.state(5, "cp"), "state needs a session of Spark.*int: 5"),
        (lambda: lag([1]), r"lag needs the progress of a query.*list: \[1\]"),
        (lambda: lag_bytes("{"), r"lag needs the progress of a query.*str: '\{'"),
        (lambda: lag("5"), "lag needs the progress of a query"),
    )  # fmt: skip
    for bad, text in faults:
        with pytest.raises(ConfigurationError, match=rf"^\[configuration\] {text}"):
            bad()


def test_values_of_parameters() -> None:
    assert require_integer(3, "n", 1, 3) == 3
    require_flag(True, "n")
    for value in (0, 4, True, 2.0, "2", None):
        with pytest.raises(ConfigurationError, match=r"n is a whole number from 1 to 3, not"):
            require_integer(value, "n", 1, 3)
    for value in ("no", 0, None):
        with pytest.raises(ConfigurationError, match=r"n is True or False, not"):
            require_flag(value, "n")
    assert (
        require_names("a", "n") == require_names(["a"], "n") == require_names(("a",), "n") == ("a",)
    )
    for bad in (5, None, ["a", 5], {"a"}):
        with pytest.raises(ConfigurationError, match="n is the name of a column, or a list of"):
            require_names(bad, "n")


def test_what_was_given_is_shown_shortly_and_in_one_line() -> None:
    for value in (
        "x" * 1_000,
        ["y"] * 1_000,
        "a\nb",
        type("Long", (), {"__repr__": lambda _: "\n" * 9})(),
    ):
        text = described(value)
        assert "\n" not in text
        assert len(text) < SHOWN + 40


def test_errors_in_one_line() -> None:
    for text, expected in (
        ("all well", "all well"),
        ("what, at position 3\n  DIRECT=x\n     ^", "what, at position 3: DIRECT=x"),
        ("a\n\nb\n c", "a: b c"),
        ("", ""),
    ):
        assert one_line(text) == expected


@pytest.mark.parametrize(
    "name",
    ["DIRECT=OS:a b\\q", "", "DIRECT=TCP:1.2.3\\q", "DIRECT=OS:B\\q;X", "x" * 100_000, "DL=5",
     "PUBLIC=00000000-0000-0000-0000-000000000070", ".\\q", "DIRECT=OS:.\\q", "A=\n\r\u2028B",
     "DIRECT=OS:B\\q,DIRECT=OS:B\\"],
)  # fmt: skip
def test_the_text_of_a_refusal_has_one_line_and_says_where(name: str) -> None:
    found = Expander().expanded(name)
    assert found.refusal
    assert len(found.text.splitlines()) == 1
    assert "^" not in found.text
    assert len(found.text) < 400
