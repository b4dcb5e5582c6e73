"""Numbers in texts from outside: identifiers, ports, places of a list, options.

Python counts many characters as digits that are none here, and gives up on a text of some thousands
of digits with an error that is not ours (finding R1). So each such text is read here.

Upholds: I24 (no value from outside makes the core fail).
"""

from __future__ import annotations

from typing import Final

NUMBER_MAX: Final = (1 << 64) - 1
DIGITS_MAX: Final = 20
"""Of NUMBER_MAX."""


def read_number(text: str, most: int = NUMBER_MAX, least: int = 0) -> int | None:
    """The number that a text is: 1 to DIGITS_MAX digits of ASCII and nothing else.

    Returns:
        None: it is none, or it is below ``least`` or above ``most``.
    """
    if not 0 < len(text) <= DIGITS_MAX or not (text.isascii() and text.isdigit()):
        return None
    found = int(text)
    return found if least <= found <= most else None
