"""Options of the Spark source: what is refused, with which words, and what the page says."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from onceq.errors import ConfigurationError
from onceq.model.views.queues import QueueView
from onceq.spark.connections import CREDENTIALS, EARLIEST, LATEST, Patience, SourceTarget
from onceq.spark.sink.options import parse_sink
from onceq.spark.source.options import COLUMNS, OPTIONS, USUAL, asked, ddl, parse, wanted
from onceq.spark.source.rows import arrow_schema, prefix

ENOUGH = {"queueManager": "127.0.0.1:1802", "queue": r"private$\orders"}


def test_defaults_of_a_stream() -> None:
    options = parse(ENOUGH, stream=True)
    address, queue = "127.0.0.1:1802", r"private$\orders"
    assert options.targets == (SourceTarget(queue, address, address, queue),)
    assert options.starting == {r"private$\orders": EARLIEST}
    assert (options.messages_max, options.bytes_max, options.partitions_min) == (0, 0, 1)
    assert options.receive
    assert options.fail_on_data_loss
    assert options.subscription == ""
    assert options.patience == Patience(10.0, 60.0, None, None)


def test_a_batch_only_peeks() -> None:
    assert not parse(ENOUGH, stream=False).receive


def test_names_in_any_case_and_the_path_of_load() -> None:
    options = parse({"QUEUEMANAGER": "h:1", "path": "a, b", "MinPartitions": "3"}, stream=True)
    assert [target.queue for target in options.targets] == ["a", "b"]
    assert options.partitions_min == 3


def test_offsets_as_json() -> None:
    given = {**ENOUGH, "queue": "a,b", "startingOffsets": '{"a": 17, "b": -1}'}
    assert parse(given, stream=True).starting == {"a": 17, "b": LATEST}


MANY = "one:1, two:2"


def keys(managers: str, queues: str, **more: str) -> list[tuple[str, str, str]]:
    """Key, address and name of each queue that is read."""
    given = {"queueManager": managers, "queue": queues, **more}
    return [(t.key, t.manager, t.queue) for t in parse(given, stream=True).targets]


def test_a_queue_on_each_of_many_queue_managers() -> None:
    assert keys(MANY, "a, b") == [
        ("one:1/a", "one:1", "a"), ("two:2/a", "two:2", "a"),
        ("one:1/b", "one:1", "b"), ("two:2/b", "two:2", "b"),
    ]  # fmt: skip


def test_a_queue_of_one_of_many() -> None:
    assert keys(MANY, "one:1/private$/a, two:2/b") == [
        (r"one:1/private$\a", "one:1", r"private$\a"), ("two:2/b", "two:2", "b"),
    ]  # fmt: skip
    assert keys("one:1", "one:1/a") == [("a", "one:1", "a")]
    assert keys("hub, hub/x", "hub/x/a") == [("hub/x/a", "hub/x", "a")]


def test_urls_say_all_by_themselves() -> None:
    assert keys("", r"onceq://one:1/private$\a") == [
        (r"private$\a", "onceq://one:1", r"private$\a")
    ]
    assert keys("", r"tls://one:1/private$\a") == [(r"private$\a", "tls://one:1", r"private$\a")]
    assert keys("", "onceq://one:1/a,onceq://two:2/a") == [
        ("onceq://one:1/a", "onceq://one:1", "a"), ("onceq://two:2/a", "onceq://two:2", "a"),
    ]  # fmt: skip


def test_executors_may_have_other_addresses() -> None:
    given = {"queueManager": MANY, "queue": "a", "executorQueueManager": "in:1,in:2"}
    assert [(t.manager, t.near) for t in parse(given, stream=True).targets] == [
        ("one:1", "in:1"), ("two:2", "in:2"),
    ]  # fmt: skip


def test_offsets_of_many_queue_managers() -> None:
    given = {"queueManager": MANY, "queue": "a", "startingOffsets": '{"a": -1}'}
    assert parse(given, stream=True).starting == {"one:1/a": LATEST, "two:2/a": LATEST}
    given["startingOffsets"] = '{"one:1/a": 5, "two:2/a": -2}'
    assert parse(given, stream=True).starting == {"one:1/a": 5, "two:2/a": EARLIEST}


def test_words_of_other_sources() -> None:
    given = {
        "queueManager": "here:1", "subscribe": "a,b", "startingTimestamp": "7999",
        "minOffsetsPerTrigger": "10", "maxTriggerDelay": "30s",
    }  # fmt: skip
    options = parse(given, stream=True)
    assert [target.key for target in options.targets] == ["a", "b"]
    assert (options.since, options.messages_min, options.delay_s) == (7, 10, 30.0)


def test_a_pattern_says_which_queues_it_means() -> None:
    given = {"queueManager": "a:1,b:1", "subscribePattern": r"orders-\d+"}
    options = parse({**given, "startingOffsets": "latest"}, stream=True)
    assert options.targets == ()
    assert options.starting["whatever"] == -1
    assert copy.deepcopy(options).starting["whatever"] == -1
    paths: dict[str, dict[str, Any]] = {
        r"private$\Orders-1": {}, r"private$\orders-2": {"transactional": False},
        r"private$\orders-3x": {}, "orders-4": {}, r"private$\orders-5;sub": {"parent": "x"},
        r"private$\orders-6": {"system": True},
    }  # fmt: skip
    views = [
        QueueView(name=path.rpartition("\\")[2], path=path, **({"transactional": True} | more))
        for path, more in paths.items()
    ]
    assert options.pattern is not None
    found = options.pattern.matching("a:1", "near:1", views)
    assert [target.key for target in found] == [r"a:1/private$\Orders-1", "a:1/orders-4"]
    assert {(target.manager, target.near) for target in found} == {("a:1", "near:1")}
    whole = parse({**given, "subscribePattern": r"private\$\\orders-3."}, stream=False).pattern
    assert whole is not None
    assert [one.queue for one in whole.matching("a:1", "a:1", views)] == [r"private$\orders-3x"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"subscribePattern": "("}, "is no regular expression"),
     ({"startingOffsets": '{"x": 1}'}, "with subscribePattern startingOffsets is earliest or"),
     ({"queueManager": ""}, "say where")],
)  # fmt: skip
def test_what_is_refused_of_a_pattern(changed: dict[str, str], words: str) -> None:
    given = {"queueManager": "a:1", "subscribePattern": "x", **changed}
    with pytest.raises(ConfigurationError, match=words):
        parse(given, stream=True)


def test_patience() -> None:
    given = {**ENOUGH, "numRetries": "0", "retryIntervalMs": "0", "timeoutMs": "250"}
    assert parse(given, stream=False).patience == Patience(0.25, 60.0, 0, 0.0)
    counted = parse({**ENOUGH, "numRetries": "3"}, stream=True).patience
    assert (counted.retries, counted.interval_s) == (3, 1.0)
    timed = parse({**ENOUGH, "retryTimeout": "5m"}, stream=True).patience
    assert (timed.retry_s, timed.retries, timed.interval_s) == (300.0, None, None)
    kept = parse({**ENOUGH, "retryTimeout": "0s", "retryIntervalMs": "50"}, stream=True).patience
    assert (kept.retry_s, kept.interval_s) == (0.0, 0.05)


@pytest.mark.parametrize(
    ("changed", "stream", "words"),
    [
        ({"queueManager": ""}, True, "say where the queue manager is"),
        ({"numRetries": "3", "retryTimeout": "1m"}, True, "both say how long to try"),
        ({"retryTimeout": "soon"}, True, "retryTimeout is a time such as"),
        ({"retryTimeout": "25h"}, True, "at most a day"),
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
        ({"subscribe": "x"}, True, "subscribe and queue both say it"),
        ({"subscribePattern": "x"}, True, "subscribePattern and queue both say it"),
        ({"startingTimestamp": "5", "startingOffsets": "latest"}, True, "both say it"),
        ({"startingTimestamp": "soon"}, True, "such as 2026-11-24T05:00:00Z"),
        ({"maxTriggerDelay": "5s"}, True, "give both"),
        ({"minOffsetsPerTrigger": "5", "maxTriggerDelay": "x"}, True, "a time such as 15m"),
        ({"minOffsetsPerTrigger": "5", "maxMessagesPerTrigger": "4"}, True, "has at most 4"),
        ({"minOffsetsPerTrigger": "3000000"}, True, "has at most 2000000"),
        ({"minOffsetsPerTrigger": "5", "maxBytesPerTrigger": "4"}, True, "give one"),
        ({"minOffsetsPerTrigger": "5"}, False, "is for streams"),
        ({"endingOffsets": "latest"}, True, "for batch reads"),
        ({"endingOffsets": "earliest"}, False, "endingOffsets is latest or JSON"),
        ({"startingOffsets": "soon"}, True, "earliest or latest or JSON"),
        ({"startingOffsets": '{"x": 1}'}, True, "exactly the queues"),
        ({"startingOffsets": '{"private$\\\\orders": -7}'}, True, "cannot be -7"),
        ({"startingOffsets": '{"private$\\\\orders": "a"}'}, True, "cannot be 'a'"),
        ({"startingOffsets": "[1]"}, True, "earliest or latest or JSON"),
        ({"queueManager": MANY, "startingOffsets": '{"one:1/x": 1}'}, True, "exactly the queues"),
        ({"queueManager": "one:1,one:1"}, True, "stands twice"),
        ({"queueManager": MANY, "queue": "a,one:1/A"}, True, "named twice"),
        ({"queueManager": MANY, "executorQueueManager": "x:1"}, True, "has 1 addresses"),
        ({"queueManager": "", "queue": "onceq://one:1"}, True, "is not onceq://host:port/queue"),
        ({"queueManager": "", "queue": "tls://one:1"}, True, "is not tls://host:port/queue"),
        ({"queueManager": "", "queue": "onceq://one:1/a,b"}, True, "does not say on which"),
        ({"numRetries": "-1"}, True, "from 0 to"),
        ({"timeoutMs": "0"}, True, "from 1 to"),
    ],
)
def test_what_is_refused(changed: dict[str, str], stream: bool, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse({**ENOUGH, **changed}, stream=stream)
    assert caught.value.text.startswith("[configuration] ")
    assert words in caught.value.text


def lines(section: str) -> list[str]:
    """The list of a section of the page, a line each."""
    page = Path(__file__).parents[4] / "docs" / "reference" / "spark-options.md"
    text = page.read_text().split(f"## {section}\n")[1].split("\n## ")[0]
    return [" ".join(one.split()) for one in re.findall(r"^\* `(.+(?:\n  .+)*)", text, re.M)]


def test_the_page_lists_every_option() -> None:
    own = [option for option in OPTIONS if option not in CREDENTIALS]
    for section, expected in (("Options", own), ("Options of source and sink", [*CREDENTIALS])):
        assert [one for one in lines(section) if "): " in one][: len(expected)] == [
            f"{option.name}` ({option.kind}; {option.default}): {option.meaning}"
            for option in expected
        ]


def test_the_page_lists_every_column() -> None:
    found = [re.match(r"(\w+)` \((\w+)\): .+", one) for one in lines("Columns")]
    assert {one[1]: one[2] for one in found if one} == COLUMNS


def fields(**columns: str) -> Any:
    """A schema as Spark hands it over."""
    named = [
        SimpleNamespace(name=name, dataType=SimpleNamespace(simpleString=lambda kind=kind: kind))
        for name, kind in columns.items()
    ]
    return SimpleNamespace(fields=named)


def test_the_usual_columns_are_those_of_the_first_versions() -> None:
    """Checkpoints and tables have them: one more, or in another order, would break these."""
    assert asked({}) == tuple(USUAL)
    assert ddl(USUAL).replace("`", "") == (
        "body binary, label string, queueManager string, queue string, lookupId bigint, "
        "messageId binary, correlationId binary, sentTime timestamp, arrivedTime timestamp, "
        "class int, className string, priority int, bodyType int, appSpecific bigint, "
        "extension binary, streamId string, seqNumber bigint, prevNumber bigint, xactId binary, "
        "firstInXact boolean, lastInXact boolean, sourceMachine string, destination string, "
        "responseQueue string, adminQueue string, abortCount int, moveCount int"
    )


def test_columns_by_name() -> None:
    assert asked({"COLUMNS": " label , body,"}) == ("label", "body")
    assert asked({"columns": "All"}) == tuple(name for name in COLUMNS if name != "bodyCrc")
    assert asked({"columns": "BODYCRC,Label"}) == ("bodyCrc", "label")
    assert wanted(fields(packetBytes="bigint", body="binary"), {}) == ("packetBytes", "body")
    assert wanted(fields(label="string"), {"columns": "label"}) == ("label",)
    # Capitals do not matter, as in all of Spark; the columns are given back as they were named.
    names = wanted(fields(LookupID="bigint", Label="string"), {"columns": "lookupId,label"})
    assert names == ("LookupID", "Label")
    assert arrow_schema(names).names == ["LookupID", "Label"]
    assert prefix(("LOOKUPID",)) == 0
    assert prefix(("Body",)) is None


@pytest.mark.parametrize(
    ("given", "columns", "words"),
    [
        ({"columns": "lable"}, {}, "no column 'lable'; did you mean label"),
        ({"columns": "?"}, {}, "there are body, label"),
        ({"columns": " , "}, {}, "columns is all, or names of columns"),
        ({"columns": "body,body"}, {}, "each once"),
        ({}, {"bodies": "binary"}, "did you mean body"),
        ({}, {"packetBytes": "int"}, "column packetBytes is bigint, not int"),
        ({"columns": "label"}, {"body": "binary"}, "name different columns"),
    ],
)
def test_columns_that_are_refused(
    given: dict[str, str], columns: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        wanted(fields(**columns), given) if columns else asked(given)
    assert caught.value.text.startswith("[configuration] ")
    assert words in caught.value.text


@pytest.mark.parametrize("name", ["token", "Token"])
def test_a_token_is_no_option_and_is_not_repeated(name: str) -> None:
    """Of a source and of a sink: what is given so stands in places that others read."""
    given = {"queueManager": "tls://hub:1802", "queue": "q", name: "onceq_billing_s3cr3t"}
    for parsed in (lambda: parse(given, stream=True), lambda: parse_sink(given, stream=True)):
        with pytest.raises(ConfigurationError, match=r"no option token.*ONCEQ_TOKEN_FILE") as told:
            parsed()
        assert "s3cr3t" not in str(told.value)
        assert "revoke it" in str(told.value)
