"""What a person sees while the demo works: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

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
        self._tasks: dict[str, int] = {}
        self._said = 0.0

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._bars = Progress(
                TextColumn("{task.description:<24}"),
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

    def show(self, counts: Mapping[str, tuple[int, int]], note: str = "") -> None:
        """How far everything is.

        Args:
            counts: By name: how many there are, of how many.
            note: One more thing worth knowing.
        """
        if self._bars is not None:
            for name, (done, total) in counts.items():
                if name not in self._tasks:
                    self._tasks[name] = self._bars.add_task(name, total=total, note="")
                last = name == list(counts)[-1]
                self._bars.update(
                    self._tasks[name],  # type: ignore[arg-type]
                    completed=done,
                    note=note if last else "",
                )
        elif time.monotonic() - self._said >= LINE_S:
            self._said = time.monotonic()
            parts = [f"{name} {done:,}/{total:,}" for name, (done, total) in counts.items()]
            self._print("  ".join([*parts, note]).rstrip())
