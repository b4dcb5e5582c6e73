"""Dead letters and journal copies for threads; what is done is in ``dead_letters``."""

from __future__ import annotations

from onceq.client import dead_letters
from onceq.client.dead_letters import (
    ALL,
    DEAD,
    DEAD_XACT,
    JOURNAL,
    REASONS,
    Filter,
    Letter,
    Returned,
    filter_of,
)
from onceq.client.letter_search import letters
from onceq.partners.driving import in_threads

__all__ = [
    "ALL",
    "DEAD",
    "DEAD_XACT",
    "JOURNAL",
    "REASONS",
    "Filter",
    "Letter",
    "Returned",
    "discard",
    "filter_of",
    "give_back",
    "letters",
]


give_back = in_threads(dead_letters.give_back)
discard = in_threads(dead_letters.discard)
