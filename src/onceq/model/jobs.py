"""Jobs: what a queue manager does to many messages, batch by batch, until it is over.

What a job is to do is said once, when it starts (``Order``), and is kept as it was said. Which
messages are meant is told by the words of dead letters (``model/letters.py``); which are there, the
core notes at the start: what comes later is not of the job.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from onceq.errors import InvalidParameter
from onceq.model.letters import ALL, Filter
from onceq.model.limits import RETURNS_MAX
from onceq.model.record import Record, defaults, names


class JobAction(Enum):
    """What is done to each message; the values are the words of commands and views."""

    RETURN = "return"
    PURGE = "purge"
    MOVE = "move"
    SEND_AS_NEW = "send-as-new"


MEANING: Final = {
    JobAction.RETURN: "send it to its destination again, and remove it here",
    JobAction.PURGE: "remove it for good",
    JobAction.MOVE: "send it to another queue, and remove it here",
    JobAction.SEND_AS_NEW: "send it to its destination as a new message, and keep it here",
}
"""What each does, as the documentation says it."""


class JobState(Enum):
    """How far a job is; whatever is not running is over."""

    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Order(Record, frozen=True):
    """What a job is to do.

    Attributes:
        which: What fits is meant; ages count from the start of the job.
        to: Destination of all; "": each goes to its own.
        limit: It ends after so many; 0: when all were looked at.
        returns_max: What was returned so often stays.
        in_doubt, second: As in ``model/letters.stays``: letters that stay else.
    """

    action: JobAction
    which: Filter = ALL
    to: str = ""
    limit: int = 0
    returns_max: int = RETURNS_MAX
    in_doubt: bool = False
    second: bool = False

    def check(self) -> None:
        """Raises InvalidParameter if it makes no sense."""
        if self.action is JobAction.MOVE and not self.to:
            raise InvalidParameter("messages are moved to a queue: say which one")
        if self.action is JobAction.PURGE and self.to:
            raise InvalidParameter(
                "what is removed for good goes nowhere; to move it is another job"
            )
        if self.limit < 0 or self.returns_max < 1:
            raise InvalidParameter("a limit is a number from 1")
        if min(self.which.older_s, self.which.younger_s) < 0:
            raise InvalidParameter("an age is a number of seconds from 0")

    def dump(self) -> dict[str, Any]:
        """As JSON has it: what is as by default is left out."""
        values = {name: getattr(self, name) for name in _OF_ORDER}
        values |= {name: getattr(self.which, name) for name in _OF_FILTER}
        said = {name: value for name, value in values.items() if value != _DEFAULTS[name]}
        return {**said, "action": self.action.value}

    @classmethod
    def load(cls, values: dict[str, Any]) -> Order:
        """Read it back; raises KeyError, TypeError or ValueError."""
        said = {name: values[name] for name in values if name in _OF_FILTER}
        rest = {name: values[name] for name in values if name in _OF_ORDER}
        return cls(**{**rest, "action": JobAction(values["action"]), "which": Filter(**said)})


_OF_FILTER: Final = names(Filter)
_OF_ORDER: Final = tuple(name for name in names(Order) if name not in ("which", "action"))
_DEFAULTS: Final = defaults(Filter) | defaults(Order)
