"""Make the virtual environment .venv with everything that tests and the demo need.

Uses the standard library only, because it runs before anything is installed. What went half
wrong before (an interrupted run, a Python that is gone) is made anew. The last step is a look
whether the result works, so that the stamp of the Makefile means something.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
PYTHON_MIN = (3, 11)
LOCK = ROOT / "requirements.lock"
BUILD_LOCK = ROOT / "packaging" / "build.lock"
"""What the project, and packages without a wheel, are built with."""


def works(*arguments: str) -> bool:
    """Whether the environment's Python runs these arguments without a complaint."""
    if not PYTHON.exists():
        return False
    done = subprocess.run([PYTHON, *arguments], capture_output=True, check=False)
    return done.returncode == 0


def make() -> None:
    """Make an empty environment, if there is none that works."""
    if works("-m", "pip", "--version"):
        return
    if importlib.util.find_spec("ensurepip") is None:
        sys.exit(
            f"{sys.executable} cannot make virtual environments: its module ensurepip is missing "
            "(on Debian and Ubuntu: apt install python3-venv)"
        )
    print(f"making {VENV.name} with Python {sys.version.split()[0]}", flush=True)
    venv.EnvBuilder(with_pip=True, symlinks=True, clear=VENV.exists()).create(VENV)


def install() -> None:
    """Install what the lock file names, file by file as it names them, and the project on top.

    Nothing is taken of which the hash is not known: what builds packages comes first, so that no
    build fetches anything, and the project itself needs nothing more then.
    """
    print("installing (the first time Spark alone is 450 MB) ...", flush=True)
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-deps"]
    exactly = [*pip, "--require-hashes", "--no-build-isolation", "--use-pep517", "-r"]
    subprocess.run([*exactly, str(BUILD_LOCK)], check=True)
    subprocess.run([*exactly, str(LOCK)], check=True)
    subprocess.run([*pip, "--no-build-isolation", "--use-pep517", "-e", str(ROOT)], check=True)
    if not works("-m", "pip", "check"):
        sys.exit(
            f"packages of the environment do not fit together ({VENV.name}/bin/pip check): "
            "make clean, and try again; if that does not help, tools/lock.py writes another lock"
        )
    needed = "onceq, cryptography, pytest, hypothesis, pyspark, pyarrow, matplotlib, sphinx"
    if not works("-c", f"import {needed}"):
        sys.exit(f"the environment does not work: remove {VENV.name} (make clean) and try again")


def main() -> None:
    """See the module."""
    if sys.version_info < PYTHON_MIN:
        sys.exit("onceq needs Python 3.11 or newer; this is " + sys.version.split()[0])
    try:
        make()
        install()
    except subprocess.CalledProcessError as error:
        sys.exit(
            f"setting up failed: {' '.join(map(str, error.cmd[:4]))} ... ended with "
            f"{error.returncode}; the lines above say why (is the package index reachable?)"
        )


if __name__ == "__main__":
    main()
