"""What somebody who is new to a queue manager looks for, and finds."""

from __future__ import annotations

import json

import pytest

from tests.daemon.shell import Shell

TRACED = "private$/traced"

pytestmark = pytest.mark.slow


def test_status_says_since_when_it_runs(onceq_: Shell) -> None:
    assert "running since" in onceq_("qm", "status")
    said = onceq_.json("qm", "status")
    assert isinstance(said, dict)
    assert said["started"] > 1_700_000_000


@pytest.mark.parametrize("how", [("one",), ("one", "--track"), ("one", "--json-body")])
def test_a_trace_is_named_and_one_that_is_none_is_refused(
    onceq_: Shell, how: tuple[str, ...]
) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    if how[-1] == "--json-body":
        how = ('{"n": 1}', "--json-body")
    if "traced" not in onceq_("queue", "list"):
        onceq_("queue", "create", TRACED, "--transactional")
    onceq_("send", TRACED, *how, "--traceparent", trace)
    (told,) = [json.loads(line) for line in onceq_("receive", TRACED, "--json").splitlines()]
    assert told["traceparent"] == trace
    for wrong in (trace.upper(), trace[:-3], "00-" + "0" * 32 + trace[35:], "x"):
        onceq_("send", TRACED, *how, "--traceparent", wrong, code=2)
        assert "traceparent is text as W3C Trace Context has it" in onceq_.error
    assert onceq_("receive", TRACED, "--json") == "", "nothing of it was sent"
