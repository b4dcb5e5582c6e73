"""``format("onceq")``: what Spark finds by that name (``pyspark_onceq`` registers it).

Options and columns are checked here, on the driver, so that a mistake is told before anything
runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from onceq.spark.options import parse
from onceq.spark.rows import SCHEMA, wanted

if TYPE_CHECKING:
    from onceq.spark.reader import OnceqReader
    from onceq.spark.stream import OnceqStreamReader


class OnceqDataSource(DataSource):  # type: ignore[misc]
    """Messages of queues as rows."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "onceq"

    def schema(self) -> str:
        """All columns; fewer are faster: ``.schema("lookupId bigint, body binary")``."""
        return SCHEMA

    def reader(self, schema: Any) -> OnceqReader:
        """For ``spark.read``; raises ConfigurationError."""
        from onceq.spark.reader import OnceqReader

        return OnceqReader(parse(self.options, stream=False), wanted(schema))

    def streamReader(self, schema: Any) -> OnceqStreamReader:
        """For ``spark.readStream``; raises ConfigurationError."""
        from onceq.spark.stream import OnceqStreamReader

        return OnceqStreamReader(parse(self.options, stream=True), wanted(schema))
