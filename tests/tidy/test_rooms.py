"""Each table of the core is written by its rooms; and the check, held by planted offenders."""

from __future__ import annotations

import pytest

from tests.tidy.rooms import CORE, faults

SEND = CORE / "send.py"


def test_each_table_is_written_by_its_rooms() -> None:
    modules = sorted(CORE.rglob("*.py"))
    assert len(modules) > 60
    assert not [fault for path in modules for fault in faults(path, path.read_text())]


@pytest.mark.parametrize(
    "text",
    [
        "step.state.number_ceiling = 0",
        "step.state.all_queues[3].paused_s = 0",
        "build.step.state.groups.pending.clear()",
        "step.state.next_message += 1",
        "del step.state.queues[key]",
        "step.units.open_bytes -= 1",
        "step.units.open_branches[xid].failed = True",
        "del step.readers.handles[number]",
        "step.readers.waiting.pop(key)",
        "a, step.sessions.peers[7] = b, c",
        "self._step.names.by_guid.setdefault(guid, [])",
    ],
)
def test_a_write_by_another_room_is_found(text: str) -> None:
    assert len(faults(SEND, text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "step.record(change)",
        "step.touched[number] = None",
        "step.units.reserve(sends, 1)",
        "queue = step.state.all_queues[3]",
        "known = step.names.targets.get(text)",
    ],
)
def test_what_a_rule_may_do_is_not_found(text: str) -> None:
    assert not faults(SEND, text)
