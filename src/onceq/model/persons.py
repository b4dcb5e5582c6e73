"""For whom a program works, as it says itself: the trail has it beside who has proven to be there.

It is a claim of the program, and no proof: a right is never judged by it. So it stands where the
place of a connection stands, behind ``for``, and never where an actor does.
"""

from __future__ import annotations

from typing import Final

PERSON_CHARS_MAX: Final = 320
"""Characters of what is said; the rest is left out."""


def place_for(place: str, person: str) -> str:
    """The place of a connection, with the person for whom somebody there says to work.

    Args:
        place: An address, or ``local``, and behind a comma the process.
        person: As it was said; "": nothing was.
    """
    kept = "".join(c if c.isprintable() and c != "," else "_" for c in person[:PERSON_CHARS_MAX])
    if not kept.strip():
        return place
    where, comma, process = place.partition(",")
    return f"{where} for {kept.strip()}{comma}{process}"
