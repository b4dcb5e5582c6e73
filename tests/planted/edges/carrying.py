"""Mistakes about what rows carry, and about the columns that the source gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from onceq.model.marks import NEVER_S
from onceq.packet import address as at
from onceq.spark.sink import options as sink_options
from onceq.spark.sink import rows as sink_rows
from onceq.spark.sink.rows import Carrying
from onceq.spark.source import options as source_options
from onceq.spark.source import rows
from onceq.spark.source.rows import Packets
from tests.planted.planted import Planted, edited, replaced

CARRYING = "tests/unit/spark/sink/test_rows_carrying.py::test_"
ROWS = "tests/unit/spark/source/test_rows.py::test_"


def _without_number_is_number_nothing(patch: pytest.MonkeyPatch) -> None:
    """A row that got no number is sent, with number 0."""
    before = Carrying._place

    def place(self: Carrying, head: Any, columns: Mapping[str, Any]) -> Any:
        before(self, head, columns)
        return np.ones(len(head), np.bool_)

    patch.setattr(Carrying, "_place", place)


def _signed_is_encrypted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Packets, "encrypted", property(lambda self: (self.flags & at.USER_SECURITY) != 0))


PLANTED = (
    Planted(
        "acknowledgments-to-the-queue-they-are-about",
        edited(sink_rows, "(empty != ahead) | (acks & (not self._apart))", "empty != ahead"),
        CARRYING + "an_acknowledgment_does_not_go_where_its_messages_went",
    ),
    Planted(
        "no-number-is-a-number", _without_number_is_number_nothing,
        CARRYING + "pieces_carry_and_refuse",
    ),
    Planted(
        "troubles-of-carried-rows-are-lost",
        edited(sink_rows, "return np.where(faults > 0, faults + (_OF_BODIES - 1), others)",
               "return found"),
        CARRYING + "pieces_carry_and_refuse",
    ),
    Planted(
        "half-a-place-is-enough",
        edited(sink_options, "if lacking and len(lacking) < len(PLACE):", "if False:"),
        CARRYING + "columns_that_carry_half_of_it",
    ),
    Planted(
        "own-extension-is-dropped",
        edited(sink_rows, 'return pc.fill_null(column.cast(kind), b"")',
               'return pa.array([b""] * rows, kind)'),
        CARRYING + "a_message_with_everything",
    ),
    Planted(
        "every-column-is-usual", replaced(source_options, "USUAL", source_options.COLUMNS),
        "tests/unit/spark/source/test_options.py::"
        "test_the_usual_columns_are_those_of_the_first_versions",
    ),
    Planted("signed-is-encrypted", _signed_is_encrypted, ROWS + "whether_bodies_are_encrypted"),
    Planted(
        "no-limit-is-a-long-one",
        edited(rows, 'seconds == NEVER_S)', f"seconds > {NEVER_S})"),
        ROWS + "messages_of_every_form",
    ),
    Planted(
        "journal-bits-are-the-wrong-ones",
        edited(rows, "shift = at.USER_DEADLETTER.bit_length() - 1",
               "shift = at.USER_DEADLETTER.bit_length()"),
        ROWS + "messages_of_every_form",
    ),
)  # fmt: skip
