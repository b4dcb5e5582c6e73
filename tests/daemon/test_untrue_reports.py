"""What reports said that was untrue, or did not say (finding U5)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq import aio
from onceq.cli.main import run
from onceq.errors import NotCarriedOut, QueueNotFound
from tests.daemon.shell import Shell, running

pytestmark = pytest.mark.slow

FAR = "DIRECT=OS:BETA\\private$\\orders"
UNUSED = "DIRECT=OS:BETA\\private$\\never"
Q = "private$\\told"


def test_a_group_that_is_called_otherwise_is_refused_with_the_right_word(onceq_: Shell) -> None:
    for who, word in (
        ("Everyone", "is written *"), ("Authenticated Users", "is written *"),
        ("NOBODY", "is written nobody"), ("ANONYMOUS LOGON", "is written nobody"),
        ("Administrators", "there are no groups"),
    ):  # fmt: skip
        onceq_("grant", who, "monitor", code=2)
        assert word in onceq_.error
        assert f"written account:{who}" in onceq_.error
    assert "veryone" not in onceq_("rights", "show")
    onceq_("grant", "account:Everyone", "monitor")
    onceq_("revoke", "Everyone", "monitor")
    for who in ("*", "nobody"):
        onceq_("grant", who, "monitor")
        assert onceq_.error == "", "these are words of ours"
        onceq_("revoke", who, "monitor")


def test_a_grant_to_a_name_that_nobody_has_used_says_so(onceq_: Shell) -> None:
    onceq_("grant", "annna", "monitor")
    assert "nobody has come here as annna yet" in onceq_.error
    onceq_("grant", "token:t", "monitor")
    assert "nobody has come here as token:t yet" in onceq_.error
    onceq_("token", "create", "t")
    onceq_("grant", "token:t", "operate")
    assert onceq_.error == ""
    onceq_("grant", "account:ops-*", "monitor")
    assert onceq_.error == "", "a pattern means whoever comes"
    with onceq.connect(str(onceq_.alpha)) as qm:
        assert not qm.rights.explain("monitor", who="annna").known


def test_a_destination_that_was_never_used_is_called_the_same_everywhere(onceq_: Shell) -> None:
    onceq_("outgoing", "why", UNUSED, code=2)
    with onceq.connect(str(onceq_.alpha)) as qm:
        with pytest.raises(QueueNotFound) as caught:
            qm.admin.why(UNUSED)
        assert caught.value.text.replace("\\", "/") in onceq_.error
        qm.create_queue(Q)
        assert qm.admin.why(Q) == onceq_("outgoing", "why", Q).strip().replace("/", "\\")


def test_a_queue_that_is_resumed_is_not_called_unreachable(onceq_: Shell) -> None:
    """Its session was closed because nothing happened on it, and that was called a trouble."""
    with running(onceq_.beta), onceq.connect(str(onceq_.alpha)) as qm:
        with onceq.connect(str(onceq_.beta)) as beta:
            beta.create_queue("private$\\orders", transactional=True)
            qm.send(FAR, b"1", transactional=True)
            assert beta.receive("private$\\orders", timeout=30).body == b"1"
        qm.admin.pause(FAR)
        qm.send(FAR, b"2", transactional=True)
        (row,) = json.loads(onceq_("outgoing", "list", "--json", "--name", "orders"))
        assert row["paused_since"]
        assert " paused" in onceq_("outgoing", "list", "--name", "orders")
        assert " paused" in onceq_("top", "--once", "--every", "0.1")
        assert f"! {FAR}: paused".replace("\\", "/") in onceq_("qm", "status")
        onceq_("outgoing", "resume", FAR)
        assert "unreachable" not in onceq_("outgoing", "why", FAR)


def test_lists_are_called_by_their_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, file = tmp_path / "alpha", tmp_path / "names.json"
    assert run(["directory", "init", str(file)]) == 0
    assert run(["qm", "init", str(path), "--name", "ALPHA", "--listen", "127.0.0.1:0"]) == 0
    with open(path / "onceq.toml", "r+") as configuration:
        rest = configuration.read()
        configuration.seek(0)
        configuration.write(f'directory = "{file}"\n{rest}')
    onceq_ = Shell(path, path, capsys)
    with running(path):
        onceq_("queue", "create", "private$/orders", "--transactional")
        onceq_("queue", "create", "stock", "--public", "--transactional")
        onceq_("list", "create", "shops", "private$/orders")
        assert onceq_("list", "show", "shops").strip() == "DIRECT=OS:ALPHA/private$/orders"
        onceq_("list", "create", "all", "shops", "ALPHA/stock")
        assert onceq_("list", "show", "all").split()[0].startswith("DL=")
        onceq_("list", "remove", "shops", "private$/orders")
        onceq_("list", "add", "shops", "private$/orders")
        onceq_("list", "create", "more", "nowhere", code=2)
        assert "there is no list nowhere" in onceq_.error
        assert "nobody" in onceq_("names", "explain", "nowhere")
        onceq_.pipe("send", "shops", data=b"17 chairs\n")
        assert onceq_.pipe("receive", "private$/orders", "--count", "1") == b"17 chairs\n"
        onceq_.pipe("send", "nowhere", data=b"x\n", code=2)


def test_a_send_with_the_current_transaction_that_nobody_awaits_ends_its_commit(
    onceq_: Shell,
) -> None:
    async def work() -> None:
        async with await aio.connect(str(onceq_.alpha)) as qm:
            await qm.create_queue("private$\\current", transactional=True)
            forgotten: list[Any] = []
            with pytest.raises(NotCarriedOut, match="send"):
                async with qm.transaction():
                    forgotten.append(qm.send_current("private$\\current", b"lost"))
            forgotten[0].close()
            async with qm.transaction():
                await qm.send_current("private$\\current", b"kept")
            assert (await qm.receive("private$\\current", timeout=5)).body == b"kept"

    asyncio.run(work())
