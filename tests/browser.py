"""A real Chromium without a window: one that is on the machine, or else Debian's.

``ONCEQ_CHROMIUM`` names another. What cannot be had raises ``NoBrowser`` with the reason, and the
tests say that they were not run; nothing is passed over silently.
"""

from __future__ import annotations

import functools
import html
import json
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
START_S = 120
INSTALL_S = 240
"""All attempts to install one together: less than a test may take."""
MEASURE = """
<script>addEventListener("load", () => {
  const page = document.documentElement, wide = [];
  for (const e of document.querySelectorAll("body *")) {
    const box = e.getBoundingClientRect();
    if (box.width && !e.closest(".scroll, svg") && box.right > innerWidth + 0.5)
      wide.push(e.tagName + "." + e.className);
  }
  const shown = e => getComputedStyle(e).display !== "none";
  const pictures = [...document.querySelectorAll("figure svg")].filter(shown).map(e => {
    const box = e.getBoundingClientRect();
    return {width: box.width, height: box.height, label: e.getAttribute("aria-label"),
            marks: e.querySelectorAll("path").length};
  });
  const text = [...document.querySelectorAll("figure svg text")].filter(
    e => shown(e.closest("svg"))).map(e => e.getBoundingClientRect().height);
  const said = {inner: innerWidth, scroll: page.scrollWidth, wide, pictures, text,
    headings: [...document.querySelectorAll("h1, h2")].map(e => e.textContent),
    ids: [...document.querySelectorAll("[id]")].map(e => e.id),
    fetched: performance.getEntriesByType("resource").map(e => e.name)};
  const out = parent.document.createElement("script");
  out.type = "application/json"; out.id = "measured"; out.textContent = JSON.stringify(said);
  parent.document.body.append(out);
});</script></body>"""
FRAME = """<!doctype html><body style="margin:0"><iframe srcdoc="{page}"
style="border:0;width:{width}px;height:2000px"></iframe></body>"""
"""A window is never narrower than 500 pixels; a frame in it may be."""


class NoBrowser(Exception):
    """Why there is none here."""


@functools.cache
def chromium() -> str:
    """Path of a browser that runs.

    Raises:
        NoBrowser: There is none, and none can be installed.
    """
    named = os.environ.get("ONCEQ_CHROMIUM")
    found = [named] if named else [p for name in NAMES if (p := shutil.which(name))]
    why = "no chromium or google-chrome is on this machine"
    if not found:
        why += f", and {_install()}"
        found = [p for name in NAMES if (p := shutil.which(name))]
    for path in found:
        try:
            done = subprocess.run(
                [path, "--version"], capture_output=True, text=True, timeout=START_S, check=False
            )
        except OSError as error:
            why = f"{path} does not run: {error}"
            continue
        if done.returncode == 0:
            return path
        why = f"{path} does not run: {done.stderr[-300:]}"
    raise NoBrowser(why)


def _install() -> str:
    """Install Debian's; what came of it, in words."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return "only root of a Debian can install one"
    install = ["apt-get", "install", "-q", "-y", "--no-install-recommends", "chromium"]
    until = time.monotonic() + INSTALL_S
    said = ""
    for command in (install, ["apt-get", "-q", "update"], install):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False,
                timeout=max(until - time.monotonic(), 1.0),
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"Debian's cannot be installed within {INSTALL_S} s"
        if command is install and done.returncode == 0:
            return "Debian's was installed"
        said = done.stderr.strip()[-300:]
    return f"Debian's cannot be installed: {said}"


@dataclass(frozen=True)
class Seen:
    """A page as the browser shows it: what was measured in it, and what it complained about."""

    measured: dict[str, Any]
    complaints: list[str]


def look(page: Path, width: int, folder: Path) -> Seen:
    """Open a page in a window of that width, and measure it when it is loaded."""
    copy = folder / f"{page.stem}-{width}.html"
    text = page.read_text(encoding="utf-8")
    assert text.count("</body>") == 1
    inside = html.escape(text.replace("</body>", MEASURE))
    copy.write_text(FRAME.format(width=width, page=inside), encoding="utf-8")
    done = _run(folder, max(width, 600), "--dump-dom", str(copy))
    found = re.search(
        r'<script type="application/json" id="measured">(.*?)</script>', done.stdout, re.S
    )
    assert found, f"the page did not load: {done.stderr[-800:]}"
    complaints = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return Seen(json.loads(found[1]), complaints)


def picture(page: Path, width: int, folder: Path) -> bytes:
    """A screenshot (PNG) of the upper part of a page."""
    shot = folder / f"{page.stem}-{width}.png"
    _run(folder, width, f"--screenshot={shot}", str(page))
    return shot.read_bytes()


def _run(folder: Path, width: int, *what: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--enable-logging=stderr", "--no-first-run", "--disable-extensions",
            "--disable-background-networking", f"--user-data-dir={folder / 'profile'}",
            f"--window-size={width},1600", "--virtual-time-budget=3000", *what,
        ],
        capture_output=True, text=True, timeout=START_S, check=False,
    )  # fmt: skip
