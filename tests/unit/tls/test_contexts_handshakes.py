"""Handshakes are counted: what they use, and not what comes behind them."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from onceq.model.limits import HANDSHAKE_BYTES_MAX
from onceq.tls import contexts
from onceq.tls.contexts import (
    PEERS,
    TOO_MUCH,
    Handshake,
    IdentityFiles,
    client_context,
    server_context,
)
from tests.certificates import ALPHA, BETA, Authority

BEHIND = b"x" * 8 * HANDSHAKE_BYTES_MAX


@pytest.fixture
def files(tmp_path: Path) -> tuple[IdentityFiles, IdentityFiles]:
    """Of a server and of a client, which trust each other."""
    signs = Authority()
    return signs.identity(tmp_path / "a", ALPHA), signs.identity(tmp_path / "b", BETA)


def shaken(
    files: tuple[IdentityFiles, IdentityFiles], behind: bytes = b""
) -> tuple[Handshake, int]:
    """The server's side of a whole handshake, and how many bytes of it came.

    Args:
        behind: Comes in one piece with the end of the handshake.
    """
    here, there = files
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    going = client_context(
        there.authorities, certificate=there.certificate, key=there.key, peers=True
    )
    client = going.wrap_bio(down, up)
    incoming = ssl.MemoryBIO()
    server = server_context(here, peers=True, alpn=(PEERS,)).wrap_bio(
        incoming, down, server_side=True
    )
    assert isinstance(server, Handshake)
    came = 0
    for turn in range(2):
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            assert not turn
        else:
            client.write(behind)
        data = up.read()
        came += len(data)
        incoming.write(data)
        try:
            server.do_handshake()
        except ssl.SSLWantReadError:
            assert not turn
    return server, came


def test_a_handshake_is_counted_to_its_end(files: tuple[IdentityFiles, IdentityFiles]) -> None:
    server, came = shaken(files)
    assert 0 < server.heard == came < HANDSHAKE_BYTES_MAX


def test_what_comes_with_the_end_of_it_is_not_counted(
    files: tuple[IdentityFiles, IdentityFiles],
) -> None:
    bare, _ = shaken(files)
    server, came = shaken(files, BEHIND)
    assert came > len(BEHIND)
    assert abs(server.heard - bare.heard) < 100, "signatures differ by a few bytes"
    read = b""
    while len(read) < len(BEHIND):
        read += server.read(1 << 20)
    assert read == BEHIND


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_one_that_uses_too_much_has_failed(
    files: tuple[IdentityFiles, IdentityFiles], monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    server, _ = shaken(files)
    monkeypatch.setattr(contexts, "HANDSHAKE_BYTES_MAX", int(server.heard * share) - 100)
    with pytest.raises(ssl.SSLError) as caught:
        shaken(files)
    assert caught.value.reason == TOO_MUCH
    monkeypatch.setattr(contexts, "HANDSHAKE_BYTES_MAX", server.heard + 100)
    shaken(files)
