"""``onceq context``: add, list, use, remove; nothing is lost without a question."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onceq.cli import common, contexts
from onceq.cli.main import run

TLS = "tls://alpha.example.net:1802"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("ONCEQ_QM", contexts.VARIABLE):
        monkeypatch.delenv(name, raising=False)


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert run(["context", *words]) == code
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    return told.out + told.err


def test_from_adding_to_removing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "there are no contexts" in said(capsys, "list")
    assert f"prod is {TLS}; it is in use" in said(
        capsys, "add", "prod", TLS, "--token-file", "t", "--use"
    )
    assert json.loads(said(capsys, "list", "--json")) == [
        {"name": "prod", "where": TLS, "token_file": str(tmp_path / "t"), "used": True}
    ]
    assert "say --replace" in said(capsys, "add", "prod", "tls://b:1", code=2)
    assert "tls://b:1" in said(capsys, "add", "prod", "tls://b:1", "--replace")
    assert "no context is in use" in said(capsys, "use", "--none")
    assert "prod is in use: tls://b:1" in said(capsys, "use", "prod")
    assert "would forget prod" in said(capsys, "remove", "prod", "--dry-run")
    assert "not a terminal: confirm with --yes" in said(capsys, "remove", "prod", code=2)
    assert contexts.read().used == "prod"
    assert "forgot prod" in said(capsys, "remove", "prod", "--yes")
    assert contexts.read() == contexts.Contexts()


def test_a_directory_is_kept_as_it_is_found_from_everywhere(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["qm", "init", "alpha", "--name", "ALPHA"]) == 0
    said(capsys, "add", "here", "alpha")
    assert contexts.read().known["here"].where == str(tmp_path / "alpha")


@pytest.mark.parametrize("where", ["nowhere", "onceq://host", "tls://host:port", "."])
def test_what_is_no_place_is_not_kept(capsys: pytest.CaptureFixture[str], where: str) -> None:
    said(capsys, "add", "prod", where, code=2)
    assert contexts.read() == contexts.Contexts()


def test_names_that_there_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "add", "production", TLS)
    assert "did you mean production?" in said(capsys, "use", "prduction", code=2)
    assert "did you mean production?" in said(capsys, "remove", "producton", code=2)
    assert "cannot name a context" in said(capsys, "add", "a b", TLS, code=2)
    assert "say the name" in said(capsys, "use", code=2)
    assert "say the name" in said(capsys, "use", "production", "--none", code=2)


def test_no_more_are_kept_than_a_person_has(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onceq.cli.context_commands.CONTEXTS_MAX", 1)
    said(capsys, "add", "a", TLS)
    assert "remove some" in said(capsys, "add", "b", TLS, code=2)


def test_the_shell_offers_them(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "add", "prod", TLS)
    said(capsys, "add", "test", TLS)
    assert common.complete_where("pr") == ["prod"]
    Path(contexts.write(contexts.Contexts())).write_text("broken")
    assert common.complete_where("") == []
