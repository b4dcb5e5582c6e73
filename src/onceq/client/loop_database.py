"""The database connection of one worker of a loop.

What the database refuses counts against no message: it is away, which is waited for, or it can take
part in nothing, which ends the loop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from onceq.client.retry import Transaction
from onceq.errors import (
    EnlistRefused,
    PartnerLost,
    PartnerRefused,
    RolledBackByTime,
    ServiceNotAvailable,
)
from onceq.partners.contract import is_last_agent
from onceq.partners.driving import Calls

AWAY_KINDS: Final = frozenset(("OperationalError", "InterfaceError"))
"""Errors of databases (PEP 249) that say nothing of what was asked: it cannot be asked now."""


def is_away(error: BaseException) -> bool:
    """Whether an error of a database, or what was made of it, says no more than that it cannot be
    asked now."""
    of = error.__cause__ if isinstance(error, PartnerRefused) and error.__cause__ else error
    return bool(AWAY_KINDS & {kind.__name__ for kind in type(of).__mro__})


class Unworkable(Exception):
    """No message can be handled; its cause says why, and ends the loop."""


class Database:
    """The database connection of one worker: opened when it is first needed, and after each failure
    anew, so that nothing of what has failed is on it.

    Attributes:
        connection: What the application's function has opened; None: nothing yet.
    """

    def __init__(self, connect: Callable[[], object] | None) -> None:
        self._connect = connect
        self._opened = False
        self.connection: Any = None

    def ready(self, tx: Transaction) -> Calls[None]:
        """Have a connection, where one is wanted, that can take part.

        Raises:
            EnlistRefused: It cannot.
            PartnerLost: The database cannot be reached any more. The first time its own error
                leaves as it is: the address may be wrong.
        """
        if self._connect is None or self.connection is not None:
            return
        try:
            self.connection = yield self._connect
            # What can never work is found before a message is taken.
            yield tx._manager.partner_for(self.connection).check
        except Exception as error:
            if not self._opened or isinstance(error, EnlistRefused):
                raise
            raise PartnerLost(f"the database cannot be reached: {error}") from error
        self._opened = True

    def arguments(self, tx: Transaction) -> Calls[tuple[object, ...]]:
        """What a handler gets besides the message: what is enlisted in its transaction.

        Raises:
            PartnerLost: The database is away.
            Unworkable: It cannot take part, whatever the message is.
        """
        if self.connection is None:
            return ()
        try:
            return ((yield partial(tx.enlist, self.connection)),)
        except (ServiceNotAvailable, PartnerLost, RolledBackByTime):
            raise
        except Exception as error:
            if self.broken or is_away(error):
                raise PartnerLost(f"the database cannot take part now: {error}") from error
            raise Unworkable from error

    @property
    def broken(self) -> bool:
        """Whether the connection says that it is lost."""
        raw = self._raw()
        return bool(
            getattr(raw, "broken", False) is True
            or getattr(raw, "closed", False) not in (False, 0)
            or getattr(raw, "open", True) is False
        )

    def drop(self) -> Calls[None]:
        """Close it."""
        raw, self.connection = self._raw(), None
        close = getattr(raw, "close", None)
        if callable(close):
            with contextlib.suppress(Exception):
                yield close

    def _raw(self) -> object:
        made = self.connection
        return made.connection if made is not None and is_last_agent(made) else made
