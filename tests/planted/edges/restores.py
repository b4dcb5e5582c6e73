"""Mistakes about restores and hot backups that simulated worlds with lives find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onceq.core import lives, stranded
from onceq.core.chunk import AVAILABLE
from onceq.core.desk import Desk
from onceq.core.holders import Outgoing
from onceq.store import backup
from onceq.store.backup import Part
from onceq.testing import lives as worlds
from tests.planted.planted import SIM, Planted


def _with_lives(
    plant: Callable[[pytest.MonkeyPatch], None],
) -> Callable[[pytest.MonkeyPatch], None]:
    """Plant it, and let managers be put back in every world."""

    def both(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(worlds, "SHARE", 1.0)
        monkeypatch.setattr(worlds, "COPIES", 0.0)
        plant(monkeypatch)

    return both


def _same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(desk: Desk, entropy: bytes, made_ns: int = 0) -> None:
        state = desk.state
        desk.setup("life", id=entropy[:16].hex(), stamp=state.stamp, ordinal=state.next_ordinal,
                   message=state.next_message, made_ns=made_ns)  # fmt: skip

    monkeypatch.setattr(lives, "begin", begin)


def _not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Desk.setup

    def silent(self: Desk, what: str, **values: Any) -> Any:
        return None if what == "restored" else setup(self, what, **values)

    monkeypatch.setattr(Desk, "setup", silent)


def _one_segment_less(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = backup._parts

    def fewer(*of: Any) -> Iterator[Part]:
        found = list(parts(*of))
        yield from found[:-1] if found[-1].name.startswith("log-") else found

    monkeypatch.setattr(backup, "_parts", fewer)


def _all_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    def fates(desk: Desk, outgoing: Outgoing) -> list[tuple[int, int, bool | None]]:
        lane = outgoing.ordered_lane
        return [(first, count, False) for first, count in lane.ranges(AVAILABLE, lane.head)]

    monkeypatch.setattr(stranded, "_fates", fates)


def _no_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stranded, "_fence", lambda desk, outgoing, here: None)


PLANTED = (
    Planted("a-life-after-a-restore-gives-numbers-again", _with_lives(_same_numbers), SIM),
    Planted("a-restore-leaves-no-record", _with_lives(_not_recorded), SIM),
    Planted("a-hot-backup-lacks-its-last-segment", _with_lives(_one_segment_less), SIM),
    Planted("what-has-arrived-moves-to-another-stream-too", _with_lives(_all_moved), SIM),
    Planted("what-waits-in-a-left-stream-stays-there", _with_lives(_no_fence), SIM),
)
