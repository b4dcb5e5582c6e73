"""The source for executors that have no onceq: packed into archives, and handed to Spark.

Spark puts zip files for Python on the path of its workers. The one library that the client
needs, msgspec, is compiled and cannot be imported out of a zip file; as an archive it is unpacked
beside them. That works where driver and executors have the same Python and the same kind of
machine; PySpark asks for the first anyway.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from onceq.errors import ConfigurationError
from onceq.spark.given import session_given
from onceq.spark.options import wrong

PACKAGES: Final = ("onceq", "pyspark_onceq")
COMPILED: Final = "msgspec"


def pack(path: Path) -> Path:
    """Write a zip file with the packages of the source; returns its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in PACKAGES:
            _add(packed, _folder(name), Path(name), ".py")
    return path


def _add(packed: zipfile.ZipFile, folder: Path, under: Path, *endings: str) -> None:
    for file in sorted(folder.rglob("*")):
        if file.suffix in endings:
            packed.write(file, under / file.relative_to(folder))


def ship(spark: Any) -> None:
    """Let executors without onceq read queues; call it once, before the first query.

    They need what Spark's own Arrow functions need (pyarrow, pandas), and the driver's version of
    Python. It also registers the format with the session.

    Args:
        spark: A session of classic Spark. With Spark Connect, install onceq on the server.

    Raises:
        ConfigurationError: It is a session of Spark Connect, or none.
    """
    from onceq.spark.source import OnceqDataSource

    session_given(spark, "ship")
    try:
        context = spark.sparkContext
    except Exception as error:
        raise wrong(
            "a session of Spark Connect ships no compiled libraries; install onceq[spark] where "
            f"the Spark server and its executors run ({type(error).__name__})"
        ) from error
    folder = Path(tempfile.mkdtemp(prefix="onceq-ship-"))
    # Executors fetch them when they start, which may be at any time.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    context.addPyFile(str(pack(folder / "onceq.zip")))
    with zipfile.ZipFile(folder / f"{COMPILED}.zip", "w") as packed:
        _add(packed, _folder(COMPILED), Path(), ".py", ".so", ".pyd")
    context.addArchive(f"{folder / COMPILED}.zip#{COMPILED}")
    spark.dataSource.register(OnceqDataSource)


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ConfigurationError(f"{package} is not installed as files, so it cannot be shipped")
    return Path(spec.origin).parent
