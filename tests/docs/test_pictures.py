"""Pictures show what their sources say, need no network, and have a text beside them."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from xml.parsers import expat

import matplotlib as mpl
import pytest
from demo import picture, report
from demo.report import Findings
from matplotlib.ft2font import FT2Font

import pictures

ROOT = Path(__file__).resolve().parents[2]
DRAWN = sorted(pictures.PICTURES.glob("*.svg"))
OF_GRAPHVIZ = [path.with_suffix(".svg") for path in sorted(pictures.PICTURES.glob("*.dot"))]
WIDE = str(Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")
ROOM = 2.0
"""Between a text and its box, at least."""
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]


def test_every_picture_is_drawn_from_the_text_beside_it() -> None:
    assert pictures.stale() == [], "run make pictures"


@pytest.mark.parametrize("path", DRAWN, ids=[path.name for path in DRAWN])
def test_a_picture_needs_nothing_from_elsewhere(path: Path) -> None:
    text = path.read_text()
    expat.ParserCreate().Parse(text, True)
    taken = re.findall(r"(?:href|src)=\"([^\"]+)\"|url\(([^)]+)\)", text)
    assert not [name for pair in taken for name in pair if name and not name.startswith("#")]
    assert "@font-face" not in text
    assert "<script" not in text


@pytest.mark.parametrize("path", OF_GRAPHVIZ, ids=[path.name for path in OF_GRAPHVIZ])
def test_texts_have_room_in_their_boxes(path: Path) -> None:
    """Also with the widest font that is common: the one of the drawing may be missing."""
    text = path.read_text()
    boxes = re.findall(r'<g id="[^"]+" class="(?:node|cluster)">\n(.*?)</g>', text, re.S)
    assert any(" d=" in box and "<text" in box for box in boxes)
    for box in boxes:
        outline = "".join(re.findall(r' (?:d|points)="([^"]+)"', box))
        if not outline:  # A text without a box, a circle without a text.
            continue
        begin, end = (of(map(float, re.findall(r"(-?[\d.]+),", outline))) for of in (min, max))
        for line in map(Line, re.findall(r"<text .*?</text>", box)):
            assert begin + ROOM <= line.begin, line
            assert line.end <= end - ROOM, line


def test_every_picture_is_shown_with_words_for_those_who_cannot_see_it() -> None:
    shown: dict[Path, str] = {}
    for page in PAGES:
        for words, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text()):
            shown[(page.parent / target).resolve()] = words
    assert set(shown) == {*DRAWN, *(pictures.PICTURES / "console").glob("*.png")}
    assert all(len(words) > 40 for words in shown.values())


class Line:
    """A text of a picture, and from where to where it goes in a wide font."""

    def __init__(self, element: str) -> None:
        self.words = unescape(re.sub("<[^>]+>", "", element)).replace("\u00a0", " ")
        given = dict(re.findall(r'([\w-]+)="([^"]*)"', element))
        font = FT2Font(WIDE)
        font.set_size(float(given["font-size"]), 72)
        font.set_text(self.words)
        width = font.get_width_height()[0] / 64
        before = {"middle": width / 2, "start": 0.0, "end": width}[given["text-anchor"]]
        self.begin = float(given["x"]) - before
        self.end = self.begin + width

    def __repr__(self) -> str:
        return f"{self.words!r} from {self.begin:.0f} to {self.end:.0f}"


def found() -> Findings:
    """As many as the demo has."""
    return Findings(
        flights=3, committed=3, transactions=1, kills=[(1.0, "HUB")], verdict="Proven: "
    )


def test_the_demo_draws_what_it_has_found(tmp_path: Path) -> None:
    path = tmp_path / "new" / "demo.svg"
    said = ["reading", "[red]kill -9 HUB[/red]", "audit: 1 of 9", "audit: done"]
    picture.draw(path, said, found())
    words = said_in(path.read_text())
    for expected in (
        "make demo",
        "kill -9 HUB",
        "audit: done",
        "committed",
        "Every flight is there",
    ):
        assert expected in words
    for hidden in ("audit: 1 of 9", "messages/s", "[red]"):
        assert hidden not in words
    test_a_picture_needs_nothing_from_elsewhere(path)


def test_the_picture_of_the_demo_has_the_lines_that_the_demo_has_now() -> None:
    words = said_in((pictures.PICTURES / "demo.svg").read_text())
    names = [str(cell) for cell in report.outcome(found(), times=False).columns[0].cells]
    assert names == [name for name in names if name in words]
    assert "Every flight is there exactly once" in words


def said_in(svg: str) -> str:
    """The text of a picture."""
    plain = re.sub(r"<style>.*?</style>|<[^>]+>", "", svg, flags=re.S)
    return plain.replace("&#160;", " ").replace("&#x27;", "'")
