"""Write (or compare) the traces of the core in ``tests/traces``."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.traces.arguments import UnknownCommand  # noqa: E402
from tests.traces.script import FOLDER, files, run  # noqa: E402


def main() -> int:
    """Run it; 1 if a file is not what the core does now."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the files again")
    parser.add_argument("names", nargs="*", help="of files, without .txt; none: all")
    given = parser.parse_args()
    chosen = [FOLDER / f"{name}.txt" for name in given.names] or files()
    differ = 0
    for file in chosen:
        before = file.read_text()
        try:
            now = run(before)
        except UnknownCommand as error:
            print(f"{file.relative_to(ROOT)}, {error}")
            return 1
        if now == before:
            continue
        if given.write:
            file.write_text(now)
            print(f"written: {file.relative_to(ROOT)}")
            continue
        differ = 1
        sys.stdout.writelines(
            difflib.unified_diff(
                before.splitlines(keepends=True), now.splitlines(keepends=True), file.name, "now"
            )
        )
    if differ:
        print("If this is what the core shall do: make traces")
    return differ


if __name__ == "__main__":
    sys.exit(main())
