"""Drivers of a stream in processes of their own, and how they die."""

from __future__ import annotations

import subprocess


class Crash(Exception):
    """What a test raises where a driver might die."""


DRIVER = """
import sys
from pathlib import Path
from onceq.spark.runtime import QUICK, quiet_session
where, queue, checkpoint, out = sys.argv[1:]
session = quiet_session("local[2]", "driver", QUICK, folder=Path(checkpoint + "-spark"))
spark = session.__enter__()
def write(frame, batch):
    frame.write.mode("overwrite").parquet(f"{out}/batch={batch}")
    print("batch", batch, flush=True)
    if batch == 1:
        sys.stdin.read()
(spark.readStream.format("onceq").schema("lookupId bigint, body binary")
 .option("queueManager", where).option("queue", queue).option("maxMessagesPerTrigger", 10).load()
 .writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
 .trigger(availableNow=True).start().awaitTermination())
"""


def kill_group(process: subprocess.Popen[str]) -> None:
    """The driver and its Java, at once."""
    import os
    import signal

    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        pipe.close()
