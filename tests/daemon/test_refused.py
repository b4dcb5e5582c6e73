"""What a destination refuses, in every place that an operator looks at (finding U1)."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

import onceq
from onceq import aio
from onceq.client.threads.letters import DEAD_XACT
from onceq.console import reading
from onceq.console.guard import FormValues
from onceq.console.reading import Told
from tests.daemon.shell import Shell, running
from tests.daemon.two import WAIT

pytestmark = pytest.mark.slow

NOWHERE = "DIRECT=OS:BETA/private$/nowhere"
SAID = "1 message was refused (no such queue there), the last at "


def test_it_is_told_wherever_an_operator_looks(onceq_: Shell) -> None:
    with running(onceq_.beta):
        onceq_.pipe("send", NOWHERE, data=b"m")
        with onceq.connect(str(onceq_.alpha)) as qm:
            assert qm.peek(DEAD_XACT, timeout=WAIT).body == b"m", "nobody has asked for it"
    assert SAID in onceq_("outgoing", "why", NOWHERE)
    shown = onceq_("outgoing", "show", NOWHERE)
    assert SAID in shown
    assert "nack-bad-destination-queue" in shown
    assert "1 refused there" in onceq_("outgoing", "list")
    assert "1 refused there" in onceq_("top", "--once", "--every", "0.1")
    assert f"! {NOWHERE}: {SAID}" in onceq_("qm", "status")
    assert any(SAID in text for text in json.loads(onceq_("qm", "status", "--json"))["attention"])
    assert (
        'onceq_outgoing_refused_total{class="nack-bad-destination-queue",peer="beta"} 1.0'
        in onceq_("qm", "metrics")
    )
    overview, outgoing = asyncio.run(console(onceq_))
    assert any(SAID in text for text in overview["look_at"])
    (row,) = [one for one in outgoing["outgoing"] if one["destination"].endswith("nowhere")]
    assert SAID in row["refused"][0]
    assert "1 dead letter returned" in onceq_("dead", "return")


async def console(shell: Shell) -> tuple[Told, Told]:
    """What the console shows: the overview, and outgoing queues."""
    async with await aio.connect(str(shell.alpha)) as qm:
        now_s = int(time.time())
        overview = await reading.numbers(qm, now_s)
        return overview.shown, await reading.outgoing(qm, FormValues({}), now_s)
