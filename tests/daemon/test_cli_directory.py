"""Public queues and lists on the command line: two daemons, one directory, no address book."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onceq.cli.main import run
from tests.daemon.shell import Shell, running


@pytest.mark.slow
def test_two_daemons_that_share_a_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alpha, beta, file = tmp_path / "alpha", tmp_path / "beta", tmp_path / "names.json"
    assert run(["directory", "init", str(file)]) == 0
    assert run(["directory", "init", str(file)]) == 3, "nothing is made over what is there"
    for path in (alpha, beta):
        assert run(["qm", "init", str(path), "--name", path.name.upper(),
                    "--listen", "127.0.0.1:0"]) == 0  # fmt: skip
        with open(path / "onceq.toml", "r+") as configuration:
            rest = configuration.read()
            configuration.seek(0)
            configuration.write(f'directory = "{file}"\n{rest}')
    one, other = Shell(alpha, beta, capsys), Shell(beta, alpha, capsys)
    with running(alpha), running(beta):
        made = other("queue", "create", "stock", "--public", "--transactional")
        name = made.split()[-1]
        assert name.startswith("PUBLIC=")
        other("queue", "create", "stock", code=2)
        assert "write private$/stock, or say --public" in other.error
        other("queue", "create", "private$/more", "--public", code=2)
        other("queue", "create", "private$/audit", "--transactional")
        audit = "DIRECT=OS:BETA/private$/audit"

        said = one("list", "create", "shops", name, audit)
        shops = said.split()[1]
        one("list", "create", "all", shops, audit)
        explained = one("names", "explain", "all")
        assert "one copy" in explained
        assert r"-> DIRECT=OS:BETA/stock" in explained
        steps = json.loads(one("names", "explain", shops, "--json"))
        assert [(s["depth"], s["leads_to"], s["manager"]) for s in steps] == [
            (0, "list", ""), (1, "elsewhere", "BETA"), (1, "elsewhere", "BETA"),
        ]  # fmt: skip
        assert steps[1]["rule"] == "the directory says that it is on BETA"
        assert steps[2]["address_by"] == "the directory"
        assert "shops" in other("list", "show")
        assert other("list", "show", "shops").split()[0].lower() == name.lower()

        one.pipe("send", shops, data=b"17 chairs\n")
        one.pipe("send", name, data=b"a table\n")
        taken = other.pipe("receive", "stock", "--count", "2", "--timeout", "30")
        assert taken.split(b"\n")[:2] == [b"17 chairs", b"a table"]
        taken = other.pipe("receive", "private$/audit", "--count", "1", "--timeout", "30")
        assert taken == b"17 chairs\n"

        one("list", "remove", "shops", audit)
        one("list", "drop", "all", "--yes")
        one("list", "show", "all", code=2)
        one("list", "add", "shops", r"DIRECT=OS:BETA\private$\q;JOURNAL", code=2)
        assert "cannot be a member" in one.error
        shown = one("directory", "show", str(file))
        for part in ("ALPHA", "BETA", r"BETA\stock", "shops"):
            assert part in shown
    file.write_text("{")
    one("directory", "show", str(file), code=3)
    assert "not a directory of onceq" in one.error
