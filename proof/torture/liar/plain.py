"""A plain host that lies: it comes from an address in ``plain_peers``, and says to be more.

One address has its GUID in the configuration, the other one is what it first says.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import ClassVar

from onceq.model.http import HttpNames
from onceq.model.identity import guid_text
from onceq.wire.srmp import convert, envelope
from onceq.wire.srmp.convert import post_of
from proof.sim.faults import lies
from proof.torture.liar.honest import (
    BAIT,
    HOST,
    HOST_GUID,
    LODGER,
    LODGER_GUID,
    PLAIN,
    SEALED,
    SECRET,
    SECRETS,
    STRAY,
    now_s,
)
from proof.torture.liar.lies import ENDS, ORDER_QUEUE
from proof.torture.liar.rogue import Believed, Lie, Rogue, believed
from proof.torture.liar.talk import CUT_S, Heard, said_to, status_in, talk

ANSWER = (
    '<se:Envelope xmlns:se="http://schemas.xmlsoap.org/soap/envelope/"'
    ' xmlns="http://schemas.xmlsoap.org/srmp/"><se:Header>'
    '<path xmlns="http://schemas.xmlsoap.org/rp/" se:mustUnderstand="1">'
    "<action>MSMQ:x</action><to>{url}</to><id>uuid:{number}@{guid}</id></path>"
    '<properties se:mustUnderstand="1"><expiresAt>20380119T031407</expiresAt>'
    "<sentAt>20260101T000000</sentAt></properties>"
    '<services se:mustUnderstand="1"><deliveryReceiptRequest><sendTo>{back}</sendTo>'
    "</deliveryReceiptRequest></services></se:Header><se:Body></se:Body></se:Envelope>"
)
"""A message that wants its receipt somewhere."""


class PlainHost(Rogue):
    """The host; see the module."""

    kind: ClassVar[str] = "plain host"

    def prepare(self) -> None:
        """The second address says once, as it may, who it is; and somebody waits for receipts."""
        self.used |= {guid_text(HOST_GUID), guid_text(LODGER_GUID)}
        self._victim = socket.create_server(("127.0.0.1", 0))
        self._victim.settimeout(0)
        self._number = 0
        self._admins = {name: self.honest.admin(name) for name in ("ALPHA", "BETA")}
        for name in self._admins:
            heard = self._talk(name, LODGER, LODGER_GUID)
            if heard.cut or not heard.said:
                raise Believed(f"{name} does not take {LODGER} for whom it says to be")

    def lies(self) -> Mapping[str, Lie]:
        """See Rogue."""
        return {
            "claims a member's GUID": lambda: self._claims(HOST),
            "claims a member's GUID, unlisted": lambda: self._claims(LODGER),
            **(
                {"claims a member's GUID first": lambda: self._claims(STRAY)}
                if self.honest.tls
                else {}
            ),
            "claims another host's GUID": lambda: self._is_cut("BETA", LODGER, HOST_GUID),
            "becomes another queue manager": lambda: self._is_cut(
                "ALPHA", LODGER, b"host" + self.rng.randbytes(12)
            ),
            "acknowledges what others were sent": lambda: self._about_secrets(self._ack()),
            "ends what others were sent": lambda: self._about_secrets(self._end()),
            "sends where it may not": self._sends,
            "sends as a member": self._sends_as_member,
            "answers elsewhere": self._answers_elsewhere,
            "receipts over HTTP": self._receipts,
            "posts where it may not": self._posts,
            "receipts wanted elsewhere": self._wants_receipts,
        }

    def leave(self) -> None:
        """See Rogue."""
        for qm in getattr(self, "_admins", {}).values():
            qm.close()

    def judge(self) -> None:
        """Nobody has connected to where receipts were wanted."""
        try:
            self._victim.accept()
        except BlockingIOError:
            return
        finally:
            self._victim.close()
        raise Believed("a receipt was sent to somebody who is not the sender")

    # ---- over sessions --------------------------------------------------------------------------

    def _talk(
        self, to: str, source: str, claims: bytes, packet: bytes = b"", recoverable: int = 0
    ) -> Heard:
        with self.honest.line(to, source=source) as line:
            return talk(line, claims, packet, recoverable=recoverable)

    def _claims(self, source: str) -> bool:
        """Of ALPHA at BETA, and of BETA at ALPHA: what waits for it must not be given."""
        to, other = self.rng.choice([("ALPHA", "BETA"), ("BETA", "ALPHA")])
        return self._is_cut(to, source, self.honest.guids[other])

    def _is_cut(self, to: str, source: str, claims: bytes) -> bool:
        with self.honest.line(to, source=source) as line:
            heard = talk(line, claims, talk_s=CUT_S)
        believed(heard.given, f"{to} has given {source} {len(heard.given)} runs of messages")
        believed(not heard.cut, f"{to} believes that {source} is {guid_text(claims)}")
        return True

    def _ack(self) -> bytes:
        acker = self.rng.choice([HOST_GUID, self.honest.guids["BETA"]])
        stream, number = self._secrets()
        return lies.acknowledged(
            acker, self.honest.guids["ALPHA"], stream, number, sent_s=now_s()
        )  # fmt: skip

    def _end(self) -> bytes:
        stream, number = self._secrets()
        reason = self.rng.choice(ENDS)
        return lies.ended(
            HOST_GUID, self.honest.guids["ALPHA"], stream, number, sent_s=now_s(), reason=reason
        )  # fmt: skip

    def _secrets(self) -> tuple[int, int]:
        """Stream and number of what waits for somebody else."""
        view = self._admins["ALPHA"].admin.outgoing_queue(SECRET)
        assert view.stream, "it has a stream"
        return view.stream, self.rng.randint(1, SECRETS)

    def _about_secrets(self, packet: bytes) -> bool:
        self._talk("ALPHA", HOST, HOST_GUID, packet, 1)
        return self._secrets_wait()

    def _secrets_wait(self) -> bool:
        waits = self._admins["ALPHA"].admin.outgoing_queue(SECRET).messages
        believed(waits != SECRETS, f"{SECRETS - waits} messages for EPSILON are gone")
        return True

    def _sends(self) -> bool:
        return self._unsealed(HOST_GUID, lambda to: lies.messages(
            HOST_GUID, to, [b"lie"], stream=now_s() << 32, sent_s=now_s()))  # fmt: skip

    def _sends_as_member(self) -> bool:
        return self._unsealed(HOST_GUID, lambda to: lies.messages(
            self.honest.guids["ALPHA"], to, [b"lie"], stream=now_s() << 32, sent_s=now_s()
        ))  # fmt: skip

    def _answers_elsewhere(self) -> bool:
        """It may send to the queue, and wants its acknowledgments in one that is closed to it."""
        return self._unsealed(HOST_GUID, lambda to: lies.messages(
            HOST_GUID, rf"OS:BETA\{BAIT}", [b"x"], stream=now_s() << 32, sent_s=now_s(), admin=to
        ))  # fmt: skip

    def _unsealed(self, claims: bytes, packet: Callable[[str], bytes]) -> bool:
        self._talk("BETA", HOST, claims, packet(rf"OS:BETA\{SEALED}"), 1)
        return self._stays_sealed()

    def _stays_sealed(self) -> bool:
        there = self._admins["BETA"].queue(SEALED).messages
        believed(there, f"{there} messages are in {SEALED}")
        return True

    # ---- over HTTP ------------------------------------------------------------------------------

    def _post(self, to: str, path: str, kind: str, entity: bytes) -> int:
        head = (
            f"POST /{path} HTTP/1.1\r\nHost: {to.lower()}:{self.honest.http[to]}\r\n"
            f'Content-Type: {kind}\r\nSOAPAction: "MSMQMessage"\r\n'
            f"Content-Length: {len(entity)}\r\nConnection: close\r\n\r\n"
        )
        with self.honest.web(to, source=HOST) as line:
            return status_in(said_to(line, head.encode() + entity))

    def _url(self, to: str, path: str) -> str:
        return f"{self.honest.scheme}://{to.lower()}:{self.honest.http[to]}/{path}"

    def _posted(self, to: str, path: str, packet: bytes) -> int:
        names = HttpNames(frozenset(), "http://127.0.0.1:1/receipts")
        post = post_of(packet, self._url(to, path), HOST_GUID, names)
        kind, entity = convert.write(envelope.write(post.envelope), post.body, guid_text(HOST_GUID))
        return self._post(to, path, kind, entity)

    def _receipts(self) -> bool:
        self._posted("ALPHA", ORDER_QUEUE, self.rng.choice([self._ack, self._end])())
        return self._secrets_wait()

    def _posts(self) -> bool:
        path = "msmq/" + SEALED.replace("\\", "/")
        packet = lies.messages(
            HOST_GUID, rf"OS:BETA\{SEALED}", [b"lie"], stream=now_s() << 32, sent_s=now_s()
        )  # fmt: skip
        status = self._posted("BETA", path, packet)
        believed(status == 200, f"a post to {SEALED} was answered with {status}")
        return self._stays_sealed()

    def _wants_receipts(self) -> bool:
        """The message may come; its receipt would go to another one's address."""
        self._number += 1
        path = "msmq/" + PLAIN.replace("\\", "/")
        port = self._victim.getsockname()[1]
        host = self.rng.choice(["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "[::1]"])
        entity = ANSWER.format(
            url=self._url("BETA", path), number=self._number, guid=guid_text(HOST_GUID),
            back=f"http://{host}:{port}/msmq/private$/admin",
        )  # fmt: skip
        status = self._post("BETA", path, "text/xml", entity.encode())
        believed(status != 200, f"a message that may come was answered with {status}")
        try:
            line, _ = self._victim.accept()
        except BlockingIOError:
            return True
        line.close()
        raise Believed("a receipt was sent to somebody who is not the sender")
