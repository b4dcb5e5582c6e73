"""``onceq mapping``: what files say, what is wrong with them, and what becomes of a URL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onceq.cli import out
from onceq.cli.main import run

FILES = {
    "1-in.xml": "<redirections><redirection><from>https://www.example.com/msmq/orders</from>"
    "<to>http://here/msmq/private$/orders</to></redirection><redirection>"
    "<from>https://www.example.com/*</from><to>http://inner/msmq/rest</to></redirection>"
    "</redirections>",
    "2-receipts.xml": "<StreamReceiptSetup><setup><LogicalAddress>https://out/*</LogicalAddress>"
    "<StreamReceiptURL>https://gate/msmq/private$/order_queue$</StreamReceiptURL></setup>"
    "</StreamReceiptSetup>",
    "3-out.xml": "<outboundRedirections><redirection><from>https://*</from>"
    "<to>https://border/</to></redirection><exception>https://near/*</exception>"
    "</outboundRedirections>",
}


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "here"
    assert run(["qm", "init", str(path), "--name", "HERE", "--listen", ""]) == 0
    text = (path / "onceq.toml").read_text()
    line = 'http_listen = "127.0.0.1:8080"\nhttp_names = ["here"]\n'
    (path / "onceq.toml").write_text(line + text)
    (path / "mapping").mkdir()
    for name, content in FILES.items():
        (path / "mapping" / name).write_text(content)
    capsys.readouterr()
    return path


def explained(place: Path, url: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["mapping", "explain", url, "-d", str(place)]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_files_are_listed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mapping", "check", "-d", str(place), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["name"], one["form"]) for one in found["sources"]] == [
        ("onceq.toml", "tables of the configuration"),
        ("1-in.xml", "inbound redirections"),
        ("2-receipts.xml", "addresses for stream receipts"),
        ("3-out.xml", "outbound redirections"),
    ]
    assert found["problems"] == found["unreached"] == []


@pytest.mark.parametrize("command", [["check"], ["explain", "http://here/msmq/q"]])
def test_a_directory_that_is_mistyped_is_told(
    place: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["mapping", *command, "-d", str(place) + "x"]) != 0
    assert "is not the directory of a queue manager" in capsys.readouterr().err


def test_an_entry_that_never_counts_is_named(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "mapping" / "0.xml").write_text(FILES["1-in.xml"])
    assert run(["mapping", "check", "-d", str(place)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "warning: 1-in.xml: https://www.example.com/* never counts" in said


def test_a_fault_is_named_and_ends_with_its_code(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "mapping" / "4.xml").write_text("<redirections><redirecton/></redirections>")
    assert run(["mapping", "check", "-d", str(place)]) != 0
    caught = capsys.readouterr()
    assert "4.xml" in caught.out
    assert "<redirecton> is not known" in caught.err
    assert run(["mapping", "explain", "http://x/msmq/q", "-d", str(place)]) != 0
    assert "onceq mapping check" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://here/msmq/private$/q", "for the queue private$\\q here"),
        (
            "https://www.example.com/msmq/orders",
            "for the queue private$\\orders here (1-in.xml: https://www.example.com/msmq/orders)",
        ),
        ("https://www.example.com/msmq/x", "passed on to http://inner/msmq/rest (1-in.xml:"),
        ("http://other/msmq/q", "refused: other is no name of this computer"),
        ("https://out/msmq/q", "goes to the host border (3-out.xml: https://*)"),
        ("https://out/msmq/q", "come to https://gate/msmq/private$/order_queue$ (2-receipts.xml:"),
        ("https://near/msmq/q", "goes to the host near (an exception)"),
        ("http://out/msmq/q", "come to http://here/msmq/private$/order_queue$"),
    ],
)
def test_a_url_is_explained(
    place: Path, url: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in explained(place, url, capsys)


@pytest.mark.parametrize("url", ["here", "http://here", "OS:here\\q", "ftp://here/msmq/q"])
def test_what_is_no_url_is_refused(
    place: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["mapping", "explain", url, "-d", str(place)]) != 0
    assert out.name(url) in capsys.readouterr().err
