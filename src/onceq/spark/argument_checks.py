"""Values that users give, as options or as arguments: checked before anything runs.

It also gives each error a text with its code, because Spark keeps only the text of an error;
``original`` makes the error of it again.

Without these checks Python would fail later and elsewhere: a list has no attribute of that name,
text compares with no number, and a word such as "no" counts as yes.

Upholds: I24 (what makes no sense is refused).
"""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from onceq import errors
from onceq.errors import ConfigurationError, OnceqError
from onceq.model.identity import read_number

# ---- error codes ---------------------------------------------------------------------------------
#
# Errors of onceq on their way through Spark, which keeps only their text and wraps it in its own.


def wrong(text: str) -> ConfigurationError:
    """An error whose text keeps its code when Spark passes on the text alone."""
    return ConfigurationError(f"[{ConfigurationError.code}] {text}")


_OURS: Final = re.compile(r"\[([a-z][a-z-]+)\] ([^\n]+)")
_SPARKS: Final = re.compile(r"\[[A-Z][A-Z0-9_.]+\] [^\n]+")
_CALLING: Final = re.compile(r"An error occurred while calling [^\n]+\n[:.\s]*")
"""The words before the first line of an error that Java passes on unchanged."""

_TRACEBACK: Final = "Traceback (most recent call last):"
_CAUSE: Final = re.compile(r"^\s*Caused by: ([^\n]+)", re.M)
_RAISED: Final = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception)[^\n]*)", re.M)
"""The last line of a traceback of Python, and of its cause in Java."""


def coded(error: OnceqError, place: str) -> OnceqError:
    """The same error with its code in its text, which is all that Spark passes on.

    Args:
        place: Where it happened: queue, queue manager.
    """
    if error.text.startswith("["):
        return error
    return type(error)(f"[{error.code}] {error.text} ({place})")


def _bare(text: str) -> str:
    return _CALLING.sub("", text.strip(), count=1)


def reason(text: str) -> str:
    """The first line of an error of Spark that says something; "" if there is none."""
    return next(iter(_bare(text).splitlines()), "").strip()


def original(error: Exception) -> OnceqError:
    """The error that began it, as the class that it was; else one with Spark's first line."""
    text = error.text if isinstance(error, OnceqError) else str(error)
    if isinstance(error, OnceqError) and not text.startswith("["):
        return error
    kinds = {
        kind.code: kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, OnceqError)
    }
    for code, words in _OURS.findall(text):
        if code in kinds:
            made: OnceqError = kinds[code](words)
            return made
    from pyspark.errors import AnalysisException

    bare = _bare(text)
    first = reason(text) or type(error).__name__
    if bare != text.strip() and (coded_line := _SPARKS.search(bare)):
        first = coded_line[0].strip()
    if first.endswith(_TRACEBACK):
        # A function of ours has met an error that is not ours, such as a full disk.
        whole = bare.partition(_TRACEBACK)[2]
        found = _CAUSE.findall(whole) or _RAISED.findall(whole)
        first = found[-1].strip() if found else first
    if isinstance(error, AnalysisException):
        return errors.InvalidParameter(f"Spark says: {first}")
    return errors.ManagerAway(f"Spark gave up: {first}")


# ---- argument checks -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SparkOption:
    """One option, as the reference page shows it. ``kind``: text, number, yes/no, ..."""

    name: str
    kind: str
    default: str
    meaning: str


TOKEN_SHOWN: Final = (
    "Spark shows options in plans, on its pages and in its event log, and keeps them in "
    "checkpoints. Put the token into a file on each host, and name that with the option tokenFile, "
    "or in the environment: ONCEQ_TOKEN_FILE for the driver, spark.executorEnv.ONCEQ_TOKEN_FILE "
    "for executors. The token that was given here may be in such places now: revoke it (onceq "
    "token revoke)"
)
SECRET: Final = f"there is no option token: {TOKEN_SHOWN}"
"""The error for a token that is given as an option; it does not repeat the token."""

_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_SPAN: Final = re.compile(r"(\d{1,12})\s*(ms|s|m|h)?")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

SESSION: Final = ("read", "readStream", "createDataFrame", "conf")
"""What every session has."""
SHOWN: Final = 60
"""Characters of a value that an error shows."""


def require_frame(value: object, what: str) -> None:
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


def require_session(value: object, what: str) -> None:
    """Refuse what is no session of Spark; raises ConfigurationError."""
    # The session of Spark Connect is of another class, which may not be installed.
    if isinstance(value, type) or not all(hasattr(value, name) for name in SESSION):
        raise wrong(
            f"{what} needs a session of Spark, and was given {described(value)}; "
            "make one: SparkSession.builder.getOrCreate()"
        )


def require_integer(value: object, what: str, least: int, most: int) -> int:
    """A whole number in bounds; raises ConfigurationError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise wrong(f"{what} is a whole number from {least} to {most}, not {shorten(value)}")


def require_flag(value: object, what: str) -> None:
    """Refuse what is neither True nor False; raises ConfigurationError."""
    if not isinstance(value, bool):
        raise wrong(f"{what} is True or False, not {described(value)}")


def require_names(value: object, what: str) -> tuple[str, ...]:
    """Return the names of columns, given as a list or as one text; raises ConfigurationError."""
    names = (value,) if isinstance(value, str) else value
    if isinstance(names, Sequence) and all(isinstance(name, str) for name in names):
        return tuple(names)
    raise wrong(f"{what} is the name of a column, or a list of names, not {described(value)}")


def described(value: object) -> str:
    """Return the type and the value of something, for an error."""
    return f"{type(value).__name__}: {shorten(value)}"


def shorten(value: Any) -> str:
    """Return a value as a text that is short enough for an error."""
    short = reprlib.Repr()
    short.maxlevel, short.maxstring, short.maxother, short.maxlong = 2, SHOWN, SHOWN, SHOWN
    text = " ".join(short.repr(value).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


# ---- values, for sources and sinks -----------------------------------------------------------


def named(
    given: Mapping[str, str], names: Iterable[str], *, passed_over: str = "", what: str = ""
) -> dict[str, str]:
    """Values under the names that options have; "path" is what ``load`` or ``save`` was given.

    Args:
        passed_over: Lower-case name of an option that is for Spark.
        what: Behind the name of an option that there is not.

    Raises:
        ConfigurationError: There is no option of a name.
    """
    known = {name.lower(): name for name in names}
    values: dict[str, str] = {}
    for key, value in given.items():
        lower = key.lower()
        if lower == "path":
            values.setdefault("queue", value)
        elif lower in known:
            values[known[lower]] = value
        elif lower == "token":
            raise wrong(SECRET)
        elif lower != passed_over:
            near = difflib.get_close_matches(lower, sorted(known), 1)
            hint = f"; did you mean {known[near[0]]}?" if near else ""
            raise wrong(f"there is no option {key!r}{what}{hint}")
    return values


def number(values: Mapping[str, str], name: str, default: int, most: int, *, least: int = 0) -> int:
    """A whole number; raises ConfigurationError."""
    if name not in values:
        return default
    found = read_number(values[name].strip(), most, least)
    if found is None:
        raise wrong(f"{name} is a whole number from {least} to {most}, not {values[name]!r}")
    return found


def yes_no(values: Mapping[str, str], name: str, *, default: bool) -> bool:
    """``true`` or ``false``; raises ConfigurationError."""
    text = values.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise wrong(f"{name} is true or false, not {values[name]!r}")
    return text == "true"


def span_s(text: str, name: str) -> float:
    """Seconds of ``500ms``, ``30s``, ``15m``, ``1h``, or a number of milliseconds."""
    found = _SPAN.fullmatch(text.strip().lower())
    if found is None:
        raise wrong(f"{name} is a time such as 15m, 30s or 500ms, not {text!r}")
    return int(found[1]) * _UNITS[found[2] or "ms"] / 1_000


def second_of(text: str, name: str) -> int:
    """The second since 1970 of milliseconds since then, or of an ISO 8601 text with its zone. Parts
    of a second are cut off, as queue managers do with the time of an arrival."""
    number = read_number(text.strip(), 10**15 - 1)
    if number is not None:
        return number // 1_000
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        when = None
    if when is None or when.tzinfo is None or when < _EPOCH:
        raise wrong(
            f"{name} is milliseconds since 1970, or a time with its zone such as "
            f"2026-11-24T05:00:00Z, not {text!r}"
        )
    return (when - _EPOCH) // timedelta(seconds=1)
