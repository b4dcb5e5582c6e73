"""What a transaction has taken, and from where."""

from __future__ import annotations

from collections.abc import Sequence

from onceq.errors import InvalidParameter


class Taken(dict[str, list[Sequence[int]]]):
    """Lookup identifiers by the name of the queue that they were received from."""

    def queue_of(self, lookup: int) -> str:
        """Where this transaction has received a message from.

        Raises:
            InvalidParameter: From no queue, or from several.
        """
        if len(self) == 1:
            return next(iter(self))
        names = [name for name, ids in self.items() if any(lookup in part for part in ids)]
        if len(names) != 1:
            raise InvalidParameter(
                "say in which queue it is: this transaction has received no message with that "
                "lookup identifier" + (", or several of different queues" if names else "")
            )
        return names[0]
