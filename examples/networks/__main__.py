"""Two networks, and Spark between them as the queue manager at both ends: ``make networks``.

SHOP commits orders to one of its queues, each with the names of the queues at DEPOT that it is for.
On SHOP's side a Spark stream makes a row for each destination (``expand_destinations``) and gives
it its place in a stream (``number``). A feed of files brings the rows over: in any order, some
twice, some only the third time. On DEPOT's side another stream judges them (``eod_filter``),
settles what it accepts (``settle``), and writes it into DEPOT's queues, with its numbers; in the
same transaction it sends SHOP the order acknowledgments, by DEPOT's own queue manager over the
network, and the acknowledgment messages that the orders ask for. SHOP's stream hears from them what
may be forgotten.

In the end every order is at DEPOT once and in order, and a queue manager's own core, which the same
rows arrive at as packets, has said the same of each of them: its verdict, its end, and who is told.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections import Counter, defaultdict
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import onceq  # noqa: E402
from examples.networks.reference import Reference  # noqa: E402
from onceq.client.stopping import pause  # noqa: E402
from onceq.spark import carried  # noqa: E402
from onceq.spark.operators import (  # noqa: E402
    accepted,
    acknowledgment_messages,
    eod_filter,
    expand_destinations,
    number,
    order_acknowledgments,
    sent,
    settle,
)
from onceq.spark.operators.columns import PROVIDER, ROCKSDB  # noqa: E402
from onceq.spark.runtime import QUICK, quiet_session  # noqa: E402
from proof.nodes import Node, free_port  # noqa: E402

OUTBOX, ACKS, TOLD = r"private$\outbox", r"private$\acks", r"private$\told"
QUEUES: Final = {r"private$\orders": True, r"private$\audit": True, r"private$\notes": False}
"""At DEPOT, and whether each is transactional."""
AT_DEPOT: Final = r"DIRECT=OS:DEPOT\private$" + "\\"
WAYS: Final = ("orders", "orders,audit", "orders", "audit", "notes", "orders,nowhere")
"""Where orders go: ``notes`` is not transactional there, and ``nowhere`` does not exist."""
WAVES, ORDERS = 2, 60
ROUNDS: Final = ((0.1, 6), (0.0, 0))
"""How much of a round the feed loses, and how far it delays; the last brings all that is left."""
WAIT_S, STEP_S = 60.0, 0.1


class Networks:
    """The two queue managers, the files between them, and what was seen."""

    def __init__(self, folder: Path, spark: Any, stack: ExitStack) -> None:
        self.folder, self.spark, self.random = folder, spark, random.Random(17)
        ports = {"SHOP": free_port(), "DEPOT": free_port()}
        settings = "order_ack_delay_s = 0.02\nconnect_retry_s = 0.2\n"
        for name, port in ports.items():
            node = Node(folder, name, port, ports, settings=settings)
            node.start()
            stack.callback(node.kill)
        self.shop, self.depot = (
            stack.enter_context(onceq.connect(str(folder / name))) for name in ("shop", "depot")
        )
        for queue in (OUTBOX, ACKS, TOLD):
            self.shop.create_queue(queue, transactional=True)
        for queue, ordered in QUEUES.items():
            self.depot.create_queue(queue, transactional=ordered)
        self.orders = 0
        self.acknowledged: dict[tuple[str, str], tuple[int, int]] = {}
        """By sender and queue: stream and number up to which all has come."""
        self.rounds = self.arrivals = self.acks = 0

    # ---- SHOP -----------------------------------------------------------------------------

    def commit(self) -> None:
        """Orders in transactions of one to three; every fifth transaction is too late when it
        comes, and who asks is told."""
        left = ORDERS
        while left:
            many = min(left, self.random.randint(1, 3))
            late = self.random.random() < 0.2
            with self.shop.transaction() as tx:
                for _ in range(many):
                    ways = self.random.choice(WAYS).split(",")
                    order = {
                        "to": ",".join(AT_DEPOT + way for way in ways), "order": self.orders,
                        "ask": self.random.choice((0, 0, 1, 5, 15)),
                    }  # fmt: skip
                    tx.send(OUTBOX, json.dumps(order), label=f"order {self.orders}",
                            journal=1, time_to_reach_queue=5 if late else 3_600)  # fmt: skip
                    self.orders += 1
            left -= many

    def source(self, queue: str) -> Any:
        """A stream of one of SHOP's queues."""
        made = self.spark.readStream.format("onceq").option("queueManager", str(self.shop_path))
        return made.option("columns", "all").load(queue)

    @property
    def shop_path(self) -> Path:
        """Data directory."""
        return self.folder / "shop"

    def number(self) -> None:
        """What was committed becomes rows with numbers, each once and for ever."""
        orders = (
            self.source(OUTBOX).drop("queue", "destination", "streamId", "seqNumber", "prevNumber")
            .selectExpr(
                "*", "get_json_object(string(body), '$.to') AS queue", "lookupId AS commitOrder",
            )
            .drop("acknowledge", "adminQueue")
            .selectExpr(
                "*", "int(get_json_object(string(body), '$.ask')) AS acknowledge",
                r"'DIRECT=OS:SHOP\\private$\\told' AS adminQueue",
            )
        )  # fmt: skip
        copies = sent(expand_destinations(orders)).withColumnRenamed("copy", "sendOrder")
        acks = carried(self.source(ACKS)).where("carries = 'order-ack'")
        numbered = number(copies, acknowledgments=acks).where("seqNumber IS NOT NULL")
        query = (
            numbered.writeStream.format("parquet").trigger(availableNow=True)
            .option("path", str(self.folder / "outgoing"))
            .option("checkpointLocation", str(self.folder / "numbering"))
        )  # fmt: skip
        query.start().awaitTermination()

    # ---- the feed -------------------------------------------------------------------------

    def carry(self, lost: float, delay: int) -> tuple[int, int]:
        """Bring over what was not acknowledged, as a bad network does, and some that was; how many
        rows these were, and how many came."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = self.spark.read.parquet(str(self.folder / "outgoing")).toArrow()
        table = table.sort_by([("commitOrder", "ascending"), ("sendOrder", "ascending")])
        rows = table.select(["sourceMachine", "queue", "streamId", "seqNumber"]).to_pylist()
        waiting = [at for at, row in enumerate(rows) if not self._is_acknowledged(row)]
        coming = [at for at in waiting if self.random.random() >= lost]
        again = [(self.random.random() * len(coming), self.random.randrange(len(rows)))
                 for _ in range(len(rows) // 5)]  # fmt: skip
        late = [(place + self.random.random() * delay, at) for place, at in enumerate(coming)]
        coming = [at for _, at in sorted(late + again)]
        self.rounds += 1
        start = max(table["sentTime"].to_pylist()) + timedelta(seconds=10 * self.rounds)
        for part in range(0, len(coming), 40):
            some = coming[part : part + 40]
            places = range(self.arrivals, self.arrivals + len(some))
            times = [start + timedelta(milliseconds=place) for place in places]
            chosen = table.take(pa.array(some)).drop_columns(["arrivedTime", "lookupId"])
            chosen = chosen.append_column("arrivedTime", pa.array(times, pa.timestamp("us", "UTC")))
            chosen = chosen.append_column("arrival", pa.array(places, pa.int64()))
            self.arrivals += len(some)
            (self.folder / "arriving").mkdir(exist_ok=True)
            name = f"{self.arrivals:08}.parquet"
            pq.write_table(chosen, self.folder / name)
            (self.folder / name).rename(self.folder / "arriving" / name)
        return len(waiting), len(coming)

    def _is_acknowledged(self, row: dict[str, Any]) -> bool:
        stream, last = self.acknowledged.get((row["sourceMachine"], row["queue"]), (0, 0))
        return (int(row["streamId"]), row["seqNumber"]) <= (stream, last)

    # ---- DEPOT ----------------------------------------------------------------------------

    def receive(self) -> None:
        """Judge what came, settle it, and write what is to be written in one transaction."""
        kind = self.spark.read.parquet(str(self.folder / "arriving")).schema
        feed = (
            self.spark.readStream.schema(kind).option("maxFilesPerTrigger", 2)
            .parquet(str(self.folder / "arriving"))
        )  # fmt: skip
        query = (
            eod_filter(feed, order_by="arrival").writeStream.foreachBatch(self.land)
            .option("checkpointLocation", str(self.folder / "judging")).trigger(availableNow=True)
        )  # fmt: skip
        query.start().awaitTermination()

    def land(self, frame: Any, batch: int) -> None:
        """One micro-batch, which may come again."""
        frame = frame.persist()
        done = settle(accepted(frame), self.spark.createDataFrame(
            [(AT_DEPOT + name.split("\\")[1], ordered) for name, ordered in QUEUES.items()],
            "queue string, transactional boolean",
        )).persist()  # fmt: skip
        frame.write.mode("overwrite").parquet(str(self.folder / "verdicts" / f"batch={batch}"))
        done.write.mode("overwrite").parquet(str(self.folder / "ends" / f"batch={batch}"))
        place = "sourceMachine", "streamId", "seqNumber", "prevNumber"
        messages = done.where("result = 'waiting'").select(
            "body", "label", "queue", *place, "messageId", "xactId", "sentTime", "arrival"
        ).selectExpr("*", "queue AS destination")  # fmt: skip
        back = order_acknowledgments(frame).selectExpr(
            "*", "queue AS destination", r"'DIRECT=OS:SHOP\\private$\\acks' AS to_queue"
        ).drop("queue").withColumnRenamed("to_queue", "queue")  # fmt: skip
        rows = messages.unionByName(back, allowMissingColumns=True)
        rows = rows.repartition(1).sortWithinPartitions("arrival").drop("arrival")
        self._write(rows, "depot", batch)
        told = acknowledgment_messages(done).selectExpr(
            "queue", "messageClass AS appSpecific", "correlationId", "coalesce(body, X'') AS body",
        )  # fmt: skip
        self._write(told.repartition(1), "depot-told", batch)
        frame.unpersist()
        done.unpersist()

    def _write(self, rows: Any, app: str, batch: int) -> None:
        (
            rows.write.format("onceq").mode("append")
            .option("queueManager", str(self.folder / "depot"))
            .option("txnAppId", app).option("txnVersion", batch).save()
        )  # fmt: skip

    def hear(self) -> None:
        """Wait until all acknowledgments are at SHOP, and learn what has come."""
        verdicts = self.spark.read.parquet(str(self.folder / "verdicts"))
        acks = verdicts.where("verdict = 'order-ack'").count()
        self._wait(ACKS, acks - self.acks)
        self.acks = acks
        frame = self.spark.read.format("onceq").option("queueManager", str(self.shop_path))
        for row in carried(frame.load(ACKS)).collect():
            key, place = (row.sourceMachine, row.queue), (int(row.streamId), row.seqNumber)
            self.acknowledged[key] = max(self.acknowledged.get(key, (0, 0)), place)

    def _wait(self, queue: str, count: int) -> None:
        """Until so many messages are in a queue of SHOP."""
        waited = 0.0
        while (there := self.shop.queue(queue).messages) < count:
            if waited > WAIT_S:
                raise TimeoutError(f"{there} of {count} messages have come to {queue}")
            pause(STEP_S)
            waited += STEP_S

    # ---- the end --------------------------------------------------------------------------

    def missing(self) -> list[str]:
        """What is not at DEPOT once, in order, and with the numbers that it got at SHOP."""
        faults = []
        ends = self.spark.read.parquet(str(self.folder / "ends")).toArrow().to_pylist()
        outgoing = self.spark.read.parquet(str(self.folder / "outgoing")).toArrow().to_pylist()
        left = [row for row in outgoing if not self._is_acknowledged(row)]
        if left:
            faults.append(f"{len(left)} were never acknowledged")
        if len(ends) != len(outgoing):
            faults.append(f"{len(outgoing)} were sent, and {len(ends)} have an end")
        late = {bytes(row["messageId"]) for row in outgoing if row["timeToReachQueue"] == 5}
        for queue, ordered in QUEUES.items():
            frame = self.spark.read.format("onceq").option(
                "queueManager", str(self.folder / "depot")
            )
            rows = carried(frame.load(queue)).orderBy("lookupId").collect()
            found = [(r.label, r.streamId, r.seqNumber, r.sourceMachine) for r in rows]
            name = AT_DEPOT + queue.split("\\")[1]
            sent_there = sorted(
                (row for row in outgoing if row["queue"] == name),
                key=lambda row: row["commitOrder"],
            )
            expected = [
                (row["label"], row["streamId"], row["seqNumber"], row["sourceMachine"])
                for row in sent_there if ordered and bytes(row["messageId"]) not in late
            ]  # fmt: skip
            if found != expected:
                faults.append(
                    f"{queue} has {len(found)} messages, not the {len(expected)} in order"
                )
        return faults

    def differences(self) -> tuple[list[str], Counter[str], Counter[int]]:
        """What the core says otherwise, and how often which verdict and which end was found."""
        self.spark.conf.set("spark.sql.session.timeZone", "UTC")
        rows = self.spark.read.parquet(str(self.folder / "verdicts")).where("arrival IS NOT NULL")
        core = Reference("DEPOT", QUEUES, self.shop.id)
        faults, verdicts = [], Counter[str]()
        for row in rows.orderBy("batch", "arrival").toArrow().to_pylist():
            said = core.take(row)
            verdicts[said] += 1
            if said != row["verdict"]:
                faults.append(f"arrival {row['arrival']}: {row['verdict']}, and the core: {said}")
        ours: dict[str, Counter[tuple[Any, ...]]] = defaultdict(Counter)
        classes: Counter[int] = Counter()
        for row in self.spark.read.parquet(str(self.folder / "ends")).toArrow().to_pylist():
            message = int.from_bytes(row["messageId"][16:], "little")
            classes[row["messageClass"]] += 1
            if row["result"] == "waiting":
                ours["waiting"][row["queue"].split("DEPOT\\")[1], message] += 1
            if row["finalAck"] is not None:
                ours["final"][message, row["finalAck"]] += 1
            if row["deadLetter"] is not None:
                ours["dead"][message,] += 1
            ours["told"].update((message, told) for told in row["acknowledgments"])
        for what, theirs in core.ends().items():
            if ours[what] != theirs:
                faults.append(f"{what}: {ours[what] - theirs} here, {theirs - ours[what]} there")
        self._wait(TOLD, ours["told"].total())
        told = self.shop.receive_many(TOLD, 10_000, timeout=0)
        heard = Counter(
            (int.from_bytes(m.correlation_id[16:], "little"), m.app_specific) for m in told
        )
        if heard != ours["told"]:
            faults.append("SHOP was told otherwise")
        return faults, verdicts, classes


def main() -> int:
    """Run it; returns the exit code."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="onceq-networks-")))
        spark = stack.enter_context(
            quiet_session("local[2]", "two networks", {**QUICK, PROVIDER: ROCKSDB})
        )
        networks = Networks(folder, spark, stack)
        for wave in range(WAVES):
            networks.commit()
            for lost, delay in ROUNDS:
                networks.number()
                waiting, came = networks.carry(lost, delay)
                networks.receive()
                networks.hear()
                print(f"wave {wave + 1}: {waiting} rows not acknowledged; {came} came", flush=True)
        faults = networks.missing()
        more, verdicts, classes = networks.differences()
        for fault in (*faults, *more):
            print(fault)
        print("verdicts:", ", ".join(f"{n} {word}" for word, n in sorted(verdicts.items())))
        print("ends:", ", ".join(f"{n} {code:#06x}" for code, n in sorted(classes.items())))
        renewed = all(stream & 0xFFFF_FFFF >= WAVES for stream, _ in networks.acknowledged.values())
        streams = f"{networks.orders} orders to {len(networks.acknowledged)} queues"
        print(streams + (", each with a second stream" if renewed else ""))
        if faults or more:
            return 1
        print("every order once and in order, and the core says the same of every row")
    return 0


if __name__ == "__main__":
    sys.exit(main())
