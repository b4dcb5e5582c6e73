"""Output that is not taken, encodings that lack characters, and characters that hide (finding
K16)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import pytest

import onceq
from onceq import Journal
from tests.daemon.shell import ONCEQ, Shell

pytestmark = pytest.mark.slow
FULL = "exec >/dev/full; "
CLOSED = "exec >&-; "
HIDING = "a\u202eb\x1b[31m\x9b\u2066c\ufeff\U000e0041"


@dataclass
class Done:
    code: int
    out: bytes
    said: str


@pytest.fixture
def bash(onceq_: Shell) -> Callable[..., Done]:
    """Runs the command with something done to its streams before."""

    def run(before: str, *words: str, **variables: str) -> Done:
        script = f'{before}exec "$@"'
        done = subprocess.run(
            ["/bin/sh", "-c", script, "sh", *ONCEQ, "-q", str(onceq_.alpha), *words],
            capture_output=True, timeout=60, check=False, env=os.environ | variables,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        said = done.stderr.decode()
        assert "Traceback" not in said
        assert "Exception ignored" not in said
        return Done(done.returncode, done.stdout, said)

    return run


def fill(shell: Shell, name: str, *words: str, kind: bool = True) -> list[str]:
    """A queue with messages; their identifiers."""
    shell("queue", "create", name, *(("--transactional",) if kind else ()))
    with onceq.connect(str(shell.alpha)) as qm:
        return [str(qm.send(name, word)) for word in words]


@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize("batch", [(), ("--batch", "2"), ("--seek", "first"), ("--json",)])
def test_what_a_full_disk_does_not_take_is_in_the_queue(
    onceq_: Shell, bash: Callable[..., Done], *, transactional: bool, batch: tuple[str, ...]
) -> None:
    name = f"private$/full{transactional}{'-'.join(batch).replace('--', '')}"
    fill(onceq_, name, "1", "2", "3", kind=transactional)
    done = bash(FULL, "receive", name, *batch)
    assert done.code == 3
    assert "error (output-lost)" in done.said or '"output-lost"' in done.said
    assert "No space left on device" in done.said
    with onceq.connect(str(onceq_.alpha)) as qm:
        assert [message.text for message in qm.peek_many(name)] == ["1", "2", "3"]
    if "--seek" not in batch:
        assert "0 messages received" in done.said
        assert "given back to the queue" in done.said


def test_a_message_that_is_named_and_lost_is_reported(
    onceq_: Shell, bash: Callable[..., Done]
) -> None:
    fill(onceq_, "private$/named", "1", kind=False)
    with onceq.connect(str(onceq_.alpha)) as qm:
        message = qm.peek("private$/named")
    done = bash(FULL, "receive", "private$/named", "--lookup", str(message.lookup_id))
    assert done.code == 3
    assert str(message.id).replace("\\", "/") in done.said
    assert "is not in private$/named any more" in done.said


@pytest.mark.parametrize(
    "words", [("receive", "private$/kept"), ("queue", "list"), ("qm", "status"), ("--version",),
              ("--help",), ("queue", "purge", "private$/kept", "--yes"), ("peek", "private$/kept")],
    ids=lambda words: words[0] + words[-1].strip("-"),
)  # fmt: skip
def test_without_standard_output_nothing_is_done(
    onceq_: Shell, bash: Callable[..., Done], words: tuple[str, ...]
) -> None:
    with onceq.connect(str(onceq_.alpha)) as qm:
        qm.create_queue("private$\\kept", transactional=True, exist_ok=True)
        if not qm.queue("private$\\kept").messages:
            qm.send("private$\\kept", "1")
        done = bash(CLOSED, *words)
        assert (done.code, done.out) == (3, b"")
        assert "standard output is closed, so nothing was done" in done.said
        assert qm.queue("private$\\kept").messages == 1


@pytest.mark.parametrize(
    "words", [("queue", "list"), ("qm", "status"), ("--version",), ("queue", "--help"),
              ("peek", "{}"), ("queue", "list", "--json"), ("dead", "list"),
              ("peek", "{}", "--table"),
              ("send", "{}", "one more"), ("queue", "set", "{}", "--label", "x")],
    ids=lambda words: "-".join(words).replace("{}", "q"),
)  # fmt: skip
def test_every_command_says_that_its_output_is_lost(
    onceq_: Shell, bash: Callable[..., Done], words: tuple[str, ...]
) -> None:
    fill(onceq_, name := f"private$/say-{'-'.join(words)}".replace("{}", "").replace(" ", ""), "1")
    done = bash(FULL, *(word.format(name) for word in words))
    assert done.code == 3, done.said
    assert "output-lost" in done.said
    assert "what the command has done before stays done" in done.said


def test_nothing_is_lost_with_the_error_output(onceq_: Shell, bash: Callable[..., Done]) -> None:
    fill(onceq_, "private$/silent")
    for before in ("exec 2>/dev/full; ", "exec 2>&-; ", "exec 2>&- <&-; "):
        done = bash(before, "send", "private$/silent", "x")
        assert done.code == 0
        assert b"sent 1 message" in done.out
        assert bash(before, "queue", "show", "private$/nowhere").code == 2
    with onceq.connect(str(onceq_.alpha)) as qm:
        assert qm.queue("private$\\silent").messages == 3


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_what_an_encoding_lacks_is_an_escape(
    onceq_: Shell, bash: Callable[..., Done], encoding: str
) -> None:
    name = f"private$/coded{encoding}"
    onceq_("queue", "create", name, "--transactional", "--label", "grün → \U0001f600")
    with onceq.connect(str(onceq_.alpha)) as qm:
        qm.send(name, "Körper → \U0001f600", label="grün → \U0001f600", journal=Journal.DEADLETTER)
    for words in ((), ("--json",)):
        done = bash("", "queue", "show", name, *words, PYTHONIOENCODING=encoding)
        assert done.code == 0
        assert rb"\u2192 \ud83d\ude00" in done.out
        assert ("grün".encode(encoding, "ignore") in done.out) == (encoding != "ascii")
    assert json.loads(done.out.decode(encoding))["label"] == "grün → \U0001f600"
    done = bash("", "peek", name, "--table", PYTHONIOENCODING=encoding)
    assert (done.code, rb"\u2192" in done.out) == (0, True)
    onceq_("queue", "purge", name, "--yes")
    done = bash("", "dead", "list", "--label", "grün", PYTHONIOENCODING=encoding)
    assert (done.code, rb"\u2192" in done.out) == (0, True)
    assert bash("", "queue", "show", "private$/→", PYTHONIOENCODING=f"{encoding}:strict").code == 2


def test_no_character_hides_or_steers(onceq_: Shell, bash: Callable[..., Done]) -> None:
    onceq_("queue", "create", "private$/hiding", "--transactional", "--label", HIDING)
    with onceq.connect(str(onceq_.alpha)) as qm:
        qm.send("private$/hiding", HIDING, label=HIDING)
    for words in (
        ("queue", "show", "private$/hiding"), ("queue", "show", "private$/hiding", "--json"),
        ("queue", "list"), ("peek", "private$/hiding", "--table"),
        ("peek", "private$/hiding", "--json"), ("peek", "private$/hiding", "--headers", "--json"),
        ("send", f"private$/{HIDING[:2]}", "x"),
        ("--json", "queue", "show", f"private$/{HIDING[:2]}"),
    ):  # fmt: skip
        done = bash("", *words)
        shown = (done.out + done.said.encode()).decode()
        assert not set(shown) & set(HIDING[1] + HIDING[3] + HIDING[8:10] + HIDING[-2:]), words
        assert "\\u202e" in shown, words
    assert json.loads(bash("", "peek", "private$/hiding", "--json").out)["label"] == HIDING


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_body_on_a_terminal_is_in_its_encoding(onceq_: Shell, encoding: str) -> None:
    name = f"private$/seen{encoding}"
    fill(onceq_, name, f"grün → {HIDING}")
    mine, theirs = os.openpty()
    # A fresh interpreter: the nursery has read its encoding already.
    done = subprocess.run(
        [*ONCEQ, "-q", str(onceq_.alpha), "receive", name], stdout=theirs, check=True,
        stdin=subprocess.DEVNULL, env=os.environ | {"PYTHONIOENCODING": encoding}, timeout=60,
    )  # fmt: skip
    os.close(theirs)
    shown = os.read(mine, 4096).decode(encoding)
    os.close(mine)
    assert done.returncode == 0
    arrow = "→" if encoding == "utf-8" else "\\u2192"
    assert f"grün {arrow} a\\u202eb\\x1b[31m\\x9b\\u2066c\\ufeff\\U000e0041" in shown
