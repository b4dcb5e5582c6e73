"""What the commands of ``onceq spark`` share: how their work is loaded, and Spark's errors.

Upholds: a plain installation has these commands too, and they say what to install.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from onceq.errors import ConfigurationError, OnceqError

INTERRUPTED = 130


def loaded(module: str, extras: str = "spark,java") -> Any:
    """A module that needs Spark; raises ConfigurationError where a library is not installed."""
    missing: str | None = "pyspark"
    if find_spec("pyspark") is not None:
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            missing = error.name
    raise ConfigurationError(
        f"this command needs the package {missing}: pip install 'onceq[{extras}]'"
    )


def said(error: Exception) -> OnceqError:
    """What Spark passes on of an error of ours, without the words around it; else Spark's own."""
    made: OnceqError = import_module("onceq.spark.error_codes").original(error)
    return made
