"""``format("onceq")``: what Spark finds by that name (``pyspark_onceq`` registers it), to read and
to write.

Options and columns are checked here, on the driver, so that a mistake is told before anything
runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql.datasource import DataSource

from onceq.spark.options import SourceOptions, parse, wrong
from onceq.spark.sink_options import SinkOptions, columns_of, parse_sink
from onceq.spark.source_columns import asked, ddl, wanted

if TYPE_CHECKING:
    from onceq.spark.reader import OnceqReader
    from onceq.spark.stream import OnceqStreamReader
    from onceq.spark.writer import OnceqStreamWriter, OnceqWriter

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
        from onceq.spark.reader import OnceqReader

        options = _usable(parse(self.options, stream=False))
        return OnceqReader(options, wanted(schema, self.options))

    def streamReader(self, schema: Any) -> OnceqStreamReader:
        """For ``spark.readStream``; raises ConfigurationError."""
        from onceq.spark.stream import OnceqStreamReader

        options = _usable(parse(self.options, stream=True))
        return OnceqStreamReader(options, wanted(schema, self.options))

    def writer(self, schema: Any, overwrite: bool) -> OnceqWriter:
        """For ``write``; raises ConfigurationError."""
        from onceq.spark.writer import OnceqWriter

        _only_append(overwrite)
        options = _usable(parse_sink(self.options, stream=False))
        return OnceqWriter(options, columns_of(schema, options))

    def streamWriter(self, schema: Any, overwrite: bool) -> OnceqStreamWriter:
        """For ``writeStream``; raises ConfigurationError."""
        from onceq.spark.writer import OnceqStreamWriter

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
