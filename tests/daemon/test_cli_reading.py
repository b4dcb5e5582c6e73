"""``receive`` and ``peek`` of one certain message, subqueues and poison policies in the shell."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final

import pytest

from tests.daemon.shell import Shell

Q = "private$/picked"


@pytest.fixture
def three(onceq_: Shell) -> Shell:
    onceq_("queue", "create", Q, "--transactional", "--exist-ok")
    onceq_("queue", "purge", Q, "--yes")
    for body in ("m1", "m2", "m3"):
        onceq_("send", Q, body, "--transactional", "--correlation-id", body.encode().hex() * 10)
    return onceq_


def messages(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines()]


@pytest.mark.slow
def test_one_certain_message(three: Shell) -> None:
    first, second, _ = messages(three("peek", Q, "--json"))
    assert three("peek", Q, "--seek", "last") == "m3\n"
    assert three("peek", Q, "--lookup", str(first["lookup_id"]), "--seek", "next") == "m2\n"
    assert three("receive", Q, "--correlation", b"m2".hex() * 10) == "m2\n"
    assert three("receive", Q, "--message-id", str(first["id"])) == "m1\n"
    three("receive", Q, "--lookup", str(second["lookup_id"]), code=2)
    assert "message-not-found" in three.error
    three("receive", Q, "--correlation", b"m2".hex() * 10, code=4)
    assert three("receive", Q, "--seek", "first") == "m3\n"


@pytest.mark.slow
def test_moving_and_rejecting(three: Shell) -> None:
    assert three("receive", Q, "--move-to", ";retry") == "m1\n"
    assert three("peek", Q + ";retry") == "m1\n"
    assert Q + ";retry" in three("queue", "list")
    assert three("receive", Q, "--reject", "--count", "2") == "m2\nm3\n"
    three("receive", Q, "--reject", "--move-to", ";x", code=2)
    assert three("receive", Q + ";retry") == "m1\n"
    assert ";retry" not in three("queue", "list")


@pytest.mark.slow
def test_a_poison_policy(three: Shell) -> None:
    said = three("queue", "poison", Q, "--attempts", "2", "--retry-after", "60")
    assert "after 2 aborts a wait of 60 s, 1 more round, and then move to ;poison" in said
    assert "after 2 aborts" in three("queue", "show", Q)
    assert "stay at the head" in three("queue", "poison", Q, "--off")
    three("queue", "poison", Q, "--then", "somewhere", code=2)
    assert "illegal-property-value" in three.error


LOOKING: Final = (
    "job list", "outgoing list", "peer list", "qm settings", "qm metrics --json", "qm status",
    "queue list", "stream list", "trail", "tx list",
)  # fmt: skip
RUN: Final = """
import sys
from onceq.cli.main import run
assert run(sys.argv[1:]) == 0
print(*sorted(sys.modules), file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", LOOKING)
def test_one_that_only_looks_loads_little(onceq_: Shell, command: str) -> None:
    """To load what works takes longer than to ask and print."""
    loaded = loads(onceq_, command)
    assert "onceq.client.threads.administration" in loaded
    works = {"onceq.client.threads.manager", "onceq.client.loops", "onceq.client.plans.receive"}
    assert not loaded & (works | {"asyncio", "ssl"})


@pytest.mark.slow
@pytest.mark.parametrize("command", [f"send {Q} m0 --transactional", f"peek {Q}", f"receive {Q}"])
def test_one_that_works_loads_no_more_than_threads_need(three: Shell, command: str) -> None:
    """Neither tasks, nor TLS, nor what only a queue manager does with what it is asked."""
    loaded = loads(three, command)
    assert "onceq.client.link" in loaded
    others = {"asyncio", "ssl", "_hashlib", "logging", "pathlib"}
    assert not loaded & (others | {"onceq.model.settings"})


def loads(shell: Shell, command: str) -> set[str]:
    """The modules that a command has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *command.split(), "-q", str(shell.alpha)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stderr.splitlines()[-1].split())
