"""Another account of the same computer, without a right: over loopback, at files and at the socket.

A process of that account does all of it. Only root can start one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from onceq.model import requests
from onceq.tls.contexts import APPLICATIONS, PEERS
from onceq.wire.app import frames
from onceq.wire.app.frames import written
from onceq.wire.mqqb.internal import Establish
from proof.torture.liar.honest import CLOSED, OPEN
from proof.torture.liar.rogue import Lie, NotHere, Rogue, believed
from proof.torture.liar.talk import ENTITY

UID: Final = 61_099
"""An account without a name."""
KEPT_OUT: Final = (
    "", "PermissionError", "FileNotFoundError", "TimeoutError", "ConnectionResetError",
    "BrokenPipeError", "SSLError", "SSLEOFError", "SSLZeroReturnError",
)  # fmt: skip
"""How it can end; anything else is a mistake in what its process does."""
GAMES: Final = "account:games"
"""Whom it wants to be administrator."""
HAND: Final = """
import json, os, socket, ssl, sys
account = int(sys.argv[1])
"localhost".encode("idna")  # which is loaded now
os.setgroups([])
os.setgid(account)
os.setuid(account)
for line in sys.stdin:
    asked = json.loads(line)
    heard, problem = b"", ""
    try:
        if asked["do"] == "read":
            with open(asked["path"], "rb") as file:
                heard = file.read(100)
        else:
            if asked["do"] == "unix":
                own = socket.socket(socket.AF_UNIX)
                own.settimeout(2)
                own.connect(asked["path"])
            else:
                own = socket.create_connection(("127.0.0.1", asked["port"]), 2)
            if asked["alpn"]:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                if asked["alpn"] != "http":
                    context.set_alpn_protocols([asked["alpn"]])
                own = context.wrap_socket(own)
            own.sendall(bytes.fromhex(asked["say"]))
            while asked["stays"] and len(heard) < 65536:
                data = own.recv(65536)
                if not data:
                    break
                heard += data
            own.close()
    except Exception as error:
        problem = type(error).__name__
    print(json.dumps([heard.hex(), problem]), flush=True)
"""
"""What its process does. It has nothing of onceq, and becomes that account when it has been loaded:
the account need not be able to read either."""


class LocalAccount(Rogue):
    """The account; see the module."""

    kind: ClassVar[str] = "local account"

    def prepare(self) -> None:
        """Start its process."""
        if os.geteuid() != 0:
            raise NotHere("only root can start a process of another account")
        # So that what keeps it out is what a data directory does.
        for folder in (self.honest.folder, *self.honest.folder.parents):
            if folder.stat().st_uid == 0 and folder.name.startswith(("onceq-", "pytest-")):
                folder.chmod(0o711)
        self._hand = subprocess.Popen(
            [sys.executable, "-I", "-c", HAND, str(UID)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, cwd="/", start_new_session=True,
        )  # fmt: skip
        heard, problem = self._do("read", path="/proc/self/status")
        assert heard, f"its process does not work: {problem}"

    def lies(self) -> Mapping[str, Lie]:
        """See Rogue."""
        return {
            "asks for everything and closes": lambda: self._grants(stays=False),
            "asks for everything": lambda: self._grants(stays=True),
            "shows a token that is none": self._token,
            "looks as nobody": self._looks,
            "uses the socket": self._socket,
            "reads the directory": self._reads,
            **(
                {
                    "posts without a certificate": lambda: self._posts("http"),
                    "posts in the clear": lambda: self._posts(""),
                    "says to be a member": self._member,
                }
                if self.honest.tls
                else {}
            ),
        }

    def leave(self) -> None:
        """See Rogue."""
        if hasattr(self, "_hand"):
            self._hand.kill()
            self._hand.wait()
            for pipe in (self._hand.stdin, self._hand.stdout):
                if pipe is not None:
                    pipe.close()

    def judge(self) -> None:
        """Nobody was given a right, and it says so nowhere."""
        for name in OPEN:
            with self.honest.admin(name) as qm:
                believed(
                    [one for one in qm.rights.list() if "games" in one.who], f"{GAMES} at {name}"
                )
                acts = [act for act in qm.admin.trail() if "games" in act.about and not act.result]
                believed(acts, f"the trail of {name} says {acts}")

    # ---- what its process does ------------------------------------------------------------------

    def _do(
        self, do: str, *, say: bytes = b"", alpn: str = "", stays: bool = True, path: str = "",
        port: int = 0,
    ) -> tuple[bytes, str]:  # fmt: skip
        """What was heard, and which error there was."""
        asked = {"do": do, "say": say.hex(), "alpn": alpn, "stays": stays, "path": path}
        assert self._hand.stdin is not None
        assert self._hand.stdout is not None
        self._hand.stdin.write(json.dumps({**asked, "port": port}) + "\n")
        self._hand.stdin.flush()
        line = self._hand.stdout.readline()
        if not line:
            raise NotHere(f"the process of account {UID} has ended")
        heard, problem = json.loads(line)
        assert problem in KEPT_OUT, f"its process does not work: {problem}"
        return bytes.fromhex(heard), problem

    def _asked(self, *said: list[Any], stays: bool = True, door: str = "tcp") -> bytes:
        name = self.rng.choice(OPEN)
        hello = frames.frame(1, frames.FrameCode.HELLO, frames.Hello(frames.VERSION, "games"))
        say = b"".join(map(bytes, (*hello, *(part for each in said for part in each))))
        if door == "unix":
            path = str(self.honest.nodes[name].path / "onceq.sock")
            return self._do("unix", say=say, path=path)[0]
        alpn = APPLICATIONS if self.honest.tls else ""
        port = self.honest.clients[name]
        return self._do("tcp", say=say, alpn=alpn, stays=stays, port=port)[0]

    def _grants(self, *, stays: bool) -> bool:
        """The system's table of connections says of ended ones that they are root's."""
        asked = written(2, requests.SetRights(GAMES, ["administer"]))
        heard = self._asked(list(asked), stays=stays)
        return not stays or self._is_nobody(heard)

    def _looks(self) -> bool:
        return self._is_nobody(self._asked(list(written(2, requests.Look("queues")))))

    def _is_nobody(self, heard: bytes) -> bool:
        unknown = b"the requester has not said who it is" in heard
        believed(not unknown, f"it was answered with {heard[-80:]!r}")
        return True

    def _token(self) -> bool:
        proof = frames.frame(1, frames.FrameCode.PROVE, frames.Prove("tools", os.urandom(32)))
        hello = frames.Hello(frames.VERSION, "games", os.urandom(64).hex())
        name = self.rng.choice(OPEN)
        said = (*proof, *frames.frame(2, frames.FrameCode.HELLO, hello))
        look = written(3, requests.Look("queues"))
        heard, _ = self._do(
            "tcp", say=b"".join(map(bytes, (*said, *look))), port=self.honest.clients[name],
            alpn=APPLICATIONS if self.honest.tls else "",
        )  # fmt: skip
        believed(b"access-denied" not in heard, f"a wrong token is answered with {heard[-80:]!r}")
        return True

    def _socket(self) -> bool:
        heard = self._asked(list(written(2, requests.Look("queues"))), door="unix")
        believed(heard, "the socket is open to it")
        return True

    def _reads(self) -> bool:
        name = self.rng.choice(["STORE", "onceq.toml", "tls/key.pem", "trail/acts-00000001.jsonl"])
        path = self.honest.nodes[self.rng.choice(OPEN)].path / name
        heard, problem = self._do("read", path=str(path))
        believed(heard, f"it can read {name}")
        return problem in ("PermissionError", "FileNotFoundError")

    def _posts(self, alpn: str) -> bool:
        path = "/msmq/" + CLOSED.replace("\\", "/")
        port = self.honest.http["BETA"]
        entity = ENTITY.format(url=f"{self.honest.scheme}://beta:{port}{path}")
        request = (
            f"POST {path} HTTP/1.1\r\nHost: beta:{port}\r\nContent-Type: text/xml\r\n"
            f'SOAPAction: "MSMQMessage"\r\nContent-Length: {len(entity)}\r\n'
            f"Connection: close\r\n\r\n{entity}"
        ).encode()
        heard, _ = self._do("tcp", say=request, alpn=alpn, port=port)
        believed(b" 200 " in heard[:20], "it has posted")
        return True

    def _member(self) -> bool:
        """At the door for queue managers, with no certificate."""
        claims = Establish(self.honest.guids["ALPHA"], bytes(16), 0).encode()
        alpn = self.rng.choice(["", PEERS])
        heard, _ = self._do("tcp", say=claims, alpn=alpn, port=self.honest.ports["BETA"])
        believed(b"LIOR" in heard, "BETA speaks with it")
        return True
