"""The way of a task, or of the driver, to one queue manager: it waits for one that is away.

A line has one connection, borrowed from those of its process (``pool.py``) when it is first needed.
What is asked over it is asked again when there was no answer, for a time (``patience.py``); so
everything that is asked here may be asked twice.

Upholds: I24, and nothing is silent.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Final, Self, TypeVar

from onceq.client.threads.manager import QueueManager
from onceq.errors import ServiceNotAvailable, WrongAddress
from onceq.spark.error_codes import coded
from onceq.spark.patience import Patience, Spell

WRONG_S_MAX: Final = 3.0
"""Seconds; for an address at which there never was a queue manager nobody waits much longer."""

Opened = Callable[[str], AbstractContextManager[QueueManager]]
T = TypeVar("T")


def asked_again(
    work: Callable[[], T], place: str, patience: Patience,
    *, met: Callable[[], bool] = lambda: False,
) -> T:  # fmt: skip
    """Do something that needs a queue manager, and do it again while that is away.

    Args:
        place: What is away then, for the log and the error.
        met: Whether it was there before.

    Raises:
        ServiceNotAvailable: It was away for too long.
    """
    spell: Spell | None = None
    while True:
        try:
            result = work()
        except ServiceNotAvailable as error:
            if spell is None:
                wrong = isinstance(error, WrongAddress) and not met()
                most = min(patience.retry_s, WRONG_S_MAX) if wrong else patience.retry_s
                spell = Spell(replace(patience, retry_s=most), place)
            if not spell.again(error):
                raise coded(error, place + spell.said()) from None
        else:
            if spell is not None:
                spell.over()
            return result


class Line:
    """See the module. For one thread."""

    def __init__(self, address: str, patience: Patience, opened: Opened) -> None:
        """Args:
        opened: Borrows a connection to an address.
        """
        self.address = address
        self._patience = patience
        self._opened = opened
        self._manager: QueueManager | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def name(self) -> str:
        """Computer name of the queue manager, or its address as long as it was not heard."""
        return self._manager.name if self._manager is not None else self.address

    @property
    def met(self) -> bool:
        """Whether there was a connection."""
        return self._manager is not None

    @property
    def manager(self) -> QueueManager:
        """The connection, whether or not it lives.

        Raises:
            ServiceNotAvailable: There was none yet, and nobody answers.
        """
        if self._manager is None:
            self._manager = self._stack.enter_context(self._opened(self.address))
        return self._manager

    def do(self, work: Callable[[QueueManager], T]) -> T:
        """Ask something that may be asked twice; raises ServiceNotAvailable after a long time."""
        return asked_again(
            lambda: work(self.manager), f"queue manager at {self.address}", self._patience,
            met=lambda: self.met,
        )  # fmt: skip
