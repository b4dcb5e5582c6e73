"""Write the lock files: exact versions of every package, and the SHA-256 of each of its files.

``requirements.lock`` has what tests and the demo need, ``packaging/container/requirements.lock``
the part of it that an image needs, ``packaging/build.lock`` what packages are built with. They hold
for each Python and platform that onceq is for. Versions that a lock has stay, but for those that
``--upgrade`` names.

It needs uv (``pip install uv``), which nothing else here needs, and the package index.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
CONTAINER = ROOT / "packaging" / "container" / "requirements.lock"
BUILD = ROOT / "packaging" / "build.lock"
BUILDERS = (
    "hatchling", "packaging", "pathspec", "pluggy", "setuptools", "tomlkit", "trove-classifiers",
)  # fmt: skip
"""What builds the project and packages without a wheel, and what that needs itself."""
CONTAINER_EXTRAS = ("speed", "http", "tls", "metrics", "console")
"""As the Containerfile installs them."""
NOT_HERE = ("--no-emit-package", "onceq", "--no-emit-package", "httpx2-jsfetch")
"""What a lock leaves out: the project itself, and what is for a Python inside of a browser."""
PYTHON = "3.11.5"
"""The oldest Python for which all of the tools have a version."""


def blocks(lock: str) -> dict[str, str]:
    """What a lock file says of each package: its version, and the hashes of its files."""
    parts = re.split(r"(?m)^(?=\S)", lock)
    return {part.partition("==")[0]: part for part in parts if part}


def pins(lock: str) -> dict[str, str]:
    """The version of each package in a lock file."""
    return {
        name: re.split("[ ;]", block)[0].partition("==")[2] for name, block in blocks(lock).items()
    }


def compile_lock(lock: Path, extras: tuple[str, ...], more: list[str]) -> None:
    """Resolve extras of the project into a lock file; raises CalledProcessError."""
    command = [
        "uv", "pip", "compile", "--quiet", "--universal", "--python-version", PYTHON,
        "--generate-hashes", "--no-annotate", "--no-header", *NOT_HERE,
        "--output-file", str(lock), *more, str(ROOT / "pyproject.toml"),
    ]  # fmt: skip
    for extra in extras:
        command += ["--extra", extra]
    subprocess.run(command, cwd=ROOT, check=True)


def main(arguments: list[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--upgrade", action="append", default=[], metavar="PACKAGE",
                        help="take its newest version; may be repeated")  # fmt: skip
    upgrades = parser.parse_args(arguments).upgrade
    if shutil.which("uv") is None:
        print("uv is not on the PATH: pip install uv", file=sys.stderr)
        return 2
    more = [part for name in upgrades for part in ("--upgrade-package", name)]
    try:
        compile_lock(LOCK, ("dev",), more)
        compile_lock(CONTAINER, CONTAINER_EXTRAS, ["--constraint", str(LOCK)])
        known = blocks(LOCK.read_text(encoding="utf-8"))
        BUILD.write_text("".join(known[name] for name in BUILDERS), encoding="utf-8")
    except subprocess.CalledProcessError as error:
        print(f"uv ended with {error.returncode}; the lines above say why", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
