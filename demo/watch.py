"""What a person sees while the demo works: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

LINE_S = 2.0
"""Between two lines where there is no terminal."""


class Watch:
    """See the module.

    Attributes:
        told: What has happened, a line each; how far things are is not in it.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.begun = time.monotonic()
        self.told: list[str] = []
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._said = 0.0
        self._line = ""
        self._complete = False

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._bars = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=36),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("[dim]{task.fields[note]}"),
                console=self.console,
            )
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def say(self, text: str) -> None:
        """Something has happened."""
        self.told.append(text)
        self._print(text)

    def _print(self, text: str) -> None:
        seconds = time.monotonic() - self.begun
        self.console.print(f"[dim]{seconds:6.1f} s[/dim]  {text}", highlight=False)

    def show(self, counts: Mapping[str, int], total: int, note: str) -> None:
        """How far everything is; a line is left out that would say what the last one said, or that
        comes after everything is there.

        Args:
            counts: How many there are, by name.
            total: How many there will be of each.
            note: One more thing worth knowing.
        """
        if self._bars is not None:
            for name, done in counts.items():
                if name not in self._tasks:
                    self._tasks[name] = self._bars.add_task(name, total=total, note="")
                self._bars.update(self._tasks[name], completed=done)
            self._bars.update(self._tasks[next(iter(counts))], note=note)
            return
        parts = [f"{name} {done:,}" for name, done in counts.items()]
        line = f"{', '.join(parts)} of {total:,}; {note}"
        complete = all(done >= total for done in counts.values())
        due = complete or time.monotonic() - self._said >= LINE_S
        if due and line != self._line and not self._complete:
            self._said, self._line, self._complete = time.monotonic(), line, complete
            self._print(line)
