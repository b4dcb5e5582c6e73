"""Queue properties, the management view and actions: on the command line and in the library."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import onceq
import onceq.aio
from onceq import errors
from onceq.cli import out
from onceq.cli.lists import sender_names
from onceq.model.views.managers import PeerView
from onceq.model.views.queues import StreamView
from tests.daemon.shell import STOCK, Shell, free_port, running

GUID = "55ee8f32-cce9-11cf-b108-0020afd61ce9"


@pytest.mark.slow
def test_queue_set_and_show(onceq_: Shell) -> None:
    onceq_("queue", "create", "private$/props", "--transactional", "--journal", "--quota-kb", "9")
    said = onceq_(
        "queue", "set", "private$/props", "--label", "Orders", "--no-journal", "--quota-kb", "100",
        "--journal-quota-kb", "7", "--type", GUID, "--priv-level", "0",
    )  # fmt: skip
    for part in ("Orders", "100 KiB", "7 KiB", GUID, "0 (none)"):
        assert part in said
    seen = onceq_.json("queue", "show", "private$/props")
    assert isinstance(seen, dict)
    assert (seen["label"], seen["journal"], seen["quota_kb"], seen["journal_quota_kb"],
            seen["type"], seen["priv_level"]) == ("Orders", False, 100, 7, GUID, 0)  # fmt: skip
    assert "can be received" in str(seen["why"])
    onceq_("queue", "set", "private$/props", "--priv-level", "2", code=2)
    assert "encryption-not-supported" in onceq_.error
    onceq_("queue", "set", "private$/props", "--authenticate", code=2)
    assert "authentication-not-supported" in onceq_.error
    onceq_("queue", "set", "private$/props", code=2)
    assert "nothing to set" in onceq_.error
    onceq_("queue", "set", "private$/props", "--type", "no-guid", code=2)
    assert "illegal-property-value" in onceq_.error
    onceq_("queue", "delete", "private$/props", "--yes")


@pytest.mark.slow
def test_disconnect_connect_and_tidy(onceq_: Shell) -> None:
    onceq_("send", STOCK, "one")
    said = onceq_("qm", "disconnect", "--dry-run")
    assert "would be done: take ALPHA off the network: 0 sessions" in said
    onceq_("qm", "disconnect", code=2)
    assert "nothing was changed" in onceq_.error
    assert "disconnected by" not in onceq_("qm", "status")
    assert "disconnected from the network" in onceq_("qm", "disconnect", "--yes")
    shown = onceq_.json("outgoing", "show", STOCK)
    assert isinstance(shown, dict)
    assert shown["state"] == "DISCONNECTED"
    assert len(shown["eod"]) == 11
    assert "qm connect" in shown["why"]
    assert "disconnected by an operator" in onceq_("qm", "status")
    assert "connected to the network" in onceq_("qm", "connect")
    onceq_("queue", "purge", STOCK, "--yes")
    assert "connection 1" in onceq_("outgoing", "show", STOCK)
    done = onceq_.json("qm", "tidy")
    assert isinstance(done, dict)
    assert done["action"] == "tidy"


@pytest.fixture
def delta(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[tuple[Shell, str]]:
    """A queue manager that runs and hears others: its commands, and its address."""
    home, address = tmp_path / "delta", f"127.0.0.1:{free_port()}"
    onceq_ = Shell(home, home, capfd)
    onceq_("qm", "init", str(home), "--name", "DELTA", "--listen", address)
    with running(home):
        onceq_("queue", "create", "private$/q", "--transactional")
        yield onceq_, address


@contextmanager
def gamma(tmp_path: Path, address: str) -> Iterator[onceq.QueueManager]:
    """Another one, which has never sent to DELTA."""
    path, far = tmp_path / "gamma", {"DELTA": address}
    with onceq.open(path, name="GAMMA", listen="", peers=far, create=True) as manager:
        yield manager


def until(true: Callable[[], bool], manager: onceq.QueueManager) -> None:
    """Wait; the queue is empty meanwhile."""
    while not true():
        with pytest.raises(errors.ReceiveTimeout):
            manager.receive(r"private$\none", timeout=0.05)


@pytest.mark.slow
def test_acknowledgments_for_a_stranger_are_given_up_after_a_question(
    delta: tuple[Shell, str], tmp_path: Path
) -> None:
    """GAMMA has just begun to send; where it wants its acknowledgments nobody answers."""
    onceq_, address = delta
    onceq_("queue", "create", "private$/none")
    with gamma(tmp_path, address) as sender, onceq.connect(str(onceq_.alpha)) as receiver:
        sender.send(
            r"DIRECT=OS:DELTA\private$\q", b"1", transactional=True,
            acknowledge=onceq.Acknowledge.POSITIVE_ARRIVAL,
            admin_queue=r"DIRECT=OS:NOWHERE.invalid\private$\acks",
        )  # fmt: skip
        until(lambda: any(view["unanswered"] for view in receiver.admin.outgoing()), receiver)
    onceq_("qm", "tidy", "--dry-run", code=2)
    assert "goes with --unanswered" in onceq_.error
    assert "0 outgoing queues forgotten" in onceq_("qm", "tidy")
    said = onceq_("qm", "tidy", "--unanswered", "--dry-run")
    assert "DIRECT=OS:NOWHERE.invalid/private$/acks: 1 message;" in said.replace("\n", "")
    assert "1 acknowledgment message would be given up" in said
    onceq_("qm", "tidy", "--unanswered", code=2)
    assert "nothing was changed" in onceq_.error
    assert onceq_.json("qm", "tidy", "--unanswered", "--yes") == {
        "messages_given_up": 1, "dry_run": False,
    }  # fmt: skip
    assert onceq_.json("outgoing", "list") == []
    assert "given up by an operator" in (onceq_.alpha / "log.txt").read_text()


@pytest.mark.slow
def test_a_sender_whose_clock_was_ahead_is_taken_after_a_question(
    delta: tuple[Shell, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onceq_, address = delta
    onceq_("queue", "create", "private$/none")
    onceq_("peer", "accept", "GAMMA", "--reason", "why", code=2)
    assert "queue-not-found" in onceq_.error
    true, year_ns = time.time_ns, 365 * 86_400 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: true() + year_ns)
    with gamma(tmp_path, address) as sender, onceq.connect(str(onceq_.alpha)) as receiver:
        monkeypatch.setattr(time, "time_ns", true)
        queue = r"DIRECT=OS:DELTA\private$\q"
        sender.send(queue, b"1", transactional=True)
        until(lambda: "peer accept" in sender.admin.outgoing_queue(queue).turned_away, receiver)
        who = ("peer", "accept", sender.id[:8], "--reason", "an empty battery")
        assert "would be done: take the streams of" in onceq_(*who, "--dry-run")
        onceq_(*who, code=2)
        assert "nothing was changed" in onceq_.error
        said = onceq_.json(*who, "--yes")
        assert isinstance(said, dict)
        assert (said["id"], said["reason"]) == (sender.id, "an empty battery")
        sender.admin.resend(queue)
        assert receiver.receive(r"private$\q", timeout=30).body == b"1"


@pytest.mark.slow
def test_a_stream_is_set_back_and_a_name_forgotten_after_a_question(
    delta: tuple[Shell, str], tmp_path: Path
) -> None:
    onceq_, address = delta
    with gamma(tmp_path, address) as sender, onceq.connect(str(onceq_.alpha)) as receiver:
        sender.send(r"DIRECT=OS:DELTA\private$\q", b"1", transactional=True)
        assert receiver.receive(r"private$\q", timeout=30).body == b"1"
        who = ("stream", "reset", "private$/q", "--source", sender.id[:8], "--reason", "a test")
        assert "would be done: " in onceq_(*who, "--dry-run")
        onceq_(*who, code=2)
        assert "nothing was changed" in onceq_.error
        assert receiver.admin.streams()[0]["reset_at"] == 0
        assert "done: " in onceq_(*who, "--yes")
        (stream,) = receiver.admin.streams()
        assert (stream.reset_reason, stream.reset_at > 0) == ("a test", True)
        (peer,) = sender.admin.peers()
        assert sender.admin.forget_peer(peer.name, dry_run=True).id == receiver.id
    onceq_("peer", "forget", "nobody", "--yes", code=2)
    assert "no name is known as nobody" in onceq_.error


@pytest.fixture
def qm(tmp_path: Path) -> Iterator[onceq.QueueManager]:
    with onceq.open(tmp_path / "a", name="ALPHA", listen="", create=True) as manager:
        yield manager


def test_properties_and_views_through_the_library(qm: onceq.QueueManager) -> None:
    made = qm.create_queue("private$\\q", transactional=True, journal=True, type=GUID)
    assert (made["journal"], made["type"]) == (True, GUID)
    assert qm.set_queue("private$\\q", label="x", type=bytes(16))["label"] == "x"
    assert qm.queue("private$\\q").type.strip("0-") == ""
    with pytest.raises(errors.PropertyNotAllowed):
        qm.set_queue("private$\\q", transactional=False)
    with pytest.raises(errors.IllegalPropertyType):
        qm.set_queue("private$\\q", journal=1)
    with pytest.raises(errors.MulticastNotSupported):
        qm.create_queue("private$\\m", multicast_address="224.0.0.1:80")
    assert qm.admin.eod_receive_info("private$\\q") == []
    assert "can be received" in qm.admin.why("private$\\q")
    qm.admin.action("DISCONNECT")
    qm.send("DIRECT=OS:FAR\\private$\\q", b"1", transactional=True)
    qm.admin.action("EOD_RESEND", "DIRECT=OS:FAR\\private$\\q")
    info = qm.admin.eod_send_info("DIRECT=OS:FAR\\private$\\q")
    assert info.eod_next_seq.seq_no == 2
    assert qm.admin.management("DIRECT=OS:FAR\\private$\\q")["eod_next_seq"] == info["eod_next_seq"]
    assert qm.admin.management()["connected"] == "DISCONNECTED"
    with pytest.raises(errors.UninitializedObject):
        qm.admin.action("PAUSE")
    with pytest.raises(errors.InvalidParameter):
        qm.admin.action("EXPLODE")
    qm.admin.connect()
    assert qm.admin.tidy() == 0


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"priv_level": 1}, errors.EncryptionNotSupported),
        ({"auth_level": 1}, errors.AuthenticationNotSupported),
        ({"colour": "red"}, errors.IllegalPropertyId),
    ],
)
def test_message_properties_that_could_not_be_kept(
    qm: onceq.QueueManager, values: dict[str, Any], error: type[errors.OnceqError]
) -> None:
    qm.create_queue("private$\\q")
    with pytest.raises(error):
        qm.send("private$\\q", b"", **values)
    unkept: dict[str, Any] = {"priv_level": 0, "auth_level": 0}
    qm.send("private$\\q", b"", **unkept)
    assert qm.queue("private$\\q")["messages"] == 1


def test_the_same_names_for_tasks(tmp_path: Path) -> None:
    async def work() -> None:
        async with await onceq.aio.open(tmp_path / "a", name="ALPHA", listen="", create=True) as qm:
            await qm.create_queue("private$\\q", transactional=True, journal=True)
            assert (await qm.set_queue("private$\\q", journal=False))["journal"] is False
            await qm.admin.disconnect()
            await qm.send("DIRECT=OS:FAR\\private$\\q", b"1", transactional=True)
            info = await qm.admin.eod_send_info("DIRECT=OS:FAR\\private$\\q")
            assert info.eod_next_seq.seq_no == 2
            assert await qm.admin.eod_receive_info("private$\\q") == []
            assert (await qm.admin.management())["connected"] == "DISCONNECTED"
            await qm.admin.connect()
            assert await qm.admin.tidy() == 0
            assert await qm.admin.action("TIDY") == 0
            assert "can be received" in await qm.admin.why("private$\\q")

    asyncio.run(work())


@pytest.mark.slow
def test_a_stream_is_shown_by_what_the_list_prints_of_it(
    delta: tuple[Shell, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onceq_, address = delta
    with gamma(tmp_path, address) as sender, onceq.connect(str(onceq_.alpha)) as receiver:
        sender.send(r"DIRECT=OS:DELTA\private$\q", b"1", transactional=True)
        assert receiver.receive(r"private$\q", timeout=30).body == b"1"
        assert sender.id in onceq_("stream", "list"), "nobody has said its name"
        onceq_("queue", "create", "private$/back", "--transactional")
        onceq_("stream", "show", "private$/back", code=2)
        assert "no message stream has arrived" in onceq_.error
        monkeypatch.setattr(out, "width", lambda: 80)
        header, row = onceq_("stream", "list").splitlines()
        queue, source, *rest = row.split()
        assert max(len(header), len(row)) <= 80
        assert (queue, source, rest[1:]) == (
            "os:delta/private$/q",
            sender.id[:8],
            ["s", "ago", "0", "0", "yes"],
        )
        for name in (queue, queue.upper(), "private$/q"):
            said = onceq_("stream", "show", name, "--source", source)
            assert "accepted up to number 1" in said.replace("\n", " ")
        onceq_("stream", "show", queue, "--source", "nobody", code=2)
        onceq_("queue", "delete", "private$/q", "--yes")
        assert "os:delta/private$/q" in onceq_("stream", "show", queue)


def test_the_name_of_a_sender_is_what_it_has_said_or_where_it_is_reached() -> None:
    class Knows:
        admin: Knows

        def peers(self) -> list[PeerView]:
            return [PeerView("os:beta", "b"), PeerView("tcp:10.0.0.7", "c")]

    found = [StreamView(source="c", sender="GAMMA"), StreamView(source="d")]
    knows = Knows()
    knows.admin = knows
    assert sender_names(knows, found) == {"b": "BETA", "c": "GAMMA"}  # type: ignore[arg-type]
