"""``make dist``: build the wheel and the source package, look into both, and try the wheel.

The wheel is built from the source package, so that a file which is missing there is missed here. It
is then installed, without extras, into an empty virtual environment, in which the first tutorial
runs, and the command ``onceq`` answers. Beside both a bill of materials and ``SHA256SUMS`` are
written (``sbom.py``).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

import lock
import sbom

ROOT = Path(__file__).resolve().parent.parent
TUTORIAL = ROOT / "docs" / "tutorial" / "first-queue.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
PACKAGES = ("onceq", "pyspark_onceq")
"""What the wheel installs beside its metadata."""
IN_SOURCE = (
    "CHANGELOG.md", "LICENSE", "Makefile", "README.md", "docs/hacking.md", "pyproject.toml",
    "packaging/build.lock", "requirements.lock", "src/onceq/py.typed", "tests/conftest.py",
    "proof/__main__.py", "tools/dist.py",
)  # fmt: skip
"""Some files of each kind that a source package must have: who unpacks it can run the tests."""
LIMIT_S = 600


class Failed(Exception):
    """Something is wrong with a package; the text says what."""


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """Run a command and return what it printed.

    Raises:
        Failed: It ended with an error.
    """
    done = subprocess.run(
        command, cwd=cwd, env=env, text=True, check=False, timeout=LIMIT_S,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if done.returncode:
        shown = " ".join(str(part).splitlines()[0] for part in command)
        raise Failed(f"{shown}: ended with {done.returncode}\n{done.stdout}")
    return done.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """Make both packages.

    Args:
        folder: Where they go. Packages of older builds in it are removed.

    Returns:
        The wheel and the source package.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for pattern in ("onceq-*.whl", "onceq-*.tar.gz", "onceq-*.cdx.json", sbom.SUMS):
        for old in folder.glob(pattern):
            old.unlink()
    # The build back end of the lock file, not the newest one, which isolation would fetch.
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    (wheel,) = folder.glob("onceq-*.whl")
    (source,) = folder.glob("onceq-*.tar.gz")
    return wheel, source


def faults_of_wheel(names: Collection[str], modules: Collection[str]) -> Iterator[str]:
    """What is wrong with the content of a wheel.

    Args:
        names: Its files.
        modules: The files below ``src`` that belong into it.
    """
    yield from (f"the wheel has no {name}" for name in sorted(set(modules) - set(names)))
    tops = {name.partition("/")[0] for name in names}
    for top in sorted(tops - set(PACKAGES)):
        if not top.endswith(".dist-info"):
            yield f"the wheel would install {top}, which is no package of onceq"
    for name in sorted(names):
        path = PurePosixPath(name)
        if path.name == "conftest.py" or path.name.startswith("test_") or "tests" in path.parts:
            yield f"the wheel has a test: {name}"
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
        yield "the wheel has no licence"


def faults_of_source(names: Collection[str], tracked: Collection[str]) -> Iterator[str]:
    """What is wrong with the content of a source package.

    Args:
        names: Its files, without the folder in which all of them stand.
        tracked: The files that the repository has; empty if there is no repository.
    """
    for name in sorted({*IN_SOURCE, *tracked} - set(names)):
        yield f"the source package has no {name}"


def tracked() -> set[str]:
    """Files of the repository that are here; none where this is no repository."""
    if not (ROOT / ".git").exists():
        return set()
    return {name for name in run("git", "ls-files").splitlines() if (ROOT / name).is_file()}


def inspect(wheel: Path, source: Path) -> None:
    """Look into both packages.

    Raises:
        Failed: Something is missing or is too much.
    """
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
    with tarfile.open(source) as tar:
        members = [member.name for member in tar.getmembers() if member.isfile()]
    in_source = {name.partition("/")[2] for name in members}
    ours = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src").rglob("*")
        if path.suffix == ".py" or path.name == "py.typed"
    }
    kept = tracked()
    faults = [*faults_of_wheel(in_wheel, ours), *faults_of_source(in_source, kept)]
    if faults:
        raise Failed("\n".join(faults))
    if kept:
        for name in sorted(in_source - kept - {"PKG-INFO"}):
            print(f"note: {name} is in the source package, and not in git", flush=True)


def try_out(wheel: Path, folder: Path) -> list[str]:
    """Install a wheel where nothing else is, and use it as its first tutorial does.

    Args:
        folder: An empty folder for the environment and the tutorial's files.

    Returns:
        What was installed.

    Raises:
        Failed: It could not be installed, or does not work.
    """
    home = folder / "venv"
    venv.EnvBuilder(with_pip=True, symlinks=True).create(home)
    binaries = home / "bin"
    # What stands in these would stand before what was installed.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    pip = (binaries / "python", "-m", "pip", "--disable-pip-version-check")
    needs = folder / "needs.lock"
    known = lock.blocks(lock.LOCK.read_text(encoding="utf-8"))
    needs.write_text("".join(known[name] for name in sbom.needed("onceq", (), known)))
    run(*pip, "install", "-q", "--no-deps", "--require-hashes", "-r", needs, env=env)
    run(*pip, "install", "-q", "--no-deps", wheel, env=env)
    run(*pip, "check", env=env)
    blocks = BLOCK.findall(TUTORIAL.read_text(encoding="utf-8"))
    if not blocks:
        raise Failed(f"{TUTORIAL.name} has no code to run")
    work = folder / "work"
    work.mkdir()
    run(binaries / "python", "-I", "-c", "\n".join(blocks), cwd=work, env=env)
    version = wheel.name.split("-")[1]
    said = run(binaries / "onceq", "--version", cwd=work, env=env)
    if version not in said.split():
        raise Failed(f"onceq --version says {said.strip()!r}, and the wheel is {version}")
    if "Usage: onceq" not in run(binaries / "onceq", "--help", cwd=work, env=env):
        raise Failed("onceq --help does not say how it is used")
    listed = run(*pip, "list", "--format=freeze", env=env).split()
    return [name for name in listed if not name.startswith(("pip==", "setuptools=="))]


def main(arguments: list[str]) -> int:
    """Build, look, try.

    Args:
        arguments: ``--folder FOLDER`` for another place than ``dist``.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "dist", help="where packages go")
    folder = parser.parse_args(arguments).folder.resolve()
    try:
        wheel, source = build(folder)
        inspect(wheel, source)
        with tempfile.TemporaryDirectory(prefix="onceq-dist-") as scratch:
            installed = try_out(wheel, Path(scratch))
        written = sbom.write(wheel, source)
    except Failed as failed:
        print(failed, file=sys.stderr)
        return 1
    for package in (wheel, source, *written):
        print(f"{package}  {package.stat().st_size >> 10} KiB")
    print(f"the wheel works in an empty environment, with {', '.join(installed)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
