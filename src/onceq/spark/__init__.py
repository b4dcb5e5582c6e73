"""Queues as a source and a sink of Apache Spark, in Python only.

Nothing of Spark is imported before one of the names below is used. In a Python worker of a command,
what is logged here goes to that command (``worker_messages``).
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from onceq.spark.worker_messages import log_to_command

if TYPE_CHECKING:
    from onceq.spark.data_source import ship as ship
    from onceq.spark.message_columns import carried as carried
    from onceq.spark.message_columns import decoded as decoded
    from onceq.spark.runtime import prepare as prepare
    from onceq.spark.source.offsets import lag as lag
    from onceq.spark.source.offsets import lag_bytes as lag_bytes

_WHERE: Final = {
    "carried": "onceq.spark.message_columns",
    "decoded": "onceq.spark.message_columns",
    "lag": "onceq.spark.source.offsets",
    "lag_bytes": "onceq.spark.source.offsets",
    "prepare": "onceq.spark.runtime",
    "ship": "onceq.spark.data_source",
}
log_to_command(logging.getLogger("onceq.spark"))


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
