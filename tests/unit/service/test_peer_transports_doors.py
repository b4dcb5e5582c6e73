"""Doors between queue managers, on a real loop: who gets a session, and whose bytes are parsed."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from onceq.core.decision import Connect
from onceq.core.inputs import ConnectFailed, SessionClosed, SessionOpened, TellDoors
from onceq.errors import ConfigurationError
from onceq.model.identification import ON_THIS_COMPUTER, SOMEBODY, Identification, Proof, by_address
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.limits import HANDSHAKE_BYTES_MAX, LOG_LINES_AT_ONCE
from onceq.model.rights import HERE, NOBODY, Actor, ActorKind
from onceq.model.settings import Settings
from onceq.service import wires
from onceq.service.config import Configuration
from onceq.service.peer_transports import Doors, Entrance
from onceq.service.sessions import Sessions
from onceq.tls import folder
from onceq.tls.contexts import JOIN, IdentityFiles, client_context
from onceq.tls.invitations import Invited, Invites
from onceq.wire.mqqb.session import Session
from tests.certificates import ALPHA, BETA, LONG_AGO_S, Authority
from tests.unit.service.looped import Host, ended, run, until

HOME = "127.0.0.1"


def doors(
    path: Path, guid: bytes = ALPHA, *, plain: tuple[str, ...] = (), minimum: str = "1.3"
) -> Doors:
    """The doors of a data directory, as its queue manager has them at its start."""
    made = Doors(str(path), guid)
    made.prepared(Configuration(plain_peers=plain, tls_minimum=minimum))()
    return made


def at(key: str, where: str, of: Configuration | None = None) -> Configuration:
    """A configuration that listens there."""
    values: dict[str, Any] = {key: where}
    return replace(of or Configuration(), **values)


def manager(guid: bytes, own: Doors | None = None, peers: dict[str, str] | None = None) -> Host:
    host = Host(peers)
    host.house.core.identity = type(host.house.core.identity)(guid, guid.decode()[:1], 1)
    if own is not None:
        host.network.doors = own
    return host


def opened(host: Host) -> list[SessionOpened]:
    return host.seen(SessionOpened)


@pytest.fixture
def signs() -> Authority:
    return Authority()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """Sessions that got bytes."""
    found: list[Session] = []
    kept = Session.receive

    def receive(self: Session, data: Any, now_us: int) -> Any:
        found.append(self)
        return kept(self, data, now_us)

    monkeypatch.setattr(Session, "receive", receive)
    return found


def test_two_that_trust_one_authority_open_a_session(tmp_path: Path, signs: Authority) -> None:
    for path, guid in (("a", ALPHA), ("b", BETA)):
        signs.identity(tmp_path / path, guid)

    async def work() -> None:
        beta = manager(BETA, doors(tmp_path / "b", BETA))
        where = await beta.network.listen(Entrance.PEERS, f"{HOME}:0")
        alpha = manager(ALPHA, doors(tmp_path / "a"), {"Beta": where})
        alpha.network.connect(9, "OS", "BETA", b"")
        await until(lambda: opened(alpha) and opened(beta))
        (there,), (here,) = opened(alpha), opened(beta)
        assert (there.peer, there.who.actor) == (BETA, Actor(ActorKind.PEER, guid_text(BETA)))
        assert (here.peer, here.who.actor) == (ALPHA, Actor(ActorKind.PEER, guid_text(ALPHA)))
        await alpha.network.shut()
        await beta.network.shut()

    run(work)


def _other(path: Path, signs: Authority) -> IdentityFiles:
    return Authority("OTHER").identity(path, ALPHA, trusts=signs.certificate)


def _expired(path: Path, signs: Authority) -> IdentityFiles:
    return signs.identity(path, ALPHA, ago_s=LONG_AGO_S)


def _not_yet(path: Path, signs: Authority) -> IdentityFiles:
    return signs.identity(path, ALPHA, ago_s=-LONG_AGO_S)


def _signed_by_itself(path: Path, signs: Authority) -> IdentityFiles:
    files = signs.identity(path, ALPHA)
    own = Authority("itself")
    Path(files.certificate).write_bytes(own.certificate)
    Path(files.key).write_bytes(own.key)
    return files


def _of_an_application(path: Path, signs: Authority) -> IdentityFiles:
    import trustme

    files = signs.identity(path, ALPHA)
    one = trustme.CA()
    made = one.issue_cert("application.example")
    Path(files.certificate).write_bytes(made.cert_chain_pems[0].bytes())
    Path(files.key).write_bytes(made.private_key_pem.bytes())
    one.cert_pem.write_to_path(str(path.parent / "b" / "tls" / folder.AUTHORITIES))
    return files


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (_other, "its certificate cannot be trusted: unable to get local issuer certificate"),
        (_expired, "its certificate cannot be trusted: certificate has expired"),
        (_not_yet, "its certificate cannot be trusted: certificate is not yet valid"),
        (_signed_by_itself, "its certificate cannot be trusted: self-signed certificate"),
        (_of_an_application, "it has shown no certificate of a queue manager"),
    ],
)
def test_no_byte_of_a_stranger_is_parsed(
    tmp_path: Path,
    signs: Authority,
    parsed: list[Session],
    caplog: pytest.LogCaptureFixture,
    other: Callable[[Path, Authority], IdentityFiles],
    says: str,
) -> None:
    """Whatever he has: he is told nothing, and the line in the log says what was wrong."""
    signs.identity(tmp_path / "b", BETA)
    files = other(tmp_path / "a", signs)

    async def work() -> None:
        beta = manager(BETA, doors(tmp_path / "b", BETA))
        where = await beta.network.listen(Entrance.PEERS, f"{HOME}:0")
        context = client_context(
            files.authorities, certificate=files.certificate, key=files.key, peers=True
        )
        context.verify_mode = ssl.CERT_NONE
        reader, writer = await asyncio.open_connection(*where.split(":"), ssl=context)
        session = Session(initiator=True, own_id=ALPHA, settings=Settings(), now_us=0)
        session.start()
        writer.writelines(list(map(bytes, session.take_output())))
        try:
            assert await reader.read() == b""
        except OSError:
            pass
        await until(lambda: not beta.network._open and says in caplog.text)
        assert not opened(beta)
        assert parsed == []
        writer.close()
        await beta.network.shut()

    run(work)
    assert says in caplog.text


@pytest.mark.parametrize("outgoing", [True, False])
def test_a_right_certificate_speaks_for_its_own_guid_alone(
    tmp_path: Path, signs: Authority, caplog: pytest.LogCaptureFixture, outgoing: bool
) -> None:
    """Before anything of it counts, on whichever side it is."""
    caplog.set_level("INFO")
    for path, guid in (("a", ALPHA), ("b", BETA)):
        signs.identity(tmp_path / path, guid)

    async def work() -> None:
        liar = b"L" * 16
        beta = manager(BETA if outgoing else liar, doors(tmp_path / "b", BETA))
        where = await beta.network.listen(Entrance.PEERS, f"{HOME}:0")
        alpha = manager(liar if outgoing else ALPHA, doors(tmp_path / "a"), {"Beta": where})
        alpha.network.connect(9, "OS", "BETA", b"")
        await until(lambda: alpha.seen(ConnectFailed))
        believer = beta if outgoing else alpha
        await until(lambda: not believer.network._open)
        assert not opened(alpha)
        assert not opened(beta)
        await alpha.network.shut()
        await beta.network.shut()

    run(work)
    wrong, right = guid_text(b"L" * 16), guid_text(ALPHA if outgoing else BETA)
    assert f"it says that it is queue manager {wrong}, and its certificate is for {right}" in (
        caplog.text
    )


def test_who_is_not_the_one_that_was_looked_for_is_refused(
    tmp_path: Path, signs: Authority
) -> None:
    """A private queue names the GUID: a proven other one does not do."""
    for path, guid in (("a", ALPHA), ("b", BETA)):
        signs.identity(tmp_path / path, guid)

    async def work() -> None:
        beta = manager(BETA, doors(tmp_path / "b", BETA))
        where = await beta.network.listen(Entrance.PEERS, f"{HOME}:0")
        alpha = manager(ALPHA, doors(tmp_path / "a"), {guid_text(b"C" * 16): where})
        alpha.house.engine.sessions.connect(Connect(9, "", "", b"C" * 16))
        await until(lambda: alpha.seen(ConnectFailed))
        assert "answers at this address than" in alpha.seen(ConnectFailed)[0].reason
        assert not opened(alpha)
        await alpha.network.shut()
        await beta.network.shut()

    run(work)


@pytest.mark.parametrize(
    ("tls_here", "says"),
    [(True, "it does not speak TLS"), (False, "without a word: it may ask for TLS")],
)
def test_one_with_and_one_without_tls_say_what_is_missing(
    tmp_path: Path, signs: Authority, tls_here: bool, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    signs.identity(tmp_path / "a", ALPHA)

    async def work() -> None:
        sure, bare = (ALPHA, doors(tmp_path / "a")), (BETA, Doors())
        beta = manager(*(bare if tls_here else sure))
        where = await beta.network.listen(Entrance.PEERS, f"{HOME}:0")
        guid, own = sure if tls_here else bare
        alpha = manager(guid, own, {"Beta": where})
        alpha.network.connect(9, "OS", "BETA", b"")
        await until(lambda: alpha.seen(ConnectFailed))
        assert not opened(beta)
        if not tls_here:
            assert says in alpha.seen(ConnectFailed)[0].reason
            assert "give it an identity" in caplog.text
        await alpha.network.shut()
        await beta.network.shut()

    run(work)


def test_a_plain_peer_is_known_by_its_address_and_nobody_else_comes_in_so(
    tmp_path: Path, signs: Authority
) -> None:
    signs.identity(tmp_path / "a", ALPHA)

    async def work() -> None:
        beta = manager(BETA, doors(tmp_path / "a", plain=(HOME,)))
        where = await beta.network.listen(Entrance.PEERS, f"{HOME}:0")
        alpha = manager(ALPHA, Doors(), {"Beta": where})
        alpha.network.connect(9, "OS", "BETA", b"")
        await until(lambda: opened(alpha) and opened(beta))
        assert opened(beta)[0].who.actor == Actor(ActorKind.ADDRESS, HOME)
        assert opened(alpha)[0].who.actor == HERE
        await alpha.network.shut()
        await beta.network.shut()

    run(work)


def test_doors_by_address(tmp_path: Path, signs: Authority) -> None:
    bare = Doors()
    for near in ("127.0.0.9", "::1"):
        assert bare.way_in(Entrance.PEERS, near, 0) is bare.way_out(near) is None
    for far in ("10.1.2.3", "fe80::1", "nonsense", ""):
        assert bare.way_in(Entrance.PEERS, far, 0) == "its address is not among plain_peers"
        assert "onceq tls init" in str(bare.way_out(far))
    listed = doors(tmp_path / "none", plain=("10.1.2.3", HOME))
    assert listed.way_in(Entrance.PEERS, "10.1.2.3", 0) is listed.way_out("10.1.2.3") is None
    assert listed.way_in(Entrance.PEERS, "10.1.2.30", 0) == "its address is not among plain_peers"
    for address in ("10.1.2.3", HOME):
        known = by_address(address, listed.house)
        assert known is not None
        assert known.actor == Actor(ActorKind.ADDRESS, address)
    assert by_address("::1", listed.house) == ON_THIS_COMPUTER
    signs.identity(tmp_path / "a", ALPHA)
    sure = doors(tmp_path / "a", plain=("10.1.2.3",))
    assert sure.way_in(Entrance.PEERS, "10.1.2.3", 0) is sure.way_out("10.1.2.3") is None
    for address in ("127.0.0.1", "10.1.2.30"):
        assert isinstance(sure.way_in(Entrance.PEERS, address, 0), ssl.SSLContext)
        assert isinstance(sure.way_out(address), ssl.SSLContext)


ASKED = {
    "nobody has a proof": {
        "listen": "plain refused refused", "http_listen": "plain refused refused",
        "client_listen": "plain plain plain", "metrics_listen": "plain refused refused",
    },
    "one address is believed": {
        "listen": "plain plain refused", "http_listen": "plain plain refused",
        "client_listen": "plain plain plain", "metrics_listen": "plain plain refused",
    },
    "an identity": {
        "listen": "TLS plain TLS", "http_listen": "refused plain refused",
        "client_listen": "TLS TLS TLS", "metrics_listen": "plain plain TLS",
    },
    "an identity and a certificate for HTTPS": {
        "listen": "TLS plain TLS", "http_listen": "TLS TLS TLS",
        "client_listen": "TLS TLS TLS", "metrics_listen": "plain plain TLS",
    },
}  # fmt: skip
"""What is asked of this computer, of the address in plain_peers, and of another one."""


@pytest.mark.parametrize("house", ASKED)
def test_what_each_entrance_asks_for(tmp_path: Path, signs: Authority, house: str) -> None:
    said = Configuration(http_listen=f"{HOME}:0", metrics_listen=f"{HOME}:0")
    if house != "nobody has a proof":
        said = replace(said, plain_peers=("10.1.2.3",))
    if "identity" in house:
        files = signs.identity(tmp_path, ALPHA)
        if "HTTPS" in house:
            said = replace(said, http_certificate=files.certificate, http_key=files.key)
    held = Doors(str(tmp_path), ALPHA)
    held.prepared(said)()

    def asked(entrance: Entrance, address: str) -> str:
        found = held.way_in(entrance, address, 0)
        return "TLS" if isinstance(found, ssl.SSLContext) else "refused" if found else "plain"

    addresses = (HOME, "10.1.2.3", "10.1.2.30")
    found = {one.value: " ".join(asked(one, where) for where in addresses) for one in Entrance}
    assert found == ASKED[house]


@pytest.mark.parametrize(
    ("key", "way_out"),
    [("listen", "plain_peers"), ("http_listen", "plain_peers"), ("client_listen", "tls init")],
)
@pytest.mark.parametrize("where", ["0.0.0.0:1801", "[::]:1801", "192.0.2.1:1", "host.example:1"])
def test_without_an_identity_nothing_but_this_computer_is_listened_at(
    tmp_path: Path, signs: Authority, key: str, way_out: str, where: str
) -> None:
    configuration = at(key, where)
    with pytest.raises(ConfigurationError, match=f"{key}: .*can reach.*{way_out}"):
        Doors(str(tmp_path)).prepared(configuration)
    for home in ("127.0.0.5:0", "[::1]:0", "localhost:0", ""):
        Doors(str(tmp_path)).prepared(at(key, home))
    signs.identity(tmp_path, ALPHA)
    Doors(str(tmp_path), ALPHA).prepared(configuration)


def test_plain_peers_open_no_door_for_applications(tmp_path: Path) -> None:
    plain = Configuration(plain_peers=("10.1.2.3",))
    for key in ("listen", "http_listen"):
        Doors(str(tmp_path)).prepared(at(key, "0.0.0.0:1", plain))
    with pytest.raises(ConfigurationError, match="client_listen"):
        Doors(str(tmp_path)).prepared(replace(plain, client_listen="0.0.0.0:1"))


def test_an_identity_that_cannot_be_used_changes_nothing(tmp_path: Path, signs: Authority) -> None:
    files = signs.identity(tmp_path, ALPHA)
    held = doors(tmp_path)
    before = held.way_in(Entrance.PEERS, "10.1.2.3", 0)
    Path(files.authorities).write_bytes(b"")
    with pytest.raises(ConfigurationError, match=r"authorities\.pem"):
        held.prepared(Configuration())
    assert held.way_in(Entrance.PEERS, "10.1.2.3", 0) is before


def test_invitations_that_cannot_be_read_keep_nobody_out(
    tmp_path: Path, signs: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """It is looked at with each connection: those with a certificate come in as before."""
    signs.identity(tmp_path, ALPHA)
    held = doors(tmp_path)
    before = held.way_in(Entrance.PEERS, "10.1.2.3", 0)
    (tmp_path / "tls" / "invites").write_text("")
    assert held.way_in(Entrance.PEERS, "10.1.2.3", 0) is before
    assert "invitations cannot be used: reason=" in caplog.text
    assert "not a directory" in caplog.text


def test_an_identity_that_is_gone_is_no_reason_to_do_without(
    tmp_path: Path, signs: Authority
) -> None:
    """Whoever is on this computer would need none any more, from one moment to the next."""
    files = signs.identity(tmp_path, ALPHA)
    held = doors(tmp_path)
    before = held.way_in(Entrance.PEERS, HOME, 0)
    Path(files.certificate).unlink()
    with pytest.raises(ConfigurationError, match=r"certificate\.pem is not there any more"):
        held.prepared(Configuration())
    assert held.way_in(Entrance.PEERS, HOME, 0) is before
    assert doors(tmp_path).way_in(Entrance.PEERS, HOME, 0) is None, "a new start is"


def test_a_certificate_of_an_older_tls_is_let_in_only_where_that_is_set(
    tmp_path: Path, signs: Authority
) -> None:
    for path, guid in (("a", ALPHA), ("b", BETA)):
        signs.identity(tmp_path / path, guid)

    async def work() -> None:
        for minimum, good in (("1.3", False), ("1.2", True)):
            beta = manager(BETA, doors(tmp_path / "b", BETA, minimum=minimum))
            where = await beta.network.listen(Entrance.PEERS, f"{HOME}:0")
            own = doors(tmp_path / "a", minimum="1.2")
            going = own.way_out(HOME)
            assert isinstance(going, ssl.SSLContext)
            going.maximum_version = ssl.TLSVersion.TLSv1_2
            alpha = manager(ALPHA, own, {"Beta": where})
            alpha.network.connect(9, "OS", "BETA", b"")
            await until(lambda a=alpha: opened(a) or a.seen(ConnectFailed))  # type: ignore[misc]
            assert bool(opened(alpha)) is good
            await alpha.network.shut()
            await beta.network.shut()

    run(work)


def test_what_is_spoken_in_tls_is_agreed_on(
    tmp_path: Path, signs: Authority, parsed: list[Session]
) -> None:
    signs.identity(tmp_path / "b", BETA)
    files = signs.identity(tmp_path / "a", ALPHA)

    async def work() -> None:
        beta = manager(BETA, doors(tmp_path / "b", BETA))
        where = await beta.network.listen(Entrance.PEERS, f"{HOME}:0")
        for protocols in ([], ["h2"], ["onceq-app/1"]):
            context = client_context(
                files.authorities, certificate=files.certificate, key=files.key, peers=True
            )
            context.set_alpn_protocols(protocols)
            reader, writer = await asyncio.open_connection(*where.split(":"), ssl=context)
            writer.write(b"\x10\x00LIOR" * 100)
            assert await ended(reader)
            writer.close()
        assert parsed == []
        await beta.network.shut()

    run(work)


@pytest.mark.parametrize("says", [b"", b"\x16\x03\x01\x02\x00\x01"])
def test_a_handshake_holds_a_place_no_longer_than_any_stranger(
    tmp_path: Path,
    signs: Authority,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    says: bytes,
) -> None:
    from onceq.service import network as network_module

    monkeypatch.setattr(network_module, "HANDSHAKE_S_MAX", 0.05)
    signs.identity(tmp_path / "a", ALPHA)

    async def work() -> None:
        alpha = manager(ALPHA, doors(tmp_path / "a"))
        where = await alpha.network.listen(Entrance.PEERS, f"{HOME}:0")
        silent = [await asyncio.open_connection(*where.split(":")) for _ in range(20)]
        for _, writer in silent:
            writer.write(says)
        for reader, _ in silent:
            assert await ended(reader)
        await until(lambda: not alpha.network.admission._halves)
        for _, writer in silent:
            writer.close()
        await alpha.network.shut()

    run(work)
    lines = [r for r in caplog.records if r.getMessage().startswith("connection turned away: ")]
    assert len(lines) == LOG_LINES_AT_ONCE, "refusals are counted, not a line each"


def test_the_time_for_saying_who_one_is_includes_the_handshake(
    tmp_path: Path, signs: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes late out of it has little left."""
    files = signs.identity(tmp_path / "a", ALPHA)
    set_at: list[tuple[float, float]] = []
    kept = wires.Wire._await_name

    def note(self: wires.Wire, seconds: float) -> None:
        kept(self, seconds)
        assert self._deadline is not None
        set_at.append((self.came_s, self._deadline.when() - seconds))

    monkeypatch.setattr(wires.Wire, "_await_name", note)

    async def work() -> None:
        alpha = manager(ALPHA, doors(tmp_path / "a"))
        where = await alpha.network.listen(Entrance.PEERS, f"{HOME}:0")
        context = client_context(
            files.authorities, certificate=files.certificate, key=files.key, peers=True
        )
        _, writer = await asyncio.open_connection(*where.split(":"), ssl=context)
        await until(lambda: set_at)
        writer.close()
        await alpha.network.shut()

    run(work)
    ((came_s, from_s),) = set_at
    assert came_s
    assert from_s == pytest.approx(came_s, rel=0, abs=1e-6)


def test_who_comes_to_join_gets_an_answer_and_no_session(
    tmp_path: Path, signs: Authority, parsed: list[Session]
) -> None:
    files = signs.identity(tmp_path / "a", ALPHA)
    folder.write(str(tmp_path / "a/tls" / folder.AUTHORITY), signs.certificate)

    async def work() -> None:
        alpha = manager(ALPHA, doors(tmp_path / "a"))
        now_s = alpha.house.engine.clock.read().wall_s
        where = await alpha.network.listen(Entrance.PEERS, f"{HOME}:0")
        context = client_context(files.authorities, peers=True, alpn=JOIN)

        async def ask(raw: bytes) -> bytes:
            reader, writer = await asyncio.open_connection(*where.split(":"), ssl=context)
            writer.write(raw)
            try:
                return await reader.read()
            except OSError:
                return b""
            finally:
                writer.close()

        wanted = b'{"want": "authority"}\n'
        assert await ask(wanted) == b"", "nobody was invited: without a certificate no one speaks"
        Invites(str(tmp_path / "a/tls")).make(Invited("B"), b"s" * 16, now_s, 60)
        assert b"BEGIN CERTIFICATE" in await ask(wanted)
        assert await ask(b"x" * (HANDSHAKE_BYTES_MAX + 2)) == b"", "it said too much"
        assert parsed == []
        assert not alpha.seen(SessionClosed)
        await alpha.network.shut()

    run(work)


def test_an_invitation_lets_nobody_speak_as_a_peer(
    tmp_path: Path, signs: Authority, parsed: list[Session], caplog: pytest.LogCaptureFixture
) -> None:
    """While one is open certificates are asked for after the handshake."""
    files = signs.identity(tmp_path / "a", ALPHA)

    async def work() -> None:
        alpha = manager(ALPHA, doors(tmp_path / "a"))
        now_s = alpha.house.engine.clock.read().wall_s
        Invites(str(tmp_path / "a/tls")).make(Invited("B"), b"s" * 16, now_s, 60)
        where = await alpha.network.listen(Entrance.PEERS, f"{HOME}:0")
        context = client_context(files.authorities, peers=True)
        reader, writer = await asyncio.open_connection(*where.split(":"), ssl=context)
        session = Session(initiator=True, own_id=BETA, settings=Settings(), now_us=0)
        session.start()
        writer.writelines(list(map(bytes, session.take_output())))
        assert await ended(reader)
        assert parsed == []
        writer.close()
        await alpha.network.shut()

    run(work)
    assert "it has shown no certificate of a queue manager" in caplog.text


def test_the_doors_are_told_and_an_end_that_is_near_is_warned_of(
    tmp_path: Path, signs: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    signs.identity(tmp_path, ALPHA)
    held = doors(tmp_path, plain=("10.1.2.4", "10.1.2.3"))
    own = held.own
    assert own is not None
    assert held.report() == TellDoors(True, own.ends_s, "", ("10.1.2.3", "10.1.2.4"))
    held.tell(own.ends_s - 30 * 86_400)
    assert "plain_peers=10.1.2.3,10.1.2.4" in caplog.text
    assert "certificate" not in caplog.text
    held.tell(own.ends_s - 30 * 86_400 + 1)
    assert "ends soon: days=29" in caplog.text
    held.tell(own.ends_s)
    assert "nobody believes the certificate of this queue manager" in caplog.text
    assert Doors().report() == TellDoors()
    left_s = {
        again: held.again_s(own.ends_s - again) for again in (-5, 0, 1, 3_600, 86_399, 90_000)
    }
    assert left_s == {-5: 86_400, 0: 86_400, 1: 1, 3_600: 3_600, 86_399: 86_399, 90_000: 86_400}
    assert Doors().again_s(7) == 86_400


def test_other_authorities_are_believed_at_every_door_at_once(
    tmp_path: Path, signs: Authority
) -> None:
    """A connection whose handshake is under way goes on with the context that it has begun with."""
    files, other = signs.identity(tmp_path, ALPHA), Authority("OTHER")
    configuration = Configuration(
        http_listen=f"{HOME}:0", http_certificate=files.certificate, http_key=files.key
    )
    held = Doors(str(tmp_path), ALPHA)
    listened = (Entrance.PEERS, Entrance.APPLICATIONS, Entrance.POSTS)

    def contexts() -> list[Any]:
        held.prepared(configuration)()
        return [
            *(held.way_in(entrance, HOME, 0) for entrance in listened),
            held.way_out(HOME),
        ]

    before = contexts()
    assert {len(context.get_ca_certs()) for context in before} == {1}
    Path(files.authorities).write_bytes(signs.certificate + other.certificate)
    assert {len(context.get_ca_certs()) for context in contexts()} == {2}
    assert {len(context.get_ca_certs()) for context in before} == {1}
    Path(files.authorities).write_bytes(b"")
    with pytest.raises(ConfigurationError, match=files.authorities):
        held.prepared(configuration)
    https: Any = held.way_in(Entrance.POSTS, HOME, 0)
    assert len(https.get_ca_certs()) == 2


class Posted(asyncio.BaseTransport):
    """A connection over HTTP, in TLS unless ``plain``."""

    def __init__(self, address: str, shown: bytes | None = None, *, plain: bool = False) -> None:
        names = (("URI", f"urn:onceq:qm:{guid_text(shown)}"),) if shown else ()
        tls = SimpleNamespace(getpeercert=lambda: {"subjectAltName": names} if shown else {})
        super().__init__({
            "peername": (address, 1), "socket": SimpleNamespace(family=socket.AF_INET),
            "ssl_object": None if plain else tls,
        })  # fmt: skip


def test_over_https_a_certificate_may_be_shown(tmp_path: Path) -> None:
    held = doors(tmp_path, plain=("10.1.2.3",))
    for address in (HOME, "10.1.2.3", "10.1.2.4"):
        found = held.who(Posted(address, BETA), Entrance.POSTS)
        assert isinstance(found, Identification)
        assert (found.proof, found.guid) == (Proof.CERTIFICATE, BETA)
        assert found.actor == Actor(ActorKind.PEER, guid_text(BETA))
    for address, actor in (
        (HOME, HERE), ("10.1.2.3", Actor(ActorKind.ADDRESS, "10.1.2.3")), ("10.1.2.4", NOBODY),
    ):  # fmt: skip
        found = held.who(Posted(address), Entrance.POSTS)
        assert isinstance(found, Identification)
        assert (found.guid, found.actor) == (NO_GUID, actor)
    for address in ("10.1.2.3", HOME):
        assert held.way_in(Entrance.POSTS, address, 0) is None
    assert "plain_peers" in str(held.way_in(Entrance.POSTS, "10.1.2.4", 0))


def test_with_an_identity_no_address_posts_without_a_proof(
    tmp_path: Path, signs: Authority
) -> None:
    """Every process of a computer, and every page in its browsers, has its address of loopback."""
    signs.identity(tmp_path, ALPHA)
    held = doors(tmp_path, plain=("127.0.0.2",))
    for address in (HOME, "::1", "localhost"):
        assert "plain_peers" in str(held.way_in(Entrance.POSTS, address, 0))
        assert "plain_peers" in str(held.who(Posted(address, plain=True), Entrance.POSTS))
        assert held.who(Posted(address), Entrance.POSTS) == SOMEBODY, "over HTTPS, too"
    assert held.way_in(Entrance.POSTS, "127.0.0.2", 0) is None
    listed = held.who(Posted("127.0.0.2", plain=True), Entrance.POSTS)
    assert isinstance(listed, Identification)
    assert listed.actor == Actor(ActorKind.ADDRESS, "127.0.0.2")


def test_sessions_without_a_word_about_it_are_of_this_computer() -> None:
    assert Sessions.accepted.__defaults__ == (ON_THIS_COMPUTER,)
