"""Members that lie: with good certificates of the authority of the honest, and a name of their own.

MALLORY has every right, and says to be others, to have what others were sent, and to be where
others are looked for. OUTCAST was a member, is removed while it is connected, and comes back.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from cryptography import x509

from onceq.embedded import data_directory, trusting
from onceq.errors import AccessDenied, ManagerAway
from onceq.model.identity import guid_bytes, guid_text
from onceq.tls import authority, folder, joining, members
from onceq.tls.contexts import IdentityFiles, client_context, server_context
from onceq.tls.invitations import InvitationCode
from proof.sim.faults import lies
from proof.torture.liar.honest import CLOSED, SEALED, SECRET, SECRETS, connected, now_s
from proof.torture.liar.lies import ENDS
from proof.torture.liar.rogue import Believed, Lie, Rogue, believed
from proof.torture.liar.talk import CUT_S, ENTITY, Heard, said_to, status_in, talk

KNOWN_S_MAX = 120.0
"""Longest time until BETA has heard of a removal, once it was told to ask."""


class _Member:
    """Somebody who has joined."""

    def __init__(self, path: Path, name: str, inviting: str) -> None:
        data_directory.init(str(path), name=name, listen="127.0.0.1:1801")
        self.code = trusting.invite(inviting, name).code
        self.guid = guid_bytes(trusting.join(str(path), self.code).id)
        found = folder.files_of(str(path))
        assert found is not None, "it has just joined"
        self.files: IdentityFiles = found

    def context(self) -> ssl.SSLContext:
        """Its own way out to other queue managers."""
        own = self.files
        return client_context(
            own.authorities, certificate=own.certificate, key=own.key, peers=True
        )  # fmt: skip


class Member(Rogue):
    """The members; see the module."""

    kind: ClassVar[str] = "member with a good certificate"

    def prepare(self) -> None:
        """Both join, and one is removed while it has a session."""
        path = str(self.honest.nodes["ALPHA"].path)
        self._admins = {name: self.honest.admin(name) for name in ("ALPHA", "BETA")}
        self._mallory, self._outcast = (
            _Member(self.honest.folder / name.lower(), name, path)
            for name in ("MALLORY", "OUTCAST")
        )
        self.used |= {guid_text(one.guid) for one in (self._mallory, self._outcast)}
        self._posing = _Posing(self.honest.epsilon, self._mallory)
        self._posing.start()
        for name in self._admins:
            heard = self._talk(name, self._outcast, self._outcast.guid)
            if heard.cut or not heard.said:
                raise Believed(f"{name} does not take OUTCAST for a member, which it was then")
        self._remove(path)

    def _remove(self, path: str) -> None:
        with self._line("ALPHA", self._outcast) as line:
            if talk(line, self._outcast.guid).cut:
                raise Believed("OUTCAST was cut off before it was removed")
            trusting.remove(path, "OUTCAST")
            for qm in self._admins.values():
                qm.admin.reload()
            line.settimeout(KNOWN_S_MAX)
            try:
                while line.recv(1 << 16):
                    pass
            except TimeoutError:
                raise Believed("OUTCAST was removed, and its session goes on") from None
            except OSError:
                pass
        told = self.honest.nodes["BETA"].path / folder.FOLDER / members.TOLD
        until = time.monotonic() + KNOWN_S_MAX
        while not (told.exists() and guid_text(self._outcast.guid) in told.read_text()):
            if time.monotonic() > until:
                raise Believed("BETA was not told of a removal")
            time.sleep(0.05)

    def lies(self) -> Mapping[str, Lie]:
        """See Rogue."""
        return {
            "claims another's GUID": self._claims,
            "answers under another's name": self._poses,
            "acknowledges what others were sent": lambda: self._about_secrets(self._ack()),
            "ends what others were sent": lambda: self._about_secrets(self._end()),
            "sends as another": self._sends_as_another,
            "renews for another's GUID": lambda: self._renews("BETA", self.honest.guids["BETA"]),
            "renews for another's name": lambda: self._renews("BETA", self._mallory.guid),
            "renews with another key": lambda: self._renews("MALLORY", self._mallory.guid),
            "joins again with a used code": self._joins_again,
            "comes back when removed": self._comes_back,
            "posts when removed": self._posts_when_removed,
            "renews when removed": self._renews_when_removed,
        }

    def leave(self) -> None:
        """See Rogue."""
        if hasattr(self, "_posing"):
            self._posing.over.set()
            self._posing.join()
        for qm in getattr(self, "_admins", {}).values():
            qm.close()

    def judge(self) -> None:
        """The liar that poses as EPSILON was asked, and given nothing."""
        believed(self._posing.given, f"it was given {self._posing.given} messages for EPSILON")
        believed(not self._posing.asked, "nobody has come to where EPSILON is looked for")

    # ---- as a member ----------------------------------------------------------------------------

    def _line(self, to: str, who: _Member) -> socket.socket:
        return who.context().wrap_socket(self.honest.line(to))

    def _talk(
        self, to: str, who: _Member, claims: bytes, packet: bytes = b"", recoverable: int = 0
    ) -> Heard:
        with self._line(to, who) as line:
            return talk(line, claims, packet, recoverable=recoverable)

    def _claims(self) -> bool:
        to, other = self.rng.choice(
            [("ALPHA", "BETA"), ("ALPHA", "DELTA"), ("BETA", "ALPHA"), ("BETA", "DELTA")]
        )
        with self._line(to, self._mallory) as line:
            heard = talk(line, self.honest.guids[other], talk_s=CUT_S)
        believed(heard.said or heard.given, f"{to} believes that MALLORY is {other}")
        believed(not heard.cut, f"{to} goes on to speak with MALLORY, who says to be {other}")
        return True

    def _poses(self) -> bool:
        """It listens where ALPHA looks for EPSILON, with its own certificate."""
        before = self._posing.asked
        until = time.monotonic() + 2.0
        while self._posing.asked == before and time.monotonic() < until:
            time.sleep(0.02)
        believed(self._posing.given, "it was given a message for EPSILON")
        trouble = self._admins["ALPHA"].admin.outgoing_queue(SECRET).trouble
        return "is not for EPSILON" in trouble

    def _secrets(self) -> tuple[int, int]:
        view = self._admins["ALPHA"].admin.outgoing_queue(SECRET)
        return view.stream, self.rng.randint(1, SECRETS)

    def _ack(self) -> bytes:
        acker = self.rng.choice([self._mallory.guid, self.honest.guids["BETA"]])
        stream, number = self._secrets()
        return lies.acknowledged(acker, self.honest.guids["ALPHA"], stream, number, sent_s=now_s())

    def _end(self) -> bytes:
        stream, number = self._secrets()
        reason = self.rng.choice(ENDS)
        return lies.ended(
            self._mallory.guid, self.honest.guids["ALPHA"], stream, number, sent_s=now_s(),
            reason=reason,
        )  # fmt: skip

    def _about_secrets(self, packet: bytes) -> bool:
        self._talk("ALPHA", self._mallory, self._mallory.guid, packet, 1)
        waits = self._admins["ALPHA"].admin.outgoing_queue(SECRET).messages
        believed(waits != SECRETS, f"{SECRETS - waits} messages for EPSILON are gone")
        return True

    def _sends_as_another(self) -> bool:
        """Under its own session, as ALPHA, which it is no router of."""
        packet = lies.messages(
            self.honest.guids["ALPHA"], rf"OS:BETA\{SEALED}", [b"lie"], stream=now_s() << 32,
            sent_s=now_s(),
        )  # fmt: skip
        with self._line("BETA", self._mallory) as line:
            heard = talk(line, self._mallory.guid, packet, recoverable=1, talk_s=CUT_S)
        believed(not heard.cut, "BETA goes on to speak with MALLORY, who speaks for ALPHA")
        there = self._admins["BETA"].queue(SEALED).messages
        believed(there, f"{there} messages are in {SEALED}")
        return True

    # ---- certificates ---------------------------------------------------------------------------

    def _asked(self, who: _Member, name: str, guid: bytes) -> joining.Granted | None:
        """Ask the authority for another certificate, for a new key; None: it is refused."""
        request = authority.make_request(authority.make_key(), guid, name, (name.lower(),))
        alpha = self.honest.guids["ALPHA"]
        where = f"127.0.0.1:{self.honest.ports['ALPHA']}"
        try:
            return joining.renew(where, alpha, who.files, request, ())
        except (AccessDenied, ManagerAway):
            return None

    def _renews(self, name: str, guid: bytes) -> bool:
        """A certificate is made for MALLORY alone, for every text of the request."""
        made = self._asked(self._mallory, name, guid)
        if made is None:
            return True
        found = x509.load_pem_x509_certificate(made.certificate)
        said: Any = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = said.get_values_for_type(x509.UniformResourceIdentifier)
        names = {one.casefold() for one in said.get_values_for_type(x509.DNSName)}
        names.add(found.subject.rfc4514_string().removeprefix("CN=").casefold())
        mine = guid_text(self._mallory.guid)
        believed(not all(uri.endswith(mine) for uri in uris), f"it has a certificate for {uris}")
        believed("beta" in names, f"it has a certificate for the names {sorted(names)}")
        return name != "MALLORY"

    def _joins_again(self) -> bool:
        key = authority.make_key()
        request = authority.make_request(key, os.urandom(16), "MALLORY", ("mallory",))
        try:
            code = InvitationCode.parse(self._mallory.code)
            made = joining.join(code, request, now_s())
        except (AccessDenied, ManagerAway):
            return True
        raise Believed(f"a used code was good again: {made.certificate!r}")

    def _comes_back(self) -> bool:
        to = self.rng.choice(["ALPHA", "BETA"])
        with self._line(to, self._outcast) as line:
            heard = talk(line, self._outcast.guid, talk_s=CUT_S)
        believed(heard.said or heard.given, f"{to} takes OUTCAST for a member, which was removed")
        believed(not heard.cut, f"{to} goes on to speak with OUTCAST, which was removed")
        return True

    def _posts_when_removed(self) -> bool:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(self._outcast.files.certificate, self._outcast.files.key)
        path = "/msmq/" + CLOSED.replace("\\", "/")
        port = self.honest.http["BETA"]
        entity = ENTITY.format(url=f"https://beta:{port}{path}")
        request = (
            f"POST {path} HTTP/1.1\r\nHost: beta:{port}\r\nContent-Type: text/xml\r\n"
            f'SOAPAction: "MSMQMessage"\r\nContent-Length: {len(entity)}\r\n\r\n{entity}'
        )
        with connected(port) as plain, context.wrap_socket(plain) as line:
            said = said_to(line, request.encode())
        believed(status_in(said) == 200, "a post of OUTCAST was taken")
        return True

    def _renews_when_removed(self) -> bool:
        made = self._asked(self._outcast, "OUTCAST", self._outcast.guid)
        believed(made is not None, "OUTCAST has another certificate, and was removed")
        return True


class _Posing(threading.Thread):
    """Listens where somebody else is looked for.

    Attributes:
        asked: How often somebody has come.
        given: How many messages they have given.
    """

    def __init__(self, port: int, who: _Member) -> None:
        super().__init__(daemon=True)
        self._who = who
        self._server = socket.create_server(("127.0.0.1", port))
        self._server.settimeout(0.05)
        self.over = threading.Event()
        self.asked = self.given = 0

    def run(self) -> None:
        """See Thread."""
        context = server_context(self._who.files, peers=True)
        with self._server:
            while not self.over.is_set():
                with contextlib.suppress(OSError):
                    plain, _ = self._server.accept()
                    self.asked += 1
                    plain.settimeout(1.0)
                    with context.wrap_socket(plain, server_side=True) as line:
                        heard = talk(line, self._who.guid, initiator=False)
                        self.given += len(heard.given)
