"""What a public function of the package was given: refused at the call, with what is needed.

Python would find out later and elsewhere: a list has no attribute of that name, text compares with
no number, and a word such as "no" counts as yes.

Upholds: I24 (what makes no sense is noticed, not believed).
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any, Final

from onceq.spark.options import wrong

SESSION: Final = ("read", "readStream", "createDataFrame", "conf")
"""What every session has."""
SHOWN: Final = 60
"""Characters of a value that an error shows."""


def frame_given(value: object, what: str) -> None:
    """Refuse what is no frame of Spark.

    Args:
        what: The function, and the parameter if that is not its first.

    Raises:
        ConfigurationError: With what it is, and how to make a frame of it.
    """
    from pyspark.sql import DataFrame

    if not isinstance(value, DataFrame):
        raise wrong(
            f"{what} needs a DataFrame of Spark, and was given {described(value)}; "
            "make one of it: spark.createDataFrame(...), or read one: spark.read..., "
            "spark.readStream..."
        )


def session_given(value: object, what: str) -> None:
    """Refuse what is no session of Spark; raises ConfigurationError."""
    # The session of Spark Connect is of another class, which may not be installed.
    if isinstance(value, type) or not all(hasattr(value, name) for name in SESSION):
        raise wrong(
            f"{what} needs a session of Spark, and was given {described(value)}; "
            "make one: SparkSession.builder.getOrCreate()"
        )


def whole_given(value: object, what: str, least: int, most: int) -> int:
    """A whole number in bounds; raises ConfigurationError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise wrong(f"{what} is a whole number from {least} to {most}, not {shown(value)}")


def yes_no_given(value: object, what: str) -> None:
    """Refuse what is neither True nor False; raises ConfigurationError."""
    if not isinstance(value, bool):
        raise wrong(f"{what} is True or False, not {described(value)}")


def names_given(value: object, what: str) -> tuple[str, ...]:
    """Names of columns, of which one may be given as it is; raises ConfigurationError."""
    names = (value,) if isinstance(value, str) else value
    if isinstance(names, Sequence) and all(isinstance(name, str) for name in names):
        return tuple(names)
    raise wrong(f"{what} is the name of a column, or a list of names, not {described(value)}")


def described(value: object) -> str:
    """What something is, for an error."""
    return f"{type(value).__name__}: {shown(value)}"


def shown(value: Any) -> str:
    """A value as far as an error has room for it."""
    short = reprlib.Repr()
    short.maxlevel, short.maxstring, short.maxother, short.maxlong = 2, SHOWN, SHOWN, SHOWN
    text = " ".join(short.repr(value).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
