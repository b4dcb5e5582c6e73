"""The key with which a queue manager marks the attempts of its applications (finding S9).

It is in a file beside the store, for the account of the queue manager alone, so that an attempt
goes on when the queue manager is started again: a Spark task whose queue manager was killed begins
its branch again. No backup has the file, and a restore moves it aside with the store that it
replaces. A lost or damaged key is replaced, and earlier attempts end.

Upholds: I28 (nobody begins a branch in the attempt of another one).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from onceq.core.step.units import KEY_BYTES
from onceq.errors import StorageFailure
from onceq.model.data_directory import ATTEMPT_KEY_FILE


def kept_entropy(
    folder: str, random: Callable[[int], bytes] = os.urandom
) -> Callable[[int], bytes]:  # fmt: skip
    """Return a source of random bytes whose last ``KEY_BYTES`` are the same at each start.

    Args:
        folder: The data directory.
        random: Returns the given number of random bytes.

    Returns:
        A function that returns the given number of bytes; raises StorageFailure.
    """
    path = os.path.join(folder, ATTEMPT_KEY_FILE)

    def entropy(size: int) -> bytes:
        try:
            key = _read(path) or _made(path, random(KEY_BYTES))
        except OSError as error:
            raise StorageFailure(f"{path}: {os.strerror(error.errno or 0)}") from error
        return random(size - KEY_BYTES) + key

    return entropy


def _read(path: str) -> bytes:
    """Return the key; b"" if there is none."""
    with suppress(FileNotFoundError), open(path, "rb") as file:
        found = file.read(KEY_BYTES + 1)
        return found if len(found) == KEY_BYTES else b""
    return b""


def _made(path: str, key: bytes) -> bytes:
    """Write a key, whole or not at all."""
    fresh = f"{path}.new"
    with suppress(FileNotFoundError):
        os.unlink(fresh)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
    return key
