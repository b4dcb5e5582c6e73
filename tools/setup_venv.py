"""Make the virtual environment .venv with everything that tests and the demo need.

Uses the standard library only, because it runs before anything is installed.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"


def main() -> None:
    """Create it if need be, then install the project with its pinned dependencies."""
    python = VENV / "bin" / "python"
    if not python.exists():
        print(f"making {VENV.name} with Python {sys.version.split()[0]}")
        venv.EnvBuilder(with_pip=True).create(VENV)
    print("installing (the first time Spark alone is 450 MB) ...", flush=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q"]
    constraints = str(ROOT / "requirements.lock")
    subprocess.run([*pip, "install", "-c", constraints, "-e", f"{ROOT}[dev]"], check=True)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(
            f"setting up failed: {' '.join(map(str, error.cmd[:4]))} ... ended with "
            f"{error.returncode}; the lines above say why"
        )
