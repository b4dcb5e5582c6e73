"""Every cell of the table of who an application is, on real queue managers.

Upholds: I28.
"""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
from collections.abc import Iterator

import pytest
import trustme

from onceq.embedded import trusting
from onceq.errors import AccessDenied, LinkLost
from onceq.model import requests as r
from onceq.model.identity import guid_text
from onceq.model.requests import Steer
from onceq.model.rights import ActorKind
from onceq.model.tokens import SECRET_BYTES, text_of
from onceq.model.views.managers import RightView
from onceq.tls.contexts import PEERS
from tests.certificates import BETA
from tests.matrix import showing
from tests.matrix.daemon import ASKED
from tests.matrix.line import Line, unix
from tests.matrix.scene import UID, Manager, may_become_others
from tests.matrix.showing import DOORS, SHOWN

pytestmark = [pytest.mark.slow, pytest.mark.tier("rest")]
NAME = "billing"
REMOVED = "the certificate of a removed queue manager"
GONE = b"G" * 16
"""Who was removed."""
ACCOUNT = "nothing, by an account with `administer`"


class Stage:
    """Two queue managers, and what applications show them."""

    def __init__(self, managers: tuple[Manager, Manager]) -> None:
        self.plain, self.secure = managers
        self._tokens = {manager.path: self._made(manager) for manager in managers}
        self.foreign = trustme.CA()
        trusting.remove(str(self.secure.path), guid_text(GONE))
        self.secure.ask(r.SteerOutgoing("", Steer.RELOAD))
        for manager in managers:
            manager.ask(r.SetRights(f"account:{UID}", ["administer"], ""))

    def _made(self, manager: Manager) -> dict[str, str]:
        made = {name: str(manager.ask(r.CreateToken(name)).token) for name in (NAME, "gone")}
        manager.ask(r.RevokeToken("gone"))
        made["over"] = str(manager.ask(r.CreateToken("over", 1)).token)
        while not any(token.expired for token in manager.ask(r.Look("tokens")).views):
            pass  # asked until its second is over
        return made | {"none": text_of("none", bytes(SECRET_BYTES)), "": ""}

    def token(self, manager: Manager, what: str) -> str:
        """The token that is shown."""
        which = {
            "a token": NAME, "a certificate and a token": NAME, "a token that was revoked": "gone",
            "a token that has expired": "over", "a token that was never made": "none",
            "a certificate and a wrong token": "none", f"{REMOVED}, and a token": NAME,
        }.get(what, "")  # fmt: skip
        return self._tokens[manager.path][which]

    def context(self, what: str) -> ssl.SSLContext:
        """What is shown in the handshake."""
        manager, now = self.secure, datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        own = manager.applications
        if what == "a certificate of a foreign authority":
            return manager.context(self.foreign, NAME)
        if what == "an expired certificate":
            return manager.context(own, NAME, not_before=now - 9 * day, not_after=now - day)
        if what == "a certificate of the future":
            return manager.context(own, NAME, not_before=now + day, not_after=now + 9 * day)
        if what == "a self-signed certificate":
            return self._with(self.foreign.private_key_pem.bytes() + self.foreign.cert_pem.bytes())
        if what == "the certificate of a queue manager":
            made, key = manager.signs.issue(BETA)
            return self._with(made + key)
        if what.startswith(REMOVED):
            made, key = manager.signs.issue(GONE)
            return self._with(made + key)
        if what.startswith("a certificate for a name that is none"):
            return manager.context(own, "*")
        context = manager.context(own if "certificate" in what else None, NAME)
        if what == "another protocol in TLS":
            context.set_alpn_protocols([PEERS])
        return context

    def _with(self, pem: bytes) -> ssl.SSLContext:
        context = self.secure.context()
        file = self.secure.path.parent / "shown.pem"
        file.write_bytes(pem)
        context.load_cert_chain(str(file))
        return context

    def who(self, what: str, door: str) -> str:
        """Who somebody is."""
        manager = self.secure if door.startswith("TLS") else self.plain
        token = self.token(manager, what)
        try:
            line = self._line(what, door, token)
        except (ssl.SSLError, ConnectionError, LinkLost):
            return showing.CUT
        with contextlib.closing(line):
            if line.refused is not None:
                assert isinstance(line.refused, AccessDenied), line.refused
                self.refusals.add(line.refused.text)
                return showing.REFUSED
            view = line.ask(r.ExplainRight("", "send", "x"))
            if isinstance(view, AccessDenied):
                return "nobody"  # which even that is refused to
            assert isinstance(view, RightView), view
            return _kind(view.who)

    def _line(self, what: str, door: str, token: str) -> Line:
        elsewhere = door == "TLS, another computer"
        if what == ACCOUNT and not elsewhere:
            if door == "Unix socket":
                return Line(self.plain.of_account(UID, lambda: unix("onceq.sock")))
            if door == "TCP, same computer":
                return Line(self.plain.of_account(UID, self.plain.tcp))
            own = self.secure.of_account(UID, self.secure.tcp)
            return Line(self.secure.context().wrap_socket(own, server_hostname="localhost"))
        if door == "Unix socket":
            return Line(unix(str(self.plain.path / "onceq.sock")), token)
        if door == "TCP, same computer":
            return Line(self.plain.tcp(), token)
        return self._in_tls(what, token, elsewhere=elsewhere)

    def _in_tls(self, what: str, token: str, *, elsewhere: bool) -> Line:
        if what == "no TLS where it is spoken":
            return _plainly(self.secure.tcp(elsewhere=elsewhere))
        return Line(self.secure.in_tls(self.context(what), elsewhere=elsewhere), token)

    refusals: set[str] = set()  # noqa: RUF012 - of one module


def _plainly(own: socket.socket) -> Line:
    """It hears of TLS that something is wrong, and nothing of the protocol."""
    with own:
        own.sendall(bytes(64))
        own.settimeout(60)
        heard = own.recv(1 << 16)
        assert len(heard) < 16, "an alert of TLS, or nothing"
        raise ssl.SSLError("it is not spoken with")


def _kind(who: str) -> str:
    kind, _, name = who.partition(":")
    return {
        ActorKind.ACCOUNT.value: showing.ACCOUNT, ActorKind.TOKEN.value: showing.TOKEN,
        ActorKind.CERTIFICATE.value: showing.CERTIFICATE, ActorKind.PEER.value: showing.PEER,
    }.get(kind, who) if kind in ("account", "peer") or name == NAME else who  # fmt: skip


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("stage")
    managers = (
        Manager(folder / "plain", "PLAIN", tls=False),
        Manager(folder / "secure", "S", tls=True),
    )
    yield Stage(managers)
    for manager in managers:
        manager.close()


@pytest.mark.parametrize("what", SHOWN)
def test_who_somebody_is(stage: Stage, what: str) -> None:
    if what == ACCOUNT and not may_become_others():
        pytest.skip("only root can connect as other accounts")
    before = stage.secure.process.said.count(ASKED)
    found = tuple(
        stage.who(what, door) if cell else showing.NONE
        for door, cell in zip(DOORS, SHOWN[what], strict=True)
    )
    assert found == SHOWN[what]
    asked = stage.secure.process.said.count(ASKED) - before
    assert (asked == 0) is (showing.CUT in found), "nothing is read of whoever is cut"
    assert len(stage.refusals) <= 1, "whoever is refused learns nothing of why"


def test_somebody_without_a_name_is_nobody_where_that_has_a_right(stage: Stage) -> None:
    stage.secure.ask(r.SetRights("nobody", ["send"], "x"))
    try:
        assert stage.who("nothing", "TLS, another computer") == "nobody"
        assert stage.who("a token that was never made", "TLS, another computer") == showing.REFUSED
    finally:
        stage.secure.ask(r.SetRights("nobody", ["send"], "x", True))
    assert stage.who("nothing", "TLS, another computer") == showing.REFUSED
