"""The transaction that a thread or task is in: what MQ_MTS_TRANSACTION means here (SND-25).

A ``with`` block of a transaction makes it the current one until the block ends; blocks may be
nested. Threads and tasks started inside inherit what was current then, as context variables do.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from onceq.client.plans.unit_of_work import Unit

Chain = tuple[Any, object, Unit, "Chain"] | None
"""The innermost transaction, its queue manager and unit of work, and the chain around it."""

_CHAIN: Final[ContextVar[Chain]] = ContextVar("onceq transactions", default=None)


innermost: Final[Callable[[], Chain]] = _CHAIN.get
"""What is around a block that begins."""
entered: Final[Callable[[Chain], object]] = _CHAIN.set
"""A block has begun: its link of the chain, and the chain around it."""
left: Final[Callable[[Chain], object]] = _CHAIN.set
"""The block has ended that has found this chain around it."""


def current(manager: object) -> Any:
    """The innermost open transaction of this queue manager, or None."""
    chain = _CHAIN.get()
    while chain is not None:
        transaction, its_manager, unit, chain = chain
        if its_manager is manager and not unit.over:
            return transaction
    return None
