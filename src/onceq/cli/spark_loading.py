"""What the commands of ``onceq spark`` share: how their work is loaded, and Spark's errors.

Upholds: a plain installation has these commands too, and they say what to install.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from onceq.errors import ConfigurationError, OnceqError

INTERRUPTED = 130


def loaded(module: str) -> Any:
    """A module that needs Spark; raises ConfigurationError where that is not installed."""
    if find_spec("pyspark") is None:
        raise ConfigurationError(
            "this needs Apache Spark, which is not installed: pip install 'onceq[spark,java]'"
        )
    return import_module(module)


def said(error: Exception) -> OnceqError:
    """What Spark passes on of an error of ours, without the words around it; else Spark's own."""
    made: OnceqError = import_module("onceq.spark.told").told(error)
    return made
