"""Contexts: kept privately and whole, found by name, and never taken for something else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from onceq.cli import contexts
from onceq.cli.common import TOP, where
from onceq.cli.contexts import Context, Contexts
from onceq.errors import ConfigurationError, UsageError

ALPHA = Context("tls://alpha.example.net:1802", "/tokens/alpha")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("ONCEQ_QM", contexts.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    TOP.forget()


def kept() -> Path:
    return Path(contexts.write(Contexts({"alpha": ALPHA, "beta": Context("/var/beta")}, "beta")))


def test_what_was_kept_is_read() -> None:
    assert contexts.read() == Contexts()
    path = kept()
    assert contexts.read() == Contexts({"alpha": ALPHA, "beta": Context("/var/beta")}, "beta")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_write_that_fails_leaves_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    path = kept()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigurationError, match="No space left"):
        contexts.write(Contexts())
    assert contexts.read().used == "beta"
    assert [one.name for one in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", '{"contexts": []}', '{"contexts": {"a b": {"where": "x"}}}',
     '{"contexts": {"a": {"where": 7}}}', '{"contexts": {"a": {}}}', '{"contexts": {}, "used": 1}',
     "[" * 100_000, '"' + "x" * contexts.FILE_BYTES_MAX + '"', "\udcff"],
)  # fmt: skip
def test_a_file_that_holds_something_else_is_named(text: str) -> None:
    path = kept()
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigurationError, match="holds no contexts"):
        contexts.read()


def test_a_name_means_its_context_and_its_token() -> None:
    kept()
    assert where("alpha") == ALPHA.where
    assert TOP.token_file == ALPHA.token_file


def test_a_token_that_is_named_comes_before_the_one_of_the_context() -> None:
    kept()
    TOP.token_file = "/mine"
    where("alpha")
    assert TOP.token_file == "/mine"


@pytest.mark.parametrize("text", ["./alpha", "/var/x", "onceq://a:1", "unix:/x/y", "a/b"])
def test_what_is_no_name_is_no_context(text: str) -> None:
    kept()
    assert contexts.meant(text) == Context(text)


def test_a_name_that_is_like_one_is_told_so() -> None:
    kept()
    with pytest.raises(ConfigurationError, match="did you mean alpha"):
        where("alhpa")
    with pytest.raises(ConfigurationError, match="onceq context list"):
        where("zzz")


def test_without_contexts_a_name_is_a_directory_as_ever() -> None:
    assert where("alpha") == "alpha"


def test_a_directory_here_is_not_taken_for_the_context_of_its_name() -> None:
    kept()
    Path("alpha").mkdir()
    with pytest.raises(ConfigurationError, match=r"say ./alpha"):
        where("alpha")
    Path("gamma").mkdir()
    assert where("gamma") == "gamma"


def test_which_word_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    kept()
    assert where(None) == "/var/beta"
    monkeypatch.setattr("onceq.client.address.is_data_directory", lambda path: True)
    assert where(None) == "."
    monkeypatch.setenv(contexts.VARIABLE, "alpha")
    assert where(None) == ALPHA.where
    monkeypatch.setenv("ONCEQ_QM", "/var/env")
    assert where(None) == "/var/env"
    TOP.qm = "/var/before"
    assert where(None) == "/var/before"
    assert where("/var/behind") == "/var/behind"


def test_a_name_in_the_environment_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(contexts.VARIABLE, "alpah")
    with pytest.raises(UsageError, match="context add"):
        where(None)
    kept()
    with pytest.raises(UsageError, match="did you mean alpha"):
        where(None)


def test_the_file_has_no_secret() -> None:
    assert set(json.loads(kept().read_text())["contexts"]["alpha"]) == {"where", "token_file"}


@pytest.mark.parametrize("name", ["", "a b", "-a", ".a", "a/b", "a:b", "x" * 65, "\u00e4"])
def test_what_cannot_be_a_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a context"):
        contexts.check_name(name)
