"""Every result code that onceq gives can be provoked, and has cause and cure (MS-MQMQ 2.4)."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

import onceq
from onceq.directory import MemoryDirectory
from onceq.errors import InsufficientResources, OnceqError, every
from onceq.model import resultcodes
from onceq.model.branches import Xid
from onceq.model.directory import Computer, Snapshot
from onceq.model.rights import Actor, ActorKind
from onceq.model.settings import Settings
from onceq.service.committer import AnswerTo, Takes
from onceq.service.engine import Engine

INFORMATION = """01 02 03 04 05 06 09 0A 0B"""
ERRORS = """
01 02 03 04 05 06 07 08 09 0B 0D 10 11 13 14 18 19 1A 1B 1C 1D 1E 1F 20 21 22 23 24 25 26 27 28
2A 2B 2C 2D 2E 2F 30 31 33 35 36 37 38 39 3A 3B 3C 3D 3E 3F 40 41 42 43 44 45 46 48 49 4A 4B 4C
4E 50 51 55 56 58 5A 5B 5C 5D 5E 5F 60 61 62 63 64 65 66 67 68 69 6A 6B 6C 6D 6E 6F 70 71 72 73
74 75 76 77 78 79 7A 7B 7C 7D 7E 7F 80 81 82 83 84 85 86 87 88 89 8A 8B 8C 8D 8E 8F 90 91 92 93
94 95 96 99 9A 9B 9C
"""
OTHERS = """8004D00F 80070057 80004002 80004001 80040007 8007000E C000000D C0000008"""
"""The codes of MS-MQMQ 2.4, copied from there and from nowhere else."""

T, N = "private$\\t", "private$\\n"
FAR = "DIRECT=OS:FAR\\private$\\q"


class Stage:
    """A queue manager with a transactional queue T and another, N; and a place for more."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.qm = onceq.open(path / "qm", name="ALPHA", listen="", create=True)
        self.qm.create_queue(T, transactional=True)
        self.qm.create_queue(N)

    def again(self, settings: Settings) -> None:
        self.qm.close()
        self.qm = onceq.open(self.path / "qm", settings=settings, listen="")


def queue_not_found(s: Stage) -> None:
    s.qm.receive("private$\\none", timeout=0)


def access_denied(s: Stage) -> None:
    plain, alice = Engine.owner, Actor(ActorKind.ACCOUNT, "alice")

    def named(engine: Engine, answer: AnswerTo, takes: Takes | None = None) -> int:
        return plain(engine, answer, takes, actor=alice)

    with mock.patch.object(Engine, "owner", named):
        s.again(Settings())
    s.qm.receive(T, timeout=0)


def queue_exists(s: Stage) -> None:
    s.qm.create_queue(T)


def invalid_parameter(s: Stage) -> None:
    s.qm.receive(T, timeout=float("nan"))


def invalid_handle(s: Stage) -> None:
    with s.qm.open_queue(T, access="peek") as opened:
        opened.receive(timeout=0)


def operation_cancelled(s: Stage) -> None:
    import threading

    failures: list[BaseException] = []
    held = s.qm.open_queue(T)

    def wait() -> None:
        try:
            held.receive(timeout=60)
        except OnceqError as error:
            failures.append(error)

    reader = threading.Thread(target=wait)
    reader.start()
    while not s.qm.admin.status()["waiting_readers"]:
        pass
    held.close()
    reader.join()
    raise failures[0]


def sharing_violation(s: Stage) -> None:
    with s.qm.open_queue(T, share="deny-receive"):
        s.qm.open_queue(T, share="deny-receive")


def service_not_available(s: Stage) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        onceq.connect(f"onceq://127.0.0.1:{unused.getsockname()[1]}", timeout=1.0)


def illegal_path_name(s: Stage) -> None:
    s.qm.create_queue("private$\\a+b")


def illegal_property_value(s: Stage) -> None:
    s.qm.send(N, b"", priority=8)


def illegal_property_type(s: Stage) -> None:
    s.qm.set_queue(N, quota_kb="many")


def timeout(s: Stage) -> None:
    s.qm.receive(T, timeout=0)


def illegal_format_name(s: Stage) -> None:
    s.qm.send("DIRECT=XX:a\\b", b"")


def unsupported_format_name(s: Stage) -> None:
    s.qm.send("SYSTEM$;DEADXACT", b"")


def insufficient_resources(s: Stage) -> None:
    s.qm.set_queue(N, quota_kb=0)
    s.qm.send(N, b"x")


def storage_failed(s: Stage) -> None:
    s.qm.send(N, bytes(5000))
    s.qm.send(N, b"more")
    s.qm.close()
    (s.path / "qm" / "CLOSED").unlink()
    (checkpoint,) = (s.path / "qm").glob("*.ckp")
    checkpoint.unlink()
    (log,) = (s.path / "qm").glob("log-*.seg")
    raw = bytearray(log.read_bytes())
    at = raw.index(b"LIOR")
    raw[at : at + 4] = b"lost"
    log.write_bytes(raw)
    onceq.open(s.path / "qm", listen="")


def no_encryption(s: Stage) -> None:
    s.qm.set_queue(N, priv_level=2)


def illegal_property_id(s: Stage) -> None:
    s.qm.set_queue(N, colour="red")


def illegal_property_size(s: Stage) -> None:
    s.qm.send(N, b"", correlation_id=b"short")


def property_not_allowed(s: Stage) -> None:
    s.qm.set_queue(N, transactional=True)


def unsupported_access_mode(s: Stage) -> None:
    s.qm.open_queue(T, access="send", share="deny-receive")


def transaction_usage(s: Stage) -> None:
    s.qm.send("MULTICAST=224.0.0.1:80", b"", transactional=True)


def transaction_sequence(s: Stage) -> None:
    tx = s.qm.transaction()
    tx.send(T, b"1")
    tx.commit()
    tx.commit()


def no_coordinator(s: Stage) -> None:
    s.again(Settings(external_transactions=False))
    with s.qm.transaction() as tx:
        tx.send(T, b"internal transactions go on")
    s.qm.branch(Xid(7, b"global"))


def transaction_import(s: Stage) -> None:
    s.qm.branch(Xid(7, b"global"), join=True)


def transaction_enlist(s: Stage) -> None:
    with s.qm.transaction() as tx:
        tx.enlist(object())


def queue_deleted(s: Stage) -> None:
    import threading

    failures: list[BaseException] = []

    def wait() -> None:
        try:
            s.qm.receive(T, timeout=60)
        except OnceqError as error:
            failures.append(error)

    reader = threading.Thread(target=wait)
    reader.start()
    while not s.qm.admin.status()["waiting_readers"]:
        pass
    s.qm.delete_queue(T)
    reader.join()
    raise failures[0]


def label_too_long(s: Stage) -> None:
    s.qm.send(N, b"", label="x" * 250)


def unsupported_operation(s: Stage) -> None:
    s.qm.create_queue("public-queue")


def message_not_found(s: Stage) -> None:
    s.qm.peek(N, lookup_id=12345)


def illegal_cursor_action(s: Stage) -> None:
    with s.qm.cursor(T) as cursor:
        cursor.peek_next()


def message_already_received(s: Stage) -> None:
    s.qm.send(T, b"x", transactional=True)
    with s.qm.cursor(T) as cursor:
        cursor.peek_current()
        s.qm.receive(T)
        cursor.peek_current()


def message_locked(s: Stage) -> None:
    s.qm.send(T, b"x", transactional=True)
    with s.qm.transaction() as tx:
        s.qm.move(T, tx.receive(T), ";retry")


def uninitialized_object(s: Stage) -> None:
    s.qm.admin.eod_send_info("")


def no_interface(s: Stage) -> None:
    s.qm.admin.eod_send_info(T)


def not_supported(s: Stage) -> None:
    tx = s.qm.transaction()
    tx.send(T, b"1")
    tx.commit(retaining=True)


def not_implemented(s: Stage) -> None:
    s.qm.set_queue(N, authenticate=True)


def bad_dead_letter_queue(s: Stage) -> None:
    with s.qm.transaction() as tx:
        tx.send(T, b"", journal=1, dead_letter_queue=N)


def insufficient_properties(s: Stage) -> None:
    with s.qm.transaction() as tx:
        tx.send(T, b"", dead_letter_queue=T)


def no_directory(s: Stage) -> None:
    s.qm.close()
    s.qm = onceq.open(s.path / "qm", listen="", directory=str(s.path / "nowhere.json"))
    s.qm.send("DL=00000000-0000-0000-0000-000000000001", b"")


def directory_error(s: Stage) -> None:
    s.qm.close()
    names = MemoryDirectory(Snapshot([Computer("ALPHA", b"another manager!")]))
    names.register(Computer("ALPHA", b"one more manager"), ())


PROVOKED: dict[int, Callable[[Stage], None]] = {
    0xC00E0002: bad_dead_letter_queue,
    0xC00E0003: queue_not_found,
    0xC00E0005: queue_exists,
    0xC00E0025: access_denied,
    0xC00E0006: invalid_parameter,
    0xC00E0007: invalid_handle,
    0xC00E0008: operation_cancelled,
    0xC00E0009: sharing_violation,
    0xC00E000B: service_not_available,
    0xC00E0013: no_directory,
    0xC00E0014: illegal_path_name,
    0xC00E0018: illegal_property_value,
    0xC00E0019: illegal_property_type,
    0xC00E001B: timeout,
    0xC00E001E: illegal_format_name,
    0xC00E0020: unsupported_format_name,
    0xC00E0027: insufficient_resources,
    0xC00E002A: storage_failed,
    0xC00E0033: no_encryption,
    0xC00E0039: illegal_property_id,
    0xC00E003B: illegal_property_size,
    0xC00E003E: property_not_allowed,
    0xC00E003F: insufficient_properties,
    0xC00E0043: directory_error,
    0xC00E0045: unsupported_access_mode,
    0xC00E0050: transaction_usage,
    0xC00E004C: no_coordinator,
    0xC00E004E: transaction_import,
    0xC00E0058: transaction_enlist,
    0xC00E0051: transaction_sequence,
    0xC00E005A: queue_deleted,
    0xC00E005D: label_too_long,
    0xC00E006A: unsupported_operation,
    0xC00E001C: illegal_cursor_action,
    0xC00E001D: message_already_received,
    0xC00E0088: message_not_found,
    0xC00E009C: message_locked,
    0xC00E0094: uninitialized_object,
    0x80004002: no_interface,
    0x8004D00F: not_supported,
    0x80004001: not_implemented,
}
"""A code, and what an application does to get it."""


@pytest.mark.parametrize("code", PROVOKED, ids=lambda code: f"{code:08X}")
def test_a_code_is_provoked_through_the_api(code: int, tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    try:
        with pytest.raises(OnceqError) as caught:
            PROVOKED[code](stage)
    finally:
        stage.qm.close()
    assert caught.value.hresult == code, caught.value
    assert caught.value.text
    assert type(caught.value).cure


def test_every_code_that_an_error_carries_is_provoked_here() -> None:
    assert set(resultcodes.given()) == set(PROVOKED)


def test_given_and_impossible_codes_are_the_whole_appendix() -> None:
    appendix = (
        {0x400E0000 + int(code, 16) for code in INFORMATION.split()}
        | {0xC00E0000 + int(code, 16) for code in ERRORS.split()}
        | {int(code, 16) for code in OTHERS.split()}
    )
    assert appendix == set(resultcodes.NAMES)
    assert set(resultcodes.given()) | set(resultcodes.never()) == appendix
    both = set(resultcodes.given()) & set(resultcodes.REASONS)
    assert not both, "these occur now: take their lines out of resultcodes.py"


def test_every_error_says_what_to_do() -> None:
    assert [kind.__name__ for kind in every().values() if not kind.cure] == []


def test_two_errors_of_one_code_are_told_apart_by_their_class(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.again(Settings(computer_quota_bytes=1 << 16))
    with pytest.raises(InsufficientResources, match="computer_quota_bytes"):
        stage.qm.send_many(N, [bytes(30_000)] * 3)
    stage.qm.close()
