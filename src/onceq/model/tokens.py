"""Tokens: secrets by which applications say over a network who they are.

A token has a name, which grants are made to (``token:NAME``), and a secret of 256 random bits,
which its holder alone keeps: a queue manager keeps the SHA-256 of a salt and the secret. A slow
hash would gain nothing, because nobody can try 2^256 secrets, and would be work that strangers can
cause.

A holder never sends the secret in clear. Both sides draw a nonce, and the queue manager proves
first that it knows the stored proof of the secret, so that a listener in its place hears nothing.
Then the holder sends the secret, covered by a key that only the two of them can calculate: the
queue manager uncovers it, and hashes it. So the stored proof lets nobody in, and the sent bytes let
nobody in on another connection (RFC 5802 does the same for passwords). The salt follows from the
manager and the name: the manager tells it to everybody who asks, and it is the same whether there
is such a token or not.

The text that the holder gets says which token it is: ``onceqt_NAME_SECRET``. So one hash decides,
and programmes that search sources for secrets find it by its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from onceq.errors import InvalidParameter
from onceq.model.limits import TOKEN_NAME_CHARS_MAX
from onceq.model.record import Record
from onceq.model.rights import ActorKind

SECRET_BYTES: Final = 32
SALT_BYTES: Final = 16
NONCE_BYTES: Final = 32
PREFIX: Final = "onceqt"
TEXT_CHARS_MAX: Final = len(PREFIX) + TOKEN_NAME_CHARS_MAX + 2 * SECRET_BYTES + 2
"""Of what a holder gets, and shows."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TEXT: Final = re.compile(rf"{PREFIX}_({_NAME.pattern})_([0-9a-f]{{{2 * SECRET_BYTES}}})")


class Token(Record, frozen=True):
    """What a queue manager keeps of a token.

    Attributes:
        digest: Of salt and secret.
        made_s, expires_s: Seconds since 1970; 0: it does not expire.
    """

    name: str
    salt: bytes
    digest: bytes
    made_s: int
    expires_s: int = 0

    @property
    def actor(self) -> str:
        """Whom grants to it are made to."""
        return f"{ActorKind.TOKEN.value}:{self.name}"

    def over(self, now_s: int) -> bool:
        """Whether it has expired."""
        return bool(self.expires_s) and self.expires_s <= now_s


def token_name(name: str) -> str:
    """The name, if it may be one; raises InvalidParameter."""
    if not _NAME.fullmatch(name) or len(name) > TOKEN_NAME_CHARS_MAX:
        raise InvalidParameter(
            f"the name of a token has 1 to {TOKEN_NAME_CHARS_MAX} letters, digits, '.', '_' and "
            "'-', and begins with a letter or a digit"
        )
    return name


def digest_of(salt: bytes, secret: bytes) -> bytes:
    """What is kept of a secret."""
    import hashlib  # which loads OpenSSL: a queue manager needs it, an application does not

    return hashlib.sha256(salt + secret).digest()


def salt_of(manager: bytes, name: str) -> bytes:
    """What is hashed with the secret of a token of that name, at a manager (a GUID)."""
    import hashlib

    return hashlib.sha256(b"salt\0" + manager + name.encode()).digest()[:SALT_BYTES]


class TokenExchange(Record, frozen=True):
    """What both sides know of the connection on which a token is proven.

    Attributes:
        theirs, ours: What the holder and the queue manager have drawn: NONCE_BYTES each.
        bound: See ``sockets/both_ends.py``.
    """

    theirs: bytes
    ours: bytes
    bound: bytes

    def known(self, digest: bytes) -> bytes:
        """What proves that the queue manager knows the digest of the secret."""
        return self._mac(digest, b"queue manager")

    def covered(self, digest: bytes, secret: bytes) -> bytes:
        """The secret, covered; and uncovered, if it was covered."""
        cover = self._mac(digest, b"holder")
        return bytes(a ^ b for a, b in zip(secret, cover, strict=True))

    def _mac(self, digest: bytes, who: bytes) -> bytes:
        import hmac

        said = b"\0".join((b"onceq token", who, self.theirs, self.ours, self.bound))
        return hmac.digest(digest, said, "sha256")


def text_of(name: str, secret: bytes) -> str:
    """What the holder gets."""
    return f"{PREFIX}_{name}_{secret.hex()}"


def read(text: str) -> tuple[str, bytes] | None:
    """Name and secret of what somebody shows; None if it is no token."""
    found = _TEXT.fullmatch(text) if len(text) <= TEXT_CHARS_MAX else None
    return (found[1], bytes.fromhex(found[2])) if found else None


class Tokens:
    """All tokens of a queue manager."""

    __slots__ = ("_tokens",)

    def __init__(self) -> None:
        self._tokens: dict[str, Token] = {}

    def __len__(self) -> int:
        return len(self._tokens)

    def get(self, name: str) -> Token | None:
        """One, if there is one of that name."""
        return self._tokens.get(name)

    def __iter__(self) -> Iterator[Token]:
        return iter(self._tokens.values())

    def all(self) -> list[Token]:
        """All of them, by name."""
        return sorted(self._tokens.values(), key=lambda token: token.name)

    def put(self, token: Token) -> None:
        """One is made."""
        self._tokens[token.name] = token

    def drop(self, name: str) -> None:
        """One is revoked."""
        self._tokens.pop(name, None)

    def proven(self, name: str, secret: bytes, now_s: int) -> Token | None:
        """The token that somebody holds; None if it is none, or is no longer good.

        It takes the same time whether there is a token of that name or not.
        """
        from hmac import compare_digest

        token = self._tokens.get(name)
        salt, kept = (token.salt, token.digest) if token else (bytes(SALT_BYTES), bytes(32))
        same = compare_digest(digest_of(salt, secret), kept)
        return token if same and token is not None and not token.over(now_s) else None

    def dump(self) -> list[list[object]]:
        """For a checkpoint."""
        return [[t.name, t.salt.hex(), t.digest.hex(), t.made_s, t.expires_s] for t in self.all()]

    def load(self, rows: Iterable[Sequence[object]]) -> None:
        """From a checkpoint."""
        for name, salt, digest, made_s, expires_s in rows:
            self.put(
                Token(str(name), bytes.fromhex(str(salt)), bytes.fromhex(str(digest)),
                      int(str(made_s)), int(str(expires_s)))
            )  # fmt: skip
