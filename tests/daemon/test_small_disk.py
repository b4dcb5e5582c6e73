"""A daemon on a disk that is full: it starts, and says what it could not write (finding D8)."""

from __future__ import annotations

import pytest

import onceq
from onceq.service.config import PORT_FILE
from tests.daemon.applications import Daemon
from tests.scratch import scratch


@pytest.mark.slow
def test_a_note_that_cannot_be_written_is_no_reason_not_to_start(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with scratch(tmp_path_factory, "notes") as folder:
        (folder / "m" / PORT_FILE).mkdir(parents=True)  # A full disk refuses the file as this does.
        with Daemon(folder / "m") as daemon, onceq.connect(daemon.where) as qm:
            qm.create_queue(r"private$\q", transactional=True)
            qm.send(r"private$\q", b"1", transactional=True)
            assert qm.queue(r"private$\q").messages == 1
        assert "a file cannot be written" in (folder / "m.log").read_text()
