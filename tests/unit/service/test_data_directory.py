"""The data directory: made once, for its own user only, with an identity for ever."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import onceq
from onceq.embedded import data_directory
from onceq.errors import AccessDenied, ConfigurationError, NotAStore, StoreExists, StoreLocked
from onceq.file_access import CONFIGURATION_FILE, check_own
from onceq.model.identity import Identity
from onceq.model.limits import LOG_SEGMENT_BYTES_MIN
from onceq.model.settings import Settings
from onceq.service.config import Configuration
from onceq.service.data_directory import check_name, default_name, init, manager_of, open_store
from onceq.service.main import serve


def test_made_and_opened_again_it_is_the_same(tmp_path: Path) -> None:
    path = str(tmp_path / "alpha")
    store = init(path, name="ALPHA")
    first = Identity.unpack(store.identity)
    store.close()
    again = open_store(path)
    assert Identity.unpack(again.identity) == first
    assert first.name == "ALPHA"
    assert first.installed_s > 1_600_000_000
    again.close()


def test_segments_are_as_large_as_the_settings_say_and_may_change(tmp_path: Path) -> None:
    path = str(tmp_path / "alpha")
    sizes = [LOG_SEGMENT_BYTES_MIN, 2 * LOG_SEGMENT_BYTES_MIN, LOG_SEGMENT_BYTES_MIN]
    store = init(path, name="ALPHA", settings=Settings(log_segment_bytes=sizes[0]))
    assert sum(file.stat().st_size for file in tmp_path.rglob("*")) < 1 << 20
    records = [bytes([n]) * (200 << 10) for n in range(9)]
    for n, size in enumerate(sizes):
        for record in records[3 * n : 3 * n + 3]:
            store.append(record)
        store.sync()
        store.close()
        segments = {file.stat().st_size for file in Path(path).glob("log-*")}
        assert segments <= set(sizes[: n + 1])
        assert size in segments
        store = open_store(path, Settings(log_segment_bytes=sizes[(n + 1) % 3]))
        assert [bytes(record) for _, record in store.records()] == records[: 3 * n + 3]
    store.close()
    for wrong in (0, LOG_SEGMENT_BYTES_MIN - 1, 1 << 40):
        with pytest.raises(ConfigurationError, match="log_segment_bytes is a number from"):
            open_store(path, Settings(log_segment_bytes=wrong))


def test_two_are_never_the_same(tmp_path: Path) -> None:
    stores = [init(str(tmp_path / name), name="ALPHA") for name in "ab"]
    one, other = (Identity.unpack(store.identity).guid for store in stores)
    assert one != other
    assert stores[0].store_id != stores[1].store_id
    for store in stores:
        store.close()


def test_only_its_own_user_may_look_inside(tmp_path: Path) -> None:
    path = tmp_path / "alpha"
    init(str(path), name="ALPHA", configuration='name = "ALPHA"\n').close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o600}


@pytest.mark.parametrize("bits", [0o720, 0o702, 0o777, 0o1777])
def test_no_queue_manager_is_where_others_may_write(tmp_path: Path, bits: int) -> None:
    """Whoever puts an onceq.toml there says who is believed; a reload would take it."""
    path = tmp_path / "alpha"
    path.mkdir()
    path.chmod(bits)
    with pytest.raises(AccessDenied, match="chmod go-w"):
        init(str(path), name="ALPHA")
    assert list(path.iterdir()) == []
    path.chmod(0o755)
    init(str(path), name="ALPHA").close()
    path.chmod(bits)
    for opens in (open_store, serve):
        with pytest.raises(AccessDenied, match="chmod go-w"):
            opens(str(path))
    path.chmod(0o700)
    open_store(str(path)).close()


def test_no_queue_manager_is_in_a_folder_of_another_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    init(str(tmp_path), name="ALPHA").close()
    mine = os.stat(tmp_path).st_uid
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    if mine:
        with pytest.raises(AccessDenied, match="take a folder of your own"):
            open_store(str(tmp_path))
    else:
        check_own(str(tmp_path))  # root may do everything anyway
        os.chown(tmp_path, 2, 2)
        with pytest.raises(AccessDenied, match="take a folder of your own"):
            open_store(str(tmp_path))


def test_it_is_made_once(tmp_path: Path) -> None:
    init(str(tmp_path), name="ALPHA").close()
    with pytest.raises(StoreExists, match="choose another"):
        init(str(tmp_path), name="BETA")


def test_one_process_at_a_time(tmp_path: Path) -> None:
    store = init(str(tmp_path), name="ALPHA")
    with pytest.raises(StoreLocked):
        open_store(str(tmp_path))
    store.close()


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match="qm init"):
        open_store(str(tmp_path))


def test_a_configuration_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / CONFIGURATION_FILE).write_text("# mine\n")
    with pytest.raises(ConfigurationError, match="there already"):
        init(str(tmp_path), name="ALPHA", configuration="# yours\n")
    assert (tmp_path / CONFIGURATION_FILE).read_text() == "# mine\n"
    init(str(tmp_path), name="ALPHA", configuration="# mine\n").close()


def test_an_init_that_was_cut_short_can_be_repeated(tmp_path: Path) -> None:
    (tmp_path / CONFIGURATION_FILE).write_text("# same\n")
    (tmp_path / "STORE.new").write_bytes(b"half")
    init(str(tmp_path), name="ALPHA", configuration="# same\n").close()


@pytest.mark.parametrize("name", ["A", "alpha-7", "alpha.example", "10.0.0.7", "x" * 256])
def test_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", " ", "a b", "a\\b", "a/b", "a;b", "a,b", "a=b", 'a"b',
                                  "a+b", "x" * 257, "größe", "a\n"])  # fmt: skip
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be the name"):
        check_name(name)


@pytest.mark.parametrize("name", ["localhost", "LocalHost", ".", "127.0.0.1"])
def test_what_each_computer_calls_itself_is_no_name(name: str, tmp_path: Path) -> None:
    """Finding K13: replies to it stay with their sender."""
    with pytest.raises(ConfigurationError, match="--name NAME"):
        init(str(tmp_path / "qm"), name=name)
    assert not (tmp_path / "qm").exists()


def test_the_name_of_this_computer_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "al_pha.example")
    assert check_name(default_name()) == "AL-PHA"


@pytest.mark.parametrize("host", ["localhost", "localhost.localdomain", "127.0.0.1"])
def test_a_computer_without_a_name_of_its_own_gives_none(
    host: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: host)
    for make in (data_directory.init, partial(onceq.open, create=True)):
        with pytest.raises(ConfigurationError, match=f"is called {host}.*--name NAME"):
            make(str(tmp_path / "qm"))
    assert not (tmp_path / "qm").exists()


def test_a_queue_manager_keeps_its_name(tmp_path: Path) -> None:
    store = init(str(tmp_path), name="ALPHA")
    assert manager_of(store, Configuration(name="alpha")).identity.name == "ALPHA"
    with pytest.raises(ConfigurationError, match="ALPHA, the configuration says BETA"):
        manager_of(store, replace(Configuration(), name="BETA"))
    store.close()
