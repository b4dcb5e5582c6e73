"""Web pages in a browser of this computer, against the HTTP door of a real daemon.

A page may send some requests to any address without asking. Each of them would reach the door over
loopback, where nothing has to be proven (finding S5).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

import onceq
from tests.browser import NoBrowser, chromium
from tests.daemon.console_browser import FLAGS
from tests.daemon.http_daemon import LOCAL, HttpDaemon
from tests.servers import free_port

pytestmark = pytest.mark.slow

MANAGER = "a queue manager"
ENVELOPE = (
    '<se:Envelope xmlns:se="http://schemas.xmlsoap.org/soap/envelope/"'
    ' xmlns="http://schemas.xmlsoap.org/srmp/"><se:Header>'
    '<path xmlns="http://schemas.xmlsoap.org/rp/" se:mustUnderstand="1">'
    "<action>MSMQ:{label}</action><to>http://{host}/msmq/private$/q</to>"
    "<id>uuid:1@00000000-0000-0000-0000-000000000000</id></path>"
    '<properties se:mustUnderstand="1"><expiresAt>20380119T031407</expiresAt>'
    "<sentAt>20260101T000000</sentAt></properties></se:Header><se:Body></se:Body></se:Envelope>"
)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[HttpDaemon]:
    made = HttpDaemon(tmp_path / "a", "A", free_port())
    with onceq.connect(str(made.path)) as qm:
        qm.create_queue(LOCAL)
    yield made
    made.end(signal.SIGTERM)


def posted(daemon: HttpDaemon, label: str, **fields: str) -> int:
    """The status of the answer to a request with these header fields."""
    host = f"127.0.0.1:{daemon.port}"
    entity = ENVELOPE.format(label=label, host=host).encode()
    heads = {"Host": host, "Content-Length": str(len(entity))}
    heads |= {name.replace("_", "-"): value for name, value in fields.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in heads.items())
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as line:
        line.sendall(f"POST /msmq/private$/q HTTP/1.1\r\n{lines}\r\n".encode() + entity)
        answer = HTTPResponse(line)
        answer.begin()
        return answer.status


def labels(daemon: HttpDaemon) -> list[str]:
    with onceq.connect(str(daemon.path)) as qm:
        return [m.label for m in qm.peek_many(LOCAL)] if qm.queue(LOCAL).messages else []


BY_BROWSERS = {
    "as it was found": {
        "Content_Type": "text/plain", "Origin": "https://evil.example",
        "Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors",
    },
    "a form": {
        "Content_Type": "application/x-www-form-urlencoded", "Origin": "https://evil.example",
    },
    "a form of an old browser": {"Content_Type": "text/plain"},
    "a file of a form": {"Content_Type": "multipart/form-data; boundary=x"},
    "a beacon without a type": {"Origin": "null"},
    "a name that leads here": {
        "Content_Type": "text/xml", "SOAPAction": '"MSMQMessage"', "Host": "evil.example",
        "Origin": "http://evil.example",
    },
}  # fmt: skip


def test_no_request_of_a_browser_is_taken(daemon: HttpDaemon) -> None:
    for name, fields in BY_BROWSERS.items():
        assert posted(daemon, name, **fields) in (400, 403, 415), name
    asked = (
        f"OPTIONS /msmq/private$/q HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n"
        "Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n"
        "Access-Control-Request-Headers: soapaction\r\nContent-Length: 0\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as line:
        line.sendall(asked.encode())
        answer = line.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 405 ")
    assert b"access-control" not in answer.lower()
    assert posted(daemon, MANAGER, Content_Type="text/xml", SOAPAction='"MSMQMessage"') == 200
    assert labels(daemon) == [MANAGER]


PAGE = """<!doctype html><title>evil</title><form id="f" method="post" enctype="text/plain"
target="there" action="%(url)s"><input name='%(form)s' value=""></form><iframe name="there">
</iframe><script>
const url = %(url_text)s, entity = %(entity)s, done = [];
const send = (name, options) => fetch(url, {method: "POST", body: entity, ...options}).then(
  answer => done.push(name + ": " + answer.type), error => done.push(name + ": refused"));
(async () => {
  await send("simple", {mode: "no-cors", headers: {"Content-Type": "text/plain"}});
  await send("asking", {headers: {"Content-Type": "text/xml", SOAPAction: '"MSMQMessage"'}});
  navigator.sendBeacon(url, entity);
  const frame = document.querySelector("iframe");
  frame.onload = () => { done.push("form"); document.title = done.join(", "); };
  document.getElementById("f").submit();
})();
</script>"""


def test_a_page_in_a_real_browser_sends_nothing(daemon: HttpDaemon) -> None:
    url = f"http://127.0.0.1:{daemon.port}/msmq/private$/q"
    entity = ENVELOPE.format(label="of a page", host=f"127.0.0.1:{daemon.port}")
    page = PAGE % {
        "url": url, "url_text": json.dumps(url), "entity": json.dumps(entity),
        "form": entity.replace("'", "&#39;"),
    }  # fmt: skip

    class Evil(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *values: object) -> None:
            pass

    try:
        program = chromium()
    except NoBrowser as why:
        pytest.skip(f"no page was opened in a browser: {why}")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Evil)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        with sync_playwright() as play:
            browser = play.chromium.launch(
                executable_path=program, args=FLAGS, chromium_sandbox=os.geteuid() != 0
            )
            shown = browser.new_page()
            # Another origin than the door's: a name, and a port of its own.
            shown.goto(f"http://localhost:{server.server_address[1]}/")
            shown.wait_for_function("document.title.includes('form')")
            said = shown.title()
            browser.close()
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
    assert said == "simple: opaque, asking: refused, form", "the requests have left the browser"
    assert labels(daemon) == []
