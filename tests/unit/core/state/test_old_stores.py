"""Stores that are kept as bytes are read, and mean what they meant."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from onceq.core.decision import Handed
from onceq.core.state.in_doubt_table import UNNAMED
from onceq.core.state.snapshot import CHECKPOINT_VERSION_PLACES, snapshot
from onceq.model import requests
from onceq.model.branches import Xid
from onceq.model.results import Sent
from onceq.model.views.looks import JOB
from proof.sim.base.comparing import differences
from proof.sim.base.recovery import BY_THE_WAY, replayed
from tests.unit.core.alone import Core
from tests.unit.core.state.old_stores import FOLDER, LATER, PREPARED, Store, item, made

DELAYS = "delays-jobs-places.txt"
UNNAMED_QUEUES = "unnamed-queues.txt"
"""Of a manager that was asked by inquiries that named public queues by the number 0, in the
checkpoint and in records (finding D1); the same was asked about ``private$\\q`` by its name."""
WHOLES = "whole-transactions.txt"
"""Its packets of transactions have no numbers (``unit/packet/test_survey_transaction.py``)."""
EVERYTHING = ["everything-1b3b0a1d.txt.gz", "everything-484d1753.txt.gz"]
"""Of the trees with these names, with a row in every table, and nearly every record before and
behind a checkpoint."""


@pytest.fixture
def kept() -> Store:
    return Store.kept(DELAYS)


def test_every_store_that_is_kept_is_read() -> None:
    names = sorted(path.name for path in FOLDER.iterdir())
    assert names == [DELAYS, *EVERYTHING, UNNAMED_QUEUES, WHOLES]
    for name in names:
        Store.kept(name).recovered(Core())


def test_it_has_what_it_is_kept_for(kept: Store) -> None:
    """A checkpoint and records of the newest versions of their time, and a start with places."""
    assert struct.unpack_from("<I", kept.checkpoint) == (CHECKPOINT_VERSION_PLACES,)
    assert {(bytes(payload[:1]), payload[1]) for _, payload in kept.records} >= {
        (b"\1", 7), (b"\3", 7), (b"\4", 8),
    }  # fmt: skip
    assert b'"places"' in kept.checkpoint


@pytest.mark.parametrize("whole", [False, True])
def test_it_means_what_it_meant(kept: Store, *, whole: bool) -> None:
    core = kept.recovered(Core(), whole=whole)
    found = {"q": 2, "q;delayed": 1, "other": 1}
    assert core.present() == (found | {"q": 1, "q;delayed": 2, "other": 2} if whole else found)
    assert isinstance(core.ask(requests.CommitBranch(PREPARED)), Sent)
    if whole:
        assert isinstance(core.ask(requests.CommitBranch(LATER)), Sent)
        job: Any = core.ask(requests.Look(JOB.what, "1"))
        assert (job.state, job.looked, job.done, job.total) == ("running", 1, 1, 2)
        assert job.kept == {"held": 1}
    core.pass_time(200)
    assert core.present()["q"] == (5 if whole else 4), "all that was delayed has come"


def test_what_comes_next_stands_behind_its_places(kept: Store) -> None:
    core = kept.recovered(Core())
    given = {lane.next for lane in core.manager.state.queues["private$\\q"].lanes.values()}
    assert min(given) == core.manager.state.first_place > 1 << 21


def test_this_version_writes_a_store_that_it_reads() -> None:
    """So the next file that is kept can be made."""
    store = made()
    assert store.recovered(Core()).present() == Store.kept(DELAYS).recovered(Core()).present()


@pytest.mark.parametrize("whole", [False, True])
def test_what_was_noted_of_queues_without_a_name_is_not_read(*, whole: bool) -> None:
    kept = Store.kept(UNNAMED_QUEUES)
    parts = (kept.checkpoint, *(bytes(payload) for _, payload in kept.records))
    assert sum(UNNAMED.encode() in part for part in parts) == 5
    state = kept.recovered(Core(), whole=whole).manager.state
    assert [key for _, key in state.progress] == [r"os:a\private$\q"]
    assert {key for (_, key, _), _ in state.memories} == {r"os:a\private$\q"}
    assert len(list(state.memories)) == (3 if whole else 2)
    assert list(state.first_heard) == [b"P" * 16]


def test_they_are_gone_from_the_next_checkpoint() -> None:
    core = Store.kept(UNNAMED_QUEUES).recovered(Core())
    assert UNNAMED.encode() not in b"".join(map(bytes, core.manager.snapshot().encode()))


def head_of(checkpoint: bytes) -> tuple[dict[str, Any], bytes]:
    """The JSON of a checkpoint, and the tables behind it."""
    _, size = struct.unpack_from("<II", checkpoint)
    return json.loads(checkpoint[8 : 8 + size]), checkpoint[8 + size :]


def check_contains(now: Any, then: Any, path: str = "") -> None:
    """Raise where a value of a checkpoint is not there any more; a row may have grown at its
    end."""
    if isinstance(then, dict):
        for name, value in then.items():
            check_contains(now[name], value, f"{path}.{name}")
    elif isinstance(then, list):
        assert len(now) >= len(then), path
        for at, value in enumerate(then):
            check_contains(now[at], value, f"{path}[{at}]")
    else:
        assert now == then, path


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_checkpoint_and_its_records_give_the_rows_that_they_gave(name: str) -> None:
    kept = Store.kept(name)
    found = replayed(kept.identity, kept.checkpoint, kept.records)
    head, tables = head_of(b"".join(map(bytes, snapshot(found))))
    then, tables_then = head_of(kept.after)
    check_contains(head, then)
    assert tables == tables_then


def test_its_checkpoint_says_what_its_records_say() -> None:
    """A checkpoint of an older tree has no counts of how messages ended."""
    kept = Store.kept(EVERYTHING[0])
    found = replayed(kept.identity, kept.checkpoint, kept.records)
    whole = replayed(kept.identity, None, [*kept.before, *kept.records])
    assert not differences(found, whole, apart=BY_THE_WAY)


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_manager_goes_on_with_everything(name: str) -> None:
    core = Store.kept(name).recovered(Core())
    later = r"private$\later"
    assert core.present()["later"] == 2
    assert isinstance(core.ask(requests.Commit(0, (item(b"three", to=later),))), Sent)
    assert isinstance(core.ask(requests.Receive(later, count_max=1)), Handed)
    assert core.present()["later"] == 2
    assert isinstance(core.ask(requests.CommitBranch(Xid(1, b"one"))), Sent)
    state = core.manager.state
    assert state.queues[later].properties.label == "two"
    assert [token.name for token in state.tokens] == ["billing", "third"]
    assert [job.state.value for job in state.jobs] == ["cancelled", "running"]
    assert state.bindings.guid_of("os:d") == b"F" * 16
    assert [damage.queue for damage in state.damages] == ["y"]
