"""Log how messages end: at most two lines a minute for each way to end.

A client that sends a million messages to a missing queue must not cause a million lines here, but
an operator must see that they were refused. The core counts its endings
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
    """Log the counts.

    Args:
        noted: By event and class: the number of messages, and the queue of the last ones ("" if
            unknown).
    """
    for (what, reason), (count, queue) in noted.items():
        values = {"class": class_name(reason) if reason else OTHER}
        if reason in ENDS:
            values["why"] = ENDS[reason][1]
        if queue:
            values["queue"] = queue
        rates.count(what, values, count, level=logging.WARNING, of=values["class"])
