"""Queues as a source of Apache Spark, in Python only.

Nothing of Spark is imported before one of the names below is used. In a Python worker of a command,
what is logged here goes to that command (``hearing``).
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from onceq.spark.hearing import speak

if TYPE_CHECKING:
    from onceq.spark.bodies import decoded as decoded
    from onceq.spark.carrying import carried as carried
    from onceq.spark.progress import lag as lag
    from onceq.spark.progress import lag_bytes as lag_bytes
    from onceq.spark.runtime import prepare as prepare
    from onceq.spark.shipping import ship as ship

_WHERE: Final = {
    "carried": "onceq.spark.carrying",
    "decoded": "onceq.spark.bodies",
    "lag": "onceq.spark.progress",
    "lag_bytes": "onceq.spark.progress",
    "prepare": "onceq.spark.runtime",
    "ship": "onceq.spark.shipping",
}
speak(logging.getLogger("onceq.spark"))


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
