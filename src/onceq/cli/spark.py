"""``onceq spark``: jobs that need Spark.

Their work is in ``onceq.spark``, which is loaded only when one of them runs, because a plain
installation has neither Spark nor Arrow.
"""

from __future__ import annotations

import typer

from onceq.cli import spark_audit, spark_land, spark_readers, spark_replay

app = typer.Typer(
    name="spark",
    help="Jobs on Apache Spark: queues into files and back, audits of histories.",
    no_args_is_help=True,
)
spark_land.register(app)
spark_replay.register(app)
spark_audit.register(app)
spark_readers.register(app)


@app.callback()
def spark() -> None:
    """Jobs on Apache Spark: queues into files and back, audits of histories."""
