"""What becomes of messages, in the log: at most two lines a minute for each way to end.

Whoever sends a million messages to a queue that is not there must not write a million lines here,
and an operator must see all the same that they were refused. The core counts what it does
(``core/step/recent_endings.py``); at most once a second, while anything happens, the counts become
lines.

Upholds: I24.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from onceq.core.step.recent_endings import OTHER
from onceq.model.classes import class_name
from onceq.model.letters import ENDS
from onceq.service.rates import Rates


def tell(rates: Rates, noted: Mapping[tuple[str, int], tuple[int, str]]) -> None:
    """Log what was noted.

    Args:
        noted: What has happened and the class: to how many messages, and the queue of the last
            ones ("": not known).
    """
    for (what, reason), (count, queue) in noted.items():
        values = {"class": class_name(reason) if reason else OTHER}
        if reason in ENDS:
            values["why"] = ENDS[reason][1]
        if queue:
            values["queue"] = queue
        rates.count(what, values, count, level=logging.WARNING, of=values["class"])
