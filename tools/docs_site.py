"""``make site``: the documentation as a site, in build/site. A warning is an error.

That checks every link between pages and every anchor, that each page stands in the contents, and
that every docstring of the public API can be read.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs"
SITE = ROOT / "build" / "site"


def build(pages: Path, site: Path, *, fresh: bool = False) -> tuple[int, str]:
    """Build a site.

    Args:
        pages: Folder with conf.py and the pages.
        site: Where it goes; what Sphinx remembers between builds goes beside it.
        fresh: Forget what was built before.

    Returns:
        The exit code, 0 if there was no warning, and what Sphinx said.
    """
    command = [sys.executable, "-m", "sphinx", "--builder", "html", "--quiet"]
    command += ["--fail-on-warning", "--doctree-dir", str(site.with_name(site.name + ".tmp"))]
    command += ["--fresh-env", "--write-all"] if fresh else []
    done = subprocess.run(
        [*command, str(pages), str(site)], capture_output=True, text=True, check=False
    )
    return done.returncode, (done.stdout + done.stderr).strip()


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=SITE, help="where the site goes")
    parser.add_argument("--fresh", action="store_true", help="build every page again")
    options = parser.parse_args()
    code, said = build(PAGES, options.out.resolve(), fresh=options.fresh)
    if said:
        print(said)
    print("the site is not sound" if code else f"open {options.out / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
