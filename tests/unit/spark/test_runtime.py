"""A Spark that does not start: in one line, why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onceq.errors import ConfigurationError
from onceq.spark import runtime

JAVA = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: Could not parse Master URL: 'local[x]'
\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:603)
"""
GATEWAY = "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."


@pytest.mark.parametrize(
    ("error", "java", "says"),
    [
        (JAVA, 'Setting Spark log level to "OFF".\n',
         "org.apache.spark.SparkException: Could not parse Master URL: 'local[x]'"),
        (GATEWAY, "Error: JVM cannot start\nNot enough space\n\n",
         f"{GATEWAY}; Java said last: Not enough space"),
        ("", "", "RuntimeError"),
    ],
    ids=["master", "java", "nothing"],
)  # fmt: skip
def test_the_line_says_why_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, java: str, says: str
) -> None:
    def start(*_: object) -> None:
        os.write(2, java.encode())
        raise RuntimeError(error)

    monkeypatch.setattr(runtime, "prepare", lambda: None)
    monkeypatch.setattr(runtime, "_session", start)
    with (
        pytest.raises(ConfigurationError) as told,
        runtime.quiet_session("local[x]", "test", folder=tmp_path / "spark"),
    ):
        pass
    assert told.value.text == f"Spark did not start: {says}"
