"""Registers the data source format "onceq" with PySpark.

Spark imports every installed package named ``pyspark_*`` and asks it for ``DefaultSource``. One
that fails breaks all Python data sources of the session, so this one does not: without what it
needs it has no such attribute, and a warning says why.
"""

from __future__ import annotations

import warnings

try:
    from onceq.spark.data_source import OnceqDataSource as DefaultSource
except Exception as error:  # noqa: BLE001 - see above: no error may spread
    warnings.warn(f'the data source format "onceq" is not available: {error}', stacklevel=1)
else:
    __all__ = ["DefaultSource"]
