"""What a history cannot tell is said, and nobody is accused because of it: rows whose packet was
damaged when the history read it, and moves that stand in a part that is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceq.audit.files import NOBODY
from tests.audit.histories import audited, hostile, peopled
from tests.audit.planting import Planter, Plants, Row

DAMAGED: dict[str, Any] = {
    "source": NOBODY, "message": 0, "stream": None, "number": None, "transaction": None,
    "transactional": False,
}  # fmt: skip
"""What the history writes of a packet that it cannot read."""
LIMIT = "1 row(s) do not say which message they are about"


def without_identity(path: Path, manager: str, event: str, number: int) -> Row:
    """One row does not say its message; what the audit finds then."""
    plants = Plants(peopled(path))
    planter: Planter = getattr(plants, manager.lower())
    planter.find(event, **plants.mine(number)).update(DAMAGED)
    plants.save()
    return audited(path, settled=True)


@pytest.mark.parametrize(
    ("manager", "event"),
    [("A", "committed"), ("A", "acknowledged"), ("B", "accepted"), ("B", "received")],
)
def test_rows_that_do_not_say_their_message_limit_what_is_known(
    tmp_path: Path, manager: str, event: str
) -> None:
    found = without_identity(tmp_path, manager, event, 5)
    assert not found["violations"], found["stories"]
    assert [note for note in found["notes"] if note.startswith(f"{manager}: {LIMIT}")]
    assert "as far as the histories tell" in found["verdict"]
    (told,) = [one for one in found["managers"] if one["manager"] == manager]
    assert told["unread"] == 1


def test_a_dead_letter_that_cannot_be_read_is_not_called_missing(tmp_path: Path) -> None:
    plants = Plants(peopled(tmp_path))
    for row in plants.a.rows:
        if row["event"] == "dead-lettered":
            row.update(DAMAGED)
    plants.save()
    found = audited(tmp_path)
    assert not found["violations"], found["stories"]


def test_a_reception_that_cannot_be_read_is_not_called_waiting(tmp_path: Path) -> None:
    found = without_identity(tmp_path, "B", "received", 5)
    words = "arrived; what came then is in a part of the history that is missing"
    assert found["states"][words] >= 1
    assert "waiting in its queue" not in found["states"]


def test_a_move_in_a_part_that_is_missing_is_no_other_place(tmp_path: Path) -> None:
    """The reception tells the new place, and nobody tells of the move."""
    plants = Plants(peopled(tmp_path))
    plants.b.find("received", **plants.mine(5))["lookupId"] += 5_000
    plants.save()
    assert [s for s in audited(tmp_path)["stories"] if "number 5 of" in s["title"]]
    plants = Plants(tmp_path)
    plants.b.split(plants.b.find("accepted", **plants.mine(5))["position"] + 2, missing=1)
    plants.save()
    found = audited(tmp_path)
    assert not found["violations"], found["stories"]
    assert any("part(s) of it are missing" in note for note in found["notes"])


def test_packets_damaged_in_a_hostile_world_accuse_nobody(tmp_path: Path) -> None:
    """In this one two were damaged before the history had read them, and were sent all the same."""
    found = audited(hostile(tmp_path, (147,)), settled=True)
    assert not found["violations"], found["stories"]
    assert any("do not say which message" in note for note in found["notes"])
