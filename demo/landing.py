"""The Spark job as the demo sees it: a process that tells how many rows it has written.

It starts before the first commit, and the demo waits until it looks at the hub's queue: a Spark
that starts beside five busy queue managers has its first batch when all is over.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from demo.children import Listener
from demo.job import ARRIVED
from demo.managers import HUB_QUEUE, LATE_QUEUE, Network
from demo.patience import Patience
from demo.proofs import Off
from demo.watch import Watch
from onceq.client.stopping import pause

POLL_S = 0.03
STILL_S_MAX = 600.0
"""Some of its steps tell nothing until they are done."""
STAGES = {
    "verify": "all is in Parquet; verifying",
    "delays": "working out delays",
    "back": "very late flights go back to their airports, written twice and sent once",
    "filter": "the same rows repeated and out of order, through the receiver's rules",
}


class Landing:
    """See the module."""

    def __init__(self, network: Network, watch: Watch) -> None:
        self._watch = watch
        self._patience = Patience("the Spark job", STILL_S_MAX)
        self._work = network.directory / "spark"
        self._work.mkdir()
        config = self._work / "job.json"
        config.write_text(
            json.dumps(
                {
                    "work": str(self._work),
                    "manager": str(network.hub.directory),
                    "queue": HUB_QUEUE,
                    "late_queue": LATE_QUEUE,
                }
            )
        )
        watch.say("a PySpark job starts; it empties the hub's queue into Parquet")
        self._job = Listener(network.spawn(["-m", "demo.job", str(config)], "spark", pipe=True))

    @property
    def rows(self) -> int:
        """Rows of batches that Spark has committed."""
        return int(self._job.last.get("rows", 0))

    def look(self) -> None:
        """Raises Off if the job has ended too early, or does nothing."""
        if self._job.child.process.poll() is not None and self._job.result is None:
            raise Off(f"the Spark job has ended: {self._job.child.complain()}")
        self._patience.look(dict(self._job.last))

    def await_listening(self) -> None:
        """Until it has looked for messages; raises Off."""
        while not self._job.last.get("listening"):
            self.look()
            pause(POLL_S)

    def finish(self, total: int, note: Callable[[], None]) -> dict[str, Any]:
        """Until the job is done with so many flights.

        Args:
            total: How many have arrived in all.
            note: Called again and again meanwhile.

        Returns:
            What the job has found.

        Raises:
            Off: It has failed.
        """
        told = self._work / f".{ARRIVED}"
        told.write_text(str(total))
        told.rename(self._work / ARRIVED)
        stage = ""
        while self._job.child.process.poll() is None:
            self._patience.look(dict(self._job.last))
            note()
            if self._job.last.get("stage") != stage:
                stage = self._job.last.get("stage", "")
                if stage in STAGES:
                    self._watch.say(STAGES[stage])
            pause(POLL_S)
        self._job.thread.join()
        note()
        if self._job.failed() or self._job.result is None:
            raise Off(f"the Spark job has failed: {self._job.child.complain()}")
        return self._job.result
