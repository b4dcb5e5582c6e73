"""The trail of real daemons: in the store, in files, and at another queue manager."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import cast

import pytest

import onceq
from onceq import aio
from onceq.cli.main import run
from onceq.model.views.managers import ActView, TrailView
from tests.daemon.shell import Shell, free_port, running

pytestmark = pytest.mark.slow
Q = r"private$\orders"


def made(folder: Path, capfd: pytest.CaptureFixture[str]) -> Shell:
    """ALPHA, which knows BETA."""
    alpha, beta = folder / "alpha", folder / "beta"
    ports = free_port(), free_port()
    for path, own, other in ((alpha, ports[0], ("BETA", ports[1])),
                             (beta, ports[1], ("ALPHA", ports[0]))):  # fmt: skip
        assert run(["qm", "init", str(path), "--name", path.name.upper()]) == 0
        (path / "onceq.toml").write_text(
            f'listen = "127.0.0.1:{own}"\n[peers]\n{other[0]} = "127.0.0.1:{other[1]}"\n'
        )
    return Shell(alpha, beta, capfd)


def test_what_is_changed_or_removed_is_found(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shell = made(tmp_path, capfd)
    file = shell.alpha / "trail" / "acts-00000001.jsonl"
    with running(shell.alpha), running(shell.beta):
        assert run(["-q", str(shell.beta), "queue", "create", Q, "--transactional"]) == 0
        for name in ("a", "b", "c"):
            shell("queue", "create", rf"private$\{name}")
        shell("send", "DIRECT=OS:BETA/private$/orders", "hello", "--transactional")
        assert run(["-q", str(shell.beta), "receive", Q, "--timeout", "30"]) == 0
        assert '"act' not in shell("trail", "verify", "--peer", str(shell.beta))
        found = shell.json("trail", "verify", "--peer", str(shell.beta))
        assert found == {"wrong": [], "notes": [], "acts": 6, "heads": 1}
        lines = file.read_text().splitlines(keepends=True)
        assert [json.loads(line)["about"] for line in lines] == [
            rf"private$\{name}" for name in ("a", "b", "c")
        ]
        (head,) = cast(list[dict[str, object]], shell.json("trail", "heads"))
        assert (head["name"], head["number"]) == ("BETA", 1)
        file.write_text("".join((lines[0], lines[2])))
        said = shell("trail", "verify", code=1)
        assert "acts 2 to 2 were removed" in said
        file.write_text("".join(lines).replace(r"$\\b", r"$\\x"))
        assert "act 2 was changed" in shell("trail", "verify", code=1)
        file.write_text("".join(lines))
        shell("trail", "verify")


def test_a_restore_is_told_as_one_and_an_older_store_is_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shell = made(tmp_path, capfd)
    backup, older = tmp_path / "backup", tmp_path / "older"
    with running(shell.alpha):
        shell("queue", "create", r"private$\a")
        shell("qm", "backup", str(backup))
    shutil.copytree(shell.alpha, older)
    with running(shell.alpha):
        shell("queue", "create", r"private$\b")
    assert (
        run(["qm", "restore", str(backup), "--to", str(shell.alpha), "--replace", "--unsigned"])
        == 0
    )
    with running(shell.alpha):
        told = shell("trail", "verify")
        assert "a restore has undone the acts behind act" in told
        assert [one for one in whats(shell) if one == "restore"] == ["restore"]
        shell("queue", "create", r"private$\c")
        shell("trail", "verify")
    shutil.copytree(shell.alpha / "trail", older / "trail", dirs_exist_ok=True)
    shutil.rmtree(shell.alpha)
    shutil.copytree(older, shell.alpha)
    with running(shell.alpha):
        shell("queue", "create", r"private$\d")
        assert "no restore says so" in shell("trail", "verify", code=1)


def test_tasks_and_threads_are_told_the_same_end(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is the last act of the trail; the next act moves it."""
    shell = made(tmp_path, capfd)

    async def by_task() -> tuple[TrailView, list[ActView]]:
        async with await aio.connect(str(shell.alpha)) as qm:
            return await qm.admin.trail_end(), await qm.admin.trail()

    with running(shell.alpha), onceq.connect(str(shell.alpha)) as qm:
        assert qm.admin.trail_end() == TrailView(id=qm.id)
        for number, name in enumerate("ab", 1):
            qm.create_queue(rf"private$\{name}")
            end, acts = asyncio.run(by_task())
            assert (end, acts) == (qm.admin.trail_end(), qm.admin.trail())
            assert (end.id, end.number, end.digest) == (qm.id, number, acts[-1].digest)
            assert end.digest


def whats(shell: Shell) -> list[object]:
    """What was done, by the trail."""
    acts = cast(list[dict[str, object]], shell.json("trail"))
    return [act["what"] for act in acts]
