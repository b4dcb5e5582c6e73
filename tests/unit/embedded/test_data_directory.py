"""A data directory whose queue manager does not run: made, checked, backed up, put back."""

from __future__ import annotations

from pathlib import Path

import pytest

import onceq
from onceq.embedded import data_directory
from onceq.errors import ConfigurationError, StoreExists, StoreLocked, UnsupportedOperation
from onceq.service.data_directory import SOCKET_PATH_BYTES_MAX

Q = r"private$\q"


def test_what_is_made_is_sound_and_made_once(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    made = data_directory.init(path, name="ALPHA", peers={"BETA": "127.0.0.1:1"})
    assert made.name == "ALPHA"
    assert 'BETA = "127.0.0.1:1"' in Path(made.configuration).read_text()
    assert data_directory.check(path).problem == ""
    with pytest.raises(StoreExists):
        data_directory.init(path)


@pytest.mark.parametrize("content", ["file", "not empty"])
def test_nothing_is_made_where_something_is(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a"
    if content == "file":
        path.touch()
    else:
        path.mkdir()
        (path / "letter.txt").touch()
    with pytest.raises(ConfigurationError):
        data_directory.init(str(path), name="ALPHA")


@pytest.mark.parametrize("over", [0, 1])
def test_a_path_that_its_socket_does_not_fit_into_is_refused(tmp_path: Path, over: int) -> None:
    """Finding K16: it was made, and ``onceq qm run`` refused it."""
    size = SOCKET_PATH_BYTES_MAX - len(str(tmp_path)) - len("/é/onceq.sock") - 1 + over
    path = tmp_path / ("é" + "n" * size)
    if over:
        with pytest.raises(ConfigurationError, match="with a shorter path"):
            data_directory.init(str(path), name="A")
        assert not path.exists()
    else:
        data_directory.init(str(path), name="A")


def test_a_backup_of_one_that_is_stopped_is_put_back(tmp_path: Path) -> None:
    path, copy = str(tmp_path / "a"), str(tmp_path / "b")
    with onceq.open(path, name="ALPHA", create=True) as qm:
        qm.create_queue(Q)
        qm.send(Q, "hello")
        with pytest.raises(StoreLocked):
            data_directory.backup(path, copy)
    told: list[bool] = []
    made = data_directory.backup(path, copy, progress=lambda done, size: told.append(done <= size))
    assert made.queue_manager == "ALPHA"
    assert told
    assert all(told)
    with pytest.raises(ConfigurationError, match="new identity"):
        onceq.restore(copy, str(tmp_path / "c"), name="GAMMA")
    assert onceq.restore(copy, str(tmp_path / "c"), unsigned=True).id == made.id
    with onceq.open(str(tmp_path / "c")) as qm:
        assert qm.receive(Q).text == "hello"


def test_a_backup_is_made_where_the_queue_manager_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with onceq.open(str(tmp_path / "a"), name="ALPHA", create=True) as qm:
        monkeypatch.setattr("onceq.client.backups.is_data_directory", lambda path: False)
        with pytest.raises(UnsupportedOperation, match="where the queue manager runs"):
            qm.admin.backup(str(tmp_path / "b"))
