"""How texts for people say a number of things."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """ "1 message", "2 messages", "1,000 messages": for nouns that end in "s" then."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
