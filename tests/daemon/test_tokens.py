"""Who an application is, to a real daemon: tokens and accounts, and what they may do then.

Upholds: I28.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq import aio
from onceq.cli import out
from onceq.cli.main import run
from onceq.errors import (
    AccessDenied,
    ConfigurationError,
    InvalidHandle,
    InvalidParameter,
    ManagerAway,
    OnceqError,
    SharingViolation,
)
from onceq.model.limits import TRAIL_MAX, WRONG_TOKENS_AT_ONCE
from onceq.model.rights import WHOLE, Right
from onceq.model.tokens import SECRET_BYTES, text_of
from tests.daemon.applications import WAIT_S, Daemon
from tests.daemon.process import ROOT, Process
from tests.unit.client.scripted import begun

pytestmark = pytest.mark.slow
Q = r"private$\orders"
WRONG = text_of("billing", bytes(SECRET_BYTES))


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path / "a", tcp=True) as made:
        with onceq.connect(made.where) as qm:
            qm.create_queue(Q, transactional=True)
        yield made


@pytest.fixture
def admin(daemon: Daemon) -> Iterator[onceq.QueueManager]:
    with onceq.connect(daemon.where) as made:
        yield made


def log_of(daemon: Daemon) -> str:
    return (daemon.path.parent / f"{daemon.path.name}.log").read_text()


@pytest.mark.parametrize("by", ["socket", "loopback"])
def test_a_token_says_who_it_is_and_grants_what_it_may(
    daemon: Daemon, admin: onceq.QueueManager, by: str, tmp_path: Path
) -> None:
    made = admin.tokens.create("billing", grants={Q: "send,peek"})
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(made.token)
    where = daemon.where if by == "socket" else daemon.tcp
    with onceq.connect(where, token_file=file) as qm:
        qm.send(Q, "one", transactional=True)
        why = qm.rights.explain("send", Q)
        assert why.allowed
        assert why.who == "token:billing"
        with pytest.raises(AccessDenied, match=r"onceq grant token:billing receive"):
            qm.receive(Q, timeout=0.0)
        with pytest.raises(AccessDenied):
            qm.tokens.create("another")
        admin.rights.grant("token:billing", "receive", Q)
        assert qm.receive(Q, timeout=WAIT_S).text == "one"
        (shown,) = admin.tokens.list()
        assert (shown.name, shown.connections, shown.expired) == ("billing", 1, False)
    assert made.token not in log_of(daemon)
    assert made.token.rpartition("_")[2] not in log_of(daemon)


def test_a_token_outlives_a_restart_and_so_does_its_end(daemon: Daemon) -> None:
    with onceq.connect(daemon.where) as admin:
        kept, gone = (admin.tokens.create(name, grants={Q: "send"}).token for name in ("a", "b"))
        admin.tokens.revoke("b")
    daemon.kill()
    daemon.start()
    with onceq.connect(daemon.tcp, token=kept) as qm:
        qm.send(Q, "x", transactional=True)
    with pytest.raises(AccessDenied, match="wrong, was revoked, or has expired"):
        onceq.connect(daemon.tcp, token=gone)


def test_one_small_right_wipes_nothing_out_of_the_trail(daemon: Daemon) -> None:
    """As many purges of an empty queue as the trail keeps acts, by one who may receive there."""
    with onceq.connect(daemon.where) as admin:
        small = admin.tokens.create("small", grants={Q: "receive"}).token
        before = [act.what for act in admin.admin.trail()]
        with onceq.connect(daemon.tcp, token=small) as qm:
            for _ in range(TRAIL_MAX + 10):
                qm.purge(Q)
        (*kept, purge) = admin.admin.trail()
    assert [act.what for act in kept] == before
    assert {"create queue", "create token"} <= set(before)
    assert (purge.what, purge.who, purge.times) == ("purge", "token:small", TRAIL_MAX + 10)
    assert purge.last >= purge.at


def test_wrong_tokens_learn_nothing_and_are_counted(daemon: Daemon) -> None:
    with onceq.connect(daemon.where) as admin:
        admin.tokens.create("billing")
    said = set()
    for name in ("billing", "nobody"):
        with pytest.raises(AccessDenied) as caught:
            onceq.connect(daemon.tcp, token=text_of(name, bytes(SECRET_BYTES)))
        said.add(caught.value.text)
    assert len(said) == 1
    log = log_of(daemon)
    assert "wrong token: address=127.0.0.1" in log
    assert WRONG not in log
    assert "0" * 64 not in log


def test_too_many_wrong_ones_keep_nobody_waiting_at_other_addresses(daemon: Daemon) -> None:
    with onceq.connect(daemon.where) as admin:
        token = admin.tokens.create("billing").token
    refused: list[type[OnceqError]] = []
    for _ in range(2 * WRONG_TOKENS_AT_ONCE):
        with pytest.raises((AccessDenied, ManagerAway)) as caught:
            onceq.connect(daemon.tcp, token=WRONG)
        refused.append(type(caught.value))
    assert refused[:WRONG_TOKENS_AT_ONCE] == [AccessDenied] * WRONG_TOKENS_AT_ONCE
    assert ManagerAway in refused
    onceq.connect(daemon.where, token=token).close()  # at the socket


@pytest.fixture
def holder(daemon: Daemon) -> Iterator[Callable[[str], tuple[Any, Future[Any]]]]:
    """Connects with a token, and begins to wait for a message."""
    with contextlib.ExitStack() as stack:

        def make(token: str) -> tuple[Any, Future[Any]]:
            qm = stack.enter_context(onceq.connect(daemon.tcp, token=token))
            return qm, begun(lambda: qm.receive(Q, timeout=None))

        yield make


def waits(admin: onceq.QueueManager, count: int) -> None:
    """Until so many connections are there with tokens."""
    for _ in range(10_000):
        if sum(token.connections for token in admin.tokens.list()) == count:
            return
    raise AssertionError(admin.tokens.list())


def test_one_that_is_revoked_in_use_is_cut_with_the_reason(
    daemon: Daemon, admin: onceq.QueueManager, holder: Callable[[str], tuple[Any, Future[Any]]]
) -> None:
    token = admin.tokens.create("billing", grants={Q: "send,receive"}).token
    qm, waiting = holder(token)
    waits(admin, 1)
    open_tx = qm.transaction()
    open_tx.send(Q, "never")
    assert admin.tokens.revoke("billing") == 1
    with pytest.raises(OnceqError, match="'billing' was revoked"):
        waiting.result(WAIT_S)
    with pytest.raises(OnceqError):
        open_tx.commit()
    with pytest.raises(AccessDenied, match="the token that was given: it is wrong"):
        qm.send(Q, "no", transactional=True)
    waits(admin, 0)
    assert admin.queue(Q).messages == 0
    assert admin.rights.list() == []


def test_one_that_expires_in_use_is_cut_with_the_reason(
    daemon: Daemon, admin: onceq.QueueManager, holder: Callable[[str], tuple[Any, Future[Any]]]
) -> None:
    token = admin.tokens.create("billing", expires=1, grants={Q: "receive"}).token
    qm, waiting = holder(token)
    with pytest.raises(OnceqError, match="has expired"):
        waiting.result(WAIT_S)
    with pytest.raises(AccessDenied, match="has expired"):
        qm.send(Q, "no", transactional=True)
    (shown,) = admin.tokens.list()
    assert shown.expired
    assert not shown.connections


def test_a_task_that_waits_hears_that_its_token_was_revoked(daemon: Daemon) -> None:
    async def work() -> None:
        async with await aio.connect(daemon.where) as admin:
            made = await admin.tokens.create("billing", grants={Q: "receive"})
            qm = await aio.connect(daemon.tcp, token=made.token)
            waiting = asyncio.create_task(qm.receive(Q, timeout=None))
            await asyncio.sleep(0)  # it is asked
            assert await admin.tokens.revoke("billing") == 1
            with pytest.raises(OnceqError, match=r"revoked|access denied"):
                await waiting
            with pytest.raises(AccessDenied):
                await qm.admin.status()
            await qm.close()

    asyncio.run(work())


# ---- what a token may -------------------------------------------------------------------------

Operation = Callable[[onceq.QueueManager], object]

OPERATIONS: dict[str, Operation] = {
    "send": lambda qm: qm.send(Q, "x", transactional=True),
    "receive": lambda qm: qm.receive(Q, timeout=0.0),
    "peek": lambda qm: qm.peek(Q, timeout=0.0),
    "look": lambda qm: qm.queue(Q),
    "journal": lambda qm: qm.receive(f"{Q};journal", timeout=0.0),
    "set": lambda qm: qm.set_queue(Q, label="x"),
    "headers": lambda qm: qm.peek_headers(Q),
    "grant": lambda qm: qm.rights.grant("carol", "peek", Q),
    "create": lambda qm: qm.create_queue(r"private$\new"),
    "purge": lambda qm: qm.purge(Q),
    "status": lambda qm: qm.admin.status(),
    "disconnect": lambda qm: qm.admin.disconnect(),
    "tokens": lambda qm: qm.tokens.list(),
    "revoke": lambda qm: qm.tokens.revoke("carol"),
    "delete": lambda qm: qm.delete_queue(Q),
}

MAY: dict[Right, set[str]] = {
    Right.SEND: {"send"},
    Right.RECEIVE: {"receive", "peek", "headers", "purge"},
    Right.PEEK: {"headers"},
    Right.PEEK_BODY: {"peek", "headers"},
    Right.JOURNAL: {"journal"},
    Right.DELETE: {"delete"},
    Right.GET_PROPERTIES: {"look"},
    Right.SET_PROPERTIES: {"look", "set"},
    Right.GET_RIGHTS: set(),
    Right.SET_RIGHTS: set(),
    Right.CREATE: {"create"},
    Right.FORWARD: set(),
    Right.MONITOR: {"look", "status", "headers"},
    Right.OPERATE: {"look", "status", "headers", "purge", "disconnect"},
    Right.ADMINISTER: set(OPERATIONS),
}
"""What a token with one right may do; to grant a right one has it oneself."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon for all rows."""
    with Daemon(tmp_path_factory.mktemp("shared") / "a", tcp=True) as made:
        yield made


@pytest.fixture
def table(shared: Daemon) -> Iterator[onceq.QueueManager]:
    """An administrator there; the queue is new, and empty."""
    with onceq.connect(shared.where) as made:
        made.create_queue(Q, transactional=True)
        yield made
        for queue in made.queues():
            if not queue.system:
                made.delete_queue(queue.path)
        for token in made.tokens.list():
            made.tokens.revoke(token.name)


@pytest.mark.parametrize("right", Right, ids=lambda right: right.value)
def test_a_token_may_what_its_right_says(
    shared: Daemon, table: onceq.QueueManager, right: Right
) -> None:
    where = "" if right in WHOLE else Q if right is not Right.CREATE else "private$\\*"
    made = table.tokens.create("one", grants={where: right})
    table.tokens.create("carol")
    allowed = set()
    with onceq.connect(shared.tcp, token=made.token) as qm:
        for name, operation in OPERATIONS.items():
            try:
                operation(qm)
            except AccessDenied:
                continue
            except OnceqError:
                pass  # it was let in, and found nothing
            allowed.add(name)
    assert allowed == MAY[right]


# ---- accounts ---------------------------------------------------------------------------------


@pytest.fixture
def alice(tmp_path: Path) -> Iterator[Process]:
    """A daemon to which whoever connects is alice, who may send and nothing else."""
    path = tmp_path / "a"
    with onceq.open(path, name="A", create=True) as qm:
        qm.create_queue(Q, transactional=True)
        qm.rights.grant("alice", "send", Q)
        qm.rights.grant("account:bob", "administer")
        (tmp_path / "token").touch(mode=0o600)
        token = qm.tokens.create("carol", grants={"": "administer"}).token
        (tmp_path / "token").write_text(token)
    program = (str(ROOT / "tests" / "daemon" / "as_somebody.py"),)
    options = ("--listen", "", "--client-listen", "127.0.0.1:0")
    process = Process(path, *options, program=program, ONCEQ_TEST_ACCOUNT="alice")
    yield process.started()
    process.end()


def test_another_account_has_exactly_its_rights(alice: Process, tmp_path: Path) -> None:
    with onceq.connect(str(alice.path)) as qm:
        assert qm.rights.explain("send", Q).who == "account:alice"
        qm.send(Q, "x", transactional=True)
        for name, operation in OPERATIONS.items():
            if name != "send":
                with pytest.raises(AccessDenied):
                    operation(qm)
    tcp = "onceq://" + alice.ready.rpartition(" ")[2]
    with pytest.raises(AccessDenied, match="does not know who this is"):
        onceq.connect(tcp)
    with onceq.connect(str(alice.path), token_file=tmp_path / "token") as carol:
        assert carol.queue(Q).messages == 1, "a token goes before the account"
        assert carol.purge(Q) == 1


def test_who_may_only_peek_sees_headers_and_is_told_how(
    shared: Daemon, table: onceq.QueueManager, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table.send(Q, "a secret", label="first", transactional=True)
    made = table.tokens.create("peeker", grants={Q: "peek,delete"})
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(made.token)

    def said(*words: str, code: int = 0) -> str:
        capfd.readouterr()
        assert run(["--qm", shared.tcp, "--token-file", str(file), *words]) == code
        found = capfd.readouterr()
        return found.out + found.err

    assert "peek-body" in said("peek", Q, code=AccessDenied.exit_code)
    for words in (("peek", Q, "--headers"), ("peek", Q, "--headers", "--json")):
        shown = said(*words)
        assert "first" in shown
        assert "secret" not in shown
    assert json.loads(said("peek", Q, "--headers", "--json"))["body_bytes"] == 8
    assert said("queue", "list").count("private$") == 0
    assert "token:peeker" in said("rights", "show")
    assert said("rights", "explain", "token:peeker", "peek", Q).startswith("yes")
    refused = said("queue", "delete", Q, "--dry-run", code=AccessDenied.exit_code)
    assert "get-properties" in refused
    assert said("queue", "delete", Q, "--yes") == f"deleted {out.name(Q)} with 1 message" + "\n"


def test_who_gives_rights_at_a_queue_hears_what_his_revoke_has_done(
    shared: Daemon, table: onceq.QueueManager, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also who may not see the grants of others there."""
    table.rights.grant("carol", "send", Q)
    for number, words in enumerate(("set-rights,send,get-rights", "set-rights,send")):
        made = table.tokens.create(f"giver{number}", grants={Q: words})
        file = tmp_path / f"token{number}"
        file.touch(mode=0o600)
        file.write_text(made.token)

        def said(*words: str, file: Path = file) -> str:
            capfd.readouterr()
            assert run(["--qm", shared.tcp, "--token-file", str(file), *words]) == 0
            found = capfd.readouterr()
            return found.out + found.err

        revoke = ("revoke", "carol", "send", Q.replace("\\", "/"))
        assert "is taken away from carol" in said(*revoke)
        assert not table.rights.explain("send", Q, who="account:carol").allowed
        if "get-rights" in words:
            assert "was not granted send" in said(*revoke)
        said("grant", "carol", "send", Q)


# ---- by command -------------------------------------------------------------------------------


def test_the_commands(daemon: Daemon, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def said(*words: str, code: int = 0) -> str:
        capfd.readouterr()
        assert run(["--qm", daemon.where, *words]) == code
        found = capfd.readouterr()
        return found.out + (found.err if code else "")

    grants = ("--grant", rf"send,peek@{Q}", "--grant", "monitor")
    token = said("token", "create", "billing", "--expires", "30d", *grants).strip()
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(token)
    assert "token:billing" in said("rights", "show")
    assert said("token", "list").splitlines()[1].split()[0] == "billing"
    (view,) = json.loads(said("token", "list", "--json"))
    assert view["expires_s"] - view["made_s"] == 30 * 86_400
    assert token not in said("token", "list", "--json")
    shown = ("--token-file", str(file))
    said(*shown, "send", Q, "x", "--transactional")
    said(*shown, "qm", "status")
    assert "token:billing" in said(*shown, "receive", Q, code=AccessDenied.exit_code)
    assert said("token", "revoke", "billing", "--yes") == "the token billing is revoked\n"
    refused = said(*shown, "qm", "status", code=AccessDenied.exit_code)
    assert str(file) in refused
    assert token not in refused
    assert said("token", "list") == "there are no tokens\n"
    wrong = (
        ("revoke", "billing"), ("create", "b", "--grant", "@x"),
        ("create", "b", "--expires", "soon"), ("create", "b", "--grant", "fly@x"),
    )  # fmt: skip
    for words in wrong:
        answer = said("token", *words, code=InvalidParameter.exit_code)
        assert "error (invalid-parameter)" in answer


def test_another_queue_manager_is_not_shown_the_token_of_this_one(
    daemon: Daemon, admin: onceq.QueueManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who gets it could use it here; nor would the other one know it."""
    token = admin.tokens.create("operator", grants={"": "operate"}).token
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(token)
    with Daemon(tmp_path / "b", tcp=True) as other:
        for name, value in (("ONCEQ_TOKEN", token), ("ONCEQ_TOKEN_FILE", str(file))):
            monkeypatch.setenv(name, value)
            assert run(["--qm", daemon.where, "tx", "recover", "--other", other.where]) == 0
            monkeypatch.undo()
        assert "wrong token" not in log_of(other)


def test_a_file_has_a_token_for_each_of_several_queue_managers(
    daemon: Daemon, admin: onceq.QueueManager, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each is shown its own, by threads, tasks and commands alike, and no other one."""
    file = tmp_path / "tokens"
    file.touch(mode=0o600)
    with Daemon(tmp_path / "b", tcp=True) as other, onceq.connect(other.where) as there:
        tokens = [
            qm.tokens.create("operator", grants={"": "operate"}).token for qm in (admin, there)
        ]
        file.write_text(f"{daemon.where} {tokens[0]}\n{other.tcp} {tokens[1]}\n")

        async def by_task(where: str) -> str:
            async with await aio.connect(where, token_file=file) as qm:
                return (await qm.rights.explain("operate", "")).who

        for where in (daemon.where, other.tcp):
            with onceq.connect(where, token_file=file) as qm:
                assert qm.rights.explain("operate", "").who == "token:operator"
            assert asyncio.run(by_task(where)) == "token:operator"
        words = ("--token-file", str(file), "-q", daemon.where, "tx", "recover", "--other")
        assert run([*words, other.tcp]) == 0
        capfd.readouterr()
        assert run([*words, other.where]) == ConfigurationError.exit_code
        said = capfd.readouterr().err
        assert f"{file} has no line for {other.where}/onceq.sock" in said
        logs = log_of(daemon) + log_of(other) + said
        assert "wrong token" not in logs
        assert not any(token.rpartition("_")[2] in logs for token in tokens)


@pytest.mark.parametrize("name", ["*", "first*", "a'b$(x)|*"])
def test_who_owns_a_queue_that_is_called_like_a_pattern_owns_that_one_alone(
    shared: Daemon, table: onceq.QueueManager, tmp_path: Path, capfd: pytest.CaptureFixture[str],
    name: str,
) -> None:  # fmt: skip
    """By the client and by commands."""
    made = table.tokens.create(f"maker{len(name)}", grants={"private$\\*": "create"})
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(made.token)
    like, pattern = f"private$\\{name}", "private$\\" + name.replace("*", "[*]")

    def said(*words: str, code: int = 0) -> str:
        capfd.readouterr()
        assert run(["--qm", shared.tcp, "--token-file", str(file), *words]) == code
        found = capfd.readouterr()
        return found.out + found.err

    with onceq.connect(shared.tcp, token_file=file) as own:
        own.create_queue(like)
        assert own.rights.explain("receive", like).allowed
        assert not own.rights.explain("receive", Q).allowed
        with pytest.raises(AccessDenied):
            own.send(Q, "x", transactional=True)
        with pytest.raises(AccessDenied):
            own.rights.grant("dora", "send", like)
        own.rights.grant("dora", "send", pattern)
    said("grant", "dora", "peek", like, code=AccessDenied.exit_code)
    assert said("grant", "dora", "peek", pattern).startswith("dora may peek")
    for right in ("send", "peek"):
        assert table.rights.explain(right, like, who="account:dora").allowed
        assert not table.rights.explain(right, Q, who="account:dora").allowed
    assert pattern.replace("\\", "/") in said("rights", "show")
    table.delete_queue(like)


def test_an_operator_ends_a_hold_by_command(
    shared: Daemon, table: onceq.QueueManager, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made = table.tokens.create("holder", grants={Q: "receive"})
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(made.token)
    table.send(Q, "a", transactional=True)

    def release() -> str:
        capfd.readouterr()
        assert run(["--qm", str(shared.path), "queue", "release", Q]) == 0
        return capfd.readouterr().out

    with onceq.connect(shared.tcp, token_file=file) as holder:
        held = holder.open_queue(Q, share="deny-receive")
        with pytest.raises(SharingViolation, match="held by token:holder"):
            table.receive(Q, timeout=0)
        assert release() == f"1 hold of {out.name(Q)} ended\n"
        assert table.receive(Q, timeout=0).body
        with pytest.raises(InvalidHandle):
            held.receive(timeout=0)
        assert release() == f"0 holds of {out.name(Q)} ended\n"
