"""Draw the pictures of the console in ``docs/pictures/console``: a furnished queue manager, a real
browser, each screen in a wide and a narrow window.

The browser is that of the tests (``tests/browser.py``): ``ONCEQ_CHROMIUM`` names another one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.daemon.console_browser import SCREENS, WIDTHS, open_screen, signed_in  # noqa: E402
from tests.daemon.console_world import console, furnished  # noqa: E402
from tests.daemon.shell import ONCEQ, running  # noqa: E402

FOLDER = ROOT / "docs" / "pictures" / "console"
SHOWN = ("overview-1280", "queue-1280", "dead-1280", "dead-390", "transactions-1280")
"""Those that the documentation shows."""


def main() -> int:
    """Draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--all", action="store_true", help="every screen, light and dark")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "alpha"
        init = [*ONCEQ, "qm", "init", str(data), "--name", "ALPHA", "--listen", "127.0.0.1:0"]
        subprocess.run(init, check=True, capture_output=True)
        with running(data):
            furnished(data)
            with console(Path(folder), data, "onceq://127.0.0.1:9") as made:
                _draw(made.address, chosen.folder, every=chosen.all)
    return 0


def _draw(address: str, folder: Path, *, every: bool) -> None:
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark") if every else ("light",)
    for scheme in schemes:
        with signed_in(address, scheme=scheme) as page:
            for name in SCREENS:
                open_screen(page, name)
                for width in WIDTHS:
                    shot = f"{name}-{width}" + ("-dark" if scheme == "dark" else "")
                    if not every and shot not in SHOWN:
                        continue
                    page.set_viewport_size({"width": width, "height": 800})
                    page.screenshot(path=folder / f"{shot}.png", full_page=every)


if __name__ == "__main__":
    sys.exit(main())
