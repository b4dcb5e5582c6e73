"""Contexts: short names of queue managers, kept in the user's configuration.

``-q NAME`` takes one, ``ONCEQ_CONTEXT`` names one, and one may be in use where nothing else says
which queue manager is meant. A context holds where it is, and the name of a file with a token, but
never a token itself. The file is written whole or not at all, and belongs to its user alone.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, Final

from onceq.errors import ConfigurationError, UsageError
from onceq.model.record import MutableRecord, Record, field

VARIABLE: Final = "ONCEQ_CONTEXT"
CONTEXTS_MAX: Final = 1_000
"""More are not a person's."""
FILE_BYTES_MAX: Final = 1 << 20
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Context(Record, frozen=True):
    """Where a queue manager is, and by which file with a token one says who one is."""

    where: str
    token_file: str = ""


class Contexts(MutableRecord):
    """All of them, by name.

    Attributes:
        used: The one that is in use; "": none.
    """

    known: dict[str, Context] = field(default_factory=dict)
    used: str = ""

    def get(self, name: str) -> Context:
        """One; raises UsageError, which says which names are like it."""
        found = self.known.get(name)
        if found is None:
            raise UsageError(f"there is no context {name!r}; {self.hint(name)}")
        return found

    def hint(self, name: str) -> str:
        """What else there is."""
        if not self.known:
            return "'onceq context add NAME WHERE' makes one"
        from difflib import get_close_matches

        near = get_close_matches(name, self.known, 3)
        if near:
            return f"did you mean {' or '.join(near)}?"
        return "'onceq context list' shows those that there are"


def file_of(environment: Mapping[str, str]) -> str:
    """Where they are kept."""
    base = environment.get("XDG_CONFIG_HOME") or ""
    home = os.path.join(environment.get("HOME", "~"), ".config")
    folder = os.path.expanduser(base if os.path.isabs(base) else home)
    return os.path.join(folder, "onceq", "contexts.json")


def read() -> Contexts:
    """Those that are kept.

    Raises:
        ConfigurationError: The file cannot be read, or holds something else.
    """
    path = file_of(os.environ)
    try:
        with open(path, "rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        return Contexts()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    try:
        if len(raw) > FILE_BYTES_MAX:
            raise ValueError("it is too large")
        return _parsed(json.loads(raw))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ConfigurationError(
            f"{path} holds no contexts ({error}): mend it, or remove it and add them again"
        ) from None


def _parsed(value: Any) -> Contexts:
    known = {}
    for name, one in value["contexts"].items():
        where, token_file = one["where"], one.get("token_file", "")
        if not (_NAME.fullmatch(name) and isinstance(where, str) and isinstance(token_file, str)):
            raise ValueError(f"context {name[:80]!r}")
        known[name] = Context(where, token_file)
    used = value.get("used", "")
    if not isinstance(used, str):
        raise ValueError("used")
    return Contexts(known, used)


def write(contexts: Contexts) -> str:
    """Keep them, whole or not at all; returns where. Raises ConfigurationError."""
    import tempfile

    path = file_of(os.environ)
    said = {
        "contexts": {
            name: {"where": one.where, **({"token_file": one.token_file} if one.token_file else {})}
            for name, one in sorted(contexts.known.items())
        },
        "used": contexts.used,
    }
    try:
        folder = os.path.dirname(path)
        os.makedirs(folder, 0o700, exist_ok=True)
        # A file for temporary use is its user's alone, and so is what takes the place of the old.
        descriptor, beside = tempfile.mkstemp(dir=folder, prefix=".contexts-")
        try:
            with open(descriptor, "w") as file:
                file.write(json.dumps(said, indent=2) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            os.unlink(beside)
            raise
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None
    return path


def check_name(name: str) -> None:
    """Raises UsageError for what cannot be a name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a context: letters, digits, '.', '_' and '-', at most 64"
        )


def meant(text: str) -> Context:
    """What WHERE means: a context by its name, or an address, a socket, a data directory.

    Raises:
        ConfigurationError: It is a context and a file here, or a name that is like a context's.
    """
    if not _NAME.fullmatch(text):
        return Context(text)
    contexts = read()
    there = os.path.lexists(text)
    if text in contexts.known:
        if there:
            raise ConfigurationError(
                f"{text!r} is a context, and is here as a file, too: say ./{text} for that, or set "
                f"{VARIABLE}={text}"
            )
        return contexts.known[text]
    if contexts.known and not there:
        raise ConfigurationError(
            f"{text!r} is neither a context nor a directory here; {contexts.hint(text)}"
        )
    return Context(text)


def in_use() -> Context | None:
    """The one in use; None: there is none."""
    contexts = read()
    return contexts.get(contexts.used) if contexts.used else None
