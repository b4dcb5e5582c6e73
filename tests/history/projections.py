"""Histories beside one that is projected at once from the whole log."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from onceq.history.keeper import Keeper
from onceq.store.log import LogStore
from tests.conformance.world import Node
from tests.history.worlds import HISTORY, NO_NOTES, History

SETTINGS = replace(HISTORY, history_roll_s=1)


def reference(node: Node, damaged: bytes = b"") -> History:
    """The same log, projected at once; with an altered byte in that body."""
    files = node.files.kill()
    if damaged:
        path = f"/store/log-{0:016x}.seg"
        files.flip(path, files.contents(path).index(damaged) + 50)
    store = LogStore.open("/store", files, segment_bytes=1 << 16)
    store.recovered = replace(store.recovered, checkpoint=None, checkpoint_position=0)
    folder = f"/other{damaged[:4].hex()}"
    Keeper(store, files, folder, node.identity, SETTINGS).project(store.position, 0)
    return History(files, folder)


def without_times(history: History) -> list[dict[str, object]]:
    return [{k: v for k, v in r.items() if k not in NO_NOTES} for r in history.rows()]


def whole(history: History, node: Node) -> None:
    """It tells the log from its beginning to its end, nothing twice."""
    spans = history.spans
    assert spans[0].start == 0
    assert all(a.end == b.start for a, b in pairwise(spans))
    assert history.names == [span.name for span in spans], "nothing unfinished is left"
    places = history.story("position", "ordinal")
    assert places == sorted(set(places))
    told = reference(node)
    assert without_times(history) == without_times(told)
    assert history.starts() == told.starts(), "times are part of the log"
