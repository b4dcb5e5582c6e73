"""``number``, and ``settle`` with quotas, in the plainest way: a row at a time, and no arrays.

A reference for the operators that shares nothing with them but what a class means; and frames with
everything in them that comes out of real feeds: nulls, repetitions, late rows, several spellings.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from onceq.spark.operators.numbering import ACK_NUMBER

Rows = list[dict[str, Any]]
BASE_US = 1_700_000_000_000_000
SECOND_US = 1_000_000
NEVER_S = 0xFFFFFFFF
STREAM_MAX = (1 << 64) - 1
TIMES = ("sentTime", "arrivedTime", "receivedTime")
KINDS = {
    "commitOrder": pa.int64(), "sendOrder": pa.int32(), ACK_NUMBER: pa.int64(),
    "transactional": pa.bool_(), "encrypted": pa.bool_(), "timeToReachQueue": pa.int64(),
    "timeToBeReceived": pa.int64(), "packetBytes": pa.int64(), "lookupId": pa.int64(),
    "seqNumber": pa.int64(), "id": pa.int64(), **dict.fromkeys(TIMES, pa.timestamp("us", "UTC")),
}  # fmt: skip


def folded(name: str | None) -> str:
    """What all spellings of a name have in common; null is the empty name."""
    return (name or "").casefold().replace("/", "\\")


def spelled(rng: random.Random, name: str) -> str:
    """The name in one of its spellings."""
    return rng.choice((name, name.upper(), name.lower(), name.replace("\\", "/"), name.title()))


# ---- rows and tables ----------------------------------------------------------------------------


def table_of(rows: Rows, names: Sequence[str]) -> Any:
    return pa.table(
        {
            name: pa.array([r.get(name) for r in rows], KINDS.get(name, pa.string()))
            for name in names
        }
    )


def told(rows: Rows) -> list[str]:
    """Numbers by place: of rows that claim one place it is open which one gets it."""
    said = [
        repr((folded(r["sourceMachine"]), folded(r["queue"]), r["commitOrder"],
              r["sendOrder"], r["streamId"], r["seqNumber"], r["prevNumber"])) for r in rows
    ]  # fmt: skip
    return sorted(said)


def outcome(rows: Rows) -> dict[int, tuple[str, int | None]]:
    return {row["id"]: (row["result"], row["messageClass"]) for row in rows}


# ---- number --------------------------------------------------------------------------------------


def numbered(rows: Rows, acks: Rows, before: Rows, stamp: int) -> Rows:
    """The rows with their numbers."""
    streams: dict[tuple[str, str], dict[str, Any]] = {}
    for row in before:
        one = {"place": (row["commitOrder"], row["sendOrder"]), "stream": int(row["streamId"]),
               "last": row["seqNumber"], "acknowledged": 0}  # fmt: skip
        key = folded(row["sourceMachine"]), folded(row["queue"])
        known = streams.get(key)
        if known is None or (one["stream"], one["last"]) > (known["stream"], known["last"]):
            streams[key] = one
    for ack in acks:
        of = streams.get((folded(ack["sourceMachine"]), folded(ack["queue"])))
        if of and str(ack["streamId"]) == str(of["stream"]) and ack["seqNumber"] <= of["last"]:
            of["acknowledged"] = max(of["acknowledged"], ack["seqNumber"])
    needed = ("sourceMachine", "queue", "commitOrder", "sendOrder")
    whole = [row for row in rows if all(row[name] is not None for name in needed)]
    found = [dict(row, **_none()) for row in rows if any(row[name] is None for name in needed)]
    for row in sorted(whole, key=lambda row: (row["commitOrder"], row["sendOrder"])):
        key, place = (folded(row["sourceMachine"]), folded(row["queue"])), (
            row["commitOrder"], row["sendOrder"],
        )  # fmt: skip
        one = streams.setdefault(key, {"stream": stamp << 32 | 1, "last": 0, "acknowledged": 0})
        if "place" in one and place <= one["place"]:
            found.append(dict(row, **_none()))
            continue
        if one["last"] and one["acknowledged"] >= one["last"]:
            one |= {"stream": one["stream"] + 1, "last": 0, "acknowledged": 0}
        one |= {"last": one["last"] + 1, "place": place}
        found.append(dict(row, streamId=str(one["stream"]), seqNumber=one["last"],
                          prevNumber=one["last"] - 1))  # fmt: skip
    return found


def _none() -> dict[str, None]:
    return {"streamId": None, "seqNumber": None, "prevNumber": None}


def commits(rng: random.Random, world: str) -> Rows:
    """Committed messages of a few senders: each place once, twice, or not wholly; in any order."""
    senders = [f"Größe {world} {n}" if n == 1 else f"sender {world} {n}" for n in range(3)]
    queues = [rf"DIRECT=OS:B{world}\private$\q{n}" for n in range(3)]
    rows = []
    for _ in range(rng.randint(0, 80)):
        rows.append({
            "sourceMachine": spelled(rng, rng.choice(senders)),
            "queue": spelled(rng, rng.choice(queues)),
            "commitOrder": rng.randint(-2, 12), "sendOrder": rng.randint(0, 3),
        })  # fmt: skip
        if rng.random() < 0.1:
            rows[-1][rng.choice(list(rows[-1]))] = None
    rows += [dict(row) for row in rng.choices(rows, k=len(rows) // 4)]
    rng.shuffle(rows)
    return rows


def heard(rng: random.Random, done: Rows) -> Rows:
    """Order acknowledgments for what was numbered: of all, of some, and of what never was."""
    lasts: dict[tuple[str, str], dict[str, Any]] = {}
    for row in done:
        if row["seqNumber"] is not None:
            key = folded(row["sourceMachine"]), folded(row["queue"])
            best = lasts.setdefault(key, row)
            if (int(row["streamId"]), row["seqNumber"]) > (
                int(best["streamId"]), best["seqNumber"],
            ):  # fmt: skip
                lasts[key] = row
    told = []
    for row in lasts.values():
        for _ in range(rng.randint(0, 2)):
            told.append({
                "sourceMachine": spelled(rng, row["sourceMachine"]),
                "queue": spelled(rng, row["queue"]),
                "streamId": str(int(row["streamId"]) + rng.choice((0, 0, 0, -1, 1))),
                "seqNumber": max(1, row["seqNumber"] + rng.choice((0, 0, 0, -1, 1))),
            })  # fmt: skip
    return told


# ---- settle with quotas --------------------------------------------------------------------------


@dataclass
class Queue:
    """One queue of the table, and what lies in it: bytes, and when they leave (us; None: never)."""

    name: str
    transactional: bool
    quota: int | None
    used: int


def settled(rows: Rows, queues: Iterable[Queue], now_s: int) -> dict[int, tuple[str, int | None]]:
    """Of each row, by its ``id``, what became of it."""
    table = {folded(queue.name): queue for queue in queues}
    found: dict[int, tuple[str, int | None]] = {}
    by_queue = defaultdict(list)
    for row in rows:
        by_queue[folded(row["queue"])].append(row)
    for name, mine in by_queue.items():
        lies: list[tuple[float, int]] = []
        queue = table.get(name)
        if queue is not None:
            lies.append((float("inf"), queue.used))
        clock = -float("inf")
        for row in sorted(mine, key=lambda row: arrival(row, now_s)):
            if row["queue"] is None or row["transactional"] is None:
                found[row["id"]] = ("malformed", None)
                continue
            arrived_us = arrival(row, now_s)[0]
            clock = max(clock, arrived_us)
            found[row["id"]] = _end(row, queue, lies, clock, now_s)
    return found


def _end(
    row: dict[str, Any], queue: Queue | None, lies: list[tuple[float, int]], clock: float,
    now_s: int,
) -> tuple[str, int | None]:  # fmt: skip
    arrived_s = arrival(row, now_s)[0] // SECOND_US
    sent_s = arrived_s if row["sentTime"] is None else row["sentTime"] // SECOND_US
    lifetime = NEVER_S if row["timeToBeReceived"] is None else row["timeToBeReceived"]
    reach = NEVER_S if row["timeToReachQueue"] in (None, 0) else row["timeToReachQueue"]
    if queue is None:
        return "refused", 0x8000
    if queue.transactional != row["transactional"]:
        return "refused", 0x8009 if row["transactional"] else 0x800A
    if row["encrypted"]:
        return "refused", 0x8007
    if min(lifetime, reach) < NEVER_S - 1 and arrived_s - sent_s > min(lifetime, reach):
        return "refused", 0x8002
    expires = float("inf") if lifetime >= NEVER_S - 1 else (sent_s + lifetime) * SECOND_US
    received = row["receivedTime"]
    in_time = received is not None and received // SECOND_US * SECOND_US < expires
    if queue.quota is not None:
        lies[:] = [one for one in lies if one[0] > clock]
        size = min(max(row["packetBytes"] or 0, 0), 1 << 42)
        if sum(bytes_ for _, bytes_ in lies) + size > queue.quota:
            return "refused", 0x8003
        lies.append((received if in_time else expires, size))
    if in_time:
        return "received", 0x4000
    if (received is not None or now_s * SECOND_US >= expires) and expires != float("inf"):
        return "expired", 0xC002
    return "waiting", 0x0002


def arrival(row: dict[str, Any], now_s: int) -> tuple[int, ...]:
    """What orders a row: when it arrived, and at one time its place, or its stream and number."""
    at = now_s * SECOND_US if row["arrivedTime"] is None else row["arrivedTime"]
    if "lookupId" in row:
        return at, row["lookupId"] or 0
    stream = str(row["streamId"] if row["streamId"] is not None else "")
    good = stream.isascii() and stream.isdigit() and int(stream) <= STREAM_MAX
    number = row["seqNumber"]
    sound = number is not None and 1 <= number <= 0xFFFFFFFF
    return at, int(stream) if good else 0, number if sound else 0


def queues(rng: random.Random, world: str) -> list[Queue]:
    """With quotas that bite and such that do not, and without."""
    return [
        Queue(rf"DIRECT=OS:B{world}\private$\{name}", name != "plain", quota, used)
        for name, quota, used in (
            ("small", rng.choice((1, 2)) << 10, rng.choice((0, 0, 300))),
            ("plain", rng.choice((1, 2, 4)) << 10, 0),
            ("Straße", 1 << 10, 1 << 10),
            ("wide", 1 << 30, 7),
            ("free", None, 0),
        )
    ]  # fmt: skip


def arrivals(rng: random.Random, world: int, *, lookups: bool) -> Rows:
    """Messages for these queues; each has a place of its own in the order of arrival."""
    places = [*queues(rng, str(world)), Queue("nowhere", True, None, 0)]
    rows: Rows = []
    taken = set()
    for n in range(rng.randint(0, 90)):
        queue = rng.choice(places)
        at = rng.randint(0, 60 * SECOND_US) if rng.random() < 0.5 else rng.randint(0, 9) * SECOND_US
        row: dict[str, Any] = {
            "id": world * 1_000 + n, "queue": spelled(rng, queue.name),
            "transactional": queue.transactional ^ (rng.random() < 0.05),
            "sentTime": BASE_US + rng.randint(-9, 3) * SECOND_US,
            "arrivedTime": BASE_US + at,
            "receivedTime": BASE_US + at + rng.randint(-1, 20 * SECOND_US),
            "timeToReachQueue": rng.choice((None, None, 0, 7, 60)),
            "timeToBeReceived": rng.choice((None, None, NEVER_S, 9, 30)),
            "encrypted": rng.random() < 0.05,
            "packetBytes": rng.choice((0, 1, 200, 400, 600, 1024, 1 << 50, -5)),
        }  # fmt: skip
        for name in ("receivedTime", "sentTime", "encrypted", "packetBytes"):
            if rng.random() < (0.4 if name == "receivedTime" else 0.05):
                row[name] = None
        for name in ("queue", "transactional", "arrivedTime"):
            if rng.random() < 0.08:
                row[name] = None
        if lookups:
            row["lookupId"] = rng.choice((n, n, -n))
        else:
            row["streamId"] = rng.choice(("5", "05", "10", "9", "x", None, "-1", str(1 << 64)))
            row["seqNumber"] = rng.choice((n + 1, n + 1, -3, None, 1 << 40))
        place = (folded(row["queue"]), *arrival(row, 0))
        if place not in taken:
            taken.add(place)
            rows.append(row)
    rng.shuffle(rows)
    return rows
