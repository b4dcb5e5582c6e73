"""A border server of real daemons, the example of one, and clients that are not onceq."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import onceq
from tests.daemon.http_daemon import HttpDaemon, all_of
from tests.servers import free_port

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "http.md"
LOCAL = r"private$\q"
OUTER = "DIRECT=HTTP://www.example.com/msmq/orders"
TURNS, EACH = 4, 10


@pytest.fixture
def ends() -> Iterator[list[HttpDaemon]]:
    made: list[HttpDaemon] = []
    yield made
    for daemon in made:
        if daemon.process.poll() is None:
            daemon.end()


def test_the_example_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.border"], cwd=ROOT, capture_output=True, text=True,
        timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 orders in and 5 answers out, once and in order, over the border" in done.stdout


def three(folder: Path, ends: list[HttpDaemon]) -> tuple[HttpDaemon, HttpDaemon, HttpDaemon]:
    """Outside, the border, inside; outside does not reach inside, nor inside outside."""
    names = {"outside": ["outside.example"], "border": ["www.example.com", "border.lan"],
             "inside": ["inside.lan"]}  # fmt: skip
    reach = {"outside": ["www.example.com"], "border": ["inside.lan", "outside.example"],
             "inside": ["border.lan"]}  # fmt: skip
    ports = {host: free_port() for host in names}
    at = {name: ports[host] for host, own in names.items() for name in own}
    for host, own in names.items():
        peers = "".join(f'"http://{name}" = "127.0.0.1:{at[name]}"\n' for name in reach[host])
        tables = f"[peers]\n{peers}"
        more = f"http_names = {json.dumps(own)}"
        ends.append(HttpDaemon(folder / host, host.upper(), ports[host], more, tables))
    for host, files in FILES.items():
        (folder / host / "mapping").mkdir()
        for name, text in files.items():
            (folder / host / "mapping" / name).write_text(text)
    return ends[0], ends[1], ends[2]


def redirect(root: str, given: str, meant: str) -> str:
    return f"<{root}><redirection><from>{given}</from><to>{meant}</to></redirection></{root}>"


OUTSIDE_ORDERS = "http://outside.example/msmq/private$/order_queue$"
FILES = {
    "border": {
        "1.xml": redirect(
            "redirections",
            "http://www.example.com/msmq/orders",
            "http://inside.lan/msmq/private$/q",
        ),
        "2.xml": redirect("redirections", OUTSIDE_ORDERS, OUTSIDE_ORDERS),
    },
    "inside": {
        "1.xml": redirect("outboundRedirections", "http://outside.example/*", "http://border.lan/"),
    },
}


@pytest.mark.tier("rest")
def test_over_a_border_through_kills(tmp_path: Path, ends: list[HttpDaemon]) -> None:
    """Files that come after the start are in force before the first message."""
    outside, border, inside = three(tmp_path, ends)
    with onceq.connect(str(inside.path)) as qm:
        qm.create_queue(LOCAL, transactional=True)
    sent: list[str] = []
    received: list[str] = []
    for turn in range(TURNS):
        with onceq.connect(str(outside.path)) as qm:
            for number in range(EACH):
                with qm.transaction() as tx:
                    tx.send(OUTER, f"{turn}.{number}")
                sent.append(f"{turn}.{number}")
        victim = (border, inside, outside, border)[turn % 4]
        victim.end()
        victim.start()
        with onceq.connect(str(inside.path)) as qm:
            received += all_of(qm, len(sent) - len(received))
    assert received == sent
    for daemon in ends:
        daemon.end(signal.SIGTERM)
        assert daemon.process.returncode == 0
        assert "Traceback" not in daemon.log()


# ---- others ----------------------------------------------------------------------------------


def test_the_line_for_curl_delivers_a_message(tmp_path: Path, ends: list[HttpDaemon]) -> None:
    """As the page has it, but for the port."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed: the line of docs/how-to/http.md was not run")
    port = free_port()
    page = PAGE.read_text().replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    line = re.search(r"^curl (?:.*\\\n)*.*$", page, re.M)
    envelope = re.search(r"```xml\n(<se:Envelope.*?)```", page, re.S)
    assert line is not None
    assert envelope is not None
    (tmp_path / "envelope.xml").write_text(envelope[1])
    here = HttpDaemon(tmp_path / "here", "HERE", port, f'http_names = ["127.0.0.1:{port}"]')
    ends.append(here)
    with onceq.connect(str(here.path)) as qm:
        qm.create_queue(r"private$\plain")
        done = subprocess.run(
            ["/bin/sh", "-c", f"{line[0]} --silent --show-error --write-out %{{http_code}}"],
            cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, "200"), done.stderr
        message = qm.receive(r"private$\plain", timeout=30.0)
        assert (message.label, message.body) == ("hello from curl", b"")


def test_a_scanner_of_others_completes_its_handshake(tmp_path: Path) -> None:
    """zgrab2 with a module ``msmq`` asks for a session as an initiator does."""
    scanner = shutil.which("zgrab2")
    helps = scanner is not None and subprocess.run(
        [scanner, "msmq", "--help"], capture_output=True, timeout=60, check=False
    )
    if not helps or helps.returncode:
        pytest.skip(
            "not run: no zgrab2 with a module msmq on the PATH (its release v1.0.0, the newest "
            "that the Go module proxy serves, has none)"
        )
    port = free_port()
    with onceq.open(str(tmp_path / "qm"), listen=f"127.0.0.1:{port}", create=True):
        done = subprocess.run(
            [str(scanner), "msmq", "--port", str(port)], input="127.0.0.1\n", capture_output=True,
            text=True, timeout=60, check=False,
        )  # fmt: skip
        found = json.loads(done.stdout.splitlines()[0])["data"]["msmq"]
        assert found["status"] == "success", done.stdout + done.stderr
