"""The judge's books of tokens: which was made and revoked, and until when each is good.

What is under way, or whose answer was lost, is uncertain, as with rights (``permissions.py``). A
token expires by the clock of its manager, which may be set meanwhile: what was asked before and is
answered after that is uncertain, too.

Watches: I28 (nothing happens by a token that was revoked or has expired; a good one is believed).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node

LATE_S = 60
"""A receiver whose token expires is sent away then; this many seconds later it may get no message,
unless the clock was set or the process stood still."""


@dataclass(slots=True)
class Held:
    """One token.

    Attributes:
        text: What its holder shows.
        made: Whether there is such a token; None: that is uncertain.
        expires_s: 0: it does not expire, as far as is known.
        changes: Rises with each change.
        life: Of its manager, in which it was made.
    """

    node: int
    name: str
    text: str
    made: bool | None = None
    expires_s: int = 0
    changes: int = 0
    life: int = 0

    @property
    def who(self) -> str:
        """As grants name it."""
        return f"token:{self.name}"


@dataclass(frozen=True, slots=True)
class Glance:
    """What the books say of a token at one moment.

    Attributes:
        over_s: Seconds since it has expired; below 0: it has not.
        made, changes: Of the token.
        offset_us: Of the clock of its manager.
    """

    made: bool | None
    over_s: int
    changes: int
    offset_us: int

    @property
    def good(self) -> bool:
        """Whether it is certain that it must be believed."""
        return bool(self.made) and self.over_s < 0


@dataclass(slots=True)
class TokenBooks:
    """See the module."""

    kernel: Kernel
    all: list[Held] = field(default_factory=list)

    def asked(self, held: Held) -> None:
        """It is being made, or revoked."""
        held.made, held.changes = None, held.changes + 1

    def note_made(self, held: Held, expires_s: int) -> None:
        """It is there."""
        held.made, held.changes, held.expires_s = True, held.changes + 1, expires_s

    def gone(self, held: Held) -> None:
        """It is certain that it was revoked, or never was."""
        held.made, held.changes = False, held.changes + 1

    def of(self, node: int) -> list[Held]:
        """All that ever were made at a manager, as far as is known."""
        return [held for held in self.all if held.node == node]

    def there(self, node: int) -> list[Held]:
        """Those that may be there."""
        return [held for held in self.of(node) if held.made is not False]

    def glance(self, held: Held, node: Node) -> Glance:
        """What is known of one now."""
        over_s = node.clock.read().wall_s - held.expires_s if held.expires_s else -1
        return Glance(held.made, over_s, held.changes, node.clock.offset_us)

    def judge(
        self, before: Glance, after: Glance, what: str, *, refused: bool, steady: bool
    ) -> None:
        """Something that a holder asked for was answered.

        Args:
            before, after: What was known when it was asked, and is now.
            refused: Whether that was because of the token.
            steady: Whether the clock was not set, and the process did not stand still, since the
                holder has connected.
        """
        same = before.offset_us == after.offset_us
        if refused:
            if same and before.changes == after.changes and before.good and after.good:
                self.kernel.wrong(f"I28: {what} was refused, and its token is good")
            return
        # Answers come in the order of decisions.
        if after.made is False:
            self.kernel.wrong(f"I28: {what} by a token that was revoked")
        if (same and before.over_s >= 0) or (steady and after.over_s > LATE_S):
            self.kernel.wrong(f"I28: {what} by a token that has expired")
