"""``format("onceq")``: the data source that Spark finds by that name, and how executors get it.

``pyspark_onceq`` registers the name. Options and columns are checked here, on the driver, before
any task runs.

``ship`` serves executors that have no onceq: it packs the source into archives and hands them to
Spark. Spark puts zip files for Python on the path of its workers. The one library that the client
needs, msgspec, is compiled and cannot be imported out of a zip file; as an archive it is unpacked
beside them. That works where driver and executors have the same version of Python, which PySpark
requires, and the same kind of machine.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql.datasource import DataSource

from onceq.errors import ConfigurationError
from onceq.spark.argument_checks import require_session, wrong
from onceq.spark.sink.options import SinkOptions, columns_of, parse_sink
from onceq.spark.source.options import SourceOptions, asked, ddl, parse, wanted

if TYPE_CHECKING:
    from onceq.spark.sink.writer import OnceqStreamWriter, OnceqWriter
    from onceq.spark.source.reader import OnceqReader
    from onceq.spark.source.stream import OnceqStreamReader


DRIVER: Final = "driver of this query"
"""Who reads the files of credentials first; executors do for each connection."""
Parsed = TypeVar("Parsed", SourceOptions, SinkOptions)


class OnceqDataSource(DataSource):  # type: ignore[misc]
    """Messages of queues as rows, and rows as messages."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "onceq"

    def schema(self) -> str:
        """The usual columns, or those of the option ``columns``; fewer are faster."""
        return ddl(asked(self.options))

    def reader(self, schema: Any) -> OnceqReader:
        """For ``spark.read``; raises ConfigurationError."""
        from onceq.spark.source.reader import OnceqReader

        options = _usable(parse(self.options, stream=False))
        return OnceqReader(options, wanted(schema, self.options))

    def streamReader(self, schema: Any) -> OnceqStreamReader:
        """For ``spark.readStream``; raises ConfigurationError."""
        from onceq.spark.source.stream import OnceqStreamReader

        options = _usable(parse(self.options, stream=True))
        return OnceqStreamReader(options, wanted(schema, self.options))

    def writer(self, schema: Any, overwrite: bool) -> OnceqWriter:
        """For ``write``; raises ConfigurationError."""
        from onceq.spark.sink.writer import OnceqWriter

        _only_append(overwrite)
        options = _usable(parse_sink(self.options, stream=False))
        return OnceqWriter(options, columns_of(schema, options))

    def streamWriter(self, schema: Any, overwrite: bool) -> OnceqStreamWriter:
        """For ``writeStream``; raises ConfigurationError."""
        from onceq.spark.sink.writer import OnceqStreamWriter

        _only_append(overwrite)
        options = _usable(parse_sink(self.options, stream=True))
        return OnceqStreamWriter(options, columns_of(schema, options))


def _usable(options: Parsed) -> Parsed:
    """Options whose files of credentials can be used where the driver is; raises
    ConfigurationError, AccessDenied."""
    options.credentials.check(DRIVER)
    return options


def _only_append(overwrite: bool) -> None:
    if overwrite:
        raise wrong(
            'a queue cannot be written over: messages may be gone already. Use mode("append"), or '
            "outputMode append"
        )


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

    require_session(spark, "ship")
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
