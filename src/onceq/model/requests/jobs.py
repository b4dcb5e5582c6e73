"""Requests about jobs: start one, and cancel one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from onceq.errors import InvalidParameter
from onceq.model.jobs import JobAction, Order
from onceq.model.letters import filter_of
from onceq.model.limits import FORMAT_NAME_CHARS_MAX, JOB_QUEUES_MAX, JOB_TEXT_CHARS_MAX
from onceq.model.requests.request import Needs, Request, choice, quoted
from onceq.model.sending import elements_of
from onceq.model.views.work import JobView

_ACTIONS: Final = tuple(one.value for one in JobAction)


class _StartJob(Request, kw_only=True):
    """Of the start of a job, what the service and the core fill in."""

    order: Order | None = None
    number: int = 0


class StartJob(_StartJob):
    """Do something to the messages that stand in some queues now. Answer: a JobView, once durable.

    Attributes:
        action: As text until it is checked.
        queues: Local ones, in the order in which they are worked off.
        to, limit, returns_max, in_doubt, second: As in ``model/jobs.Order``.
        reason, destination, label, origin, older_s, younger_s, id: Which messages are meant, as in
            ``model/letters.Filter``; "" and 0: whichever.
        order: What they say.
        number: Of the job that was made.
    """

    code = 39
    needs = Needs.STATE
    answer = JobView
    action: JobAction | str
    queues: Sequence[str]
    to: str = ""
    limit: int = 0
    returns_max: int = 1
    in_doubt: bool = False
    second: bool = False
    reason: str = ""
    destination: str = ""
    label: str = ""
    origin: str = ""
    older_s: int = 0
    younger_s: int = 0
    id: str = ""

    def check(self) -> None:
        """See Request."""
        if isinstance(self.action, str) and self.action not in _ACTIONS:
            raise InvalidParameter(
                f"there is no action {quoted(self.action)}; say one of {', '.join(_ACTIONS)}"
            )
        action = self.action = choice(JobAction, self.action)
        if not 1 <= len(self.queues) <= JOB_QUEUES_MAX:
            raise InvalidParameter(f"a job is about 1 to {JOB_QUEUES_MAX} queues")
        for text in (self.reason, self.destination, self.label, self.origin):
            if len(text) > JOB_TEXT_CHARS_MAX:
                raise InvalidParameter(f"{quoted(text)} is longer than any message has it")
        for name in (*self.queues, self.to):
            if len(name) > FORMAT_NAME_CHARS_MAX:
                raise InvalidParameter(f"{quoted(name)} is longer than any name")
        if self.to:
            elements_of(self.to)
        which = filter_of(
            reason=self.reason, destination=self.destination, label=self.label,
            origin=self.origin, older_s=self.older_s, younger_s=self.younger_s, id=self.id,
        )  # fmt: skip
        self.order = Order(
            action, which, self.to, self.limit, self.returns_max, self.in_doubt, self.second
        )
        self.order.check()


class CancelJob(Request):
    """Let a job end between two batches; what is done stays done. Answer: a JobView; of one that
    was over before how it had ended.
    """

    code = 40
    needs = Needs.STATE
    answer = JobView
    number: int
