"""Names that look like patterns."""

from __future__ import annotations

LEGAL = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '\\;+,"/')
"""What a name of a queue may be made of."""
NASTY = (
    "*", "**", "[*]", "[**]", "[[*]]", "a*", "*a", "a*b", "[*", "*]", "?", "[ab]", "*]*[*",
)  # fmt: skip
