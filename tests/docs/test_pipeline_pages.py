"""What the pages about Spark must say, because who does not know it loses something or is stuck.

Each was missed by somebody who had nothing but the pages. A page may say it in other words; then
these here change with it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
SAID = [
    ("spark.md", "Land a queue in files", "_spark_metadata"),
    ("land.md", "What a folder of Parquet files is", "files of attempts that failed"),
    ("spark.md", "On a cluster", "show a token or a certificate"),
    ("spark.md", "Many queues, many queue managers", "no stand-by and no replica"),
    ("spark.md", "Many queues, many queue managers", "decided where it is sent"),
    ("spark.md", "Many queues, many queue managers", "with more queue managers or queues"),
    ("spark.md", "Write rows to queues", "Two writes of one batch need two names"),
    ("spark.md", "Write rows to queues", "Spark refuses to sort a stream"),
    ("spark.md", "Keep the order", "of a stream only inside `foreachBatch`"),
    ("spark.md", "To several queue managers", "The first address decides"),
    ("spark.md", "When something goes wrong", "Holes are normal"),
    ("land.md", "Delta and Iceberg", "is made for Spark 4.1, fails in 4.2"),
    ("land.md", "Delta and Iceberg", "is made for 4.2 and fails in 4.3"),
    ("audit.md", "What is proven", "It cannot see"),
]


@pytest.mark.parametrize(("page", "heading", "words"), SAID)
def test_a_page_says_what_must_be_known(page: str, heading: str, words: str) -> None:
    text = (HOW_TO / page).read_text()
    found = re.search(rf"^##+ {re.escape(heading)}.*?$(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert found, f"{page} has no section {heading!r}"
    said = " ".join(found[1].split())
    assert re.search(words, said), f"{page}, {heading}: {words}"
