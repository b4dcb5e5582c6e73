"""Web pages in a browser of the honest ones' computer: what a browser would send for them.

They reach every door that is open there: for messages over HTTP, for those who watch, and a console
at which the browser has signed in. A real Chromium shows such a page once, where there is one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar, Final
from urllib.parse import quote, urlsplit

from proof.torture.liar.honest import CLOSED, SECRET, connected
from proof.torture.liar.rogue import Lie, Rogue, believed
from proof.torture.liar.talk import ENTITY, said_to, status_in
from tests.browser import NoBrowser, chromium
from tests.daemon.console_browser import FLAGS

EVIL: Final = "https://evil.example"
PATH: Final = "/msmq/" + CLOSED.replace("\\", "/")
TOKEN: Final = "a-token-of-forty-characters-for-the-liars"
XML: Final = {"Content-Type": "text/xml", "SOAPAction": '"MSMQMessage"'}
MARKS: Final = {"Origin": EVIL, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
POSTS: Final[Mapping[str, Mapping[str, str]]] = {
    "posts text": {"Content-Type": "text/plain", **MARKS},
    "posts a form": {"Content-Type": "application/x-www-form-urlencoded", "Origin": EVIL},
    "posts a form of an old browser": {"Content-Type": "text/plain"},
    "posts a file": {"Content-Type": "multipart/form-data; boundary=x", **MARKS},
    "posts a beacon": {"Origin": "null"},
    "posts what must be asked for": {**XML, **MARKS},
    "posts from a frame": {**XML, "Origin": "null"},
    "posts marked alone": {**XML, "Sec-Fetch-Dest": "empty"},
    "posts under a name that leads here": {
        **XML, "Host": "evil.example", "Origin": "http://evil.example",
    },
}  # fmt: skip
"""Header fields of what pages can send, asked or not."""
PAGE: Final = """<!doctype html><title>evil</title>
<form id="f" method="post" enctype="text/plain" target="there" action="%(door)s">
<input name='%(form)s' value=""></form>
<form id="g" method="post" target="there" action="%(console)s/m/alpha/outgoing/pause">
<input name="destination" value="%(secret)s"></form><iframe name="there"></iframe><script>
const done = [];
const send = (name, url, options) => fetch(url, {credentials: "include", ...options}).then(
  answer => done.push(name + ": " + answer.type), error => done.push(name + ": refused"));
(async () => {
  const entity = %(entity)s, door = "%(door)s";
  await send("simple", door, {method: "POST", body: entity, mode: "no-cors",
                              headers: {"Content-Type": "text/plain"}});
  await send("asking", door, {method: "POST", body: entity, headers: {
    "Content-Type": "text/xml", SOAPAction: '"MSMQMessage"'}});
  await send("health", "%(metrics)s/health/live", {});
  await send("metrics", "%(metrics)s/metrics", {});
  await send("console", "%(console)s/api/managers", {});
  navigator.sendBeacon(door, entity);
  const frame = document.querySelector("iframe");
  frame.onload = () => {
    done.push("form");
    if (done.length > 6) document.title = done.join(", ");
    else document.getElementById("g").submit();
  };
  document.getElementById("f").submit();
})();
</script>"""
SEEN: Final = (
    "simple: opaque, asking: refused, health: refused, metrics: refused, console: refused, form, "
    "form"
)
"""What the page can tell when all of it has left the browser: it has read nothing."""


class WebPages(Rogue):
    """The pages; see the module."""

    kind: ClassVar[str] = "web page"
    pause_s: ClassVar[float] = 0.02

    def prepare(self) -> None:
        """A console at which a browser signs in, and a page in a real one."""
        alpha = str(self.honest.nodes["ALPHA"].path)
        self._alpha = self.honest.admin("ALPHA")
        self._beta = self.honest.admin("BETA")
        with open(self.honest.folder / "console.log", "w") as log:
            self._console = subprocess.Popen(
                [sys.executable, "-m", "onceq", "console", "--port", "0", "-q", alpha],
                stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
                env={**os.environ, "ONCEQ_CONSOLE_TOKEN": TOKEN},
            )  # fmt: skip
        assert self._console.stdout is not None
        found = re.search(r"http\S+", self._console.stdout.readline())
        assert found, "the console has started"
        self._shown = urlsplit(found[0])
        self._console.stdout.readline()
        self._cookie = self._signed_in()
        self._browse()

    def lies(self) -> Mapping[str, Lie]:
        """See Rogue."""
        return {
            **{name: self._posting(fields) for name, fields in POSTS.items()},
            "asks before it posts": self._asks_first,
            **self._watching(),
            **self._at_console(),
        }

    def leave(self) -> None:
        """See Rogue."""
        if hasattr(self, "_console"):
            self._console.kill()
            self._console.wait()
            if self._console.stdout is not None:
                self._console.stdout.close()
        for name in ("_alpha", "_beta"):
            if hasattr(self, name):
                getattr(self, name).close()

    # ---- the door for messages ------------------------------------------------------------------

    def _url(self, path: str = PATH) -> str:
        return f"{self.honest.scheme}://127.0.0.1:{self.honest.http['BETA']}{path}"

    def _to_door(self, method: str, fields: Mapping[str, str], body: bytes) -> bytes:
        with self.honest.web("BETA") as line:
            return said_to(line, _request(
                method, PATH, {"Host": f"127.0.0.1:{self.honest.http['BETA']}", **fields}, body
            ))  # fmt: skip

    def _posting(self, fields: Mapping[str, str]) -> Lie:
        def lie() -> bool:
            answer = self._to_door("POST", fields, ENTITY.format(url=self._url()).encode())
            believed(status_in(answer) == 200, "it was taken")
            there = self._beta.queue(CLOSED).messages
            believed(there, f"{there} messages are in {CLOSED}")
            return status_in(answer) in (400, 403, 415)

        return lie

    def _asks_first(self) -> bool:
        asks = {
            "Origin": EVIL, "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "soapaction",
        }  # fmt: skip
        answer = self._to_door("OPTIONS", asks, b"")
        believed(b"access-control" in answer.lower(), "a page may send what it wants")
        return status_in(answer) in (400, 405)

    # ---- those who watch, and the console -------------------------------------------------------

    def _watching(self) -> dict[str, Lie]:
        port = self.honest.metrics["ALPHA"]
        here = f"127.0.0.1:{port}"
        with_fields: dict[str, tuple[str, Mapping[str, str]]] = {
            "looks at health from another site": ("/health/live", {"Host": here, "Origin": EVIL}),
            "looks at health under another name": ("/health/live", {"Host": "evil.example"}),
            "looks at metrics from another site": ("/metrics", {"Host": here, "Origin": EVIL}),
            "looks at metrics under another name": ("/metrics", {"Host": "evil.example"}),
        }
        return {
            name: self._refusing(port, _request("GET", path, fields))
            for name, (path, fields) in with_fields.items()
        }

    def _at_console(self) -> dict[str, Lie]:
        port, host = self._shown.port or 0, self._shown.netloc
        cookie = {"Host": host, "Cookie": self._cookie}
        form = {**cookie, "Content-Type": "application/x-www-form-urlencoded"}
        press = f"destination={quote(SECRET)}".encode()
        pause = "/m/alpha/outgoing/pause"
        requests: dict[str, bytes] = {
            "presses a button from another site": _request("POST", pause, {**form, **MARKS}, press),
            "presses a button without a mark": _request("POST", pause, form, press),
            "presses a button in a frame": _request(
                "POST", pause, {**form, "Origin": "null"}, press
            ),
            "reads the console from another site": _request("GET", "/", {**cookie, "Origin": EVIL}),
            "reads the console under another name": _request(
                "GET", "/", {**cookie, "Host": f"evil.example:{port}"}
            ),
            "reads what scripts read": _request(
                "GET", "/api/managers", {"Host": host, "Origin": EVIL}
            ),
        }
        return {name: self._refusing(port, request) for name, request in requests.items()}

    def _refusing(self, port: int, request: bytes) -> Lie:
        def lie() -> bool:
            with connected(port) as line:
                answer = said_to(line, request)
            believed(status_in(answer) in range(200, 400), f"it was answered: {answer[:60]!r}")
            paused = self._alpha.admin.outgoing_queue(SECRET).paused_since
            believed(paused, "it has pressed a button")
            return status_in(answer) >= 400

        return lie

    def _signed_in(self) -> str:
        """The cookie of a browser."""
        body = f"code={TOKEN}".encode()
        fields = {
            "Host": self._shown.netloc, "Content-Type": "application/x-www-form-urlencoded"
        }  # fmt: skip
        with connected(self._shown.port or 0) as line:
            answer = said_to(line, _request("POST", "/sign-in", fields, body))
        found = re.search(rb"set-cookie: ([^;\r\n]+)", answer, re.IGNORECASE)
        assert found, f"the browser has signed in: {answer[:200]!r}"
        cookie = found[1].decode()
        with connected(self._shown.port or 0) as line:
            mine = said_to(
                line, _request("GET", "/", {"Host": self._shown.netloc, "Cookie": cookie})
            )  # fmt: skip
        assert status_in(mine) == 200, "its cookie is good"
        return cookie

    # ---- a real one -----------------------------------------------------------------------------

    def _browse(self) -> None:
        name = "a page in a real browser"
        try:
            program = chromium()
        except NoBrowser as why:
            self.tally.notes.append(f"{name} was not tried: {why}")
            return
        said = self._in_browser(program)
        self.tally.tried[name] += 1
        self.tally.refused[name] += said == SEEN
        believed(said != SEEN, f"a page in a real browser tells: {said}")
        believed(self._beta.queue(CLOSED).messages, "a page in a real browser has posted")
        believed(
            self._alpha.admin.outgoing_queue(SECRET).paused_since, "a page has pressed a button"
        )  # fmt: skip

    def _in_browser(self, program: str) -> str:
        from playwright.sync_api import sync_playwright

        entity = ENTITY.format(url=self._url())
        page = PAGE % {
            "door": self._url(), "entity": json.dumps(entity), "secret": SECRET,
            "form": entity.replace("'", "&#39;"),
            "console": f"http://{self._shown.netloc}",
            "metrics": f"http://127.0.0.1:{self.honest.metrics['ALPHA']}",
        }  # fmt: skip
        server = ThreadingHTTPServer(("127.0.0.1", 0), _shows(page.encode()))
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            with sync_playwright() as play:
                browser = play.chromium.launch(
                    executable_path=program, args=FLAGS, chromium_sandbox=os.geteuid() != 0
                )
                context = browser.new_context(ignore_https_errors=True)
                key, _, value = self._cookie.partition("=")
                context.add_cookies([{
                    "name": key, "value": value, "url": f"http://{self._shown.netloc}",
                    "httpOnly": True, "sameSite": "Strict",
                }])  # fmt: skip
                shown = context.new_page()
                # Another origin than those of the doors: a name, and a port of its own.
                shown.goto(f"http://localhost:{server.server_address[1]}/")
                shown.wait_for_function("document.title.includes('form')")
                said = shown.title()
                browser.close()
        finally:
            server.shutdown()
            serving.join()
            server.server_close()
        return said


def _shows(page: bytes) -> type[BaseHTTPRequestHandler]:
    """A site of somebody else."""

    class Evil(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *values: object) -> None:
            pass

    return Evil


def _request(method: str, path: str, fields: Mapping[str, str], body: bytes = b"") -> bytes:
    sized = {**fields, "Content-Length": str(len(body))} if body or method != "GET" else fields
    said = {**sized, "Connection": "close"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in said.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body
