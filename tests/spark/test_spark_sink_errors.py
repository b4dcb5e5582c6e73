"""What Spark prints of an error of the sink ends with our own sentence, where it is ours to say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conftest import token_file

pytestmark = pytest.mark.spark


def said(frame: Any, **options: Any) -> str:
    writer = frame.write.format("onceq").mode("append").option("retryTimeout", "0s")
    with pytest.raises(Exception, match=r"\[[a-z-]+\]") as failed:
        writer.options(**options).save()
    return str(failed.value).strip()


def rows(spark: Any, **columns: str) -> Any:
    return spark.range(2).selectExpr(
        "cast(id as string) AS body", *(f"'{value}' AS {name}" for name, value in columns.items())
    )


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"queue": r"127.0.0.1:2812/private$\\s3"}, {"queue": ""}, r"\[illegal-format-name\] HUB"),
        ({"queue": r"private$\\no-such"}, {"queue": ""}, r"\[queue-not-found\] HUB: rows? 0"),
        ({"label": "x" * 300}, {}, r"\[label-too-long\] HUB: row"),
        ({}, {"queueManager": "127.0.0.1:1"}, r"\[service-not-available\] .*is it running"),
        ({}, {"queueManager": "no-such-host.invalid:2812"}, r"\[wrong-address\] .*no-such"),
        ({}, {"errorQueue": r"private$\no-such"}, r"\[queue-not-found\]"),
        ({}, {"peer port": True}, r"\[wrong-address\] .*at once.*1801.*client_listen"),
    ],
    ids=["address in a row", "queue", "label", "away", "no host", "error queue", "peer port"],
)  # fmt: skip
def test_the_last_line_is_ours(
    spark: Any, daemon: Any, queue: str, columns: dict[str, str], options: dict[str, Any],
    words: str,
) -> None:  # fmt: skip
    given = {"queueManager": str(daemon.path), "queue": queue, **options}
    if given.pop("peer port", False):
        given["queueManager"] = daemon.peers
    lines = said(rows(spark, **columns), **{k: v for k, v in given.items() if v}).splitlines()
    assert re.search(words, lines[-1]), lines[-1]
    assert re.search(r"\[[a-z-]+\] ", lines[-1])


def test_what_the_driver_is_told_at_the_commit_is_the_last_line(
    spark: Any, daemon: Any, queue: str
) -> None:
    same = {"queueManager": str(daemon.path), "queue": queue, "txnAppId": queue, "txnVersion": 1}
    writer = rows(spark).write.format("onceq").mode("append")
    writer.options(**same).save()
    lines = said(rows(spark, label="other"), **same).splitlines()
    ours = [number for number, line in enumerate(lines) if "[group-differs]" in line]
    # Behind an error of a commit there is nothing but Spark's own code.
    assert len(lines) - ours[-1] <= 3, lines[ours[-1] :]


def test_options_are_refused_before_any_task(
    spark: Any, daemon: Any, queue: str, tmp_path: Path
) -> None:
    """What cannot be reached as it is written; two addresses are two queue managers."""
    shown = token_file(tmp_path, daemon, more="127.0.0.1:1 -\n")
    for options, words in (
        ({"queue": r"127.0.0.1:2812/private$\s3"}, "names the address of a queue manager"),
        ({"queue": queue, "retryTimeout": "soon"}, "retryTimeout"),
        ({"queue": queue, "queueManager": f"{daemon.address},127.0.0.1:1"}, r"127\.0\.0\.1:1\b"),
    ):
        given = {"queueManager": str(daemon.path), "tokenFile": shown, **options}
        assert re.search(words, said(rows(spark), **given))
