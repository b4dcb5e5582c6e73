"""A Spark application in a process of its own: with executors that die, tasks that fail, and no
onceq where the executors are.

Arguments: master, address of the queue manager, queue, working folder, crash ("kill" or "raise").
It prints what its batches had, as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def bare_python(folder: Path) -> Path:
    """A Python that is this one, but has no onceq when an executor runs it."""
    import pyspark

    farm = folder / "farm"
    farm.mkdir()
    for entry in Path(pyspark.__file__).parents[1].iterdir():
        if "onceq" not in entry.name and not entry.name.startswith("msgspec"):
            (farm / entry.name).symlink_to(entry)
    made = folder / "python"
    made.write_text(
        "#!/bin/sh\n"
        'if [ -n "$SPARK_EXECUTOR_DIRS" ]; then\n'
        f'PYTHONPATH={farm} exec {sys.executable} -S "$@"\n'
        "fi\n"
        f'exec {sys.executable} "$@"\n'
    )
    made.chmod(0o755)
    return made


def own_home(folder: Path) -> Path:
    """A SPARK_HOME whose workers keep their files in our folder."""
    import pyspark

    home = folder / "spark"
    (home / "python" / "lib").mkdir(parents=True)
    for name in ("bin", "jars", "sbin"):
        (home / name).symlink_to(Path(pyspark.__file__).parent / name)
    return home


def session(master: str, folder: Path) -> Any:
    from onceq.spark import prepare
    from onceq.spark.runtime import QUICK

    prepare()
    os.environ["SPARK_HOME"] = str(own_home(folder))
    os.environ["PYSPARK_PYTHON"] = str(bare_python(folder))
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.extraJavaOptions", QUICK["spark.driver.extraJavaOptions"])
        .config("spark.executor.memory", "700m").config("spark.log.level", "OFF")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )  # fmt: skip


def crashing(flag: str, how: str) -> Any:
    """A step behind the source that fails once, when it has seen some rows."""

    def parent(process: int) -> int:
        with open(f"/proc/{process}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])

    def step(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if batch.num_rows and not os.path.exists(flag):
                open(flag, "w").close()
                if how == "raise":
                    raise RuntimeError("a task fails once")
                os.kill(parent(os.getppid()), signal.SIGKILL)  # The Java of this executor.
            yield batch

    return step


def main(master: str, where: str, queue: str, folder: str, how: str) -> None:
    place = Path(folder)
    spark = session(master, place)
    from onceq.spark import ship

    def has_onceq(_: Any) -> Iterator[bool]:
        try:
            import onceq  # noqa: F401
        except ImportError:
            yield False
        else:
            yield True

    bare = spark.sparkContext.parallelize([0, 1], 2).mapPartitions(has_onceq).collect()
    ship(spark)
    batches: dict[int, list[str]] = {}

    def write(frame: Any, batch: int) -> None:
        rows = frame.mapInArrow(crashing(f"{folder}/crashed-{batch}", how), frame.schema)
        batches[batch] = [
            bytes(row.body).decode() for row in sorted(rows.collect(), key=lambda r: r.lookupId)
        ]

    query = (
        spark.readStream.format("onceq").schema("lookupId bigint, body binary")
        .option("queueManager", where).option("queue", queue)
        .option("maxMessagesPerTrigger", 40_000).option("minPartitions", 4).load()
        .writeStream.foreachBatch(write).option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    crashes = sum(path.name.startswith("crashed-") for path in place.iterdir())
    print("result", json.dumps({"bare": bare, "batches": batches, "crashes": crashes}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
