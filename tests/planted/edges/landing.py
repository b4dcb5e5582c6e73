"""Planted mistakes about tables that messages are landed in."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest

from onceq.spark import worker_messages
from onceq.spark.land import decoding, memory, reading
from tests.planted.planted import Planted, edited

FILES = "tests/unit/spark/land/test_memory_files.py::test_"
SCHEMAS = "tests/unit/spark/land/test_plan_schemas.py::test_"
HEARING = "tests/unit/spark/test_worker_messages.py::test_"


def _a_table_forgets_its_batches(patch: pytest.MonkeyPatch) -> None:
    from onceq.spark.land.tables import DeltaTable

    patch.setattr(DeltaTable, "has", lambda self, batch: False)


def _any_landing_was_this_one(patch: pytest.MonkeyPatch) -> None:
    """Two landings in one Iceberg table, or one whose memory was made anew."""
    patch.setattr("onceq.spark.land.memory.uuid.uuid4", lambda: "the same")


def _what_a_batch_has_is_not_durable(patch: pytest.MonkeyPatch) -> None:
    from onceq.spark.land.memory import LandMemory

    patch.setattr(LandMemory, "settle", lambda self, batch: None)


def _bytes_left_over(patch: pytest.MonkeyPatch) -> None:

    class Read(BytesIO):
        def tell(self) -> int:
            return 1 << 40

    patch.setattr(decoding, "BytesIO", Read)


def _queues_are_one(patch: pytest.MonkeyPatch) -> None:
    """A message for two queues counts as one that came twice."""
    import numpy as np

    def codes(managers: Any, queues: Any, places: Any) -> Any:
        return np.zeros(len(queues), np.uint32)

    patch.setattr(reading, "_codes", codes)


def _a_plan_is_replaced_at_any_time(patch: pytest.MonkeyPatch) -> None:
    from onceq.spark.land.memory import LandMemory

    patch.setattr(LandMemory, "_begun", lambda self: False)


def _a_plan_stays_for_ever(patch: pytest.MonkeyPatch) -> None:
    from onceq.spark.land.memory import LandMemory

    patch.setattr(LandMemory, "_begun", lambda self: True)


def _a_changed_body_is_a_row_as_well(patch: pytest.MonkeyPatch) -> None:
    from proof.torture.spark.land_judge import Found

    patch.setattr(Found, "_landed", lambda self, number, said: number)


def _a_report_is_written_in_its_place(patch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    from onceq.audit import command

    def save(place: str, report: str, said: object) -> None:
        Path(place).write_text(report)

    patch.setattr(command, "save", save)


PLANTED = (
    Planted(
        "table-forgets-its-batches", _a_table_forgets_its_batches,
        FILES + "wherever_a_run_dies_the_next_one_makes_it_right",
    ),
    Planted(
        "landings-of-one-name", _any_landing_was_this_one,
        SCHEMAS + "another_folder_is_another_query",
    ),
    Planted(
        "landed-numbers-begin-anew",
        edited(memory, "if last >= 0 and not self._planned(last).exists():", "if False:"),
        FILES + "a_folder_whose_checkpoint_is_gone_is_refused",
    ),
    Planted(
        "plan-of-a-batch-unsynced", _what_a_batch_has_is_not_durable,
        FILES + "what_spark_has_planned_is_durable_before_files_are",
    ),
    Planted(
        "batch-by-two-schemas",
        edited(memory, "if self._planned(following).exists():", "if False:"),
        SCHEMAS + "a_batch_that_was_begun_ends_with_its_schema",
    ),
    Planted(
        "avro-bytes-left-over", _bytes_left_over,
        "tests/unit/spark/land/test_decoding_avro.py::test_a_body_is_one_record_or_says_why_not",
    ),
    Planted(
        "landed-queues-are-one", _queues_are_one,
        "tests/unit/spark/land/test_reading_proof.py::test_queues_and_managers_have_messages_of_their_own",
    ),
    Planted(
        "plan-replaced-at-any-time", _a_plan_is_replaced_at_any_time,
        FILES + "another_plan_needs_another_folder",
    ),
    Planted(
        "mistyped-plan-stays", _a_plan_stays_for_ever,
        FILES + "a_plan_of_which_nothing_was_landed_is_replaced",
    ),
    Planted(
        "judge-without-bodies", _a_changed_body_is_a_row_as_well,
        "tests/unit/proof/torture/spark/test_land.py::test_what_is_wrong_is_found",
    ),
    Planted(
        "half-a-report", _a_report_is_written_in_its_place,
        "tests/audit/test_report_text.py::test_a_full_disk_does_not_hide_the_verdict",
    ),
    Planted(
        "sentences-heard-again", edited(worker_messages, "self._place += len(line)", "pass"),
        HEARING + "each_sentence_is_heard_once_and_as_one_line",
    ),
    Planted(
        "half-sentences", edited(worker_messages, "if not line.endswith(b\"\\n\"):", "if False:"),
        HEARING + "half_a_sentence_waits_for_its_end",
    ),
    Planted(
        "nobody-listens-at-the-end",
        edited(
            worker_messages, "        thread.join()\n        ear.pass_on()", "        thread.join()"
        ),
        HEARING + "the_last_sentence_is_heard",
    ),
)  # fmt: skip
