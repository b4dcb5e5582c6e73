"""The two times of a transaction: those of its first message hold for all of them (SND-12).

A message whose sender has said otherwise would live for another time than that, so it is refused.
The client says so at the call; the queue manager by the same rule to every program.

Upholds: nothing that a sender has said of a message is dropped without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onceq.errors import IllegalPropertyValue
from onceq.model.message import PLAIN

TIMES: Final = ("time_to_reach_queue", "time_to_be_received")


def check_lifetimes(first: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Refuse times that differ from those of a transaction.

    Args:
        first: What was said of its first message; what was not said is as by default.
        values: What is said of this one; what is not said is as in the first.

    Raises:
        IllegalPropertyValue: One of the times is another one.
    """
    for name in TIMES:
        if name in values:
            holds = first.get(name, getattr(PLAIN, name))
            if values[name] != holds:
                said = f"{holds} s" if name in first else "that of a message that says none"
                raise IllegalPropertyValue(
                    f"{name} of this message is {values[name]} s, and in its transaction {said} "
                    "holds for all, from the first message on (SND-12); say the same, leave it "
                    "out, or send it in another transaction"
                )
