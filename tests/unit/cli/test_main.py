"""Command lines that go wrong: one line, a code, what to do, and the documented exit code."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from onceq import errors
from onceq.cli import common
from onceq.cli.audit import VIOLATED
from onceq.cli.main import run

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No queue manager is near."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(common.QM_VARIABLE, raising=False)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run(arguments)
    text = capsys.readouterr().err
    assert "Traceback" not in text
    return code, text


def test_a_mistyped_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = said(capsys, "queue", "lst")
    assert code == 2
    assert text.startswith("onceq: error (usage): ")
    assert "Did you mean 'list'" in text
    assert "onceq queue --help" in text


def test_a_missing_argument_and_an_unknown_option(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = said(capsys, "queue", "show")
    assert code == 2
    assert "QUEUE" in text
    code, text = said(capsys, "queue", "list", "--jsno")
    assert code == 2
    assert "--jsno" in text


def test_an_option_that_lacks_a_part_says_where_its_parts_stand(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, text = said(capsys, "spark", "land", "private$/orders", "--to", "orders")
    assert code == 2
    assert "--to" in text
    assert "--help behind the command says what its options take" in text


def test_a_value_out_of_range(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = said(capsys, "receive", "x", "--count", "0")
    assert code == 2
    assert "--count" in text


def test_no_command_shows_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = said(capsys)
    assert code == 2
    assert "outgoing" in text


def test_no_queue_manager_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = said(capsys, "queue", "list")
    assert code == 2
    assert "--qm" in text
    assert common.QM_VARIABLE in text


def test_one_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = said(capsys, "queue", "list", "-q", "nowhere")
    assert code == errors.ConfigurationError.exit_code
    assert "nowhere" in text


def test_a_directory_that_is_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, text = said(capsys, "-q", str(tmp_path), "queue", "list")
    assert code == 2
    assert "onceq qm init" in text


def test_errors_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = said(capsys, "queue", "list", "--json", "-q", "nowhere")
    assert code == 2
    assert json.loads(text)["error"]["code"] == "configuration"


def test_init_then_a_manager_that_does_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["qm", "init", "a", "--name", "ALPHA", "--peer", "BETA=127.0.0.1:5"]) == 0
    assert "onceq qm run a" in capsys.readouterr().out
    assert 'BETA = "127.0.0.1:5"' in Path("a/onceq.toml").read_text()
    code, text = said(capsys, "queue", "list", "-q", "a")
    assert code == errors.ServiceNotAvailable.exit_code
    assert "onceq qm run a" in text
    code, text = said(capsys, "qm", "init", "a")
    assert (code, "store-exists" in text) == (2, True)


def test_init_says_it_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["qm", "init", "a", "--name", "ALPHA", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["name"] == "ALPHA"
    assert re.fullmatch(r"[0-9a-f-]{36}", made["id"])


@pytest.mark.parametrize(
    "options",
    [("--listen", "nonsense"), ("--peer", "BETA"), ("--peer", "BETA=x"), ("--name", "a;b"),
     ("--client-listen", "host:99999")],
)  # fmt: skip
def test_init_with_a_wrong_option_makes_nothing(
    capsys: pytest.CaptureFixture[str], options: tuple[str, str]
) -> None:
    code, text = said(capsys, "qm", "init", "a", *options)
    assert code == 2
    assert "configuration" in text
    assert not Path("a").exists()


def test_init_leaves_other_files_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a").mkdir()
    Path("a/thesis.txt").write_text("mine")
    code, _ = said(capsys, "qm", "init", "a")
    assert code == 2
    assert [p.name for p in Path("a").iterdir()] == ["thesis.txt"]


def test_check_a_sound_store_and_one_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["qm", "init", "a", "--name", "ALPHA"]) == 0
    assert run(["qm", "check", "a"]) == 0
    assert "sound" in capsys.readouterr().out
    code, text = said(capsys, "qm", "check", ".")
    assert (code, "not-a-store" in text) == (errors.NotAStore.exit_code, True)


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("onceq 0.")


def test_the_package_is_the_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["onceq", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("onceq", run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("onceq 0.")


def test_names_are_compared_without_place_and_prefix() -> None:
    assert common.core_of(r"DIRECT=OS:BETA\private$\Stock") == "stock"
    assert common.core_of("private$/stock") == "stock"


def test_every_exit_code_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    documented = {int(code) for code in re.findall(r"^\* (\d+): ", page, re.M)}
    known = {kind.exit_code for kind in errors.every().values()}
    assert documented == known | {0, VIOLATED, 130}


def test_a_code_stands_once_in_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors that may go through Spark have it in their text as well."""

    def fail(*args: object, **more: object) -> None:
        raise errors.ConfigurationError("[configuration] x is no table, [usage] or the like")

    monkeypatch.setattr("onceq.cli.main.app", fail)
    assert said(capsys) == (2, "onceq: error (configuration): x is no table, [usage] or the like\n")
    assert json.loads(said(capsys, "--json")[1])["error"]["text"].startswith("x is no table")
