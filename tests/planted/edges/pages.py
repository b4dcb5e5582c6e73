"""Planted mistakes about rows that stay in Spark while Python decides page by page."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from onceq.spark import argument_checks
from onceq.spark.operators import key_buckets, quotas
from onceq.spark.operators.numbering import EarlierNumbers, Numbering
from onceq.spark.operators.quotas import Limited
from tests.planted.planted import Planted, replaced

BESIDE = "tests/property/test_spark_beside.py::test_"
REMEMBERED = "tests/unit/spark/operators/test_settling_saved_state.py::test_"
GIVEN = "tests/unit/spark/test_argument_checks.py::test_"


def _method(owner: type, name: str, old: str, new: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A mistake that is an edit of a method; ``old`` occurs in it once."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        text = textwrap.dedent(inspect.getsource(getattr(owner, name)))
        assert text.count(old) == 1, f"{owner.__name__}.{name} has {old!r} {text.count(old)} times"
        module = vars(sys.modules[owner.__module__])
        # The annotations are not evaluated, as in the module itself.
        code = compile(
            "from __future__ import annotations\n" + text.replace(old, new), name, "exec"
        )
        made = next(one for one in code.co_consts if inspect.iscode(one) and one.co_name == name)
        patch.setattr(owner, name, FunctionType(made, module, name))

    return plant


def _any_format_is_read(patch: pytest.MonkeyPatch) -> None:

    patch.setattr(key_buckets, "_read_layout", lambda table: ("8", "1"))


def _carets_stay(patch: pytest.MonkeyPatch) -> None:
    from onceq.model import wording

    patch.setattr(wording, "one_line", lambda text: text.replace("\n", " "))


def _words_are_answers(patch: pytest.MonkeyPatch) -> None:

    def require_flag(value: object, what: str) -> None:
        assert value is not None, what

    patch.setattr(argument_checks, "require_flag", require_flag)


def _pages_forget(patch: pytest.MonkeyPatch) -> None:
    original = key_buckets.RowPages.__iter__

    def pages(self: Any) -> Any:
        return original(key_buckets.RowPages(self.batches, self.names))

    patch.setattr(key_buckets.RowPages, "__iter__", pages)


PLANTED = (
    Planted(
        "numbers-begin-anew-with-a-page",
        _method(Numbering, "beside", "list(columns)), found.memory", "list(columns)), memory"),
        BESIDE + "numbers_are_the_same_by_page_and_at_once",
    ),
    Planted(
        "before-is-put-at-other-keys",
        _method(
            EarlierNumbers, "fill", "held[name][at[mine]] = values", "held[name][mine] = values"
        ),
        BESIDE + "numbers_are_the_same_by_page_and_at_once",
    ),
    Planted(
        "queues-are-empty-with-each-page",
        _method(Limited, "beside", "memory, now_s)\n", "Memory.empty(FIELDS), now_s)\n"),
        BESIDE + "quotas_are_the_same_by_page_and_at_once",
    ),
    Planted(
        "no-room-is-told-to-others",
        _method(Limited, "_decided", "refusals[rows[full]] =", "refusals[np.flatnonzero(full)] ="),
        BESIDE + "quotas_are_the_same_by_page_and_at_once",
    ),
    Planted(
        "what-is-no-message-takes-room",
        _method(Limited, "_decided", " & sound[order]]", "]"),
        BESIDE + "quotas_are_the_same_by_page_and_at_once",
    ),
    Planted(
        "null-is-no-transaction",
        replaced(quotas, "sound_of", lambda rows: np.ones(rows.num_rows, np.bool_)),
        BESIDE + "quotas_are_the_same_by_page_and_at_once",
    ),
    Planted("short-pages-of-a-long-memory", _pages_forget,
            BESIDE + "a_page_grows_with_what_is_remembered"),
    Planted("any-format-of-a-state-is-read", _any_format_is_read,
            REMEMBERED + "what_is_no_state_of_this_version_is_refused"),
    Planted("refusals-keep-their-caret", _carets_stay,
            GIVEN + "errors_in_one_line"),
    Planted("a-word-counts-as-yes", _words_are_answers, GIVEN + "values_of_parameters"),
)  # fmt: skip
