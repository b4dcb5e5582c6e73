"""What a command takes, beside the types of its function's parameters: names, help, limits.

A command is a typed function; ``Annotated[int, Option("--limit", metavar="N", help=...)]`` says the
rest of a parameter. ``building`` makes commands of click of them. This module is loaded with each
of them, so it loads nothing.
"""

from __future__ import annotations

from collections.abc import Callable

Complete = Callable[[str], list[str]]
"""Words that begin with what was typed so far, for the shell."""


def documented(default: object) -> bool:
    """Whether the help names a default; others stand for "not said"."""
    return isinstance(default, str | int | float) and default is not False and default != ""


class Exit(Exception):
    """The command has said what there is to say, and ends with this exit code."""

    def __init__(self, code: int = 0) -> None:
        super().__init__(code)
        self.exit_code = code


class _Parameter:
    def __init__(
        self,
        *names: str,
        metavar: str = "",
        help: str = "",
        show_default: bool = True,
        min: float | None = None,
        max: float | None = None,
        autocompletion: Complete | None = None,
        hidden: bool = False,
    ) -> None:
        """Note what a parameter is.

        Args:
            names: Of an option, such as --yes and -y.
            metavar: What stands for its value in the help.
            show_default: Whether the help names the default.
            min, max: Limits of a number, both allowed.
            autocompletion: What the shell offers.
            hidden: It is not in the help.
        """
        self.names, self.metavar, self.help = names, metavar, help
        self.show_default, self.min, self.max = show_default, min, max
        self.autocompletion, self.hidden = autocompletion, hidden


class Option(_Parameter):
    """Said by its name: a flag if it is a bool, else with a value."""


class Argument(_Parameter):
    """Said by its place."""
