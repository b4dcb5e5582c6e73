"""The page of the console's screens shows each that the tests in a browser open, at each width."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from tests.daemon.console_browser import SCREENS, WIDTHS

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "reference" / "console-screens.md"
PICTURES = ROOT / "docs" / "pictures" / "console"
NAMES = sorted(f"{screen}-{width}.png" for screen in SCREENS for width in WIDTHS)


def test_the_page_shows_every_screen_at_every_width() -> None:
    shown = re.findall(r"\.\./pictures/console/(\S+?)\)", PAGE.read_text())
    assert sorted(shown) == NAMES
    assert sorted(path.name for path in PICTURES.iterdir()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_as_wide_as_its_name_says(name: str) -> None:
    """The header of a PNG has its width behind the signature and the word IHDR."""
    head = (PICTURES / name).read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert head[12:16] == b"IHDR"
    (width,) = struct.unpack(">I", head[16:20])
    assert width == int(name.removesuffix(".png").rpartition("-")[2])
