"""A simulated database as the last agent: it commits once, and keeps the rows that decide.

It does what the worst of them may do: the text with the row and the commit may be on its way when
the application is gone, arrive later, and hold the key of its row for a while; the server crashes
before or after it; and an operator sets the database back to a backup.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from onceq.errors import PartnerLost, PartnerRefused
from onceq.partners.contract import ABORTED, COMMITTED, NOTED, Row
from proof.sim.apps.databases import Connection, Database
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.options import MINUTE, MS, SECOND

RESTORE_US = (MS, SECOND, 10 * MINUTE)
"""So long a database cannot be reached that is set back: some are back in the middle of a round of
recovery, over a connection that is lost."""


class RowDatabase(Database):
    """See the module.

    Attributes:
        decisions: Rows of ours that are committed.
        under_way: Those of commits that are not over, which hold their keys.
    """

    def __init__(
        self, kernel: Kernel, index: int, landed: Callable[[Row], None],
        set_back: Callable[[RowDatabase], None],
    ) -> None:  # fmt: skip
        """Begin empty.

        Args:
            landed: Told of each commit.
            set_back: Told when it has the state of a backup.
        """
        super().__init__(kernel, index)
        self.name = f"sim:R{index}"
        self.rng = kernel.stream("row databases")
        self.decisions: dict[Row, str] = {}
        self.under_way: dict[Row, set[int]] = {}
        self._landed, self._set_back = landed, set_back
        self._backup: tuple[set[int], dict[Row, str]] | None = None

    # ---- what happens to it -------------------------------------------------------------

    def fault(self) -> None:
        """As of any database; or it is backed up, or set back."""
        drawn = self.rng.random()
        if drawn < 0.2:
            self._back_up()
        elif drawn < 0.35:
            self._restore()
        else:
            super().fault()

    def _back_up(self) -> None:
        self._backup = set(self.rows), dict(self.decisions)

    def _restore(self) -> None:
        if self._backup is None or not self.kernel.faulty:
            return
        self._fail(crash=True)
        self._away_until_us = self.kernel.now + self.rng.choice(RESTORE_US)
        self.rows, self.decisions = set(self._backup[0]), dict(self._backup[1])
        self.kernel.note("database set back", self.name)
        self._set_back(self)

    def _fail(self, *, crash: bool) -> None:
        super()._fail(crash=crash)
        if crash:
            self.under_way.clear()

    # ---- a commit -----------------------------------------------------------------------

    def record(self, row: Row, connection: Connection) -> Generator[Any, Any, None]:
        """Commit with a row; raises PartnerRefused, or PartnerLost."""
        if self.kernel.faulty and self.rng.random() < 0.15 and connection.usable:
            rows, connection.rows = connection.rows, set()
            after_us = self.rng.choice([MS, SECOND, MINUTE])
            self._later(after_us, lambda: self._arrive(row, rows))
            yield from self.call(lambda: None)
            self._lost(connection)

        def work() -> None:
            rows, connection.rows = connection.rows, set()
            if self.rng.random() < 0.05:
                raise PartnerRefused(f"{self.name} cannot commit it")
            if row in self.decisions:
                self.kernel.marks[marks.ROW_LATE] += 1
                raise PartnerRefused("duplicate key")
            self._commit(row, rows)
            if self._doomed:
                self._fail(crash=True)

        yield from self.call(work, connection)

    def _later(self, after_us: int, work: Callable[[], None]) -> None:
        """Do it, unless the server crashes before."""
        life = self._life
        self.kernel.at(
            self.kernel.now + after_us, lambda: work() if life == self._life else None
        )  # fmt: skip

    def _arrive(self, row: Row, rows: set[int]) -> None:
        if row in self.decisions:
            self.kernel.marks[marks.ROW_LATE] += 1
            return
        self.under_way[row] = rows
        self._later(
            self.rng.choice([MS, SECOND, MINUTE]),
            lambda: self._commit(row, self.under_way.pop(row)),
        )

    def _commit(self, row: Row, rows: set[int]) -> None:
        self.rows |= rows
        self.decisions[row] = COMMITTED
        self._landed(row)
        if self.kernel.faulty and self.rng.random() < 0.1:
            self._back_up()

    # ---- recovery -----------------------------------------------------------------------

    def settle(self, row: Row) -> bool:
        """See Agent."""
        if row in self.under_way:
            self.kernel.marks[marks.ROW_HELD] += 1
            raise PartnerLost("a commit that is under way holds the key")
        if self.kernel.faulty and self.rng.random() < 0.1:
            self._restore()
            raise PartnerLost("it was set back while it was asked")
        return self.decisions.setdefault(row, ABORTED) == COMMITTED

    def _numbers(self, manager: str, what: str) -> set[int]:
        return {
            row.number for row, outcome in self.decisions.items()
            if row.manager == manager and outcome == what
        }  # fmt: skip

    def count(
        self, manager: str, after: int, upto: int, but: Sequence[int], must: Sequence[int],
        note: int,
    ) -> int:  # fmt: skip
        """See Agent."""
        numbers = self._numbers(manager, COMMITTED)
        if note and note not in self._numbers(manager, NOTED):
            return -1
        if not numbers.issuperset(must):
            return -1
        return sum(after < number <= upto for number in numbers - set(but))

    def note(self, manager: str, number: int) -> None:
        """See Agent."""
        self.decisions[Row(manager, number, "")] = NOTED
        if self.kernel.faulty and self.rng.random() < 0.2:
            # From here on branches may end whose numbers are below the one of the note.
            self._back_up()
            after_us = self.rng.choice([MINUTE, 10 * MINUTE, 60 * MINUTE])
            self.kernel.at(self.kernel.now + after_us, self._restore)

    def remove(self, manager: str, below: int, but: Sequence[int]) -> None:
        """See Agent."""
        gone = [
            row for row, outcome in self.decisions.items()
            if row.manager == manager and outcome in (COMMITTED, NOTED) and row.number < below
            and row.number not in but
        ]  # fmt: skip
        for row in gone:
            del self.decisions[row]
        self.kernel.marks[marks.ROWS_REMOVED] += bool(gone)
