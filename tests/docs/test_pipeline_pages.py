"""What the pages about Spark must say, because who does not know it loses something or is stuck.

Each was missed by somebody who had nothing but the pages. A page may say it in other words; then
these here change with it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
HOW_TO = DOCS / "how-to"
SAID = [
    ("spark.md", "Land a queue in files", "_spark_metadata"),
    ("spark.md", "Look at a stream first", r'option\("readMode", "peek"\)'),
    ("spark.md", "Look at a stream first", "is no failure for Spark.*`afterRead` journal"),
    ("spark.md", "Watermarks", "numRowsDroppedByWatermark"),
    ("spark.md", "Files of a checkpoint that are lost", "cp cp/commits/16 cp/commits/17"),
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


def samples() -> Iterator[tuple[str, ast.Module]]:
    for page in (DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))):
        for block in re.findall(r"^```python[^\n]*\n(.*?)^```", page.read_text(), re.M | re.S):
            yield page.name, ast.parse(block)


def for_batches() -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions that samples give to ``foreachBatch``."""
    for page, sample in samples():
        calls = [node for node in ast.walk(sample) if isinstance(node, ast.Call)]
        given = {
            ast.unparse(call.args[0])
            for call in calls
            if isinstance(call.func, ast.Attribute) and call.func.attr == "foreachBatch"
        }
        for node in ast.walk(sample):
            if isinstance(node, ast.FunctionDef) and node.name in given:
                yield page, node


def unnumbered(function: ast.FunctionDef) -> list[str]:
    """The writes of a function that do not depend on the number of the batch."""
    number = function.args.args[1].arg
    depends = {number}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and depends & names(node.value):
            depends |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    found = []
    for node in ast.walk(function):
        if isinstance(node, ast.Expr) and not depends & names(node.value):
            text = ast.unparse(node.value)
            found += [text] if ".write." in text or "write_deltalake" in text else []
    return found


def names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def test_what_a_batch_writes_has_its_number() -> None:
    """A batch that is run again must find what it has written (finding P2)."""
    found = list(for_batches())
    assert {page for page, _ in found} == {"spark.md", "spark-pipeline.md"}
    assert len(found) == 4
    assert [(page, text) for page, function in found for text in unnumbered(function)] == []
    bad = ast.parse("def land(frame, batch):\n    frame.write.mode('append').parquet('rows')").body[
        0
    ]
    assert isinstance(bad, ast.FunctionDef)
    assert unnumbered(bad)


def test_streams_in_samples_have_a_checkpoint() -> None:
    """Without one a batch that comes again has no number that a sink could know."""
    bare = [
        (page, ast.unparse(node)[:60])
        for page, sample in samples()
        for node in ast.walk(sample)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        and node.func.attr == "start" and "checkpointLocation" not in ast.unparse(sample)
        and "writeStream" in ast.unparse(sample)
    ]  # fmt: skip
    assert bare == []
