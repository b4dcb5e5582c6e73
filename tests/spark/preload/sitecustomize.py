"""Python processes of the tests' Spark session import once what each of them needs.

A worker ends with the task that fails in it, and its place is taken by a fork of PySpark's daemon,
which imports pandas, pyarrow and onceq again: a second for each of hundreds of tests. With this
folder on its path the daemon itself has imported them before it forks.
"""

from __future__ import annotations

import importlib
import sys

if sys.orig_argv[-2:] == ["pyspark.daemon", "pyspark.worker"]:
    for name in (
        "pyspark.worker", "pandas", "pyarrow", "onceq.spark.source.reader",
        "onceq.spark.sink.writer",
    ):  # fmt: skip
        importlib.import_module(name)
