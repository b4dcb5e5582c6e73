"""Draw the pictures of the console in ``docs/pictures/console``: a furnished queue manager, a real
browser, each screen in a wide and a narrow window.

The browser is that of the tests (``tests/browser.py``): ``ONCEQ_CHROMIUM`` names another one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import onceq  # noqa: E402
from tests.daemon.console_browser import SCREENS, WIDTHS, open_screen, signed_in  # noqa: E402
from tests.daemon.console_world import console, furnished  # noqa: E402
from tests.daemon.shell import ONCEQ, running  # noqa: E402

FOLDER = ROOT / "docs" / "pictures" / "console"


def main() -> int:
    """Draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--dark", action="store_true", help="in the dark scheme, too")
    parser.add_argument("--whole", action="store_true", help="pages down to their ends")
    chosen = parser.parse_args()
    chosen.folder = chosen.folder.resolve()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        # What the pages show of a directory is how it was named.
        os.chdir(folder)
        data = Path("alpha")
        init = [*ONCEQ, "qm", "init", str(data), "--name", "ALPHA", "--listen", "127.0.0.1:0"]
        subprocess.run(init, check=True, capture_output=True)
        with running(data):
            furnished(data)
            watched = console(Path(folder), data, "onceq://127.0.0.1:9")
            with sender(data), worker(data), watched as made:
                _draw(made.address, chosen.folder, dark=chosen.dark, whole=chosen.whole)
            os.chdir(ROOT)
    return 0


@contextlib.contextmanager
def sender(data: Path) -> Iterator[None]:
    """Another queue manager, of which a stream has come; and somebody who was given rights."""
    with onceq.connect(str(data)) as alpha:
        alpha.tokens.create("billing", grants={r"private$\invoices*": "send,peek"})
    where = (data / "onceq.port").read_text().split("\n", 1)[0]
    with onceq.open("beta", name="BETA", listen="", peers={"ALPHA": where}, create=True) as beta:
        beta.create_queue(r"private$\none")
        there = r"DIRECT=OS:ALPHA\private$\orders"
        beta.send(there, b"{}", label="from BETA", transactional=True)
        while beta.admin.outgoing_queue(there).messages:
            with contextlib.suppress(onceq.errors.ReceiveTimeout):
                beta.receive(r"private$\none", timeout=0.05)
        yield


@contextlib.contextmanager
def worker(data: Path) -> Iterator[None]:
    """An application that has received messages, and is not done with them."""
    with onceq.connect(str(data)) as alpha, alpha.transaction() as tx:
        queue = r"private$\orders"
        for lookup in alpha.peek_many(queue).lookup_ids[-2:]:
            tx.receive(queue, lookup_id=lookup)
        yield
        tx.abort()


def _draw(address: str, folder: Path, *, dark: bool, whole: bool) -> None:
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark") if dark else ("light",)
    for scheme in schemes:
        with signed_in(address, scheme=scheme) as page:
            for name in SCREENS:
                open_screen(page, name)
                for width in WIDTHS:
                    shot = f"{name}-{width}" + ("-dark" if scheme == "dark" else "")
                    page.set_viewport_size({"width": width, "height": 800})
                    page.screenshot(path=folder / f"{shot}.png", full_page=whole)


if __name__ == "__main__":
    sys.exit(main())
