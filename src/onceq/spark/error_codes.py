"""Errors of onceq on their way through Spark, which keeps only their text and wraps it in its own.

So each text begins with the error's code (``wrong``, ``coded``), and ``original`` makes the error
again out of what Spark says.
"""

from __future__ import annotations

import re
from typing import Final

from onceq import errors
from onceq.errors import ConfigurationError, OnceqError


def wrong(text: str) -> ConfigurationError:
    """An error whose text keeps its code when Spark passes on the text alone."""
    return ConfigurationError(f"[{ConfigurationError.code}] {text}")


_OURS: Final = re.compile(r"\[([a-z][a-z-]+)\] ([^\n]+)")
_SPARKS: Final = re.compile(r"\[[A-Z][A-Z0-9_.]+\] [^\n]+")
_CALLING: Final = re.compile(r"An error occurred while calling [^\n]+\n[:.\s]*")
"""What stands before the first line of an error that comes out of Java as it is."""

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
        # What a function of ours has met: a full disk, and whatever else is no error of ours.
        whole = bare.partition(_TRACEBACK)[2]
        found = _CAUSE.findall(whole) or _RAISED.findall(whole)
        first = found[-1].strip() if found else first
    if isinstance(error, AnalysisException):
        return errors.InvalidParameter(f"Spark says: {first}")
    return errors.ManagerAway(f"Spark gave up: {first}")
