"""The text that brings all spellings of a name into one task: for every letter there is."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
import pytest

from onceq.model.names import folded
from onceq.spark.operators.columns import LETTERS, alike, alike_column

HALVES = range(0xD800, 0xE000)
"""Halves of pairs: no letters, and nothing that UTF-8 can hold."""


def test_letters_from_the_limit_on_have_no_other_case() -> None:
    assert all(folded(chr(code)) == chr(code) for code in range(LETTERS, sys.maxunicode + 1))


@pytest.mark.spark
def test_spark_makes_the_same_of_every_letter(spark: Any) -> None:
    """Both go letter by letter, so that what holds for letters holds for names."""
    from pyspark.sql import functions as sql

    letters = [chr(code) for code in range(1, LETTERS) if code not in HALVES]
    size = 16
    # Each with ASCII beside it and alone among its neighbours; and every ASCII letter by itself.
    names = ["".join(letters[at : at + size]) for at in range(0, len(letters), size)]
    names += letters[:0x80]
    rows = spark.createDataFrame(pa.table({"name": names}))
    found = rows.select("name", alike_column(sql.col("name")).alias("text")).collect()
    assert len(found) == len(names)
    assert [(row.name, row.text) for row in found if row.text != alike(row.name)] == []


def test_spellings_of_a_name_and_names_that_differ() -> None:
    spellings = ("DIRECT=OS:Straße/Q", "direct=os:STRASSE\\q", "Direct=OS:straẞe\\q")
    assert {alike(name) for name in spellings} == {"direct=os:strasse\\q"}
    assert alike("\u212aiosk") == alike("Kiosk"), "the sign for kelvin is a k, too"
    assert len({alike(name) for name in ("Заказы1", "Заказы2", "ПЛАТЕЖИ", "注文", "支払")}) == 5


@pytest.mark.spark
def test_all_spellings_of_a_queue_are_one_stream(spark: Any) -> None:
    from onceq.spark.operators import eod_filter

    queues = [r"direct=os:kiosk\straße", "DIRECT=OS:\u212aIOSK/STRASSE", "Direct=OS:Kiosk/straẞe"]
    rows = [("A", queues[n % 3], "1", n, n - 1) for n in range(1, 31)]
    columns = "sourceMachine string, queue string, streamId string, seqNumber long, prevNumber long"
    found = eod_filter(spark.createDataFrame(rows, columns).repartition(3), buckets=64).collect()
    assert [row.verdict for row in found] == ["accept"] * 30 + ["order-ack"]
    assert [row.seqNumber for row in found] == [*range(1, 31), 30]
