"""What is known of one event of each copy: where it stands among the events, to be looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from onceq.audit.arrays import NONE, Column, Ints, Mask, picked
from onceq.audit.events import ABSENT

SEEN: Final = (
    "manager", "queue", "place", "lookup", "time", "position", "ordinal", "size", "crc",
    "transaction",
)  # fmt: skip
"""What is asked of the events of a copy; names are those of ``Events``."""
_TEXTS: Final = ("manager", "queue")


@dataclass(frozen=True, slots=True)
class Facts:
    """One event of each copy, shape (copies,): where it stands, and not what it says.

    A copy has seven, and most of what they say is asked for once or never. So it is looked up when
    it is asked for; at hand for all copies it would be as large as the events themselves.

    Attributes:
        columns: Of the events, by the names of ``SEEN``.
        rows: Row of each in these; ABSENT where a copy has no such event. There texts are ABSENT
            and numbers NONE.
    """

    columns: Mapping[str, Column]
    rows: Column

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

    @property
    def manager(self) -> Ints:
        """See ``Events``."""
        return self.get("manager")

    @property
    def queue(self) -> Ints:
        """See ``Events``."""
        return self.get("queue")

    @property
    def place(self) -> Ints:
        """See ``Events``."""
        return self.get("place")

    @property
    def lookup(self) -> Ints:
        """See ``Events``."""
        return self.get("lookup")

    @property
    def time(self) -> Ints:
        """See ``Events``."""
        return self.get("time")

    @property
    def position(self) -> Ints:
        """See ``Events``."""
        return self.get("position")

    @property
    def ordinal(self) -> Ints:
        """See ``Events``."""
        return self.get("ordinal")

    @property
    def size(self) -> Ints:
        """See ``Events``."""
        return self.get("size")

    @property
    def crc(self) -> Ints:
        """See ``Events``."""
        return self.get("crc")

    @property
    def transaction(self) -> Ints:
        """See ``Events``."""
        return self.get("transaction")
