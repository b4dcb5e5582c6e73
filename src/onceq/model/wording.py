"""How texts for people say a number of things, and a length of time."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """ "1 message", "2 messages", "1,000 messages": for nouns that end in "s" then."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """A length of time for people."""
    whole = max(round(seconds), 0)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    return f"{whole // 3600} h"
