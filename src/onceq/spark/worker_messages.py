"""What source and sink log in Spark's Python workers, brought to the command that started Spark.

Workers are processes of Java. Their log ends on Java's stderr, which a command does not show,
because most of it is Spark's own. So each worker appends what it logs to a file, each message in
one write, and the command reads that file while it grows. Workers on other computers have no such
file; they log where they always did.

Upholds: I24 (one look in ``LOOK_S``; a message has at most ``SENTENCE_BYTES_MAX``).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

VARIABLE: Final = "ONCEQ_SPARK_SAYS"
"""In the environment of Java, and so of its workers: the file."""
LOOK_S: Final = 0.2
"""Between two looks at the file: so much later than it is said a sentence is heard."""
SENTENCE_BYTES_MAX: Final = 4096
"""Longer ones are cut: a local file takes this size in one piece, beside other writers."""

LogListener = Callable[[str], None]


class LogFileHandler(logging.Handler):
    """Appends what is logged to a file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        """Append the text of a record to the file."""
        said = " ".join(record.getMessage().split()).encode(errors="replace")
        try:
            # Not created again: when the command has ended, nobody reads it.
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                os.write(file, said[:SENTENCE_BYTES_MAX] + b"\n")
            finally:
                os.close(file)
        except OSError:
            if logging.lastResort is not None:
                logging.lastResort.handle(record)


def log_to_command(log: logging.Logger) -> None:
    """In a worker of a command's Spark: have that command hear what is logged."""
    path = os.environ.get(VARIABLE)
    if path and os.path.exists(path):
        log.addHandler(LogFileHandler(path))


@contextmanager
def logging_into(path: Path) -> Iterator[None]:
    """A process that is started inside, and those that it starts, speak into that file."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(path)
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


class LogReader:
    """What has come into a file of sentences since the last look.

    Args:
        heard: Is told each of them.
    """

    def __init__(self, path: Path, heard: LogListener) -> None:
        path.touch()
        self._path = path
        self._heard = heard
        self._place = 0
        self._last = b""

    def pass_on(self) -> None:
        """Pass on the sentences that are new and whole."""
        with self._path.open("rb") as file:
            file.seek(self._place)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._place += len(line)
                # Tasks that wait for the same say the same.
                if line != self._last:
                    self._heard(line.decode(errors="replace").rstrip("\n"))
                self._last = line


@contextmanager
def follow_log(path: Path, heard: LogListener) -> Iterator[None]:
    """Pass on what is said into a file, in a thread of its own, to the end of the block."""
    ear, over = LogReader(path, heard), threading.Event()

    def listen() -> None:
        while not over.wait(LOOK_S):
            ear.pass_on()

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        ear.pass_on()
