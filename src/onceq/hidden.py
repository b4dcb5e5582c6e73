"""Texts from outside, shown to people: characters that nobody sees, and words of commands."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b"
    "\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters that steer a terminal, change the direction of a text or take no room: a text with one
may look like another one. (Tabulators and ends of lines, and the joiners of scripts, are none.)"""


_PLAIN_WORD: Final = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
"""A word that no shell changes."""


def show_hidden(text: str) -> str:
    """A text with its hidden characters as escapes, such as ``\\x1b`` and ``\\u202e``."""
    return text if text.isascii() and text.isprintable() else HIDDEN.sub(_escape, text)


def quote_word(text: str) -> str:
    """Return any text as one word of a command that people paste into a shell."""
    if _PLAIN_WORD.fullmatch(text):
        return text
    return "'" + show_hidden(text).replace("'", "'\\''") + "'"


def _escape(match: re.Match[str]) -> str:
    number = ord(match.group())
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x1_0000 else f"\\U{number:08x}"
