"""What is known of one event of each copy: where it stands among the events, to be looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from onceq.audit.arrays import NONE, Column, Ints, Mask, picked
from onceq.audit.events import ABSENT
from onceq.audit.narrow import Narrow

SEEN: Final = (
    "manager", "queue", "place", "lookup", "time", "position", "ordinal", "size", "crc",
    "transaction",
)  # fmt: skip
"""What is asked of the events of a copy; names are those of ``Events``."""
_TEXTS: Final = ("manager", "queue")


class _Said:
    """What the events say in one column."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, facts: Facts, owner: type) -> Ints:
        return facts.get(self._name)


@dataclass(frozen=True, slots=True)
class Facts:
    """One event of each copy, shape (copies,): where it stands, and not what it says.

    A copy has seven, and most of what they say is asked for once or never. So it is looked up when
    it is asked for; at hand for all copies it would be as large as the events themselves.

    Attributes:
        columns: Of the events, as they are kept there; those of ``SEEN`` at least.
        rows: Row of each in these; ABSENT where a copy has no such event. There texts are ABSENT
            and numbers NONE.
    """

    columns: Mapping[str, Column | Narrow]
    rows: Column

    manager = _Said()
    queue = _Said()
    place = _Said()
    lookup = _Said()
    time = _Said()
    position = _Said()
    ordinal = _Said()
    size = _Said()
    crc = _Said()
    transaction = _Said()

    @property
    def there(self) -> Mask:
        """Which copies have such an event."""
        return np.asarray(self.rows != ABSENT)

    def get(self, name: str) -> Ints:
        """What they say under a name of ``SEEN``."""
        return picked(self.columns[name], self.rows, ABSENT if name in _TEXTS else NONE)

    def take(self, rows: Column) -> Facts:
        """Of these copies, in this order."""
        return Facts(self.columns, self.rows[rows])
