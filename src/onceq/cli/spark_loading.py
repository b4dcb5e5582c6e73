"""What commands with large libraries share: how their work is loaded, and Spark's errors.

Upholds: a plain installation has these commands too, and they say what to install.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from onceq.cli import out
from onceq.cli.common import TOP, Exit
from onceq.errors import ConfigurationError, OnceqError

INTERRUPTED = 130


class Missing:
    """Around imports that need more than a plain installation has.

    Args:
        wanted: What to install.

    Raises:
        ConfigurationError: A library is not there.
    """

    def __init__(self, wanted: str) -> None:
        self._wanted = wanted

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ModuleNotFoundError):
            raise _missing(error.name, self._wanted) from None


def _missing(name: str | None, wanted: str) -> ConfigurationError:
    return ConfigurationError(f"this command needs the package {name}: pip install '{wanted}'")


def loaded(module: str, extras: str = "spark,java") -> Any:
    """A module that needs Spark; raises ConfigurationError where a library is not installed."""
    wanted = f"onceq[{extras}]"
    if find_spec("pyspark") is None:
        raise _missing("pyspark", wanted)
    with Missing(wanted):
        return import_module(module)


def credential_files() -> Any:
    """Who a job is (``--token-file``), for all its processes; these may run in other folders.

    Raises:
        ConfigurationError, AccessDenied: The file cannot be used. Said before Spark starts.
    """
    module = loaded("onceq.spark.connections")
    name = TOP.token_file
    found = module.credential_files_of({} if name is None else {module.TOKEN_FILE: name})
    if name is not None:
        found = module.CredentialFiles(token=str(Path(name).absolute()))
    found.check("driver of this job")
    return found


def interrupted() -> Exit:
    """Say what is true of a job that was given up, and end so."""
    out.note("interrupted; the same command goes on where it was")
    return Exit(INTERRUPTED)


def unwrap_error(error: Exception) -> OnceqError:
    """Return the error of ours that Spark passes on, without the words around it; else Spark's."""
    made: OnceqError = import_module("onceq.spark.argument_checks").original(error)
    return made
