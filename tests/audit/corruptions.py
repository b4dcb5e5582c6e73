"""Corruptions of histories, each of one message; all of them stand in the same histories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.audit.planting import Plants, Row, bury

Plant = Callable[[Plants, int], None]


def rows_of(plants: Plants, number: int, *events: str) -> list[Row]:
    """Rows of both managers about a message of the stream."""
    return [
        row for row in (*plants.a.rows, *plants.b.rows)
        if row["stream"] == plants.stream and row["number"] == number
        and (not events or row["event"] in events)
    ]  # fmt: skip


def change(plants: Plants, number: int, *events: str, **values: Any) -> None:
    for row in rows_of(plants, number, *events):
        row.update(values)


def swap(one: Row, other: Row, *columns: str) -> None:
    for name in columns:
        one[name], other[name] = other[name], one[name]


def misdelivered(plants: Plants, number: int) -> None:
    change(plants, number, "accepted", "received", queue=r"private$\slow")


def altered(plants: Plants, number: int) -> None:
    (row,) = rows_of(plants, number, "accepted")
    row["bytes"] -= 40


def rewritten(plants: Plants, number: int) -> None:
    """As many bytes, and others, from the acceptance on."""
    change(plants, number, "accepted", "received", bodyCrc=0xBAD)


def received_as_another(plants: Plants, number: int) -> None:
    change(plants, number, "received", bodyCrc=0xBAD)


def one_message_under_two_numbers(plants: Plants, number: int) -> None:
    """And the message that had the second of them is nowhere."""
    plants.mute(number)
    change(plants, number, message=plants.message(number - 1))


def vanished_before(plants: Plants, number: int) -> None:
    """Every trace of the number before it, at both managers."""
    plants.mute(number - 1)
    for planter in (plants.a, plants.b):
        planter.rows = [
            row for row in planter.rows
            if (row["stream"], row["number"]) != (plants.stream, number - 1)
        ]  # fmt: skip


def received_before_it_came(plants: Plants, number: int) -> None:
    (there,), (gone,) = (rows_of(plants, number, what) for what in ("accepted", "received"))
    gone["position"] = there["position"] - 1


def acknowledged_before_it_was_sent(plants: Plants, number: int) -> None:
    (put,) = rows_of(plants, number, "committed")
    change(plants, number, "acknowledged", position=put["position"] - 1)


def torn(plants: Plants, number: int) -> None:
    (row,) = rows_of(plants, number, "accepted")
    row["transaction"] += 1


def torn_send(plants: Plants, number: int) -> None:
    """A copy of it was committed at home, in another transaction."""
    (row,) = rows_of(plants, number, "committed")
    plants.a.again(
        row, kind="queue", queue=r"private$\own", place=900, lookupId=1, stream=None, number=None,
        transaction=row["transaction"] - 1, deadLetter=False,
    )  # fmt: skip


def numbered_out_of_order(plants: Plants, number: int) -> None:
    for what in ("committed", "accepted"):
        (one,), (other,) = (rows_of(plants, n, what) for n in (number - 1, number))
        swap(one, other, "position", "ordinal")


def placed_out_of_order(plants: Plants, number: int) -> None:
    for what in ("accepted", "received"):
        (one,), (other,) = (rows_of(plants, n, what) for n in (number - 1, number))
        swap(one, other, "lookupId")


def place_shared(plants: Plants, number: int) -> None:
    (other,) = rows_of(plants, number - 1, "accepted")
    change(plants, number, "accepted", "received", lookupId=other["lookupId"])


def received_elsewhere(plants: Plants, number: int) -> None:
    (row,) = rows_of(plants, number, "received")
    row["lookupId"] += 5_000


def released_twice(plants: Plants, number: int) -> None:
    (row,) = rows_of(plants, number, "acknowledged")
    plants.a.again(row)


def told_twice(plants: Plants, number: int) -> None:
    message = plants.message(number)
    plants.b.again(plants.b.find("told", message=message, className="ack-reach-queue"))


def accepted_by_another(plants: Plants, number: int) -> None:
    """The same message at a manager that it was not sent to."""
    (row,) = rows_of(plants, number, "accepted")
    plants.c.again(row, manager="C", managerId=plants.c.rows[0]["managerId"])


def refused_twice(plants: Plants, number: int) -> None:
    """It was given up at its receiver twice, and never stood in a queue there."""
    plants.mute(number)
    (row,) = rows_of(plants, number, "accepted")
    gone = {"event": "refused", "kind": None, "queue": None, "place": None, "lookupId": None}
    row.update(gone, **{"class": 0x8003})
    plants.b.again(row)
    plants.b.drop("received", **plants.mine(number))
    plants.a.drop("confirmed", **plants.mine(number))


def buried_alive(plants: Plants, number: int) -> None:
    bury(plants.a, plants.a.find("acknowledged", **plants.mine(number)), 3_000)


def confirmed_and_purged(plants: Plants, number: int) -> None:
    """Its sender was told that it was received; an operator had removed it."""
    plants.mute(number, 0x4000)
    change(plants, number, "received", event="purged")


def received_and_said_not(plants: Plants, number: int) -> None:
    change(plants, number, "confirmed", event="not-received", **{"class": 0xC004})


def confirmed_twice(plants: Plants, number: int) -> None:
    (row,) = rows_of(plants, number, "confirmed")
    plants.a.again(row)


def told_of_what_never_came(plants: Plants, number: int) -> None:
    plants.b.drop("accepted", "received", **plants.mine(number))


def of_two_lanes_swapped(plants: Plants, number: int) -> None:
    """It came into the queue of another stream, and one of that stream into its own."""
    b = plants.b
    other = next(r for r in b.rows if r["event"] == "accepted" and r["queue"] == r"private$\j")
    number_there, stream = other["number"], other["stream"]
    for what in ("accepted", "received"):
        one = b.find(what, **plants.mine(number))
        swap(one, b.find(what, stream=stream, number=number_there, kind="queue"),
             "stream", "number", "message", "transaction", "bytes", "bodyCrc")  # fmt: skip


PLANTED: Final[dict[int, tuple[Plant, str, str]]] = {
    2: (misdelivered, "I3", "misdelivered"),
    4: (altered, "I3", "altered"),
    6: (one_message_under_two_numbers, "I4", "accepted-again"),
    9: (vanished_before, "I6", "number-missing"),
    11: (received_before_it_came, "I3", "effect-before-cause"),
    13: (acknowledged_before_it_was_sent, "I3", "effect-before-cause"),
    14: (torn, "I3", "torn"),
    16: (torn_send, "I2", "torn-send"),
    18: (numbered_out_of_order, "I7", "numbered-out-of-order"),
    20: (placed_out_of_order, "I18", "placed-out-of-order"),
    22: (place_shared, "I18", "place-shared"),
    24: (received_elsewhere, "I18", "received-elsewhere"),
    26: (released_twice, "I10", "released-twice"),
    28: (told_twice, "I13", "told-twice"),
    30: (accepted_by_another, "I4", "accepted-twice"),
    32: (refused_twice, "I11", "refused-twice"),
    3: (confirmed_and_purged, "I11", "confirmed-unreceived"),
    25: (received_and_said_not, "I11", "received-and-not"),
    27: (confirmed_twice, "I11", "two-ends-at-sender"),
    29: (told_of_what_never_came, "I13", "untrue-arrival"),
    31: (of_two_lanes_swapped, "I3", "misdelivered"),
    36: (rewritten, "I3", "body-altered"),
    38: (received_as_another, "I3", "body-altered"),
    34: (buried_alive, "I12", "dead-letter-unfounded"),
}
"""By number in the stream: what is done to it, and what must be said of it."""


def at_home(plants: Plants) -> None:
    """Of the two local messages, one was never committed, and one was twice."""
    own = [r for r in plants.a.rows if r["queue"] == r"private$\own" and r["event"] == "committed"
           and r["place"] != 900]  # fmt: skip
    plants.a.rows.remove(own[0])
    plants.a.again(own[1])


def unasked(plants: Plants) -> None:
    """A dead letter and a journal copy that their senders did not ask for."""
    a = plants.a
    late = next(r for r in a.rows if r["className"] == "nack-reach-queue-timeout"
                and r["event"] == "dead-lettered")  # fmt: skip
    a.find("committed", stream=late["stream"], number=late["number"])["deadLetter"] = False
    copy = next(r for r in a.rows if r["event"] == "journaled")
    a.find("committed", stream=copy["stream"], number=copy["number"])["journal"] = False


def unfounded(plants: Plants) -> None:
    """A journal copy of a message that nobody has acknowledged."""
    copies = [r for r in plants.a.rows if r["event"] == "journaled"]
    last = {"stream": copies[-1]["stream"], "number": copies[-1]["number"]}
    plants.a.drop("acknowledged", "confirmed", **last)


def corrupt(path: Path) -> Plants:
    """All of them, in the histories of a world of ``peopled``."""
    plants = Plants(path)
    for number, (plant, _, _) in PLANTED.items():
        plant(plants, number)
    at_home(plants)
    unasked(plants)
    unfounded(plants)
    plants.save()
    return plants
