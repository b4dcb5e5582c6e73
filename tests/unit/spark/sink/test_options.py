"""Options and columns of the Spark sink: what is refused, with which words, and the page."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from onceq.errors import ConfigurationError
from onceq.spark.connections import CREDENTIALS
from onceq.spark.sink.options import CARRIED, COLUMNS, SINK_OPTIONS, columns_of, parse_sink

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "spark-options.md"
ENOUGH = {"queueManager": "127.0.0.1:1802", "queue": r"private$\orders"}


def schema(**columns: str) -> Any:
    def kind(text: str) -> Any:
        return SimpleNamespace(simpleString=lambda: text)

    return SimpleNamespace(
        fields=[SimpleNamespace(name=name, dataType=kind(text)) for name, text in columns.items()]
    )


def test_defaults() -> None:
    options = parse_sink(ENOUGH, stream=True)
    assert (options.manager, options.queue) == ("127.0.0.1:1802", r"private$\orders")
    assert (options.app, options.version, options.errors, options.values) == ("", -1, "", ())


def test_names_in_any_case_and_what_spark_says() -> None:
    given = {"QUEUEMANAGER": "h:1", "path": "a", "CheckpointLocation": "/c", "queryName": "n"}
    options = parse_sink(given, stream=True)
    assert (options.queue, options.checkpoint) == ("a", "/c")
    given = {**ENOUGH, "path": "b", "txnAppId": "app", "txnVersion": "0", "deadLetter": "TRUE",
             "timeToReachQueue": "60", "timeToBeReceived": "0"}  # fmt: skip
    options = parse_sink(given, stream=False)
    assert (options.queue, options.app, options.version) == (r"private$\orders", "app", 0)
    assert dict(options.values) == {
        "journal": 1, "time_to_reach_queue": 60, "time_to_be_received": 0,
    }  # fmt: skip


def test_rows_are_compared_in_batch_writes_with_a_name_only() -> None:
    """A stream's batches are Spark's own; one that is repeated may have other rows."""
    named = {**ENOUGH, "txnAppId": "app"}
    assert parse_sink({**named, "txnVersion": "0"}, stream=False).compared
    assert not parse_sink({**named, "txnVersion": "0", "txnRows": "Any"}, stream=False).compared
    assert not parse_sink(ENOUGH, stream=False).compared
    assert not parse_sink(named, stream=True).compared


@pytest.mark.parametrize(
    ("changed", "stream", "words"),
    [
        ({"queueManager": " "}, True, "say where the queue manager is"),
        ({"txnVersion": "1"}, True, "have numbers of their own"),
        ({"txnVersion": "1"}, False, "both or neither"),
        ({"txnAppId": "a"}, False, "both or neither"),
        ({"txnRows": "any"}, True, "have numbers of their own"),
        ({"txnRows": "any"}, False, "for writes with txnAppId"),
        ({"txnAppId": "a", "txnVersion": "0", "txnRows": "x"}, False, "txnRows is same or any"),
        ({"txnAppId": "a", "txnVersion": "-1"}, False, "txnVersion is a whole number"),
        ({"txnAppId": "a", "txnVersion": str(1 << 63)}, False, "txnVersion is a whole number"),
        ({"txnAppId": "a" * 201}, True, "up to 200 printable"),
        ({"txnAppId": "a\n"}, True, "up to 200 printable"),
        ({"deadLetter": "maybe"}, True, "deadLetter is true or false"),
        ({"timeToReachQueue": "1s"}, True, "timeToReachQueue is a whole number"),
        ({"timeToBeReceived": str(1 << 32)}, True, "timeToBeReceived is a whole number"),
        ({"errorQueu": "x"}, True, "did you mean errorQueue"),
        ({"maxMessagesPerTrigger": "1"}, True, "there is no option"),
    ],
)
def test_what_is_refused(changed: dict[str, str], stream: bool, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as refused:
        parse_sink({**ENOUGH, **changed}, stream=stream)
    assert refused.value.text.startswith("[configuration] ")


def test_columns_in_any_order_and_case() -> None:
    options = parse_sink(ENOUGH, stream=True)
    made = schema(Label="string", BODY="string", appspecific="int")
    assert columns_of(made, options) == ("label", "body", "appSpecific")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"label": "string"}, "no column body"),
        ({"body": "int"}, "body is binary or string, not int"),
        ({"body": "string", "lable": "string"}, "did you mean label"),
        ({"body": "string", "zzz": "string"}, "there are body, queue"),
        ({"body": "string", "lookupId": "bigint"}, "set by queue managers"),
        ({"body": "string", "Body": "string"}, "two columns body"),
        ({"body": "string", "correlationId": "string"}, "correlationId is binary"),
        ({"body": "string", "label": "void"}, r"leave it out.* lit\(None\).cast\('string'\)"),
    ],
)
def test_columns_that_are_refused(columns: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        columns_of(schema(**columns), parse_sink(ENOUGH, stream=True))


def test_somewhere_the_rows_must_go() -> None:
    options = parse_sink({"queueManager": "h:1"}, stream=True)
    assert columns_of(schema(body="string", queue="string"), options) == ("body", "queue")
    with pytest.raises(ConfigurationError, match="say where the rows go"):
        columns_of(schema(body="string"), options)


def test_the_page_has_every_option_and_column_of_the_sink() -> None:
    text = PAGE.read_text().split("## Options of the sink\n")[1].split("## Limits of the sink")[0]
    joined = text.replace("\n  ", " ")
    own = [option for option in SINK_OPTIONS if option not in CREDENTIALS]
    for option in own:
        row = f"* `{option.name}` ({option.kind}; {option.default}): {option.meaning}\n"
        assert row in joined, row
    plain, carrying = joined.split("### Columns of rows that carry\n")
    for columns, part in ((COLUMNS, plain), (CARRIED, carrying)):
        for column in columns:
            whole = column.kinds[:4] == ("tinyint", "smallint", "int", "bigint")
            *others, last = ("whole number", *column.kinds[4:]) if whole else column.kinds
            kinds = f"{', '.join(others)} or {last}" if others else last
            row = f"* `{column.name}` ({kinds}): {column.meaning}\n"
            assert row in part, row
    named = set(re.findall(r"^\* `(\w+)` \(", text, re.M))
    assert named == {option.name for option in own} | {
        column.name for column in (*COLUMNS, *CARRIED)
    }
