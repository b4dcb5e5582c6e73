"""Options of the Spark source: what is refused, with which words, and what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceq.errors import ConfigurationError
from onceq.spark.options import EARLIEST, LATEST, OPTIONS, parse
from onceq.spark.rows import COLUMNS

ENOUGH = {"queueManager": "127.0.0.1:1802", "queue": r"private$\orders"}


def test_defaults_of_a_stream() -> None:
    options = parse(ENOUGH, stream=True)
    assert options.manager == "127.0.0.1:1802"
    assert options.queues == (r"private$\orders",)
    assert options.starting == {r"private$\orders": EARLIEST}
    assert (options.messages_max, options.bytes_max, options.partitions_min) == (0, 0, 1)
    assert options.receive
    assert options.fail_on_data_loss
    assert options.subscription == ""


def test_a_batch_only_peeks() -> None:
    assert not parse(ENOUGH, stream=False).receive


def test_names_in_any_case_and_the_path_of_load() -> None:
    options = parse({"QUEUEMANAGER": "h:1", "path": "a, b", "MinPartitions": "3"}, stream=True)
    assert options.queues == ("a", "b")
    assert options.partitions_min == 3


def test_offsets_as_json() -> None:
    given = {**ENOUGH, "queue": "a,b", "startingOffsets": '{"a": 17, "b": -1}'}
    assert parse(given, stream=True).starting == {"a": 17, "b": LATEST}


@pytest.mark.parametrize(
    ("changed", "stream", "words"),
    [
        ({"queueManager": ""}, True, "say where the queue manager is"),
        ({"queue": " , "}, True, "say which queue"),
        ({"queue": "a,A"}, True, "named twice"),
        ({"queue": "a/b,a\\b"}, True, "named twice"),
        ({"queue": ",".join(f"q{i}" for i in range(300))}, True, "300 queues"),
        ({"maxMessagePerTrigger": "1"}, True, "did you mean maxMessagesPerTrigger"),
        ({"colour": "red"}, True, "no option 'colour'"),
        ({"maxMessagesPerTrigger": "0"}, True, "from 1 to"),
        ({"maxMessagesPerTrigger": "many"}, True, "not 'many'"),
        ({"maxBytesPerTrigger": "-5"}, True, "from 1 to"),
        ({"minPartitions": "10001"}, True, "from 1 to 10000"),
        ({"failOnDataLoss": "maybe"}, True, "true or false"),
        ({"readMode": "drain"}, True, "receive or peek"),
        ({"readMode": "receive"}, False, "use readStream"),
        ({"maxMessagesPerTrigger": "5"}, False, "is for streams"),
        ({"failOnDataLoss": "true"}, False, "is for streams"),
        ({"endingOffsets": "latest"}, True, "for batch reads"),
        ({"endingOffsets": "earliest"}, False, "endingOffsets is latest or JSON"),
        ({"startingOffsets": "soon"}, True, "earliest or latest or JSON"),
        ({"startingOffsets": '{"x": 1}'}, True, "exactly the queues"),
        ({"startingOffsets": '{"private$\\\\orders": -7}'}, True, "cannot be -7"),
        ({"startingOffsets": '{"private$\\\\orders": "a"}'}, True, "cannot be 'a'"),
        ({"startingOffsets": "[1]"}, True, "exactly the queues"),
    ],
)
def test_what_is_refused(changed: dict[str, str], stream: bool, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse({**ENOUGH, **changed}, stream=stream)
    assert caught.value.text.startswith("[configuration] ")
    assert words in caught.value.text


def table(section: str) -> dict[str, list[str]]:
    """Rows of a table of the page by their first cell."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "spark-options.md"
    text = page.read_text().split(f"## {section}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    found = {row[0].strip("`"): row[1:] for row in rows}
    assert len(found) == len(rows)
    return found


def test_the_page_lists_every_option() -> None:
    expected = {option.name: [option.kind, option.default, option.meaning] for option in OPTIONS}
    assert table("Options") == expected


def test_the_page_lists_every_column() -> None:
    assert {name: row[0] for name, row in table("Columns").items()} == COLUMNS
