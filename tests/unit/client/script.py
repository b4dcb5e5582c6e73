"""A queue manager for plans: it answers each request as one would, unless the test says otherwise.

No connection and no threads are needed: a plan is a generator, and the script drives it.
"""

from __future__ import annotations

from typing import TypeVar

from onceq.client.link import LinkRequest
from onceq.client.plans.plan import Plan
from onceq.model import requests
from onceq.model.results import Opened, Sent

Q = r"private$\q"
R = TypeVar("R", bound=requests.Request)
T = TypeVar("T")


class Script:
    """Answers requests as a manager would, unless the test has another answer for a code."""

    def __init__(self) -> None:
        self.asked: list[LinkRequest] = []
        self.answers: dict[int, list[object]] = {}
        self.sent: list[tuple[str, bytes]] = []
        self.pending: list[tuple[str, bytes]] = []

    def will(self, code: int, *answers: object) -> None:
        self.answers.setdefault(code, []).extend(answers)

    def request(self, at: int, kind: type[R]) -> R:
        """One that was asked, which is of this kind."""
        asked = self.asked[at].asked
        assert isinstance(asked, kind)
        return asked

    def kinds(self) -> list[str]:
        return [type(request.asked).__name__ for request in self.asked]

    def answer(self, request: LinkRequest) -> object:
        self.asked.append(request)
        waiting = self.answers.get(request.asked.code)
        result = waiting.pop(0) if waiting else None
        if isinstance(result, BaseException):
            raise result
        return self._does(request) if result is None else result

    def _does(self, request: LinkRequest) -> object:
        asked = request.asked
        if isinstance(asked, (requests.Send, requests.Commit)):
            for item in asked.items:
                self.pending += [(item.destination, bytes(body)) for body in item.bodies]
            if isinstance(asked, requests.Commit) or not asked.transaction:
                first = len(self.sent) + 1
                self.sent += self.pending
                count, self.pending = len(self.pending), []
                return Sent(first, count, 1)
        if isinstance(asked, requests.Abort):
            self.pending = []
        if isinstance(asked, requests.OpenQueue):
            return Opened(1, True, True)
        return None

    def run(self, plan: Plan[T]) -> T:
        try:
            request = next(plan)
            while True:
                try:
                    result = self.answer(request)
                except BaseException as error:  # noqa: BLE001 - as the runners do
                    request = plan.throw(error)
                else:
                    request = plan.send(result)
        except StopIteration as stop:
            done: T = stop.value
            return done
