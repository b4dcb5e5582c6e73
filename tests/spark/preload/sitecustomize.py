"""Python processes of the tests' Spark session import once what each of them needs.

A worker ends with what fails in it, and its place is taken by a fork of PySpark's daemon, which
imports pyarrow, onceq and perhaps pandas again: a second for each of hundreds of tests. With this
folder on its path the daemon itself has imported them before it forks.
"""

from __future__ import annotations

import importlib
import sys

OURS = "onceq.spark.source.reader", "onceq.spark.sink.writer"
IMPORTED = {
    "pyspark.worker": ("pandas", *OURS),
    "pyspark.sql.worker.create_data_source": OURS,
    "pyspark.sql.worker.write_into_data_source": OURS,
    "pyspark.sql.worker.commit_data_source_write": OURS,
}
"""By the module of the workers."""

if "pyspark.daemon" in sys.orig_argv:
    worker = sys.orig_argv[-1]
    for name in (worker, *IMPORTED[worker]) if worker in IMPORTED else ():
        importlib.import_module(name)
