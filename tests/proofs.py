"""Each side of the proof of a token, for tests that speak with the other one."""

from __future__ import annotations

from onceq.client.credentials import ClientHello
from onceq.model.tokens import NONCE_BYTES, SALT_BYTES, SECRET_BYTES, TokenExchange, digest_of, read
from onceq.wire.app import frames

NONCE = b"n" * NONCE_BYTES
AT_SOCKET = b"unix\0"
"""What a connection at a Unix socket is."""


def asks(text: str) -> frames.Prove:
    """What somebody says first who shows that token, or something that is none."""
    name, _ = read(text) or (text, b"")
    return frames.Prove(name, NONCE)


def proof_of(text: str, known: frames.ProofAnswer, bound: bytes = b"") -> str:
    """What they say next, whoever has answered."""
    _, secret = read(text) or ("", bytes(SECRET_BYTES))
    exchange = TokenExchange(NONCE, known.nonce, bound)
    return exchange.covered(digest_of(known.salt, secret), secret).hex()


def hello(text: str, known: frames.ProofAnswer, bound: bytes = b"") -> frames.Hello:
    """The same as the hello that has it."""
    return frames.Hello(frames.VERSION, "test", proof_of(text, known, bound))


class Knowing:
    """A queue manager that has made a token, on one connection."""

    def __init__(self, text: str, asked: frames.Prove, bound: bytes = AT_SOCKET) -> None:
        self.name, secret = read(text) or ("", b"")
        self._salt = b"s" * SALT_BYTES
        self._digest = digest_of(self._salt, secret)
        self._exchange = TokenExchange(asked.nonce, NONCE, bound)
        assert asked.token == self.name

    @property
    def answer(self) -> frames.ProofAnswer:
        """It knows the token."""
        return frames.ProofAnswer(self._salt, NONCE, self._exchange.known(self._digest))

    def proven(self, said: frames.Hello) -> bool:
        """Whether that was the token."""
        secret = self._exchange.covered(self._digest, bytes.fromhex(said.proof))
        return digest_of(self._salt, secret) == self._digest


def token_of(said: ClientHello) -> str:
    """The token that a connection is begun with; "": none."""
    return said._found.text if said._found is not None else ""
