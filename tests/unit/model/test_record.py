"""Records: structs that the functions of ``dataclasses`` work with."""

from __future__ import annotations

import copy
import dataclasses
from array import array
from dataclasses import fields

import pytest

from onceq.model.record import MutableRecord, Record, defaults, field, names, repr_without


class Fixed(Record, frozen=True):
    text: str
    number: int = 3
    kept: dict[str, int] = field(default_factory=dict)
    table: array[int] | None = None
    """A type that cannot be looked up while a program runs."""


class Filled(MutableRecord, kw_only=True):
    owner: int = 0


class Asked(Filled):
    queue: str
    secret: bytes = b""

    __repr__ = repr_without("secret")


def test_nobody_changes_a_record() -> None:
    one = Fixed("a")
    with pytest.raises(AttributeError):
        one.number = 4  # type: ignore[misc]
    asked = Asked("q")
    asked.owner = 7
    assert asked.owner == 7


def test_records_are_equal_by_their_fields() -> None:
    assert Asked("q", owner=1) == Asked("q", owner=1) != Asked("q", owner=2)
    assert Fixed("a") == copy.deepcopy(Fixed("a")) != Fixed("b")


def test_the_functions_of_dataclasses_work() -> None:
    assert [one.name for one in fields(Fixed)] == [*names(Fixed)]
    assert [one.kw_only for one in fields(Asked)] == [False, False, True]
    assert [one.type for one in fields(Fixed)][:2] == ["str", "int"]
    one = dataclasses.replace(Fixed("a", kept={"x": 1}), number=5)
    assert dataclasses.asdict(one) == {"text": "a", "number": 5, "kept": {"x": 1}, "table": None}
    assert dataclasses.replace(Asked("q", owner=4), queue="r") == Asked("r", owner=4)


def test_each_record_has_its_own_default() -> None:
    Fixed("a").kept["x"] = 1
    assert Fixed("b").kept == {}
    assert fields(Fixed)[2].default_factory is dict
    assert defaults(Asked) == {"secret": b"", "owner": 0}


def test_a_secret_is_not_shown() -> None:
    assert repr(Asked("q", b"s3cret", owner=2)) == "Asked(queue='q', owner=2)"
