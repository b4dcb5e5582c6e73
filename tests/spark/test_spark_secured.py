"""A source and a sink with a token over TLS: the pages' samples run, and the secret stays where it
is: in no plan, log, event log, checkpoint or error."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

import onceq
from onceq.model.identity import guid_bytes
from onceq.tls.authority import fingerprint
from tests.certificates import Authority
from tests.scratch import scratch
from tests.spark.conftest import Daemon

pytestmark = [pytest.mark.spark, pytest.mark.slow]
DOCS = Path(__file__).parents[2] / "docs"
WAIT_S = 240.0
"""Longest wait for the application; only a defect makes a test wait so long."""
ORDERS, COPY = r"private$\orders", r"private$\copy"


def with_identity(path: Path, name: str, signs: Authority, trusts: bytes) -> Daemon:
    """A queue manager that runs with an identity."""
    with onceq.open(path, name=name, create=True) as qm:
        guid = guid_bytes(qm.admin.status().id)
    signs.identity(path, guid, trusts=signs.certificate + trusts)
    whose = fingerprint(trusts).hex()
    (path / "onceq.toml").write_text(f'[authorities]\n"{whose}" = ["certificate:*"]\n')
    return Daemon(path, name)


@pytest.fixture
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, Daemon]]:
    """Two queue managers, each of an authority of its own; applications of one of their own reach
    them."""
    with scratch(tmp_path_factory, "secured") as folder:
        signs, spokes, applications = Authority(), Authority("SPOKE"), trustme.CA()
        known = applications.cert_pem.bytes()
        (folder / "authorities.pem").write_bytes(signs.certificate + spokes.certificate)
        own = applications.issue_cert("1.example", common_name="billing")
        (folder / "own.pem").write_bytes(own.cert_chain_pems[0].bytes())
        (folder / "own.key").write_bytes(own.private_key_pem.bytes())
        made = with_identity(folder / "data", "HUB", signs, known)
        second = with_identity(folder / "spoke", "SPOKE", spokes, known)
        yield made, second
        second.stop()
        made.stop()


def token_file(daemon: Daemon, name: str, **grants: str) -> tuple[str, str]:
    """A token in a file of its own; the file's name, and the token."""
    made = daemon.manager.tokens.create(name, grants=grants or {ORDERS: "receive,get-properties"})
    file = daemon.path.parent / f"{name}.holder"
    file.touch(mode=0o600)
    file.write_text(made.token)
    return str(file), made.token


def samples(folder: Path) -> int:
    """The samples with an identity, for the application; how many there are."""
    found: list[str] = []
    # First those that leave messages where they are.
    for page in (DOCS / "reference" / "spark-options.md", DOCS / "how-to" / "spark.md"):
        blocks = re.findall(r"^```python no-run\n(.*?)^```", page.read_text(), re.M | re.S)
        found += [block for block in blocks if "at SECURE" in block]
    for number, block in enumerate(found):
        text = block.replace('"./', f'"{os.fspath(folder)}/')
        (folder / f"sample-{number}.py").write_text(text)
    return len(found)


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """All that an application has left there."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("sample-"):
            yield str(path), path.read_bytes()


def lines_file(folder: Path, *lines: str) -> str:
    """A file with tokens for several queue managers; its name."""
    file = folder / "lines.holder"
    file.touch(mode=0o600)
    file.write_text("\n".join(lines))
    return str(file)


def test_a_secret_stands_in_nothing_that_spark_keeps_or_says(
    both: tuple[Daemon, Daemon], tmp_path: Path
) -> None:
    secured, second = both
    manager, folder = secured.manager, secured.path.parent
    second.manager.create_queue(COPY, transactional=True)
    for queue in (ORDERS, COPY):
        manager.create_queue(queue, transactional=True)
    tokens = {
        "TOKEN_FILE": token_file(
            secured, "billing", **{ORDERS: "receive,get-properties", COPY: "send"}
        ),
        "LATE_FILE": token_file(secured, "late", **{COPY: "send"}),
        "REVOKED_FILE": token_file(secured, "revoked"),
        "HUB_FILE": token_file(secured, "hub", **{COPY: "send"}),
        "SPOKE_FILE": token_file(second, "spoke", **{COPY: "send"}),
    }
    of_hub, of_spoke = (tokens[name][1] for name in ("HUB_FILE", "SPOKE_FILE"))
    manager.tokens.revoke("revoked")
    manager.rights.grant("certificate:billing", "peek-body,get-properties", ORDERS)
    names = {
        **{name: file for name, (file, _) in tokens.items()}, "SECURE": f"tls://{secured.address}",
        "GONE_FILE": str(folder / "gone.holder"), "AUTHORITIES": str(folder / "authorities.pem"),
        "CERTIFICATE": str(folder / "own.pem"), "KEY": str(folder / "own.key"),
        "SECOND": f"tls://{second.address}", "LINES_FILE": lines_file(
            folder, f"tls://{secured.address} {of_hub}", f"{second.manager.id} {of_spoke}"
        ),
    }  # fmt: skip
    assert samples(tmp_path) == 2
    manager.send_many(ORDERS, ["first", "second"], transactional=True)
    driver = Path(__file__).with_name("secure_driver.py")
    done = subprocess.run(
        [sys.executable, str(driver), str(tmp_path), json.dumps(names)],
        capture_output=True, timeout=WAIT_S, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    said = done.stdout.decode()
    assert done.returncode == 0, said[-3000:] + done.stderr.decode()[-3000:]
    (line,) = (line for line in said.splitlines() if line.startswith("result "))
    found: dict[str, Any] = json.loads(line.removeprefix("result "))
    # What was to be done is done, as those who may.
    copied = [m.text for m in manager.receive_many(COPY, timeout=0)]
    assert copied == ["first", "second", "to both"]
    assert [m.text for m in second.manager.receive_many(COPY, timeout=0)] == ["to both"]
    assert (found["with_token"], found["with_certificate"]) == (2, 2)
    # What fails is told by file and cure: by the driver, and by an executor in its last line.
    _told(found, names)
    # And nothing that was said or kept has a secret, while it is about these files.
    kept = dict(files(tmp_path))
    assert any("/secured/" in name for name in kept)
    assert any("/events/" in name for name in kept)
    everything = {**kept, "stdout": done.stdout, "stderr": done.stderr}
    assert b"authorities.pem" in b"".join(everything.values())
    for _, token in tokens.values():
        secret = token.rpartition("_")[2]
        for name, data in everything.items():
            assert secret.encode() not in data, name
            assert bytes.fromhex(secret) not in data, name
    key = Path(names["KEY"]).read_bytes().splitlines()[1]
    assert [name for name, data in everything.items() if key in data] == []


def _told(found: dict[str, Any], names: dict[str, str]) -> None:
    text, again, code = found["unreadable"]
    late = names["LATE_FILE"]
    last = text.rstrip().splitlines()[-1]
    assert code == "access-denied"
    assert again in last, "on an executor it is the last line"
    assert f"{late} holds a token, and other accounts may read or change it" in last
    assert f"chmod 600 {late}" in last
    assert found["broken"][0].count("as any code of a user may") >= 1
    _, again, code = found["away"]
    assert code == "configuration"
    assert f"the token in {names['GONE_FILE']} cannot be read" in again
    _, again, code = found["revoked"]
    assert code == "access-denied"
    assert f"does not know, and was not told, the token in {names['REVOKED_FILE']}" in again
    _, again, code = found["lacking"]
    assert code == "configuration"
    assert "has no line for onceq://" in again
    assert names["LINES_FILE"] in again
    _, again, code = found["given"]
    assert code == "configuration"
    assert "there is no option token" in again
    assert "onceqt_gone_0" not in found["given"][0]
